package storage

import (
	"errors"
	"testing"
)

// Metadata, metrics and configuration ask about a log whether or not it has been recovered.
func TestALogMayBeAskedWhileItIsRecovered(t *testing.T) {
	t.Parallel()
	w := osWorld(t)
	l := w.open()
	for i := range 50 {
		put(t, l, makeBatch(t, i, 10, int64(i)))
	}
	end := l.Offsets().End
	w.close()
	w.epoch++
	var err error
	if w.set, err = OpenSet(w.fs, w.dir, w.options()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	if l, err = w.set.Start(w.part, w.config, 0); err != nil {
		t.Fatal(err)
	}
	for asked := false; !asked || errors.Is(l.Err(), ErrNotReady); asked = true {
		if got := l.LeaderEpoch(); got != w.epoch {
			t.Fatalf("leader epoch %d, want %d", got, w.epoch)
		}
		_, _, _, _, _ = l.Size(), l.Segments(), l.Producers(), l.EpochEnd(0), l.EpochAt(0)
		l.SetConfig(w.config)
		w.set.totals()
	}
	if got := l.Offsets().End; l.Err() != nil || got != end {
		t.Fatalf("recovered to %d, %v; want %d", got, l.Err(), end)
	}
}
