package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes and positions in the header, in bytes.
const (
	HeaderSize = 61
	// LengthOverhead is what the length field does not count: base offset and the field itself.
	LengthOverhead = 12
	// Magic is the only record format this broker stores.
	Magic = 2

	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posNumRecords      = 57
)

// Attribute bits.
const (
	attrCodec         = 0x07
	attrAppendTime    = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
	attrKnown         = 0x7f // all of them
)

// NoTimestamp stands for a record or batch without a time.
const NoTimestamp = -1

// The ways in which bytes are not a batch.
var (
	// ErrShort is returned when the bytes end before the batch does.
	ErrShort = errors.New("batch is cut short")
	// ErrLength is returned when the length field is smaller than a header or larger than the bound given.
	ErrLength = errors.New("batch length is out of bounds")
	// ErrMagic is returned when the format version is not 2.
	ErrMagic = errors.New("unsupported record format version")
	// ErrChecksum is returned when the CRC-32C doesn't match.
	ErrChecksum = errors.New("batch checksum doesn't match")
)

// Batch is a view over the bytes of one whole batch, header included. It shares them. Its accessors need at least
// HeaderSize bytes, which [Next] guarantees. The setters write into the bytes.
type Batch []byte

// Next cuts the first batch off b. Neither its checksum nor its records are looked at. Max bounds its total size in
// bytes; 0 means no bound beyond len(b).
func Next(b []byte, limit int) (first Batch, rest []byte, err error) {
	size, err := Size(b, limit)
	if err != nil {
		return nil, b, err
	}
	if size > len(b) {
		return nil, b, fmt.Errorf("%w: %d of %d bytes", ErrShort, len(b), size)
	}
	return Batch(b[:size:size]), b[size:], nil
}

// Size is the total size in bytes of the batch whose first HeaderSize bytes are given, header included. Limit bounds it;
// 0 means no bound.
func Size(header []byte, limit int) (int, error) {
	if len(header) < HeaderSize {
		return 0, fmt.Errorf("%w: %d bytes of a header", ErrShort, len(header))
	}
	if m := header[posMagic]; m != Magic {
		return 0, fmt.Errorf("%w: %d", ErrMagic, int8(m))
	}
	length := int64(int32(binary.BigEndian.Uint32(header[posLength:])))
	size := length + LengthOverhead
	if size < HeaderSize || (limit > 0 && size > int64(limit)) {
		return 0, fmt.Errorf("%w: %d", ErrLength, length)
	}
	return int(size), nil
}

// BaseOffset is the offset of the batch's first record.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b)) }

// SetBaseOffset sets the base offset, which the checksum doesn't cover.
func (b Batch) SetBaseOffset(o int64) { binary.BigEndian.PutUint64(b, uint64(o)) }

// LeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[posLeaderEpoch:])) }

// SetLeaderEpoch sets the leader epoch, which the checksum doesn't cover.
func (b Batch) SetLeaderEpoch(e int32) { binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(e)) }

// CRC is the checksum field.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// Attributes is the attributes field.
func (b Batch) Attributes() uint16 { return binary.BigEndian.Uint16(b[posAttributes:]) }

// Codec is the compression of the records.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & attrCodec) }

// IsAppendTime says that the maximum timestamp is the broker's time of append and holds for all records.
func (b Batch) IsAppendTime() bool { return b.Attributes()&attrAppendTime != 0 }

// IsTransactional says that the batch belongs to a transaction.
func (b Batch) IsTransactional() bool { return b.Attributes()&attrTransactional != 0 }

// IsControl says that the batch holds a control record, such as a transaction marker.
func (b Batch) IsControl() bool { return b.Attributes()&attrControl != 0 }

// HasDeleteHorizon says that the base timestamp is the time from which tombstones and markers may go (KIP-534).
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&attrDeleteHorizon != 0 }

// LastOffsetDelta is the offset of the last record, relative to the base offset.
func (b Batch) LastOffsetDelta() int32 {
	return int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:]))
}

// LastOffset is the offset of the batch's last record, or where it was before compaction.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the offset after the batch.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// BaseTimestamp is what the records' timestamps are relative to, in ms.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posBaseTimestamp:])) }

// MaxTimestamp is the largest timestamp of the records, in ms.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posMaxTimestamp:])) }

// ProducerID is the id of an idempotent or transactional producer, else -1.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[posProducerID:])) }

// ProducerEpoch is the producer's epoch, or -1.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[posProducerEpoch:])) }

// BaseSequence is the sequence number of the first record, or -1.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[posBaseSequence:])) }

// LastSequence is the sequence number of the last record; sequences wrap from MaxInt32 to 0.
func (b Batch) LastSequence() int32 {
	return int32((int64(b.BaseSequence()) + int64(b.LastOffsetDelta())) & 0x7fffffff)
}

// NumRecords is the count field.
func (b Batch) NumRecords() int32 { return int32(binary.BigEndian.Uint32(b[posNumRecords:])) }

// Payload is everything after the header: the records, compressed by Codec.
func (b Batch) Payload() []byte { return b[HeaderSize:] }

// VerifyChecksum compares the CRC field with the bytes.
func (b Batch) VerifyChecksum() error {
	if sum := Checksum(b[posAttributes:]); sum != b.CRC() {
		return fmt.Errorf("%w: computed %08x, stored %08x", ErrChecksum, sum, b.CRC())
	}
	return nil
}

// SetAppendTime marks the batch as appended at a time, in ms, and makes its checksum anew. Attributes without a meaning are
// cleared, as they are by SetCreateTime if it changes anything.
func (b Batch) SetAppendTime(ms int64) {
	binary.BigEndian.PutUint16(b[posAttributes:], b.Attributes()&attrKnown|attrAppendTime)
	b.setMaxTimestamp(ms)
}

// SetCreateTime marks the batch as timed by its producer, with the largest of its records' times, and makes its checksum
// anew if that changed anything.
func (b Batch) SetCreateTime(maxTimestamp int64) {
	if b.MaxTimestamp() == maxTimestamp && !b.IsAppendTime() {
		return
	}
	binary.BigEndian.PutUint16(b[posAttributes:], b.Attributes()&attrKnown&^attrAppendTime)
	b.setMaxTimestamp(maxTimestamp)
}

func (b Batch) setMaxTimestamp(ms int64) {
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ms))
	b.resetChecksum()
}

func (b Batch) resetChecksum() {
	binary.BigEndian.PutUint32(b[posCRC:], Checksum(b[posAttributes:]))
}
