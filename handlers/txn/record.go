package txn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// What the store holds of a transactional id is one record:
//
//	layout version (1 byte)
//	status, producer id, previous id, next id, epoch, last epoch, timeout ms, start ms, update ms, transaction version
//	number of topics; for each: length of the name, name, number of partitions, the partitions
//
// Numbers are varints as in encoding/binary, signed ones zigzag.
const layoutVersion = 1

// errRecord is returned for a record that can't be read.
var errRecord = errors.New("malformed transaction record")

func (p Partition) clone() Partition { return Partition{strings.Clone(p.Topic), p.Number} }

// encode appends the record of a state.
func (s *State) encode(b []byte) []byte {
	b = append(b, layoutVersion, byte(s.Status))
	for _, n := range [...]int64{
		s.ProducerID, s.PreviousID, s.NextID, int64(s.Epoch), int64(s.LastEpoch), int64(s.TimeoutMs), s.StartMs, s.UpdateMs,
		int64(s.Version),
	} {
		b = binary.AppendVarint(b, n)
	}
	topics := 0
	for i := range s.Partitions {
		if i == 0 || s.Partitions[i].Topic != s.Partitions[i-1].Topic {
			topics++
		}
	}
	b = binary.AppendUvarint(b, uint64(topics))
	for rest := s.Partitions; len(rest) > 0; {
		n := sameTopic(rest)
		b = binary.AppendUvarint(b, uint64(len(rest[0].Topic)))
		b = append(b, rest[0].Topic...)
		b = binary.AppendUvarint(b, uint64(n))
		for _, p := range rest[:n] {
			b = binary.AppendUvarint(b, uint64(p.Number))
		}
		rest = rest[n:]
	}
	return b
}

// sameTopic is how many partitions at the beginning of a list belong to one topic.
func sameTopic(list []Partition) int {
	n := 1
	for n < len(list) && list[n].Topic == list[0].Topic {
		n++
	}
	return n
}

// decode reads a record. It keeps none of b.
func decode(b []byte) (State, error) {
	if len(b) < 2 || b[0] != layoutVersion {
		return State{}, fmt.Errorf("%w: layout", errRecord)
	}
	d := decoder{b: b[2:]}
	s := State{
		Status: Status(b[1]), ProducerID: d.number(NoProducerID, math.MaxInt64), PreviousID: d.number(NoProducerID, math.MaxInt64),
		NextID: d.number(NoProducerID, math.MaxInt64),
		Epoch:  int16(d.number(0, math.MaxInt16)), LastEpoch: int16(d.number(int64(NoEpoch), math.MaxInt16)),
		TimeoutMs: int32(d.number(0, math.MaxInt32)), StartMs: d.number(noTime, math.MaxInt64),
		UpdateMs: d.number(math.MinInt64, math.MaxInt64), Version: int16(d.number(0, math.MaxInt16)),
	}
	for topics := d.count(); topics > 0 && !d.bad; topics-- {
		topic := d.string()
		for n := d.count(); n > 0 && !d.bad; n-- {
			s.Partitions = append(s.Partitions, Partition{topic, int32(d.unsigned(math.MaxInt32))})
		}
	}
	switch {
	case d.bad || len(d.b) != 0:
		return State{}, fmt.Errorf("%w: length or range", errRecord)
	case s.Status > CompleteAbort:
		return State{}, fmt.Errorf("%w: status %d", errRecord, s.Status)
	case !slices.IsSortedFunc(s.Partitions, Partition.compare):
		return State{}, fmt.Errorf("%w: order of partitions", errRecord)
	}
	return s, nil
}

// decoder reads numbers and strings; once one is bad, all are.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) number(least, most int64) int64 {
	v, n := binary.Varint(d.b)
	if d.bad || n <= 0 || v < least || v > most {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) unsigned(most uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if d.bad || n <= 0 || v > most {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count is a number of things that take at least a byte each.
func (d *decoder) count() int { return int(d.unsigned(uint64(len(d.b)))) }

func (d *decoder) string() string {
	n := d.count()
	if d.bad || n > len(d.b) {
		d.bad = true
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}
