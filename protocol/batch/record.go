package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// ErrRecord is returned when a batch's records are not as many, or not formed, as its header says.
var ErrRecord = errors.New("malformed records")

// Record is one record inside a batch. Its slices share the batch's memory, or that of its decompressed records.
//
//	varint   length of what follows
//	1        attributes, unused
//	varlong  timestamp, relative to the batch's base timestamp
//	varint   offset, relative to the batch's base offset
//	varint   length of the key, below 0 for null; its bytes
//	varint   length of the value, below 0 for null; its bytes
//	varint   number of headers; of each: length and bytes of the key, then of the value, which may be null
type Record struct {
	Attributes     int8
	TimestampDelta int64
	OffsetDelta    int32
	Key, Value     []byte // nil is null; empty is empty
	NumHeaders     int32
	Headers        []byte // the headers as they stand, without their number
	Raw            []byte // the whole record, length included
}

// Header is a header of a record.
type Header struct {
	Key   []byte
	Value []byte // nil is null
}

// AppendHeaders appends the record's headers to dst. They share the record's memory.
func (r *Record) AppendHeaders(dst []Header) []Header {
	c := cursor{b: r.Headers}
	for range r.NumHeaders {
		key, value := c.bytes(), c.bytes()
		if c.bad {
			return dst // never for a record that came from an Iterator
		}
		dst = append(dst, Header{Key: key, Value: value})
	}
	return dst
}

// Iterator walks over decompressed records. It is used by one goroutine at a time, allocates nothing, and checks what
// Kafka checks: that each record fills its length exactly, that header keys are not null, that there are exactly as many
// records as announced and nothing behind them.
//
//	for it.Next() { it.Record() ... }
//	return it.Err()
type Iterator struct {
	rest   []byte
	left   int32
	err    error
	record Record
}

// Iterate walks over count records in a payload that is not compressed.
func Iterate(payload []byte, count int32) Iterator {
	it := Iterator{rest: payload, left: count}
	if count < 0 {
		it.err = fmt.Errorf("%w: count %d", ErrRecord, count)
	}
	return it
}

// Next moves to the next record. It is false after the last one, and when something is wrong: see Err.
func (it *Iterator) Next() bool {
	if it.err != nil {
		return false
	}
	if it.left == 0 {
		if len(it.rest) > 0 {
			it.err = fmt.Errorf("%w: %d bytes after the last record", ErrRecord, len(it.rest))
		}
		return false
	}
	it.left--
	if !it.parse() {
		it.err = fmt.Errorf("%w: %d bytes before the end, %d records to go", ErrRecord, len(it.rest), it.left+1)
		return false
	}
	return true
}

// Record is the current record; valid until Next is called again.
func (it *Iterator) Record() *Record { return &it.record }

// Err is nil if all records announced were there and nothing else. Valid once Next has returned false.
func (it *Iterator) Err() error { return it.err }

// parse reads one record off rest, which it leaves alone when the record is malformed.
func (it *Iterator) parse() bool {
	size, n := varint(it.rest)
	if n <= 0 || size < 0 || size > int64(len(it.rest)-n) {
		return false
	}
	end := n + int(size)
	r := &it.record
	c := cursor{b: it.rest[n:end:end]}
	r.Attributes = int8(c.byte())
	r.TimestampDelta = c.varlong()
	r.OffsetDelta = int32(c.varint())
	r.Key = c.bytes()
	r.Value = c.bytes()
	r.NumHeaders = int32(c.varint())
	if c.bad || r.NumHeaders < 0 {
		return false
	}
	r.Headers = c.b
	for range r.NumHeaders {
		if c.skip(false); c.bad {
			return false
		}
		if c.skip(true); c.bad {
			return false
		}
	}
	if len(c.b) != 0 {
		return false
	}
	r.Raw = it.rest[:end:end]
	it.rest = it.rest[end:]
	return true
}

// cursor reads fields off b; bad is set, and stays, when one isn't there.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) byte() byte {
	if len(c.b) == 0 {
		c.bad = true
		return 0
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v
}

func (c *cursor) varint() int64 {
	v, n := varint(c.b)
	if n <= 0 {
		c.bad = true
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) varlong() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.bad = true
		return 0
	}
	c.b = c.b[n:]
	return v
}

// bytes reads a length and so many bytes; nil for a length below 0.
func (c *cursor) bytes() []byte {
	size := c.varint()
	if c.bad || size < 0 {
		return nil
	}
	if size > int64(len(c.b)) {
		c.bad = true
		return nil
	}
	v := c.b[:size:size]
	c.b = c.b[size:]
	return v
}

// skip passes over a length and so many bytes.
func (c *cursor) skip(nullable bool) {
	size := c.varint()
	if size < 0 && nullable {
		return
	}
	if size < 0 || size > int64(len(c.b)) {
		c.bad = true
		return
	}
	c.b = c.b[size:]
}

// varint reads a zigzag varint of at most 32 bits; n <= 0 when there is none.
func varint(b []byte) (v int64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	return longVarint(b)
}

func longVarint(b []byte) (v int64, n int) {
	const maxBytes = 5
	u := uint32(0)
	for i := 0; i < len(b) && i < maxBytes; i++ {
		u |= uint32(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return int64(int32(u>>1) ^ -int32(u&1)), i + 1
		}
	}
	return 0, 0
}

// maxPooledBytes is the largest buffer for decompressed records that is kept for reuse.
const maxPooledBytes = 8 << 20

// scratches holds *[]byte for decompressed records.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// Records is the records of one batch, decompressed if need be.
type Records struct {
	Iterator
	// Payload is all records back to back.
	Payload []byte
	scratch *[]byte
}

// Records decompresses the batch's records, at most limit bytes, into a pooled buffer, and walks over them. Release gives
// the buffer back; the records are gone then. Errors: [ErrCodec], [ErrCompressed], [ErrTooLarge]. Records of a batch that
// isn't compressed are used where they lie, and limit isn't looked at.
func (b Batch) Records(limit int) (Records, error) {
	codec := b.Codec()
	if codec == CodecNone {
		return Records{Iterator: Iterate(b.Payload(), b.NumRecords()), Payload: b.Payload()}, nil
	}
	scratch, _ := scratches.Get().(*[]byte)
	payload, err := DecompressInto(*scratch, codec, b.Payload(), limit)
	if err != nil {
		scratches.Put(scratch)
		return Records{}, err
	}
	*scratch = payload
	return Records{Iterator: Iterate(payload, b.NumRecords()), Payload: payload, scratch: scratch}, nil
}

// Release gives the buffer back; safe to call twice.
func (r *Records) Release() {
	if r.scratch == nil {
		return
	}
	if cap(*r.scratch) <= maxPooledBytes {
		scratches.Put(r.scratch)
	}
	*r = Records{}
}
