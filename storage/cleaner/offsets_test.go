package cleaner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestMapKnowsTheLatestOffsetOfEachKey(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	m := NewMap(1000, 1<<20, 0.9)
	type latest struct {
		offset    int64
		tombstone bool
	}
	want := map[string]latest{}
	for offset := range int64(5000) {
		key := fmt.Sprint(rng.IntN(1000))
		l := latest{offset, rng.IntN(4) == 0}
		if err := m.Put([]byte(key), l.offset, l.tombstone); err != nil {
			t.Fatal(err)
		}
		want[key] = l
	}
	for i := range 2000 {
		key := fmt.Sprint(i)
		offset, tombstone, found := m.Get([]byte(key))
		w, ok := want[key]
		if found != ok || (ok && (latest{offset, tombstone}) != w) {
			t.Fatalf("key %s: %d %v %v, want %v %v", key, offset, tombstone, found, w, ok)
		}
	}
	if m.Len() != len(want) {
		t.Errorf("%d keys, want %d", m.Len(), len(want))
	}
}

func TestMapOffsetZeroIsAnOffset(t *testing.T) {
	t.Parallel()
	m := NewMap(1, 1<<10, 1)
	if err := m.Put(nil, 0, false); err != nil {
		t.Fatal(err)
	}
	if offset, tombstone, found := m.Get([]byte{}); offset != 0 || tombstone || !found {
		t.Error(offset, tombstone, found)
	}
}

func TestMapStaysWithinItsBudgetAndRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keys, budget int64
		load         float64
		keysAtLeast  int
		bytesAtMost  int64
	}{
		{1 << 40, 1 << 16, 0.9, 2400, 1 << 16},
		{1 << 40, 1 << 16, 0, 2700, 1 << 16}, // no sensible load: all but one slot
		{1 << 40, 1 << 16, 7, 2700, 1 << 16},
		{1 << 40, 0, 0.9, 50, minSlots * SlotBytes},
		{1 << 40, -1, 0.9, 50, minSlots * SlotBytes},
		{1000, 1 << 30, 0.9, 1000, 1000 * 28}, // no more than there can be keys
		{0, 1 << 30, 0.9, 1, minSlots * SlotBytes},
		{1 << 40, minSlots * SlotBytes, 0.0001, 1, minSlots * SlotBytes},
	} {
		m := NewMap(c.keys, c.budget, c.load)
		if m.Cap() < c.keysAtLeast || m.SizeBytes() > c.bytesAtMost {
			t.Errorf("%+v: %d keys in %d bytes", c, m.Cap(), m.SizeBytes())
		}
		for i := range m.Cap() {
			if err := m.Put(fmt.Append(nil, i), int64(i), false); err != nil {
				t.Fatalf("%+v: key %d: %v", c, i, err)
			}
		}
		if err := m.Put([]byte("one more"), 1<<40, false); !errors.Is(err, ErrFull) {
			t.Errorf("%+v: %v", c, err)
		}
		if _, _, found := m.Get([]byte("one more")); found {
			t.Errorf("%+v: what was refused is there", c)
		}
		if err := m.Put([]byte("0"), 1<<40, true); err != nil {
			t.Errorf("%+v: a known key is refused: %v", c, err)
		}
		if offset, tombstone, found := m.Get([]byte("0")); offset != 1<<40 || !tombstone || !found {
			t.Errorf("%+v: %d %v %v", c, offset, tombstone, found)
		}
	}
}

func BenchmarkMap(b *testing.B) {
	for _, load := range []float64{0.5, 0.9} {
		b.Run(fmt.Sprintf("full=%v", load), func(b *testing.B) {
			const keys = 1 << 20
			m := NewMap(keys, keys*SlotBytes*2, load)
			key := make([]byte, 16)
			for i := 0; b.Loop(); i++ {
				n := i % keys
				key[0], key[1], key[2] = byte(n), byte(n>>8), byte(n>>16)
				if err := m.Put(key, int64(i), false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
