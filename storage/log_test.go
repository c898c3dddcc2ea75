package storage

import (
	"bytes"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kbroker/kbroker/protocol/batch"
)

func TestAppendedBatchesComeBackAsTheyWereAcrossARestart(t *testing.T) {
	t.Parallel()
	w := osWorld(t)
	w.config.SegmentBytes = 2000
	l := w.open()
	var want []batch.Batch
	for i := range 100 {
		want = append(want, put(t, l, makeBatch(t, i, 1+i%5, 1000+int64(i))))
	}
	sameBatches(t, readEverything(t, l, 0), want)
	o := l.Offsets()
	if o.End != 300 || o.HighWatermark != 300 || o.LastStable != 300 || o.Start != 0 {
		t.Fatalf("offsets %+v", o)
	}
	if l.Segments() < 3 {
		t.Fatalf("%d segments", l.Segments())
	}
	w.close()
	l = w.open()
	sameBatches(t, readEverything(t, l, 0), want)
	want = append(want, put(t, l, makeBatch(t, 100, 3, 5000)))
	if want[100].BaseOffset() != 300 {
		t.Fatalf("base offset %d", want[100].BaseOffset())
	}
	sameBatches(t, readEverything(t, l, 0), want)
	if _, err := l.Read(304, ReadOptions{MaxBytes: 1}); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("read beyond the end: %v", err)
	}
}

func sameBatches(tb testing.TB, got, want []batch.Batch) {
	tb.Helper()
	for i := range min(len(got), len(want)) {
		if !bytes.Equal(got[i], want[i]) {
			tb.Fatalf("batch %d: got %d+%d, want %d+%d", i, got[i].BaseOffset(), len(got[i]), want[i].BaseOffset(), len(want[i]))
		}
	}
	if len(got) != len(want) {
		tb.Fatalf("%d batches, want %d", len(got), len(want))
	}
}

// coldLog opens a log of 1500 batches anew, nothing of which has been verified since.
func coldLog(t *testing.T) (*world, *Log, []batch.Batch) {
	t.Helper()
	w, _ := simWorld(t)
	w.config.IndexIntervalBytes = 300
	w.config.Sync = SyncNone
	l := w.open()
	var want []batch.Batch
	for i := range 1500 {
		want = append(want, put(t, l, makeBatch(t, i, 1, 1000)))
	}
	w.close()
	return w, w.open(), want
}

func TestReadsAllOverAColdLogDontTakeItForDamaged(t *testing.T) {
	t.Parallel()
	w, l, want := coldLog(t)
	for i := range 3000 {
		b := want[i*7919%len(want)]
		if n, err := judge(l, []batch.Batch{b}); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := testutil.ToFloat64(w.set.metrics.rebuilds); n != 0 {
		t.Fatalf("%v rebuilds", n)
	}
}

// What was written last, and has no index entry yet, can't be checked again if it is forgotten that it was written.
func TestReadsAllOverAColdSegmentDontForgetWhatWasWrittenSince(t *testing.T) {
	t.Parallel()
	w, l, want := coldLog(t)
	newest := []batch.Batch{put(t, l, makeBatch(t, 1500, 1, 1000))}
	for i := range 300 {
		if n, err := judge(l, want[i*10%len(want):][:1]); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := judge(l, newest); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := testutil.ToFloat64(w.set.metrics.rebuilds); n != 0 {
		t.Fatalf("%v rebuilds", n)
	}
}
