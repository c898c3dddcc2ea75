package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// dirtyWorld is a log of small dirty segments, of which each key is in all.
func dirtyWorld(t *testing.T, batches int) (*world, *Log, compactionPlan) {
	t.Helper()
	w, _ := simWorld(t)
	c := &w.config
	c.Sync, c.Compact, c.Delete, c.SegmentBytes, c.MinCleanableRatio = SyncNone, true, false, 300, 0
	l := w.open()
	for i := range batches {
		put(t, l, keyed(t, w.clock.Now(), fmt.Sprint("value ", i), "a", "b", fmt.Sprint("key ", i)))
	}
	w.set.work.Wait()
	plan, _ := l.planCompaction(w.clock.Now())
	if !plan.due {
		t.Fatal("there is nothing to compact")
	}
	return w, l, plan
}

func TestACompactionHoldsNoLockWhileItReadsAndWrites(t *testing.T) {
	t.Parallel()
	_, l, plan := dirtyWorld(t, 10)
	size, paced := int64(0), int64(0)
	for _, s := range plan.segments {
		size += s.Size()
	}
	err := l.compact(t.Context(), plan, compactionLimits{MapBytes: 1 << 20, MapLoad: 0.9, Pace: func(bytes int) error {
		paced += int64(bytes)
		if !l.structure.TryLock() {
			t.Error("trims wait for a compaction")
			return nil
		}
		l.structure.Unlock()
		if !l.writing.TryLock() {
			t.Error("appends wait for a compaction")
			return nil
		}
		l.writing.Unlock()
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if paced <= 2*size {
		t.Errorf("%d bytes were paced; %d were read twice, and some written", paced, size)
	}
}

func TestACompactionThatIsEndedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	for after := 0; ; after++ {
		w, l, plan := dirtyWorld(t, 10)
		want := contents(t, l)
		left := after
		err := l.compact(t.Context(), plan, compactionLimits{MapBytes: 1 << 20, MapLoad: 0.9, Pace: func(int) error {
			if left--; left < 0 {
				return stop
			}
			return nil
		}})
		names, listErr := w.fs.List(testDir)
		must(t, listErr)
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, segment.TempSuffix) }) {
			t.Fatalf("ended at step %d: %v", after, names)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
		if got := contents(t, l); len(got) > len(want) || l.Err() != nil {
			t.Fatalf("ended at step %d: %v, %v", after, got, l.Err())
		}
		w.close()
	}
}

func TestMergedSegmentsStayWithinTheirBounds(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"segment.bytes":       func(c *Config) { c.SegmentBytes = 1200 },
		"segment.index.bytes": func(c *Config) { c.SegmentBytes, c.IndexBytes = 1<<20, 4*segment.EntrySize },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, l, _ := dirtyWorld(t, 30)
			before := len(bases(l))
			change(&w.config)
			l.SetConfig(w.config)
			plan, _ := l.planCompaction(w.clock.Now())
			must(t, l.compact(t.Context(), plan, compactionLimits{MapBytes: 1 << 20, MapLoad: 0.9, Pace: func(int) error { return nil }}))
			l.mu.Lock()
			segments := l.mu.segments
			l.mu.Unlock()
			if len(segments) < 4 || len(segments) >= before {
				t.Errorf("%d segments became %d", before, len(segments))
			}
			for _, s := range segments {
				if s.Size() > w.config.SegmentBytes || s.IndexBytes() > w.config.IndexBytes {
					t.Errorf("segment %d has %d bytes, %d in its index", s.Base, s.Size(), s.IndexBytes())
				}
			}
		})
	}
}

func TestPartitionsOfUnknownTopicsAreSweptAway(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	put(t, w.open(), makeBatch(t, 0, 3, 1000))
	w.close()
	set, err := OpenSet(w.fs, w.dir, w.options())
	must(t, err)
	must(t, set.Sweep(func(string, int32, TopicID) bool { return false }))
	must(t, set.Close(t.Context()))
	for _, dir := range []string{"data/topics", "data/deleted"} {
		if names, err := d.List(dir); err != nil || len(names) != 0 {
			t.Errorf("left in %s: %v %v", dir, names, err)
		}
	}
}

// TestADeletedLogTouchesNothingOfTheNext: its directory's name may be another log's by then.
func TestADeletedLogTouchesNothingOfTheNext(t *testing.T) {
	t.Parallel()
	w := compactedWorld(t)
	old := w.open()
	x := txn{t: t, l: old, id: 3}
	x.send(1)
	x.end(false)
	w.set.work.Wait()
	must(t, w.set.Delete(w.part.ID))
	w.set.maintenance.mu.Lock()
	planned := len(w.set.maintenance.mu.places) + len(w.set.maintenance.mu.ready)
	w.set.maintenance.mu.Unlock()
	if planned != 0 {
		t.Errorf("the cleaner keeps %d logs in mind", planned)
	}
	again := w.part
	again.ID = TopicID{8}
	l, err := w.set.Open(again, w.config, 0)
	must(t, err)
	put(t, l, makeBatch(t, 0, 1, 1000))
	w.set.work.Wait()
	before, err := w.fs.List(testDir)
	must(t, err)
	must(t, w.fs.Remove(filepath.Join(testDir, epochsName)))
	old.mu.Lock()
	old.mu.epochs.dirty = true
	c := &snapshot{swaps: old.mu.swaps, id: w.part.ID, end: 100}
	active := old.mu.active()
	old.mu.Unlock()
	must(t, old.saveEpochs())
	must(t, old.saveAborted())
	_ = old.writeSnapshot(c, active)
	after, err := w.fs.List(testDir)
	must(t, err)
	before = slices.DeleteFunc(before, func(n string) bool { return n == epochsName })
	if !slices.Equal(after, before) {
		t.Errorf("%v, then %v", before, after)
	}
}

// TestAReplacementThatWasCutShort: from its announcement on it is finished by the next start, which need not read the log for
// that. If a new file doesn't verify, and none is in place yet, what was to be replaced stays.
func TestAReplacementThatWasCutShort(t *testing.T) {
	t.Parallel()
	for _, rotten := range []bool{false, true} {
		w, d := simWorld(t)
		w.closeMayFail = true
		c := &w.config
		c.Sync, c.Compact, c.Delete, c.SegmentBytes, c.MinCleanableRatio, c.ProducerExpiration = SyncNone, true, false, 300, 0, -1
		l := w.open()
		for i := range 10 {
			put(t, l, keyed(t, w.clock.Now(), fmt.Sprint("value ", i), "a", "b"))
			if i == 5 {
				abortOne(t, l, 0)
			}
		}
		want := len(contents(t, l))
		w.close()
		c.SegmentBytes = 4000
		l = w.open()
		d.OnOp(func(op simdisk.Op) error {
			if op.Kind == simdisk.Rename && strings.HasSuffix(op.Name, segment.SuffixData+segment.CleanSuffix) {
				return simdisk.ErrPowerCut
			}
			return nil
		})
		plan, _ := l.planCompaction(w.clock.Now())
		limits := compactionLimits{MapBytes: 1 << 20, MapLoad: 0.9, Pace: func(int) error { return nil }}
		if err := l.compact(t.Context(), plan, limits); !errors.Is(err, simdisk.ErrPowerCut) {
			t.Fatal(err)
		}
		w.close()
		d = d.Kill()
		w.fs = d
		if rotten {
			must(t, d.FlipBit(filepath.Join(testDir, segment.FileName(0, segment.SuffixData)+segment.CleanSuffix), 800))
		}
		w.epoch++
		l = w.open()
		if n := testutil.ToFloat64(w.set.metrics.recoveredBytes); n != 0 {
			t.Errorf("rotten %v: %v bytes were examined", rotten, n)
		}
		got, segments := len(contents(t, l)), l.Segments()
		if rotten && (got != want || segments < 5) || !rotten && (got >= want || segments != 2) {
			t.Errorf("rotten %v: %d of %d records in %d segments", rotten, got, want, segments)
		}
		if _, err := d.Stat(filepath.Join(testDir, segment.FileName(0, segment.SuffixTxnIndex))); (err == nil) == rotten {
			t.Errorf("rotten %v: the aborted transaction: %v", rotten, err)
		}
		w.close()
	}
}

func TestASegmentThatTurnsOutDamagedIsNotReplaced(t *testing.T) {
	t.Parallel()
	_, l, plan := dirtyWorld(t, 10)
	plan.segments[1].Lose(segment.Damage{From: 1, To: 2, First: 3, Next: 4})
	if err := l.swapSegments(&replacement{old: plan.segments}); !errors.Is(err, errStale) {
		t.Error(err)
	}
}

// TestWhatWasDeletedDoesNotComeBack: a tombstone is not gone before everything that it supersedes, however little that is of a
// segment.
func TestWhatWasDeletedDoesNotComeBack(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	c := &w.config
	c.Compact, c.Delete, c.SegmentBytes, c.MinCleanableRatio, c.DeleteRetention = true, false, 1250, 0, time.Second
	l := w.open()
	keys := []string{"a"}
	for i := range 60 {
		keys = append(keys, fmt.Sprint("key ", i))
	}
	pass := func(b batch.Batch) {
		t.Helper()
		put(t, l, b)
		must(t, l.rollIf(func(*segment.Segment) bool { return true }))
		plan, _ := l.planCompaction(w.clock.Now())
		must(t, l.compact(t.Context(), plan, compactionLimits{MapBytes: 1 << 20, MapLoad: 0.9, Pace: func(int) error { return nil }}))
		w.clock.Advance(time.Minute)
	}
	deleted := func() (list []string) {
		for _, r := range contents(t, l) {
			if strings.Contains(r, " a=") {
				list = append(list, r)
			}
		}
		return list
	}
	pass(keyed(t, w.clock.Now(), "1", keys...))
	pass(keyed(t, w.clock.Now(), "", "a"))
	if got := deleted(); !slices.Equal(got, []string{"61 a="}) {
		t.Errorf("once the tombstone was compacted: %v", got)
	}
	for range 3 {
		pass(keyed(t, w.clock.Now(), "2", "z"))
	}
	if got := deleted(); len(got) != 0 {
		t.Errorf("once the tombstone is gone: %v", got)
	}
}
