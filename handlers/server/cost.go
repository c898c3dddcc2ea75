package server

import (
	"encoding/binary"
	"math"

	"github.com/kbroker/kbroker/protocol"
)

// What decoding a body with kmsg takes at most, measured. The worst are lists of the smallest entries: Metadata's topics take
// 24 times their bytes, Produce's topics 21 times.
const (
	decodeFactor  = 24
	produceFactor = 21

	// largeBytes is where a request is large: a Produce is looked at, others are worked on one at a time.
	largeBytes = 1 << 20

	// produceTopicCost and producePartitionCost are the sizes in memory of a Produce's entries, name and slack included.
	produceTopicCost     = 96
	producePartitionCost = 64
)

// decodeCost is how many bytes decoding a body may take beyond the frame.
//
// Records aren't copied by decoding, so that a large Produce costs by its topics and partitions. Those are counted, which is
// the one look that this package takes into a body.
func decodeCost(h *protocol.RequestHeader, body []byte) int64 {
	if h.Key != protocol.KeyProduce {
		return decodeFactor * int64(len(body))
	}
	if len(body) <= largeBytes {
		return produceFactor * int64(len(body))
	}
	s := produceScan{b: body, version: h.Version, flexible: protocol.RequestHeaderFlexible(h.Key, h.Version)}
	return s.cost()
}

// produceScan walks over the lists of a Produce body without allocating.
type produceScan struct {
	b        []byte
	version  int16
	flexible bool
	bad      bool
}

// cost counts topics and partitions. Where a body ends too early the claimed counts are taken, since a decoder may make room
// for them before it finds out.
func (s *produceScan) cost() int64 {
	s.skip(s.length()) // transactional id
	s.skip(2 + 4)      // acks, timeout
	topics := s.count()
	total := topics * produceTopicCost
	for ; topics > 0 && !s.bad; topics-- {
		if s.version >= 13 {
			s.skip(16)
		} else {
			s.skip(s.length())
		}
		partitions := s.count()
		total += partitions * producePartitionCost
		for ; partitions > 0 && !s.bad; partitions-- {
			s.skip(4)
			s.skip(s.bytesLength())
			s.tags()
		}
		s.tags()
	}
	return total
}

// skip takes n bytes; a negative n is a null value.
func (s *produceScan) skip(n int64) {
	if n <= 0 {
		return
	}
	if n > int64(len(s.b)) {
		s.bad = true
		s.b = nil
		return
	}
	s.b = s.b[n:]
}

// length is a string's, -1 for null.
func (s *produceScan) length() int64 {
	if s.flexible {
		return s.uvarint() - 1
	}
	return int64(int16(s.fixed(2)))
}

// bytesLength is that of a byte string, -1 for null.
func (s *produceScan) bytesLength() int64 {
	if s.flexible {
		return s.uvarint() - 1
	}
	return int64(int32(s.fixed(4)))
}

// count is a list's length, never more than one entry a byte.
func (s *produceScan) count() int64 {
	n := s.bytesLength()
	return min(max(n, 0), int64(len(s.b)))
}

// tags skips tagged fields.
func (s *produceScan) tags() {
	if !s.flexible {
		return
	}
	for n := s.uvarint(); n > 0 && !s.bad; n-- {
		s.uvarint()
		s.skip(s.uvarint())
	}
}

// fixed reads a big-endian number of 2 or 4 bytes.
func (s *produceScan) fixed(size int) uint32 {
	if len(s.b) < size {
		s.bad = true
		s.b = nil
		return 0
	}
	v := uint32(binary.BigEndian.Uint16(s.b))
	if size == 4 {
		v = binary.BigEndian.Uint32(s.b)
	}
	s.b = s.b[size:]
	return v
}

// uvarint reads an unsigned varint.
func (s *produceScan) uvarint() int64 {
	v, n := binary.Uvarint(s.b)
	if n <= 0 || v > math.MaxUint32 {
		s.bad = true
		s.b = nil
		return 0
	}
	s.b = s.b[n:]
	return int64(v)
}
