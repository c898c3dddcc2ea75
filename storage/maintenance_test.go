package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// keyed is a batch of records with the same value for each key.
func keyed(tb testing.TB, at time.Time, value string, keys ...string) batch.Batch {
	tb.Helper()
	b := batch.NewBuilder(batch.NoProducer())
	for _, key := range keys {
		v := []byte(value)
		if value == "" {
			v = nil
		}
		b.Append(at.UnixMilli(), []byte(key), v)
	}
	out, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// contents lists the records of a log as "offset key=value".
func contents(tb testing.TB, l *Log) []string {
	tb.Helper()
	var list []string
	for _, b := range readEverything(tb, l, l.Offsets().Start) {
		rs, err := b.Records(1 << 20)
		if err != nil {
			tb.Fatal(err)
		}
		for rs.Next() {
			r := rs.Record()
			list = append(list, fmt.Sprintf("%d %s=%s", b.BaseOffset()+int64(r.OffsetDelta), r.Key, r.Value))
		}
		rs.Release()
	}
	return list
}

func compactedWorld(tb testing.TB) *world {
	tb.Helper()
	w := upkeepWorld(tb, everyMinute)
	w.config.Compact, w.config.Delete = true, false
	w.config.MinCleanableRatio, w.config.SegmentAge = 0.01, 200*time.Millisecond
	return w
}

func TestQuietTopicIsCompactedWithinASecond(t *testing.T) {
	t.Parallel()
	w := compactedWorld(t)
	l := w.open()
	for _, v := range []string{"1", "2", "3"} {
		put(t, l, keyed(t, w.clock.Now(), v, "a", "b"))
	}
	w.pass(time.Second)
	if got, want := contents(t, l), []string{"4 a=3", "5 b=3"}; !slices.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
	put(t, l, keyed(t, w.clock.Now(), "", "a"))
	w.pass(2 * time.Second)
	if got, want := contents(t, l), []string{"5 b=3", "6 a="}; !slices.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
	w.set.maintenance.mu.Lock()
	waiting := len(w.set.maintenance.mu.queue)
	w.set.maintenance.mu.Unlock()
	if waiting != 0 || w.clock.Pending() != 1 { // the sweep's timer
		t.Errorf("a log at rest keeps %d deadlines and %d timers", waiting, w.clock.Pending())
	}
}

func TestDirtyLogIsCompactedAfterARestart(t *testing.T) {
	t.Parallel()
	w := compactedWorld(t)
	w.config.Compact = false
	l := w.open()
	for _, v := range []string{"1", "2"} {
		put(t, l, keyed(t, w.clock.Now(), v, "a"))
		w.clock.Advance(time.Second)
	}
	w.config.SegmentAge = time.Hour
	put(t, l, keyed(t, w.clock.Now(), "3", "a"))
	w.close()
	w.config.Compact = true
	l = w.open()
	w.pass(time.Second)
	if got, want := contents(t, l), []string{"1 a=2", "2 a=3"}; !slices.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
}

func TestCompactionWaitsForTheLagAndTheRatio(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set   func(c *Config)
		after time.Duration // when it is compacted
	}{
		"at once":       {func(*Config) {}, 300 * time.Millisecond},
		"min lag":       {func(c *Config) { c.MinCompactionLag = 10 * time.Second }, 10 * time.Second},
		"ratio":         {func(c *Config) { c.MinCleanableRatio = 1 }, 0},
		"max lag":       {func(c *Config) { c.MinCleanableRatio, c.MaxCompactionLag = 1, 20*time.Second }, 20 * time.Second},
		"max lag rolls": {func(c *Config) { c.SegmentAge, c.MaxCompactionLag = time.Hour, 20*time.Second }, 20 * time.Second},
		"min lag wins":  {func(c *Config) { c.MinCompactionLag, c.MaxCompactionLag = 30*time.Second, 30*time.Second }, 30 * time.Second},
		"not compacted": {func(c *Config) { c.Compact = false }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := compactedWorld(t)
			c.set(&w.config)
			l := w.open()
			put(t, l, keyed(t, w.clock.Now(), "1", "a"))
			put(t, l, keyed(t, w.clock.Now(), "2", "a"))
			if c.after == 0 {
				w.pass(50 * time.Second)
				if len(contents(t, l)) != 2 {
					t.Error("it was compacted")
				}
				return
			}
			w.pass(c.after - 200*time.Millisecond)
			if len(contents(t, l)) != 2 {
				t.Error("it was compacted too soon")
			}
			w.pass(1500 * time.Millisecond)
			if got := contents(t, l); !slices.Equal(got, []string{"1 a=2"}) {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestChangedConfigurationIsPickedUpSoon(t *testing.T) {
	t.Parallel()
	w := compactedWorld(t)
	c := w.config
	w.config.Compact = false
	l := w.open()
	for _, v := range []string{"1", "2"} {
		put(t, l, keyed(t, w.clock.Now(), v, "a"))
	}
	w.pass(5 * time.Second)
	l.SetConfig(c)
	w.pass(time.Second)
	if got, want := contents(t, l), []string{"1 a=2"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestCompactionStopsBeforeOpenTransactions(t *testing.T) {
	t.Parallel()
	w := compactedWorld(t)
	l := w.open()
	put(t, l, keyed(t, w.clock.Now(), "1", "a"))
	m := batch.Meta{ProducerID: 5, Transactional: true}
	b := batch.NewBuilder(m)
	b.Append(w.clock.Now().UnixMilli(), []byte("a"), []byte("2"))
	open, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Append(open, AppendOptions{TransactionVerified: true})
	if err != nil || a.Commit.Wait(t.Context()) != nil {
		t.Fatal(err)
	}
	put(t, l, keyed(t, w.clock.Now(), "3", "b"))
	w.pass(3 * time.Second)
	put(t, l, keyed(t, w.clock.Now(), "4", "b"))
	w.pass(3 * time.Second)
	if got := contents(t, l); len(got) != 4 {
		t.Fatalf("compacted across an open transaction: %v", got)
	}
	put(t, l, batch.ControlBatch(5, 0, batch.Marker{Commit: true}, w.clock.Now().UnixMilli()))
	w.pass(3 * time.Second)
	var keys []string
	for _, r := range contents(t, l) {
		if r[2] == 'a' || r[2] == 'b' {
			keys = append(keys, r)
		}
	}
	if want := []string{"1 a=2", "3 b=4"}; !slices.Equal(keys, want) {
		t.Errorf("got %v, want %v", keys, want)
	}
}

func TestDirtiestLogComesFirst(t *testing.T) {
	t.Parallel()
	w := compactedWorld(t)
	var order []string
	var mu sync.Mutex
	w.open()
	logs := map[int32]*Log{}
	for n := range int32(3) {
		p := Partition{Topic: "t", ID: TopicID{9}, Number: n}
		c := w.config
		c.Compact = false
		l, err := w.set.Open(p, c, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			put(t, l, keyed(t, w.clock.Now(), fmt.Sprint(i), "a", "b", "c"))
			w.clock.Advance(time.Second)
		}
		put(t, l, keyed(t, w.clock.Now(), "end", "x"))
		logs[n] = l
	}
	w.set.maintenance.idle()
	for n, l := range logs { // the dirtier, the less is clean: 1 has no clean part, 0 and 2 have
		c := *l.config.Load()
		c.Compact = true
		l.config.Store(&c)
		if n == 1 {
			continue
		}
		plan, _ := l.planCompaction(w.clock.Now())
		plan.segments = plan.segments[:1+n/2]
		if err := l.compact(t.Context(), plan, compactionLimits{MapBytes: 1 << 20, MapLoad: 0.9, Pace: func(int) error { return nil }}); err != nil {
			t.Fatal(err)
		}
	}
	m := w.set.maintenance
	m.mu.Lock()
	for _, l := range logs {
		m.mu.ready[l] = struct{}{}
	}
	m.mu.compacting++
	m.mu.Unlock()
	for {
		l, _ := m.dirtiest()
		if l == nil {
			break
		}
		mu.Lock()
		order = append(order, l.part.String())
		mu.Unlock()
	}
	if want := []string{"t-1", "t-0", "t-2"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestCompactionMergesSmallSegments(t *testing.T) {
	t.Parallel()
	w := compactedWorld(t)
	w.config.SegmentAge = 0
	w.config.SegmentBytes = 300
	w.config.MinCleanableRatio = 1
	l := w.open()
	for i := range 20 {
		put(t, l, keyed(t, w.clock.Now(), fmt.Sprint(i), fmt.Sprint("key ", i%15)))
	}
	before := len(bases(l))
	c := w.config
	c.SegmentBytes, c.MinCleanableRatio = 1<<20, 0
	l.SetConfig(c)
	w.pass(time.Second)
	if n := len(bases(l)); before < 5 || n != 2 {
		t.Errorf("%d segments became %d: %v", before, n, bases(l))
	}
	want := contents(t, l)
	w.close()
	l = w.open()
	if got := contents(t, l); !slices.Equal(got, want) || len(bases(l)) != 2 {
		t.Errorf("after a restart: %v, want %v", got, want)
	}
}

func TestFullMapEndsThePassAndTheNextOneGoesOn(t *testing.T) {
	t.Parallel()
	w := compactedWorld(t)
	w.maintenance = func() Maintenance {
		m := everyMinute()
		m.MapBytes = 0 // the least: 57 keys
		return m
	}
	w.config.SegmentAge = 0
	l := w.open()
	for round := range 2 {
		for i := range 300 {
			put(t, l, keyed(t, w.clock.Now(), fmt.Sprint(round), fmt.Sprint("key ", i)))
		}
	}
	put(t, l, keyed(t, w.clock.Now(), "large", func() (many []string) {
		for i := range 100 {
			many = append(many, fmt.Sprint("key ", i))
		}
		return many
	}()...))
	if err := l.rollIf(func(*segment.Segment) bool { return true }); err != nil {
		t.Fatal(err)
	}
	w.pass(30 * time.Second)
	// What the one batch supersedes that has more keys than the map may stay; all else must be gone.
	got := contents(t, l)
	if len(got) < 300 || len(got) > 300+100 {
		t.Errorf("%d records", len(got))
	}
	if plan, _ := l.planCompaction(w.clock.Now()); plan.due {
		t.Errorf("there is more to do: %+v", plan)
	}
}

// A batch with more tombstones than there is memory for keys: what some of them delete stays, so they must stay too.
func TestWhatATombstoneDeletesDoesNotComeBackThoughItsKeyDidNotFit(t *testing.T) {
	t.Parallel()
	w := compactedWorld(t)
	w.maintenance = func() Maintenance {
		m := everyMinute()
		m.MapBytes = 0 // the least: 57 keys
		return m
	}
	w.config.DeleteRetention = time.Second
	l := w.open()
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint("key ", i))
	}
	for i := range 4 {
		put(t, l, keyed(t, w.clock.Now(), "old", keys[i*25:i*25+25]...))
	}
	w.pass(5 * time.Second)
	put(t, l, keyed(t, w.clock.Now(), "", keys...))
	for i := range 10 {
		w.pass(5 * time.Second)
		put(t, l, keyed(t, w.clock.Now(), fmt.Sprint(i), "other"))
	}
	latest := map[string]string{}
	for _, r := range contents(t, l) {
		_, record, _ := strings.Cut(r, " ")
		key, value, _ := strings.Cut(record, "=")
		latest[key] = value
	}
	for _, key := range keys {
		if latest[key] != "" {
			t.Errorf("%s is back", key)
		}
	}
}

func TestRottenSegmentIsNeitherCompactedNorHidden(t *testing.T) {
	t.Parallel()
	for _, what := range []string{segment.SuffixData, segment.SuffixIndex} {
		w := compactedWorld(t)
		w.config.MinCleanableRatio = 1
		l := w.open()
		for i := range 10 {
			put(t, l, keyed(t, w.clock.Now(), fmt.Sprint(i), "a", "b"))
		}
		w.pass(time.Second)
		put(t, l, keyed(t, w.clock.Now(), "end", "a", "b"))
		w.close()
		l = w.open()
		disk := w.fs.(*simdisk.Disk) //nolint:forcetypeassert // it is
		if err := disk.FlipBit("data/topics/orders/0/"+segment.FileName(0, what), 8*150); err != nil && what == segment.SuffixData {
			t.Fatal(err)
		} else if err != nil {
			if err = disk.FlipBit("data/topics/orders/0/"+segment.FileName(0, what), 8*40); err != nil {
				t.Fatal(err)
			}
		}
		c := w.config
		c.MinCleanableRatio = 0
		l.SetConfig(c)
		w.pass(time.Minute)
		_, err := tryReadEverything(l, 0)
		switch what {
		case segment.SuffixData:
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("rot was hidden: %v", err)
			}
			if plan, _ := l.planCompaction(w.clock.Now()); len(plan.segments) != 0 {
				t.Errorf("%d segments from the damaged one on are to be compacted", len(plan.segments))
			}
		default:
			if err != nil {
				t.Error(err)
			}
			if got := contents(t, l)[0]; got != "20 a=end" {
				t.Errorf("an index that had rotted keeps the log from being compacted: %s", got)
			}
		}
		w.close()
	}
}

func TestScrubFindsRotBeforeAnyoneReads(t *testing.T) {
	t.Parallel()
	w := upkeepWorld(t, func() Maintenance {
		m := everyMinute()
		m.ScrubInterval, m.ScrubBytesPerSecond = time.Hour, 1e6
		return m
	})
	w.config.SegmentBytes, w.config.RetentionAge = 700, -1
	l := w.open()
	w.fill(l, 6, w.clock.Now())
	w.close()
	l = w.open()
	disk := w.fs.(*simdisk.Disk) //nolint:forcetypeassert // it is
	if err := disk.FlipBit("data/topics/orders/0/"+segment.FileName(20, segment.SuffixData), 8*100); err != nil {
		t.Fatal(err)
	}
	scrub := func() {
		w.clock.Advance(time.Hour)
		for { // the rate makes it wait for the clock
			w.set.maintenance.mu.Lock()
			busy := w.set.maintenance.mu.scrubbing || w.set.maintenance.mu.looking
			w.set.maintenance.mu.Unlock()
			if !busy {
				return
			}
			w.clock.Advance(time.Millisecond)
		}
	}
	scrub()
	scrub()
	var damaged []int64
	for _, s := range l.mu.segments {
		if len(s.Damages()) > 0 {
			damaged = append(damaged, s.Base)
		}
	}
	if !slices.Equal(damaged, []int64{20}) {
		t.Errorf("damage in %v", damaged)
	}
}

func TestPacerBoundsTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewManual(startTime)
		p := pacer{clock: c}
		var done atomic.Int64
		go func() {
			for range 10 {
				if p.pace(t.Context(), 1000, 10_000) != nil {
					return
				}
				done.Add(1)
			}
		}()
		for step := int64(1); step <= 10; step++ {
			synctest.Wait()
			if n := done.Load(); n != step {
				t.Fatalf("%d went through in %d tenths of a second", n, step)
			}
			c.Advance(100 * time.Millisecond)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.pace(ctx, 1, 0); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
