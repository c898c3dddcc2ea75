package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Transaction markers: control batches of one record, as Apache Kafka writes them (KIP-98).
//
//	key    2  version 0
//	       2  type: 0 abort, 1 commit
//	value  2  version 0
//	       4  coordinator epoch
const (
	markerKeySize   = 4
	markerValueSize = 6
	markerAbort     = 0
	markerCommit    = 1
)

// ErrMarker is returned when a control batch is not a transaction marker. Kafka has others, for its own metadata; readers
// skip them.
var ErrMarker = errors.New("not a transaction marker")

// Marker is how a transaction ended.
type Marker struct {
	Commit           bool
	CoordinatorEpoch int32
}

// ControlBatch makes the batch that ends a producer's transaction in a partition, at a time in ms. Its base offset and
// leader epoch are 0 until it is appended.
func ControlBatch(producerID int64, producerEpoch int16, m Marker, nowMs int64) Batch {
	kind := uint16(markerAbort)
	if m.Commit {
		kind = markerCommit
	}
	key := binary.BigEndian.AppendUint16(make([]byte, 2, markerKeySize), kind)
	value := binary.BigEndian.AppendUint32(make([]byte, 2, markerValueSize), uint32(m.CoordinatorEpoch))
	b := NewBuilder(Meta{
		BaseTimestamp: nowMs, ProducerID: producerID, ProducerEpoch: producerEpoch, BaseSequence: -1,
		Transactional: true, Control: true,
	})
	b.Append(nowMs, key, value)
	out, err := b.Build()
	if err != nil {
		panic(err) // one record, no compression: nothing that could fail
	}
	return out
}

// ParseMarker reads the marker in a control batch. Errors wrap [ErrMarker].
func ParseMarker(b Batch) (Marker, error) {
	if !b.IsControl() || b.Codec() != CodecNone {
		return Marker{}, fmt.Errorf("%w: attributes %04x", ErrMarker, b.Attributes())
	}
	it := Iterate(b.Payload(), b.NumRecords())
	if !it.Next() {
		return Marker{}, fmt.Errorf("%w: no record", ErrMarker)
	}
	r := it.Record()
	if len(r.Key) < markerKeySize || len(r.Value) < markerValueSize {
		return Marker{}, fmt.Errorf("%w: key of %d bytes, value of %d", ErrMarker, len(r.Key), len(r.Value))
	}
	kind := binary.BigEndian.Uint16(r.Key[2:])
	if kind != markerAbort && kind != markerCommit {
		return Marker{}, fmt.Errorf("%w: type %d", ErrMarker, kind)
	}
	return Marker{
		Commit:           kind == markerCommit,
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(r.Value[2:])),
	}, nil
}
