package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrBuild is returned when a batch can't be built from what it was given.
var ErrBuild = errors.New("batch can't be built")

// Meta is what a batch says of itself besides its records.
type Meta struct {
	BaseOffset    int64
	LeaderEpoch   int32
	BaseTimestamp int64 // ms; what the records' timestamps are relative to, and the delete horizon if HasDeleteHorizon
	ProducerID    int64 // -1 for none, as the next two
	ProducerEpoch int16
	BaseSequence  int32

	Transactional    bool
	Control          bool
	AppendTime       bool // MaxTimestamp is the broker's time and holds for all records
	HasDeleteHorizon bool
	// MaxTimestamp is used with AppendTime; else the largest of the records' timestamps is.
	MaxTimestamp int64

	Codec Codec
	Level int // Kafka's for the codec; see Codec.DefaultLevel
}

// NoProducer is the Meta of a plain batch: no producer, no compression.
func NoProducer() Meta { return Meta{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1} }

// Meta is what the batch says of itself, so that it can be built again with other records. Level is the codec's default.
func (b Batch) Meta() Meta {
	return Meta{
		BaseOffset:       b.BaseOffset(),
		LeaderEpoch:      b.LeaderEpoch(),
		BaseTimestamp:    b.BaseTimestamp(),
		ProducerID:       b.ProducerID(),
		ProducerEpoch:    b.ProducerEpoch(),
		BaseSequence:     b.BaseSequence(),
		Transactional:    b.IsTransactional(),
		Control:          b.IsControl(),
		AppendTime:       b.IsAppendTime(),
		HasDeleteHorizon: b.HasDeleteHorizon(),
		MaxTimestamp:     b.MaxTimestamp(),
		Codec:            b.Codec(),
		Level:            b.Codec().DefaultLevel(),
	}
}

// Builder collects records and makes a batch of them. It is used by one goroutine at a time.
//
// A batch made again by compaction keeps its base offset and its last offset, whatever records are left, so that
// offsets don't shift and a producer's last sequence number stays known: see SetLastOffsetDelta.
type Builder struct {
	meta         Meta
	payload      []byte // uncompressed
	count        int32
	lastDelta    int32 // largest offset delta; -1 without records
	maxTimestamp int64
	fixedDelta   bool
}

// NewBuilder starts a batch.
func NewBuilder(m Meta) *Builder {
	b := &Builder{}
	b.Reset(m)
	return b
}

// Reset starts another batch in the same memory.
func (b *Builder) Reset(m Meta) {
	*b = Builder{meta: m, payload: b.payload[:0], lastDelta: -1, maxTimestamp: NoTimestamp}
}

// Count is the number of records so far.
func (b *Builder) Count() int32 { return b.count }

// SizeBytes is the size of the batch so far, uncompressed.
func (b *Builder) SizeBytes() int { return HeaderSize + len(b.payload) }

// Append adds a record with the offset that follows the last one's.
func (b *Builder) Append(timestamp int64, key, value []byte, headers ...Header) {
	b.AppendAt(b.lastDelta+1, timestamp, key, value, headers...)
}

// AppendAt adds a record at an offset relative to the batch's. The slices are copied; nil stands for null.
func (b *Builder) AppendAt(offsetDelta int32, timestamp int64, key, value []byte, headers ...Header) {
	delta := timestamp - b.meta.BaseTimestamp
	size := 1 + varlongSize(delta) + varintSize(offsetDelta) + bytesSize(key) + bytesSize(value) + varintSize(int32(len(headers)))
	for _, h := range headers {
		size += varintSize(int32(len(h.Key))) + len(h.Key) + bytesSize(h.Value)
	}
	p := binary.AppendVarint(b.payload, int64(size))
	p = append(p, 0)
	p = binary.AppendVarint(p, delta)
	p = binary.AppendVarint(p, int64(offsetDelta))
	p = appendBytes(p, key)
	p = appendBytes(p, value)
	p = binary.AppendVarint(p, int64(len(headers)))
	for _, h := range headers {
		p = binary.AppendVarint(p, int64(len(h.Key)))
		p = append(p, h.Key...)
		p = appendBytes(p, h.Value)
	}
	b.payload = p
	b.added(offsetDelta, timestamp)
}

// AppendRecord adds a record of a batch with the given base timestamp, at a timestamp that may be another than its own. Its
// offset is offsetDelta relative to the new batch's; the bytes are taken over as they are if its deltas stay what they were.
func (b *Builder) AppendRecord(r *Record, timestamp, baseTimestamp int64, offsetDelta int32) {
	if baseTimestamp == b.meta.BaseTimestamp && timestamp == baseTimestamp+r.TimestampDelta && offsetDelta == r.OffsetDelta {
		b.payload = append(b.payload, r.Raw...)
		b.added(offsetDelta, timestamp)
		return
	}
	delta := timestamp - b.meta.BaseTimestamp
	size := 1 + varlongSize(delta) + varintSize(offsetDelta) + bytesSize(r.Key) + bytesSize(r.Value) +
		varintSize(r.NumHeaders) + len(r.Headers)
	p := binary.AppendVarint(b.payload, int64(size))
	p = append(p, byte(r.Attributes))
	p = binary.AppendVarint(p, delta)
	p = binary.AppendVarint(p, int64(offsetDelta))
	p = appendBytes(p, r.Key)
	p = appendBytes(p, r.Value)
	p = binary.AppendVarint(p, int64(r.NumHeaders))
	b.payload = append(p, r.Headers...)
	b.added(offsetDelta, timestamp)
}

func (b *Builder) added(offsetDelta int32, timestamp int64) {
	b.count++
	b.lastDelta = max(b.lastDelta, offsetDelta)
	b.maxTimestamp = max(b.maxTimestamp, timestamp)
}

// SetLastOffsetDelta makes the batch end at an offset relative to its base, beyond its last record or without any.
func (b *Builder) SetLastOffsetDelta(delta int32) {
	b.lastDelta, b.fixedDelta = delta, true
}

// AppendTo appends the batch to dst. A batch without records needs SetLastOffsetDelta. Errors wrap [ErrBuild].
func (b *Builder) AppendTo(dst []byte) ([]byte, error) {
	if b.count == 0 && !b.fixedDelta {
		return nil, fmt.Errorf("%w: no records", ErrBuild)
	}
	if b.lastDelta < 0 {
		return nil, fmt.Errorf("%w: last offset delta %d", ErrBuild, b.lastDelta)
	}
	at := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	codec := b.meta.Codec
	if b.count == 0 {
		codec = CodecNone
	}
	dst, err := Compress(dst, codec, b.meta.Level, b.payload)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBuild, err)
	}
	if len(dst)-at > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d bytes", ErrBuild, len(dst)-at)
	}
	b.putHeader(Batch(dst[at:]), codec)
	return dst, nil
}

// Build returns the batch in memory of its own.
func (b *Builder) Build() (Batch, error) {
	out, err := b.AppendTo(make([]byte, 0, b.SizeBytes()))
	return Batch(out), err
}

func (b *Builder) putHeader(h Batch, codec Codec) {
	m := &b.meta
	attributes := uint16(codec)
	for _, f := range [...]struct {
		set bool
		bit uint16
	}{{m.AppendTime, attrAppendTime}, {m.Transactional, attrTransactional}, {m.Control, attrControl}, {m.HasDeleteHorizon, attrDeleteHorizon}} {
		if f.set {
			attributes |= f.bit
		}
	}
	maxTimestamp := b.maxTimestamp
	if m.AppendTime {
		maxTimestamp = m.MaxTimestamp
	}
	h.SetBaseOffset(m.BaseOffset)
	binary.BigEndian.PutUint32(h[posLength:], uint32(len(h)-LengthOverhead))
	h.SetLeaderEpoch(m.LeaderEpoch)
	h[posMagic] = Magic
	binary.BigEndian.PutUint16(h[posAttributes:], attributes)
	binary.BigEndian.PutUint32(h[posLastOffsetDelta:], uint32(b.lastDelta))
	binary.BigEndian.PutUint64(h[posBaseTimestamp:], uint64(m.BaseTimestamp))
	binary.BigEndian.PutUint64(h[posMaxTimestamp:], uint64(maxTimestamp))
	binary.BigEndian.PutUint64(h[posProducerID:], uint64(m.ProducerID))
	binary.BigEndian.PutUint16(h[posProducerEpoch:], uint16(m.ProducerEpoch))
	binary.BigEndian.PutUint32(h[posBaseSequence:], uint32(m.BaseSequence))
	binary.BigEndian.PutUint32(h[posNumRecords:], uint32(b.count))
	h.resetChecksum()
}

// bytesSize is what appendBytes appends.
func bytesSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int32(len(b))) + len(b)
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // -1
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

func varintSize(v int32) int { return varlongSize(int64(v)) }

func varlongSize(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
