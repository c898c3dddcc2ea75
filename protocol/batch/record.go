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
	i := 0
	for range r.NumHeaders {
		var h Header
		if h.Key, i = cutBytes(r.Headers, i); i < 0 {
			return dst // never for a record that came from an Iterator
		}
		if h.Value, i = cutBytes(r.Headers, i); i < 0 {
			return dst
		}
		dst = append(dst, h)
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

// parse reads one record off rest, which it leaves alone when the record is malformed. It is the broker's innermost loop,
// therefore written out: almost every varint but a value's length is one byte long, and Go inlines no function that has
// a slow path behind a call.
func (it *Iterator) parse() bool {
	size, n := varint(it.rest)
	if n < 0 || size <= 0 || int(size) > len(it.rest)-n {
		return false
	}
	end := n + int(size)
	b := it.rest[n:end:end]
	r := &it.record
	r.Attributes = int8(b[0])
	i := 1
	if i < len(b) && b[i] < 0x80 {
		r.TimestampDelta = int64(unzigzag(uint32(b[i])))
		i++
	} else if r.TimestampDelta, i = longVarlong(b, i); i < 0 {
		return false
	}
	if i < len(b) && b[i] < 0x80 {
		r.OffsetDelta = unzigzag(uint32(b[i]))
		i++
	} else if r.OffsetDelta, i = longVarint(b, i); i < 0 {
		return false
	}
	if i < len(b) && b[i] == nullLength {
		r.Key = nil
		i++
	} else if r.Key, i = cutBytes(b, i); i < 0 {
		return false
	}
	if r.Value, i = cutBytes(b, i); i < 0 {
		return false
	}
	if i == len(b)-1 && b[i] == 0 {
		r.NumHeaders, r.Headers = 0, nil
	} else if !r.cutHeaders(b[i:]) {
		return false
	}
	r.Raw = it.rest[:end:end]
	it.rest = it.rest[end:]
	return true
}

// nullLength is the encoding of the length -1.
const nullLength = 1

// cutHeaders takes b, from the number of headers to the record's end. Each header takes at least two bytes, so that b bounds
// the loop.
func (r *Record) cutHeaders(b []byte) bool {
	count, i := longVarint(b, 0)
	if i < 0 || count < 0 {
		return false
	}
	r.NumHeaders, r.Headers = count, b[i:]
	for ; count > 0; count-- {
		var key []byte
		if key, i = cutBytes(b, i); i < 0 || key == nil {
			return false
		}
		if _, i = cutBytes(b, i); i < 0 {
			return false
		}
	}
	return i == len(b)
}

// cutBytes reads a length at i and so many bytes; nil for a length below 0. Next is below 0 when they aren't there.
func cutBytes(b []byte, i int) (v []byte, next int) {
	var size int32
	if i < len(b) && b[i] < 0x80 {
		size = unzigzag(uint32(b[i]))
		i++
	} else if size, i = longVarint(b, i); i < 0 {
		return nil, -1
	}
	if size < 0 {
		return nil, i
	}
	end := i + int(size)
	if end > len(b) {
		return nil, -1
	}
	return b[i:end:end], end
}

func unzigzag(u uint32) int32 { return int32(u>>1) ^ -int32(u&1) }

// varint reads a zigzag varint of at most 32 bits; n is below 0 when there is none.
func varint(b []byte) (v int32, n int) { return longVarint(b, 0) }

// longVarint reads a zigzag varint of at most 32 bits at i. Next is below 0 when there is none.
func longVarint(b []byte, i int) (v int32, next int) {
	const maxBits = 35 // five bytes
	u := uint32(0)
	for shift := 0; i < len(b) && shift < maxBits; shift += 7 {
		c := b[i]
		i++
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return unzigzag(u), i
		}
	}
	return 0, -1
}

// longVarlong is longVarint for 64 bits.
func longVarlong(b []byte, i int) (v int64, next int) {
	v, n := binary.Varint(b[i:])
	if n <= 0 {
		return 0, -1
	}
	return v, i + n
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
