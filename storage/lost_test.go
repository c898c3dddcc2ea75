package storage

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

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
