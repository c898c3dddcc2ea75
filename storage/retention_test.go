package storage

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// idle waits until nothing is done in the background that is due. The clock must not be advanced meanwhile.
func (m *maintenance) idle() { m.work.Wait() }

// everyMinute is maintenance that sweeps every minute.
func everyMinute() Maintenance {
	return Maintenance{
		RetentionInterval: time.Minute, InitialDelay: time.Minute, Compact: true, CompactionThreads: 1,
		MapBytes: 1 << 20, MapLoad: 0.9, Backoff: 15 * time.Second,
	}
}

// pass lets time pass, step by step, and what is due then happen.
func (w *world) pass(d time.Duration) {
	for step := min(d, 100*time.Millisecond); d > 0; d -= step {
		w.clock.Advance(min(step, d))
		w.set.maintenance.idle()
	}
}

// bases are those of a log's segments.
func bases(l *Log) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []int64
	for _, s := range l.mu.segments {
		list = append(list, s.Base)
	}
	return list
}

// upkeepWorld is a world on a simulated disk whose logs are looked after.
func upkeepWorld(tb testing.TB, m func() Maintenance) *world {
	tb.Helper()
	disk := simdisk.New(1)
	if err := errors.Join(disk.MkdirAll("data", 0o755), disk.SyncDir(".")); err != nil {
		tb.Fatal(err)
	}
	w := newWorld(tb, disk, "data")
	w.maintenance = m
	return w
}

// fill appends batches of 10 records with the time given; each is about 300 bytes.
func (w *world) fill(l *Log, batches int, at time.Time) {
	w.tb.Helper()
	for i := range batches {
		put(w.tb, l, makeBatch(w.tb, i, 10, at.UnixMilli()))
	}
}

func TestRetentionByTimeRemovesTheOldestSegments(t *testing.T) {
	t.Parallel()
	w := upkeepWorld(t, everyMinute)
	w.config.SegmentBytes, w.config.RetentionAge, w.config.RetentionBytes = 700, time.Hour, -1
	l := w.open()
	now := w.clock.Now()
	w.fill(l, 4, now.Add(-2*time.Hour))
	w.fill(l, 2, now)
	w.fill(l, 2, now.Add(-2*time.Hour)) // old, but not among the oldest
	w.fill(l, 1, now)
	before := bases(l)
	if len(before) < 5 {
		t.Fatal(before)
	}
	w.pass(time.Minute)
	if got := l.Offsets().Start; got != 40 || !slices.Equal(bases(l), before[slices.Index(before, 40):]) || w.starts[w.part] != 40 {
		t.Errorf("start %d (durable %d), segments %v of %v", got, w.starts[w.part], bases(l), before)
	}
	w.pass(time.Hour + time.Minute)
	o := l.Offsets()
	if o.Start != o.End || o.End != 90 || len(bases(l)) != 1 {
		t.Errorf("all of it is old now: %+v, %v", o, bases(l))
	}
	put(t, l, makeBatch(t, 1, 10, w.clock.Now().UnixMilli()))
	if got := readEverything(t, l, 90); len(got) != 1 || got[0].BaseOffset() != 90 {
		t.Errorf("the log doesn't go on: %v", got)
	}
}

func TestRetentionBySizeKeepsAtLeastTheLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{-1, 0, 1, 500, 1000, 1500, 1 << 40} {
		w := upkeepWorld(t, everyMinute)
		w.config.SegmentBytes, w.config.RetentionAge, w.config.RetentionBytes = 700, -1, limit
		l := w.open()
		w.fill(l, 9, w.clock.Now().Add(-100*24*time.Hour))
		all := l.Size()
		w.pass(time.Minute)
		size, o := l.Size(), l.Offsets()
		switch {
		case limit < 0 || limit >= all:
			if size != all || o.Start != 0 {
				t.Errorf("limit %d: %d bytes of %d are left", limit, size, all)
			}
		case limit == 0:
			if size != 0 || o.Start != o.End {
				t.Errorf("limit 0: %d bytes are left, %+v", size, o)
			}
		default:
			if size < limit || size >= limit+700 || o.Start != bases(l)[0] {
				t.Errorf("limit %d: %d bytes of %d are left, %+v", limit, size, all, o)
			}
		}
		w.close()
	}
}

func TestRetentionSparesLogsThatAreOnlyCompactedOrKeepEverything(t *testing.T) {
	t.Parallel()
	for _, compact := range []bool{true, false} {
		w := upkeepWorld(t, everyMinute)
		w.config.SegmentBytes, w.config.RetentionAge, w.config.RetentionBytes = 700, time.Millisecond, 0
		w.config.Compact, w.config.Delete, w.config.MinCleanableRatio = compact, false, 1
		l := w.open()
		w.fill(l, 5, w.clock.Now().Add(-time.Hour))
		w.pass(2 * time.Minute)
		if l.Offsets().Start != 0 {
			t.Error("records were removed")
		}
		c := w.config
		c.Delete = true
		l.SetConfig(c) // and now, soon
		w.pass(time.Second)
		if o := l.Offsets(); o.Start != o.End {
			t.Errorf("compact %v: %+v", compact, o)
		}
		w.close()
	}
}

func TestRetentionUsesTheEndOfSegmentsWithoutTimes(t *testing.T) {
	t.Parallel()
	w := upkeepWorld(t, everyMinute)
	w.config.SegmentBytes, w.config.RetentionAge = 400, time.Hour
	l := w.open()
	for i := range 3 {
		put(t, l, makeBatch(t, i, 10, -100)) // -100 and up to -91 count as none
		w.clock.Advance(40 * time.Minute)
	}
	w.set.maintenance.idle()
	if got := l.Offsets().Start; got != 10 {
		t.Errorf("start %d: the first segment ended %v ago, the second 40 minutes", got, 80*time.Minute)
	}
}

func TestSweepEndsSegmentsThatAreOld(t *testing.T) {
	t.Parallel()
	w := upkeepWorld(t, everyMinute)
	w.config.SegmentAge, w.config.RetentionAge = 10*time.Minute, -1
	l := w.open()
	w.pass(time.Hour)
	if len(bases(l)) != 0 {
		t.Error("an empty log got a segment")
	}
	put(t, l, makeBatch(t, 1, 1, 5)) // its own time is long ago, but it came now
	w.pass(9 * time.Minute)
	if len(bases(l)) != 1 {
		t.Error("ended too soon")
	}
	w.pass(2 * time.Minute)
	if !slices.Equal(bases(l), []int64{0, 1}) {
		t.Errorf("segments %v", bases(l))
	}
	w.pass(time.Hour)
	if !slices.Equal(bases(l), []int64{0, 1}) {
		t.Errorf("an empty segment was ended: %v", bases(l))
	}
	w.close()
	l = w.open()
	if !slices.Equal(bases(l), []int64{0, 1}) {
		t.Errorf("after a restart: %v", bases(l))
	}
}

func TestReadersFinishWhatRetentionRemoves(t *testing.T) {
	t.Parallel()
	w := upkeepWorld(t, everyMinute)
	w.config.SegmentBytes, w.config.RetentionBytes, w.config.FileDeleteDelay = 700, 700, 5*time.Minute
	l := w.open()
	w.fill(l, 6, w.clock.Now())
	want := readEverything(t, l, 0)[0]
	r, err := l.Read(0, ReadOptions{MaxBytes: 1, WholeFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Records.Release()
	w.pass(2 * time.Minute)
	if _, err = l.Read(0, ReadOptions{MaxBytes: 1, WholeFirst: true}); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Error(err)
	}
	first := "data/topics/orders/0/" + segment.FileName(0, segment.SuffixData)
	if _, err = w.fs.Stat(first); err != nil {
		t.Errorf("the file is gone before its delay: %v", err)
	}
	w.pass(6 * time.Minute)
	if _, err = w.fs.Stat(first); err == nil {
		t.Error("the file is still there")
	}
	if got, err := r.Records.AppendTo(nil); err != nil || string(got) != string(want) {
		t.Errorf("%q %v", got, err)
	}
}

func TestRetentionSurvivesACrashBeforeEveryOperation(t *testing.T) {
	t.Parallel()
	for at := range 60 {
		v := newVoyage(t, uint64(at))
		w := v.world
		w.maintenance = everyMinute
		w.config.SegmentBytes, w.config.RetentionBytes, w.config.Sync = 1000, 1500, SyncEveryWrite
		w.config.FileDeleteDelay = []time.Duration{0, time.Second, time.Hour}[at%3]
		v.log = w.open()
		for range 30 {
			v.append()
		}
		v.cutAt(at)
		durable := max(v.acked, v.log.Offsets().HighWatermark)
		w.pass(70 * time.Second)
		v.start = v.log.Offsets().Start
		v.restart(v.disk.Crash(v.rng), durable)
		if n := bases(v.log)[0]; n > v.start {
			t.Fatalf("crash %d: the first segment is %d, the start %d", at, n, v.start)
		}
		w.pass(2 * time.Minute)
		w.close()
		w.open()
		names, err := v.disk.List("data/topics/orders/0")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if base, _, ok := segment.ParseFileName(name); ok && base < bases(v.log)[0] {
				t.Fatalf("crash %d: %s is left over", at, name)
			}
		}
		w.close()
	}
}

// A producer that writes old records without a pause must not keep the segments before the last one from being removed.
func TestRetentionRemovesWhatIsAcknowledgedWhileMoreIsBeingWritten(t *testing.T) {
	t.Parallel()
	w := upkeepWorld(t, everyMinute)
	w.config.SegmentBytes, w.config.RetentionAge, w.config.RetentionBytes = 700, time.Hour, -1
	l := w.open()
	old := w.clock.Now().Add(-2 * time.Hour)
	w.fill(l, 5, old)
	g := newGate(w.fs.(*simdisk.Disk)) //nolint:forcetypeassert // it is
	g.set(true)
	a := appendOnly(t, l, makeBatch(t, 5, 1, old.UnixMilli()))
	<-g.waiting
	all := bases(l)
	last := all[len(all)-1]
	if err := l.retain(w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	if got := bases(l); len(all) < 2 || len(got) != 1 || l.Offsets().Start != last {
		t.Errorf("of %v are left %v, start %d", all, got, l.Offsets().Start)
	}
	g.set(false)
	g.release <- nil
	if err := a.Commit.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.retain(w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	if o := l.Offsets(); o.Start != o.End {
		t.Errorf("once it is acknowledged: %+v", o)
	}
}
