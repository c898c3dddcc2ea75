package storage

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kbroker/kbroker/storage/segment"
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

// TestTheWorstThatRecoveryFindsIsCounted: a torn write in the last segment doesn't hide damage before it.
func TestTheWorstThatRecoveryFindsIsCounted(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	w.config.SegmentBytes = 400
	w.fill(w.open(), 3, w.clock.Now())
	w.close()
	must(t, d.Remove(filepath.Join(testDir, snapshotName)))
	must(t, d.FlipBit(filepath.Join(testDir, segment.FileName(0, segment.SuffixData)), 800))
	last := segment.FileName(20, segment.SuffixData)
	rewrite(t, d, last, append(contentOf(t, d, last), "half a batch"...))
	w.open()
	if n := testutil.ToFloat64(w.set.metrics.recovered.WithLabelValues("damaged")); n != 1 {
		t.Errorf("damaged: %v partitions, want 1", n)
	}
}
