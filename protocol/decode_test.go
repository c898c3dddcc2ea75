package protocol

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// filler sets every field of a request at random: strings and bytes of up to 200 bytes, arrays of up to 3 elements.
type filler struct{ r *rand.Rand }

func (f filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return
		}
		if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
			d.Default()
		}
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Slice:
		n := f.r.IntN(4)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n = f.r.IntN(200)
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.String:
		v.SetString(strings.Repeat("s", f.r.IntN(200)))
	case reflect.Bool:
		v.SetBool(f.r.IntN(2) == 1)
	case reflect.Float64:
		v.SetFloat(f.r.Float64())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(f.r.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.r.Uint64()) >> (64 - v.Type().Bits()))
	default:
		panic("field of kind " + v.Kind().String())
	}
}

func (f filler) body(key, version int16) []byte {
	req := kmsg.RequestForKey(key)
	f.fill(reflect.ValueOf(req).Elem())
	req.SetVersion(version)
	return req.AppendTo(nil)
}

func versioned(key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	return req
}

// eachVersion calls f for every version that this package accepts of every key.
func eachVersion(f func(a API, version int16)) {
	for _, a := range APIs() {
		for v := a.AcceptMin; v <= a.Max; v++ {
			f(a, v)
		}
	}
}

func TestSchemasMatchKmsg(t *testing.T) {
	t.Parallel()
	eachVersion(func(a API, version int16) {
		f := filler{rand.New(rand.NewPCG(uint64(a.Key), uint64(version)))}
		for range 5 {
			body := f.body(a.Key, version)
			root := schemas()[a.Key]
			w := walker{b: body, version: version, flexible: RequestHeaderFlexible(a.Key, version)}
			// kmsg writes Fetch's tagged fields in versions that don't have them yet.
			if w.structure(&root); w.bad || len(w.b) != 0 || w.unknown != 0 && a.Key != KeyFetch {
				t.Errorf("%s version %d: bad %v, %d of %d bytes left, %d unknown tags",
					a.Name, version, w.bad, len(w.b), len(body), w.unknown)
				return
			}
			req := versioned(a.Key, version)
			if err := DecodeBody(req, body); err != nil {
				t.Errorf("%s version %d: %v", a.Name, version, err)
			} else if !bytes.Equal(req.AppendTo(nil), body) {
				t.Errorf("%s version %d: decodes to something else", a.Name, version)
			}
		}
	})
}

func TestDecodeBodyTakesDefaults(t *testing.T) {
	t.Parallel()
	eachVersion(func(a API, version int16) {
		req := versioned(a.Key, version)
		body := req.AppendTo(nil)
		if err := DecodeBody(versioned(a.Key, version), body); err != nil {
			t.Errorf("%s version %d: %v", a.Name, version, err)
		}
	})
}

func TestDecodeBodyRefusesEveryCut(t *testing.T) {
	t.Parallel()
	eachVersion(func(a API, version int16) {
		f := filler{rand.New(rand.NewPCG(uint64(a.Key), uint64(version)))}
		body := f.body(a.Key, version)
		for n := 0; n < len(body); n += 1 + len(body)/50 {
			if err := DecodeBody(versioned(a.Key, version), body[:n]); !errors.Is(err, ErrBody) {
				t.Errorf("%s version %d: %d of %d bytes: %v", a.Name, version, n, len(body), err)
			}
		}
		if err := DecodeBody(versioned(a.Key, version), append(body, 1, 2, 3)); err != nil {
			t.Errorf("%s version %d: bytes after the body: %v", a.Name, version, err)
		}
	})
}

func TestDecodeBodyAsKafka(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		key, version int16
		body         string // hex
		ok           bool
	}{
		"array beyond the end":            {KeyMetadata, 0, "7fffffff", false},
		"array of length -2, not null":    {KeyMetadata, 0, "fffffffe", false},
		"array of length -1, not null":    {KeyMetadata, 0, "ffffffff", false},
		"null array":                      {KeyMetadata, 1, "ffffffff", true},
		"null array of length -2":         {KeyMetadata, 1, "fffffffe", true},
		"null array in a flexible body":   {KeyMetadata, 9, "0000000000", true},
		"null for a flexible array":       {KeyFindCoordinator, 4, "000000", false},
		"null string that may not be":     {KeyFindCoordinator, 0, "ffff", false},
		"empty string":                    {KeyFindCoordinator, 0, "0000", true},
		"compact length of six bytes":     {KeyMetadata, 9, "ffffffffff0f", false},
		"string of 32767 bytes":           {KeyFindCoordinator, 4, "00" + "02" + "808002" + strings.Repeat("61", 32767) + "00", true},
		"compact string of 32768 bytes":   {KeyFindCoordinator, 4, "00" + "02" + "818002" + strings.Repeat("61", 32768) + "00", false},
		"bool of 7":                       {KeyMetadata, 4, "0000000007", true},
		"name that is no UTF-8":           {KeyMetadata, 1, "000000010002fffe", true},
		"unknown tags":                    {KeyMetadata, 9, "01000000" + "02" + "050178" + "e80703797979", true},
		"the same tag twice":              {KeyMetadata, 9, "01000000" + "02" + "050178" + "050179", true},
		"tag beyond the end":              {KeyMetadata, 9, "01000000" + "01" + "05ffff03", false},
		"null for bytes that may not be":  {KeySASLAuthenticate, 0, "ffffffff", false},
		"empty bytes":                     {KeySASLAuthenticate, 0, "00000000", true},
		"null records":                    {KeyProduce, 9, "00ffff00000001" + "02" + "0261" + "02" + "00000000" + "00" + "00" + "00" + "00", true},
		"absent structure":                {KeyDescribeTopicPartitions, 0, "01" + "00000001" + "ff" + "00", true},
		"structure beyond the end":        {KeyDescribeTopicPartitions, 0, "01" + "00000001" + "01" + "00", false},
		"known tag too short for its use": {KeyFetch, 15, "00000000" + "00000000" + "00000000" + "00" + "00000000" + "00000000" + "01" + "01" + "01" + "01" + "01020000", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := hex.DecodeString(tt.body)
			if err != nil {
				t.Fatal(err)
			}
			err = DecodeBody(versioned(tt.key, tt.version), body)
			if tt.ok != (err == nil) || err != nil && !errors.Is(err, ErrBody) {
				t.Errorf("error %v, want it taken: %v", err, tt.ok)
			}
		})
	}
}

func TestDecodeBodyRefusesVersionsItDoesNotAccept(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ key, version int16 }{{KeyProduce, 2}, {KeyMetadata, 99}, {KeyMetadata, -1}, {52, 0}} {
		if err := DecodeBody(versioned(tt.key, tt.version), make([]byte, 100)); !errors.Is(err, ErrBody) {
			t.Errorf("key %d version %d: %v", tt.key, tt.version, err)
		}
	}
}

// tagged is a Metadata 9 body of n topics with an unknown tagged field each.
func tagged(n int) []byte {
	body := binary.AppendUvarint(nil, uint64(n+1))
	body = append(body, bytes.Repeat([]byte{1, 1, 0, 0}, n)...)
	return append(body, 0, 0, 0, 0)
}

// Not parallel: it measures what is allocated. The factor is 24, save under the race detector, where arrays are allocated twice.
func TestDecodeBodyBoundsMemory(t *testing.T) {
	if err := DecodeBody(versioned(KeyMetadata, 9), tagged(maxUnknownTags)); err != nil {
		t.Errorf("as many tags as allowed: %v", err)
	}
	manyTags := []byte{1, 0, 0}
	manyTags = binary.AppendUvarint(manyTags, 20_000)
	for i := range 20_000 {
		manyTags = append(binary.AppendUvarint(manyTags, uint64(i)), 0)
	}
	names := binary.AppendUvarint(nil, 20_001)
	names = append(names, bytes.Repeat([]byte{1, 0}, 20_000)...)
	partitions := append([]byte{0, 0, 1, 0, 0, 0, 0, 2, 1}, binary.AppendUvarint(nil, 20_001)...)
	partitions = append(partitions, bytes.Repeat([]byte{0, 0, 0, 0, 1, 1, 0, 0}, 20_000)...)
	for name, tt := range map[string]struct {
		key, version int16
		body         []byte
		ok           bool
	}{
		"a tag in each of many structures": {KeyMetadata, 9, tagged(20_000), false},
		"many tags in one structure":       {KeyMetadata, 11, manyTags, false},
		"tags in partitions of a Produce":  {KeyProduce, 9, append(partitions, 0, 0), false},
		"many empty names":                 {KeyMetadata, 9, append(names, 0, 0, 0, 0), true},
	} {
		req := versioned(tt.key, tt.version)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := DecodeBody(req, tt.body)
		runtime.ReadMemStats(&after)
		if tt.ok != (err == nil) {
			t.Errorf("%s: error %v, want it taken: %v", name, err, tt.ok)
		}
		if used, limit := after.TotalAlloc-before.TotalAlloc, uint64(400<<10+45*len(tt.body)); used > limit {
			t.Errorf("%s: %d bytes for a body of %d", name, used, len(tt.body))
		}
	}
}

// Any body of any request is decoded or refused, without a panic. What is decoded encodes again to something that is
// decoded to the same.
func FuzzDecodeBody(f *testing.F) {
	eachVersion(func(a API, version int16) {
		fill := filler{rand.New(rand.NewPCG(uint64(a.Key), uint64(version)))}
		f.Add(a.Key, version, fill.body(a.Key, version))
	})
	f.Add(KeyMetadata, int16(9), tagged(3))
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		if a, ok := Lookup(key); !ok || !a.Accepts(version) {
			return
		}
		req := versioned(key, version)
		if err := DecodeBody(req, body); err != nil {
			if !errors.Is(err, ErrBody) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		again := versioned(key, version)
		once := req.AppendTo(nil)
		if err := DecodeBody(again, once); err != nil {
			t.Fatalf("%x decodes, its own encoding %x doesn't: %v", body, once, err)
		}
		if twice := again.AppendTo(nil); !bytes.Equal(once, twice) {
			t.Fatalf("encodes to %x, then to %x", once, twice)
		}
	})
}

func BenchmarkDecodeBody(b *testing.B) {
	produce := kmsg.NewPtrProduceRequest()
	produce.Version = 9
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "orders"
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = make([]byte, 1000)
	topic.Partitions = append(topic.Partitions, partition)
	produce.Topics = append(produce.Topics, topic)
	for _, check := range []string{"walk", "decode"} {
		b.Run(fmt.Sprintf("produce/%s", check), func(b *testing.B) {
			body := produce.AppendTo(nil)
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if check == "walk" {
					err = checkBody(KeyProduce, 9, body)
				} else {
					err = DecodeBody(versioned(KeyProduce, 9), body)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
