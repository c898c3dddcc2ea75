package cleaner

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// SlotBytes is what a key takes in a Map: 16 bytes of digest and 8 for the offset.
const SlotBytes = 24

// minSlots is the least number of slots, so that a pass gets somewhere whatever the budget.
const minSlots = 64

// ErrFull is returned when a map has no room for another key.
var ErrFull = errors.New("map of keys is full")

// Map is the latest offset of each key, in memory whose size is fixed when it is made. Keys are told apart by digests: the
// first half of their SHA-256, so that nobody can make two keys that pass for one. It is used by one goroutine at a time.
type Map struct {
	slots []slot
	limit int // how many slots may be taken
	used  int
}

// slot is empty if the digest and the offset are all zero bits.
type slot struct {
	high, low uint64
	value     uint64 // the offset plus 1, shifted left by 1; the lowest bit says that the record is a tombstone
}

// NewMap makes a map for at most keys keys (the number of offsets in a range bounds it) in at most budget bytes, of which
// the part load, between 0 and 1, is used: the fuller the map, the longer the searches.
func NewMap(keys, budget int64, load float64) *Map {
	if load <= 0 || load > 1 {
		load = 1
	}
	most := max(budget/SlotBytes, minSlots)
	want := int64(math.Ceil(float64(max(min(keys, most), 0))/load)) + 1 // one stays empty, so that searches end
	slots := max(min(want, most), minSlots)
	limit := min(int64(float64(slots)*load), slots-1)
	return &Map{slots: make([]slot, slots), limit: int(max(limit, 1))}
}

// Len is the number of keys.
func (m *Map) Len() int { return m.used }

// Cap is the most keys there can be.
func (m *Map) Cap() int { return m.limit }

// SizeBytes is the memory that the map takes.
func (m *Map) SizeBytes() int64 { return int64(len(m.slots)) * SlotBytes }

// Put notes a record of a key. Offsets must not go down. It returns ErrFull, and notes nothing, if the key is new and there
// is no room.
func (m *Map) Put(key []byte, offset int64, tombstone bool) error {
	s, found := m.find(key)
	if !found {
		if m.used >= m.limit {
			return fmt.Errorf("%w: %d keys", ErrFull, m.used)
		}
		m.used++
	}
	s.value = uint64(offset+1) << 1
	if tombstone {
		s.value |= 1
	}
	return nil
}

// Get returns the latest record of a key; found is false if none was noted.
func (m *Map) Get(key []byte) (offset int64, tombstone, found bool) {
	s, found := m.find(key)
	if !found {
		return 0, false, false
	}
	return int64(s.value>>1) - 1, s.value&1 != 0, true
}

// find returns the slot of a key or, with the digest filled in but no value, the one it would take. There is always an empty
// one.
func (m *Map) find(key []byte) (s *slot, found bool) {
	digest := sha256.Sum256(key)
	high, low := binary.BigEndian.Uint64(digest[:]), binary.BigEndian.Uint64(digest[8:])
	for i := int(high % uint64(len(m.slots))); ; {
		s = &m.slots[i]
		if s.value == 0 {
			s.high, s.low = high, low
			return s, false
		}
		if s.high == high && s.low == low {
			return s, true
		}
		if i++; i == len(m.slots) {
			i = 0
		}
	}
}
