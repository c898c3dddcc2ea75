package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
)

// An index file says what had been acknowledged in its segment also when the data file is gone.
func TestOffsetsOfAMissingLastDataFileAreDamagedAndNotGivenOutAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		all, snapshot bool
	}{
		"last, with a snapshot": {snapshot: true}, "last, without": {}, "all, without": {all: true}, "all, with a snapshot": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, d := simWorld(t)
			want := library(t, w)
			end := want[len(want)-1].NextOffset()
			d = d.Kill()
			w.closeMayFail = true
			w.close()
			w.fs = d
			dir := filepath.Join(w.dir, topicsName, w.part.Topic, "0")
			last := ""
			for file := range partitionFiles(t, w) {
				if strings.HasSuffix(file, segment.SuffixData) {
					last = max(last, file)
					if tt.all {
						must(t, d.Remove(filepath.Join(dir, file)))
					}
				}
			}
			if !tt.all {
				must(t, d.Remove(filepath.Join(dir, last)))
			}
			if !tt.snapshot {
				_ = d.Remove(filepath.Join(dir, snapshotName))
			}
			if report, err := Verify(d, w.dir); err != nil || report.Sound() || !strings.Contains(report.String(), "missing") {
				t.Errorf("verify: %v %v", err, report)
			}
			for range 2 {
				l := w.open()
				damaged, err := judge(l, want)
				if err != nil || damaged == 0 {
					t.Fatalf("%d damaged, %v", damaged, err)
				}
				if o := l.Offsets(); o.End < end {
					t.Fatalf("the log ends at %d, ended at %d", o.End, end)
				}
				w.close()
			}
			l := w.open()
			if b := put(t, l, makeBatch(t, 99, 1, 1)); b.BaseOffset() < end {
				t.Fatalf("offset %d was given out again, the log ended at %d", b.BaseOffset(), end)
			}
			w.close()
			if _, err := w.open().Read(end-1, ReadOptions{MaxBytes: 100, WholeFirst: true}); err == nil || errors.Is(err, ErrNotReady) {
				t.Errorf("read of what is missing: %v", err)
			}
		})
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// What is missing between segments that compaction has left gaps in can't be told from a gap, but by the index that is left.
func TestAMissingDataFileOfACompactedLogIsDamageForGood(t *testing.T) {
	t.Parallel()
	for name, which := range map[string]func(bases []int64) int64{
		"one in the middle":       func(bases []int64) int64 { return bases[1] },
		"the one before the last": func(bases []int64) int64 { return bases[len(bases)-2] },
		"the last":                func(bases []int64) int64 { return bases[len(bases)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, d := simWorld(t)
			w.config.SegmentBytes, w.config.IndexIntervalBytes, w.config.Compact = 700, 250, true
			l := w.open()
			var want []batch.Batch
			for i := range 30 {
				b := batch.NewBuilder(batch.NoProducer())
				b.Append(1000, fmt.Appendf(nil, "key %d", i), []byte("a value"))
				one, err := b.Build()
				must(t, err)
				want = append(want, put(t, l, one))
			}
			plan, _ := l.planCompaction(w.clock.Now())
			limits := compactionLimits{MapBytes: 1 << 20, MapLoad: 0.9, Pace: func(int) error { return nil }}
			must(t, l.compact(t.Context(), plan, limits))
			var bases []int64
			for _, s := range l.mu.segments {
				bases = append(bases, s.Base)
			}
			if len(bases) < 4 || isDirty(l.mu.segments[len(bases)-2]) {
				t.Fatalf("segments %v", bases)
			}
			w.close()
			victim := which(bases)
			dir := filepath.Join(w.dir, topicsName, w.part.Topic, "0")
			must(t, d.Remove(filepath.Join(dir, segment.FileName(victim, segment.SuffixData))))
			start := VerifyOptions{LogStart: func(Partition) int64 { return 0 }}
			if report, err := VerifyWith(d, w.dir, start); err != nil || report.Sound() {
				t.Errorf("verify: %v %v", err, report)
			}
			gone := 0
			for _, b := range want {
				if i, found := slices.BinarySearch(bases, b.BaseOffset()); bases[max(i-1, 0)] == victim && !found || found && bases[i] == victim {
					gone++
				}
			}
			for start := range 4 {
				w.epoch++
				damaged, err := judge(w.open(), want)
				if err != nil || damaged != gone {
					t.Fatalf("start %d: %d damaged, not %d: %v", start, damaged, gone, err)
				}
				w.close()
			}
		})
	}
}
