package producer

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/kbroker/kbroker/protocol/batch"
)

// A checkpoint of a State, all integers big-endian:
//
//	4   magic "KBPS"
//	2   version, 1
//	2   flags, 0
//	4   number of producers
//	-   producers, by ascending id:
//	      8   producer id
//	      2   epoch
//	      4   coordinator epoch
//	      8   last timestamp, ms
//	      8   first offset of the open transaction
//	      1   number of batches in the window, oldest first; of each:
//	            4   last sequence
//	            4   last offset - base offset
//	            8   last offset
//	            8   maximum timestamp, ms
//	4   CRC-32C of all before
//
// Transactions ended by a marker that isn't durable are not in it: a checkpoint is written for what is.
const (
	checkpointVersion = 1
	headerSize        = 12
	producerSize      = 31
	windowEntrySize   = 24
	checksumSize      = 4
)

var checkpointMagic = []byte("KBPS")

var (
	// ErrCheckpoint is returned when bytes are not a checkpoint, or damaged.
	ErrCheckpoint = errors.New("bad producer checkpoint")
	// ErrVersion is returned when a checkpoint is sound but of another version.
	ErrVersion = errors.New("unknown version of producer checkpoint")
)

// Encode appends a checkpoint of the state to dst.
func (s *State) Encode(dst []byte) []byte {
	start := len(dst)
	dst = slices.Grow(dst, headerSize+len(s.producers)*(producerSize+WindowSize*windowEntrySize)+checksumSize)
	dst = append(dst, checkpointMagic...)
	dst = binary.BigEndian.AppendUint16(dst, checkpointVersion)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s.producers)))
	for _, e := range s.sorted() {
		dst = e.encode(dst)
	}
	return binary.BigEndian.AppendUint32(dst, batch.Checksum(dst[start:]))
}

func (s *State) sorted() []*entry {
	list := make([]*entry, 0, len(s.producers))
	for _, e := range s.producers {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return list
}

func (e *entry) encode(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.ProducerID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(e.Epoch))
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.CoordinatorEpoch))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.LastTimestamp))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.TxnStartOffset))
	dst = append(dst, byte(e.used))
	for _, w := range e.window[:e.used] {
		dst = binary.BigEndian.AppendUint32(dst, uint32(w.LastSequence))
		dst = binary.BigEndian.AppendUint32(dst, uint32(w.LastOffset-w.BaseOffset))
		dst = binary.BigEndian.AppendUint64(dst, uint64(w.LastOffset))
		dst = binary.BigEndian.AppendUint64(dst, uint64(w.MaxTimestamp))
	}
	return dst
}

// Decode reads a checkpoint; b must be exactly that. It takes no more memory than a small multiple of b. Producers are
// taken as they are: call Expire afterwards. Errors wrap [ErrCheckpoint] or [ErrVersion].
func Decode(b []byte, expirationMs int64) (*State, error) {
	if len(b) < headerSize+checksumSize || !bytes.HasPrefix(b, checkpointMagic) {
		return nil, fmt.Errorf("%w: %d bytes", ErrCheckpoint, len(b))
	}
	body := b[:len(b)-checksumSize]
	if batch.Checksum(body) != binary.BigEndian.Uint32(b[len(body):]) {
		return nil, fmt.Errorf("%w: checksum", ErrCheckpoint)
	}
	version, flags := binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
	if version != checkpointVersion || flags != 0 {
		return nil, fmt.Errorf("%w: version %d, flags %04x", ErrVersion, version, flags)
	}
	count := binary.BigEndian.Uint32(b[8:])
	rest := body[headerSize:]
	if uint64(count)*producerSize > uint64(len(rest)) {
		return nil, fmt.Errorf("%w: %d producers in %d bytes", ErrCheckpoint, count, len(rest))
	}
	s := New(expirationMs)
	last := int64(None)
	for range count {
		e := &entry{}
		var ok bool
		if rest, ok = e.decode(rest); !ok || e.ProducerID <= last {
			return nil, fmt.Errorf("%w: producer after %d", ErrCheckpoint, last)
		}
		last = e.ProducerID
		s.producers[last] = e
		if e.TxnStartOffset != None {
			s.open = append(s.open, e)
		}
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", ErrCheckpoint, len(rest))
	}
	slices.SortStableFunc(s.open, func(a, b *entry) int { return cmp.Compare(a.TxnStartOffset, b.TxnStartOffset) })
	return s, nil
}

func (e *entry) decode(b []byte) (rest []byte, ok bool) {
	if len(b) < producerSize {
		return nil, false
	}
	e.ProducerID = int64(binary.BigEndian.Uint64(b))
	e.Epoch = int16(binary.BigEndian.Uint16(b[8:]))
	e.CoordinatorEpoch = int32(binary.BigEndian.Uint32(b[10:]))
	e.LastTimestamp = int64(binary.BigEndian.Uint64(b[14:]))
	e.TxnStartOffset = int64(binary.BigEndian.Uint64(b[22:]))
	e.LastSequence = None
	e.used = int(b[30])
	b = b[producerSize:]
	if e.used > WindowSize || len(b) < e.used*windowEntrySize || e.TxnStartOffset < None {
		return nil, false
	}
	for i := range e.used {
		if !e.window[i].decode(b[:windowEntrySize]) {
			return nil, false
		}
		e.LastSequence = e.window[i].LastSequence
		b = b[windowEntrySize:]
	}
	return b, true
}

func (w *Entry) decode(b []byte) bool {
	delta := int32(binary.BigEndian.Uint32(b[4:]))
	w.LastSequence = int32(binary.BigEndian.Uint32(b))
	w.FirstSequence = int32((int64(w.LastSequence) - int64(delta)) & 0x7fffffff)
	w.LastOffset = int64(binary.BigEndian.Uint64(b[8:]))
	w.BaseOffset = w.LastOffset - int64(delta)
	w.MaxTimestamp = int64(binary.BigEndian.Uint64(b[16:]))
	return delta >= 0 && w.BaseOffset >= 0 && w.LastSequence >= 0
}
