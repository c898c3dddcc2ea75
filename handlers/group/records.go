package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// What the store holds of a group, beside its cursors, is a few records, each under a name of its own:
//
//	<group>                      the group: classic, when Stable or Empty, or a consumer group
//	<group> 00 01                mark: a rebalance of a classic group has begun
//	<group> 00 02 <producer id>  offsets of an open transaction (8 bytes, big-endian)
//	<group> 00 03 <member id>    a member of a consumer group
//
// In <group> each byte 00 is written 00 FF, so that no group's name looks like a part of another group.
//
// A record begins with its kind and the version of its layout. Numbers are varints, as in encoding/binary; strings and
// bytes have their length in front; a nullable string has a byte 0 or 1 in front.
const (
	partSeparator = "\x00"
	partMark      = "\x01"
	partTxn       = "\x02"
	partMember    = "\x03"
	escapedZero   = "\x00\xff"
)

// The kinds of records, and the layout version written.
const (
	kindClassic  byte = 'C'
	kindMark     byte = 'R'
	kindTxn      byte = 'T'
	kindConsumer byte = 'K'
	kindMember   byte = 'M'

	layoutVersion byte = 1
)

// errRecord is returned for a record that can't be read.
var errRecord = errors.New("malformed group record")

func groupKey(group string) string { return strings.ReplaceAll(group, partSeparator, escapedZero) }

func markKey(group string) string { return groupKey(group) + partSeparator + partMark }

func txnKey(group string, producerID int64) string {
	id := binary.BigEndian.AppendUint64(nil, uint64(producerID))
	return groupKey(group) + partSeparator + partTxn + string(id)
}

// splitKey undoes groupKey, markKey and the like: the group, and the part, "" for the group itself.
func splitKey(key string) (group, part string, err error) {
	for i := 0; i < len(key); i++ {
		if key[i] != partSeparator[0] {
			continue
		}
		if i+1 == len(key) {
			return "", "", fmt.Errorf("%w: name %q", errRecord, key)
		}
		if key[i+1] != escapedZero[1] {
			return strings.ReplaceAll(key[:i], escapedZero, partSeparator), key[i+1:], nil
		}
		i++
	}
	return strings.ReplaceAll(key, escapedZero, partSeparator), "", nil
}

// classicRecord is a classic group as it is kept: Stable, or Empty when it has no members.
type classicRecord struct {
	generation   int32
	protocolType string
	protocol     string
	leader       string
	emptySinceMs int64
	members      []*member
}

func (r *classicRecord) encode() []byte {
	e := encoder{kindClassic, layoutVersion}
	e.int(int64(r.generation))
	e.string(r.protocolType)
	e.string(r.protocol)
	e.string(r.leader)
	e.int(r.emptySinceMs)
	e.int(int64(len(r.members)))
	for _, m := range r.members {
		m.encode(&e)
	}
	return e
}

func (m *member) encode(e *encoder) {
	e.string(m.id)
	e.nullable(m.instance)
	e.string(m.clientID)
	e.string(m.clientHost)
	e.int(m.session.Milliseconds())
	e.int(m.rebalance.Milliseconds())
	e.int(int64(len(m.protocols)))
	for i := range m.protocols {
		e.string(m.protocols[i].name)
		e.bytes(m.protocols[i].metadata)
	}
	e.bytes(m.assignment)
}

func decodeClassic(b []byte) (*classicRecord, error) {
	d := newDecoder(b, kindClassic)
	r := &classicRecord{
		generation: int32(d.int()), protocolType: d.string(), protocol: d.string(), leader: d.string(), emptySinceMs: d.int(),
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		r.members = append(r.members, decodeMember(d))
	}
	return r, d.end()
}

func decodeMember(d *decoder) *member {
	m := &member{id: d.string(), instance: d.nullable(), clientID: d.string(), clientHost: d.string()}
	m.session = time.Duration(d.int()) * time.Millisecond
	m.rebalance = time.Duration(d.int()) * time.Millisecond
	for n := d.count(); n > 0 && d.err == nil; n-- {
		m.protocols = append(m.protocols, protocolChoice{d.string(), d.bytes()})
	}
	m.assignment = d.bytes()
	return m
}

// mark says that a rebalance has begun in a generation, and which one it leads to.
type mark struct{ generation, next int32 }

func (m mark) encode() []byte {
	e := encoder{kindMark, layoutVersion}
	e.int(int64(m.generation))
	e.int(int64(m.next))
	return e
}

func decodeMark(b []byte) (m mark, err error) {
	d := newDecoder(b, kindMark)
	m = mark{generation: int32(d.int()), next: int32(d.int())}
	return m, d.end()
}

// encoder appends to a record.
type encoder []byte

func (e *encoder) int(v int64)     { *e = binary.AppendVarint(*e, v) }
func (e *encoder) string(s string) { e.int(int64(len(s))); *e = append(*e, s...) }
func (e *encoder) bytes(b []byte)  { e.int(int64(len(b))); *e = append(*e, b...) }

func (e *encoder) nullable(s *string) {
	if s == nil {
		*e = append(*e, 0)
		return
	}
	*e = append(*e, 1)
	e.string(*s)
}

// decoder reads a record. After the first error everything it returns is zero.
type decoder struct {
	b   []byte
	err error
}

func newDecoder(b []byte, kind byte) *decoder {
	switch {
	case len(b) < 2:
		return &decoder{err: fmt.Errorf("%w: too short", errRecord)}
	case b[0] != kind:
		return &decoder{err: fmt.Errorf("%w: kind %q, want %q", errRecord, b[0], kind)}
	case b[1] != layoutVersion:
		return &decoder{err: fmt.Errorf("%w: layout version %d, known is %d", errRecord, b[1], layoutVersion)}
	}
	return &decoder{b: b[2:]}
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errRecord, what)
	}
	d.b = nil
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads the length of a list or of bytes; each element takes at least a byte.
func (d *decoder) count() int {
	n := d.int()
	if n < 0 || n > int64(len(d.b)) {
		d.fail("length")
		return 0
	}
	return int(n)
}

func (d *decoder) take() []byte {
	n := d.count()
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) string() string { return string(d.take()) }
func (d *decoder) bytes() []byte  { return keepBytes(d.take()) }

func (d *decoder) nullable() *string {
	if len(d.b) == 0 || d.b[0] > 1 {
		d.fail("nullable string")
		return nil
	}
	there := d.b[0] == 1
	d.b = d.b[1:]
	if !there {
		return nil
	}
	s := d.string()
	return &s
}

// end is the first error; bytes left over are one.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("bytes left over")
	}
	return d.err
}
