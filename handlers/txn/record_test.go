package txn

import (
	"errors"
	"math"
	"reflect"
	"testing"
)

func sampleStates() []State {
	return []State{
		{ProducerID: 1, PreviousID: NoProducerID, NextID: NoProducerID, LastEpoch: NoEpoch, TimeoutMs: 1, StartMs: noTime},
		{
			Status: PrepareCommit, ProducerID: math.MaxInt64, PreviousID: 2, NextID: 3, Epoch: math.MaxInt16, LastEpoch: math.MaxInt16 - 1,
			TimeoutMs: math.MaxInt32, StartMs: 1_700_000_000_000, UpdateMs: -5, Version: 2,
			Partitions: []Partition{{"", 0}, {OffsetsTopic, 49}, {"a", 0}, {"a", 7}, {"a", math.MaxInt32}, {"bé", 1}},
		},
	}
}

func TestRecordsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	for _, s := range sampleStates() {
		s.Partitions = s.with(nil)
		if len(s.Partitions) == 0 {
			s.Partitions = nil
		}
		got, err := decode(s.encode(nil))
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%+v, %v; want %+v", got, err, s)
		}
	}
}

func TestDamagedRecordsAreRefused(t *testing.T) {
	t.Parallel()
	whole := sampleStates()[1].encode(nil)
	for n := range whole {
		if _, err := decode(whole[:n]); !errors.Is(err, errRecord) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for name, b := range map[string][]byte{
		"longer":  append(append([]byte(nil), whole...), 0),
		"layout":  append([]byte{layoutVersion + 1}, whole[1:]...),
		"status":  append([]byte{layoutVersion, 99}, whole[2:]...),
		"nothing": nil,
	} {
		if _, err := decode(b); !errors.Is(err, errRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What decodes is written as it was, and no input panics or makes more than it is long.
func FuzzDecode(f *testing.F) {
	for _, s := range sampleStates() {
		f.Add(s.encode(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decode(b)
		if err != nil {
			return
		}
		if len(s.Partitions) > len(b) {
			t.Fatalf("%d partitions of %d bytes", len(s.Partitions), len(b))
		}
		again, err := decode(s.encode(nil))
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Fatalf("%+v became %+v, %v", s, again, err)
		}
	})
}
