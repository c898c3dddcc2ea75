package storage

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// TestOnlyACheckpointThatFitsSparesTheReading: after a clean stop nothing is examined; without a checkpoint, or with one that
// speaks of other files, everything is, and where it is wrong about the last segment, that one. Either way the log goes on where it ended.
func TestOnlyACheckpointThatFitsSparesTheReading(t *testing.T) {
	t.Parallel()
	changed := func(change func(s *snapshot)) func(*testing.T, *simdisk.Disk) {
		return func(t *testing.T, d *simdisk.Disk) {
			t.Helper()
			s, err := decodeSnapshot(contentOf(t, d, snapshotName))
			if err != nil {
				t.Fatal(err)
			}
			change(s)
			rewrite(t, d, snapshotName, s.encode())
		}
	}
	gone := func(names ...string) func(*testing.T, *simdisk.Disk) {
		return func(t *testing.T, d *simdisk.Disk) {
			t.Helper()
			for _, name := range names {
				must(t, d.Remove(filepath.Join(testDir, name)))
			}
		}
	}
	flipped := func(t *testing.T, d *simdisk.Disk) {
		t.Helper()
		must(t, d.FlipBit(filepath.Join(testDir, snapshotName), 300))
	}
	last := []string{segment.FileName(20, segment.SuffixData), segment.FileName(20, segment.SuffixIndex)}
	for name, c := range map[string]struct {
		change   func(*testing.T, *simdisk.Disk)
		examined int // segments
		left     int // segments that can be read
	}{
		"as it was":                {func(*testing.T, *simdisk.Disk) {}, 0, 3},
		"missing":                  {gone(snapshotName), 3, 3},
		"of another topic":         {changed(func(s *snapshot) { s.id[0]++ }), 3, 3},
		"of a shorter segment":     {changed(func(s *snapshot) { s.size-- }), 1, 3},
		"epochs missing":           {gone(epochsName), 3, 3},
		"its segment is missing":   {gone(last...), 2, 2},
		"bad":                      {flipped, 3, 3},
		"of entries there are not": {changed(func(s *snapshot) { s.entries++ }), 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, d := simWorld(t)
			w.config.SegmentBytes = 400
			l := w.open()
			w.fill(l, 3, w.clock.Now())
			want, size := readEverything(t, l, 0), l.Size()/3
			w.close()
			c.change(t, d)
			w.epoch++
			l = w.open()
			if got := int64(testutil.ToFloat64(w.set.metrics.recoveredBytes)); got/size != int64(c.examined) {
				t.Errorf("%d bytes were examined, a segment has %d", got, size)
			}
			got, err := tryReadEverything(l, 0)
			sameBatches(t, got, want[:c.left])
			if c.left < 3 && !errors.Is(err, ErrDamaged) || c.left == 3 && err != nil {
				t.Errorf("read: %v", err)
			}
			if o := l.Offsets(); o.End != 30 || l.EpochAt(5) != 0 || l.LeaderEpoch() != 1 {
				t.Errorf("%+v, epoch %d, at 5 %d", o, l.LeaderEpoch(), l.EpochAt(5))
			}
			if b := put(t, l, makeBatch(t, 9, 1, 1000)); b.BaseOffset() != 30 {
				t.Errorf("goes on at %d", b.BaseOffset())
			}
		})
	}
}

// TestABatchLargerThanAScansBufferIsVerified: piece by piece.
func TestABatchLargerThanAScansBufferIsVerified(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{true, false} {
		w, d := simWorld(t)
		l := w.open()
		b := batch.NewBuilder(batch.NoProducer())
		b.Append(1000, nil, bytes.Repeat([]byte("large "), 100_000))
		large, err := b.Build()
		must(t, err)
		put(t, l, large)
		small := put(t, l, makeBatch(t, 1, 1, 1000))
		w.close()
		must(t, d.FlipBit(filepath.Join(testDir, segment.FileName(0, segment.SuffixData)), 8*400_000))
		if !trusted {
			must(t, d.Remove(filepath.Join(testDir, snapshotName)))
		}
		l = w.open()
		if _, err := tryReadEverything(l, 0); !errors.Is(err, ErrDamaged) {
			t.Errorf("checkpoint trusted %v: %v", trusted, err)
		}
		sameBatches(t, readEverything(t, l, 1), []batch.Batch{small})
		w.close()
	}
}

// TestTheEpochNeverFallsBelowTheHistory: a metadata store that was put back from a copy may count fewer starts.
func TestTheEpochNeverFallsBelowTheHistory(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	for _, c := range []struct{ starts, want int32 }{{5, 5}, {2, 5}, {6, 6}} {
		w.epoch = c.starts
		l := w.open()
		if b := put(t, l, makeBatch(t, 0, 1, 1000)); l.LeaderEpoch() != c.want || b.LeaderEpoch() != c.want {
			t.Errorf("start %d: epoch %d, of a batch %d, want %d", c.starts, l.LeaderEpoch(), b.LeaderEpoch(), c.want)
		}
		w.close()
	}
}

// TestIdleFilesAreClosedWhereDescriptorsRunOut: the bound may be above what the process may have.
func TestIdleFilesAreClosedWhereDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	w.config.SegmentBytes = 400
	w.fill(w.open(), 8, w.clock.Now())
	w.close()
	var open atomic.Int64
	d.OnOp(func(op simdisk.Op) error {
		switch {
		case !strings.HasSuffix(op.Name, segment.SuffixData) && !strings.HasSuffix(op.Name, segment.SuffixIndex):
		case op.Kind == simdisk.Close:
			open.Add(-1)
		case op.Kind == simdisk.Open || op.Kind == simdisk.OpenReadWrite:
			if open.Add(1) > 4 {
				open.Add(-1)
				return syscall.EMFILE
			}
		}
		return nil
	})
	if got := readEverything(t, w.open(), 0); len(got) != 8 {
		t.Errorf("%d batches", len(got))
	}
	d.OnOp(nil)
}

// TestAnIndexWhoseSyncFailedIsWrittenAnew: what of it is on disk isn't known. The log takes writes all the same.
func TestAnIndexWhoseSyncFailedIsWrittenAnew(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	l := w.open()
	want := []batch.Batch{put(t, l, makeBatch(t, 0, 1, 1000)), put(t, l, makeBatch(t, 1, 1, 1000))}
	var fresh bool
	d.OnOp(func(op simdisk.Op) error {
		switch {
		case op.Kind == simdisk.Sync && strings.HasSuffix(op.Name, segment.SuffixIndex):
			return syscall.EIO
		case op.Kind == simdisk.Rename && strings.HasSuffix(op.NewName, segment.SuffixIndex):
			fresh = true
		}
		return nil
	})
	w.clock.Advance(indexSyncInterval)
	d.OnOp(nil)
	if !fresh {
		t.Error("the index stays as the failed sync has left it")
	}
	want = append(want, put(t, l, makeBatch(t, 2, 1, 1000)))
	if l.Err() != nil {
		t.Error(l.Err())
	}
	sameBatches(t, readEverything(t, l, 0), want)
	w.close()
	sameBatches(t, readEverything(t, w.open(), 0), want)
}

// TestALostIDIsTakenFromTheCheckpoint: without one nobody can tell whose the directory is.
func TestALostIDIsTakenFromTheCheckpoint(t *testing.T) {
	t.Parallel()
	for _, checkpoint := range []bool{true, false} {
		w, d := simWorld(t)
		w.closeMayFail = true
		want := put(t, w.open(), makeBatch(t, 0, 3, 1000))
		w.close()
		must(t, d.Remove(filepath.Join(testDir, idName)))
		if !checkpoint {
			must(t, d.Remove(filepath.Join(testDir, snapshotName)))
		}
		l, err := w.tryOpen()
		var bad *CorruptionError
		switch {
		case !checkpoint && (!errors.As(err, &bad) || bad.Segment != idName):
			t.Errorf("without a checkpoint: %v", err)
		case checkpoint && err != nil:
			t.Error(err)
		case checkpoint:
			sameBatches(t, readEverything(t, l, 0), []batch.Batch{want})
			if id, readErr := readID(d, testDir); readErr != nil || id != w.part.ID {
				t.Errorf("id %s: %v", id, readErr)
			}
		}
		w.close()
	}
}

// TestACheckpointOfWhatHasGoneIsNoFailure: a checkpoint takes a while, in which its segment may end and be removed.
func TestACheckpointOfWhatHasGoneIsNoFailure(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	l := w.open()
	w.fill(l, 3, w.clock.Now())
	l.writing.Lock()
	l.mu.Lock()
	s := l.mu.active()
	c := l.capture(s)
	l.mu.Unlock()
	l.writing.Unlock()
	if err := l.rollIf(func(*segment.Segment) bool { return true }); err != nil {
		t.Fatal(err)
	}
	w.fill(l, 1, w.clock.Now())
	if _, err := l.Trim(l.Offsets().End - 1); err != nil {
		t.Fatal(err)
	}
	if err := l.writeSnapshot(c, s); err != nil {
		t.Error(err)
	}
	w.set.work.Wait()
	if s, err := l.readSnapshot(); err != nil || s.start != l.Offsets().Start || s.base <= c.base {
		t.Errorf("snapshot %+v, %v", s, err)
	}
}
