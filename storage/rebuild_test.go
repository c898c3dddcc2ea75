package storage

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kbroker/kbroker/storage/segment"
)

// An index of a segment that has ended is mended beside the appends, and once for all readers that find it wrong.
func TestAnIndexOfASealedSegmentIsMendedOnceAndBesideTheAppends(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	want := library(t, w)
	w.close()
	name := filepath.Join("data", topicsName, w.part.Topic, "0", segment.FileName(0, segment.SuffixIndex))
	must(t, d.FlipBit(name, 8*(segment.HeaderSize+3)))
	l := w.open()
	s := l.mu.segments[0]
	l.writing.Lock()
	done := make(chan error, 1)
	go func() {
		_, err := l.Read(0, ReadOptions{MaxBytes: 1, WholeFirst: true})
		done <- err
	}()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(10 * time.Second):
		t.Error("a reader waits for an append")
	}
	l.writing.Unlock()
	must(t, l.rebuildSince(s, 0))
	if n := testutil.ToFloat64(w.set.metrics.rebuilds); n != 1 {
		t.Errorf("%v rebuilds", n)
	}
	if n, err := judge(l, want); n != 0 || err != nil {
		t.Error(n, err)
	}
}
