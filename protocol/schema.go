package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
)

// The walk over a request's body before it is decoded. kmsg decodes safely, but takes null for an empty array where Kafka
// takes it for a fault, and makes a map of several hundred bytes for each structure with a tagged field that it doesn't
// know, for which two bytes on the wire are enough. The walk allocates nothing and sets both right.

// maxUnknownTags is how many tagged fields that aren't in the schema a body may have. Clients send none, unless they are of
// a future in which a version got more fields without becoming another one.
const maxUnknownTags = 1024

// maxStringBytes is the longest string in a body, as in Kafka: compact strings could be longer, and are refused then.
const maxStringBytes = math.MaxInt16

// kind is what a field is.
type kind uint8

const (
	kindFixed kind = iota
	kindString
	kindBytes
	kindStruct
	kindArray
)

// versions is a range, both ends included.
type versions struct{ first, last int16 }

var (
	allVersions = versions{0, math.MaxInt16}
	noVersions  = versions{1, 0}
)

func (v versions) has(version int16) bool { return v.first <= version && version <= v.last }

// field is a node of a schema.
type field struct {
	kind     kind
	size     int // of kindFixed
	present  versions
	nullable versions
	fields   []field // of kindStruct
	tagged   []field // of kindStruct
	tag      uint32
	element  *field // of kindArray
}

// schemas are the parsed requestSchemas, by key.
var schemas = sync.OnceValue(func() map[int16]field {
	parsed := make(map[int16]field)
	for key, text := range requestSchemas() {
		p := schemaParser{text: text}
		f := field{kind: kindStruct, present: allVersions, nullable: noVersions}
		p.structure(&f)
		if p.text != "" {
			panic(fmt.Sprintf("schema of key %d: %q is left", key, p.text)) // the schemas are constants
		}
		parsed[key] = f
	}
	return parsed
})

// schemaParser reads the notation of requestSchemas.
type schemaParser struct{ text string }

func (p *schemaParser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.text, prefix)
	if ok {
		p.text = rest
	}
	return ok
}

// structure reads fields up to the end of the text or a closing brace.
func (p *schemaParser) structure(f *field) {
	for p.text != "" && p.text[0] != '}' {
		if p.take(" ") {
			continue
		}
		member := p.field()
		if member.tag > 0 {
			member.tag--
			f.tagged = append(f.tagged, member)
			continue
		}
		f.fields = append(f.fields, member)
	}
}

// field reads one field; tag is one more than its number, 0 if it has none.
func (p *schemaParser) field() field {
	f := field{present: p.versions(":"), nullable: noVersions}
	if p.take("#") {
		f.tag = uint32(p.number()) + 1
		p.take("=")
	}
	switch {
	case p.take("{"):
		f.kind = kindStruct
		p.structure(&f)
		p.take("}")
	case p.take("["):
		f.kind = kindArray
		element := p.field()
		f.element = &element
		p.take("]")
	case p.take("str"):
		f.kind = kindString
	case p.take("bytes"):
		f.kind = kindBytes
	case p.take("uuid"):
		f.size = 16
	case p.take("i"):
		f.size = int(p.number()) / 8
	default:
		panic(fmt.Sprintf("schema: no field at %q", p.text)) // the schemas are constants
	}
	if p.take("?") {
		f.nullable = p.versions("")
	}
	return f
}

// versions reads a range that is followed by end; without one it is all.
func (p *schemaParser) versions(end string) versions {
	n := 0
	for n < len(p.text) && strings.IndexByte("0123456789-+", p.text[n]) >= 0 {
		n++
	}
	if n == 0 {
		return allVersions
	}
	v := versions{first: p.number(), last: math.MaxInt16}
	switch {
	case p.take("+"):
	case p.take("-"):
		v.last = p.number()
	default:
		v.last = v.first
	}
	p.take(end)
	return v
}

func (p *schemaParser) number() int16 {
	n := 0
	for n < len(p.text) && p.text[n] >= '0' && p.text[n] <= '9' {
		n++
	}
	v, err := strconv.ParseInt(p.text[:n], 10, 16)
	if err != nil {
		panic(fmt.Sprintf("schema: no number at %q", p.text)) // the schemas are constants
	}
	p.text = p.text[n:]
	return int16(v)
}

// walker passes over a body. bad is set, and stays, at the first fault.
type walker struct {
	b        []byte
	version  int16
	flexible bool
	unknown  int // tagged fields that aren't in the schema
	bad      bool
}

// checkBody passes over a body of a key and version that are in the table.
func checkBody(key, version int16, body []byte) error {
	root, ok := schemas()[key]
	if !ok {
		return fmt.Errorf("%w: no schema for key %d", ErrBody, key)
	}
	w := walker{b: body, version: version, flexible: RequestHeaderFlexible(key, version)}
	w.structure(&root)
	switch {
	case w.unknown > maxUnknownTags:
		return fmt.Errorf("%w: key %d version %d: more than %d unknown tagged fields", ErrBody, key, version, maxUnknownTags)
	case w.bad:
		return fmt.Errorf("%w: key %d version %d: fault %d bytes before the end", ErrBody, key, version, len(w.b))
	}
	return nil
}

func (w *walker) structure(f *field) {
	for i := range f.fields {
		if m := &f.fields[i]; m.present.has(w.version) {
			if w.field(m); w.bad {
				return
			}
		}
	}
	if w.flexible {
		w.tags(f)
	}
}

func (w *walker) field(f *field) {
	switch f.kind {
	case kindFixed:
		w.skip(int64(f.size))
	case kindString:
		n := w.stringLen()
		w.bad = w.bad || n > maxStringBytes
		w.sized(f, n)
	case kindBytes:
		w.sized(f, w.arrayLen())
	case kindArray:
		w.array(f)
	case kindStruct:
		if f.nullable.has(w.version) && int8(w.byte()) < 0 {
			return
		}
		w.structure(f)
	}
}

// sized skips a string or bytes of a length, of which anything below 0 is null.
func (w *walker) sized(f *field, n int64) {
	if n >= 0 {
		w.skip(n)
		return
	}
	if !f.nullable.has(w.version) {
		w.bad = true
	}
}

func (w *walker) array(f *field) {
	n := w.arrayLen()
	switch {
	case w.bad:
		return
	case n < 0:
		w.bad = !f.nullable.has(w.version)
		return
	case n > int64(len(w.b)): // no element is empty
		w.bad = true
		return
	case f.element.kind == kindFixed:
		w.skip(n * int64(f.element.size))
		return
	}
	for ; n > 0 && !w.bad; n-- {
		w.field(f.element)
	}
}

func (w *walker) tags(f *field) {
	for n := w.uvarint(); n > 0 && !w.bad; n-- {
		tag, size := w.uvarint(), w.uvarint()
		if w.bad || uint64(size) > uint64(len(w.b)) {
			w.bad = true
			return
		}
		value := w.b[:size]
		w.b = w.b[size:]
		w.tag(f, tag, value)
	}
}

// tag checks the value of a tagged field that is in the schema, and counts others.
func (w *walker) tag(f *field, tag uint32, value []byte) {
	for i := range f.tagged {
		if m := &f.tagged[i]; m.tag == tag && m.present.has(w.version) {
			after := w.b
			w.b = value
			w.field(m)
			w.b = after
			return
		}
	}
	if w.unknown++; w.unknown > maxUnknownTags {
		w.bad = true
	}
}

func (w *walker) skip(n int64) {
	if n > int64(len(w.b)) {
		w.bad = true
		return
	}
	w.b = w.b[n:]
}

func (w *walker) byte() byte {
	if len(w.b) == 0 {
		w.bad = true
		return 0
	}
	v := w.b[0]
	w.b = w.b[1:]
	return v
}

func (w *walker) uvarint() uint32 {
	if len(w.b) > 0 && w.b[0] < 0x80 {
		v := w.b[0]
		w.b = w.b[1:]
		return uint32(v)
	}
	v, rest, err := cutUvarint(w.b)
	if err != nil {
		w.bad = true
		return 0
	}
	w.b = rest
	return v
}

// stringLen is below 0 for null, and 0 when there is none, with bad set.
func (w *walker) stringLen() int64 {
	if w.flexible {
		return w.compactLen()
	}
	if len(w.b) < 2 {
		w.bad = true
		return 0
	}
	n := int16(binary.BigEndian.Uint16(w.b))
	w.b = w.b[2:]
	return int64(n)
}

// arrayLen is stringLen for arrays and bytes.
func (w *walker) arrayLen() int64 {
	if w.flexible {
		return w.compactLen()
	}
	if len(w.b) < 4 {
		w.bad = true
		return 0
	}
	n := int32(binary.BigEndian.Uint32(w.b))
	w.b = w.b[4:]
	return int64(n)
}

func (w *walker) compactLen() int64 {
	n := w.uvarint()
	if w.bad {
		return 0
	}
	return int64(int32(n - 1)) // wraps as Kafka's arithmetic does
}
