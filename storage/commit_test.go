package storage

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// gate holds back syncs of data files until it is opened.
type gate struct {
	mu      sync.Mutex
	closed  bool
	waiting chan struct{} // one token for each sync that has arrived
	release chan error    // what each gets
}

func newGate(d *simdisk.Disk) *gate {
	g := &gate{waiting: make(chan struct{}, 100), release: make(chan error)}
	d.OnOp(func(op simdisk.Op) error {
		g.mu.Lock()
		closed := g.closed
		g.mu.Unlock()
		if op.Kind != simdisk.Sync || !closed || op.Name[len(op.Name)-4:] != ".log" {
			return nil
		}
		g.waiting <- struct{}{}
		return <-g.release
	})
	return g
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
}

func appendOnly(tb testing.TB, l *Log, b batch.Batch) Appended {
	tb.Helper()
	a, err := l.Append(b, AppendOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func isDone(c Commit) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

func TestAppendsThatArriveDuringASyncShareTheNext(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	l := w.open()
	put(t, l, makeBatch(t, 0, 1, 1000))
	g := newGate(d)
	g.set(true)
	first := appendOnly(t, l, makeBatch(t, 1, 1, 1000))
	<-g.waiting // its sync is under way
	var rest []Commit
	for i := range 10 {
		rest = append(rest, appendOnly(t, l, makeBatch(t, 2+i, 1, 1000)).Commit)
	}
	if o := l.Offsets(); o.HighWatermark != 1 || o.End != 12 {
		t.Fatalf("before the sync: %+v", o)
	}
	if r, err := l.Read(1, ReadOptions{MaxBytes: 1000, WholeFirst: true}); err != nil || r.Records != nil {
		t.Fatalf("unsynced records are served: %v", err)
	}
	g.release <- nil
	<-first.Commit.Done()
	<-g.waiting
	if isDone(rest[0]) {
		t.Fatal("acknowledged before its sync")
	}
	g.release <- nil
	for _, c := range rest {
		if err := c.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	g.set(false)
	if o := l.Offsets(); o.HighWatermark != 12 {
		t.Fatalf("after the sync: %+v", o)
	}
	if len(g.waiting) != 0 {
		t.Fatal("another sync")
	}
	if err := rest[0].Err(); err != nil {
		t.Fatal(err)
	}
}

func TestADuplicateIsAnsweredNoEarlierThanTheBatchItself(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	l := w.open()
	g := newGate(d)
	g.set(true)
	b := batch.NewBuilder(batch.Meta{ProducerID: 7})
	b.Append(1000, nil, []byte("once"))
	first, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	again := append(batch.Batch(nil), first...)
	a := appendOnly(t, l, first)
	<-g.waiting
	for range 2 {
		dup := appendOnly(t, l, again)
		if !dup.Duplicate || dup.BaseOffset != 0 || dup.DuplicateTimestamp != 1000 || dup.Commit == nil || isDone(dup.Commit) {
			t.Fatalf("duplicate %+v", dup)
		}
		if dup.Commit != a.Commit {
			t.Fatal("waits for another sync")
		}
	}
	g.release <- nil
	if err := a.Commit.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if dup := appendOnly(t, l, again); !dup.Duplicate || dup.Commit != nil {
		t.Fatalf("duplicate of a durable batch: %+v", dup)
	}
	if o := l.Offsets(); o.End != 1 {
		t.Fatalf("%+v", o)
	}
	g.set(false)
}

// TestADuplicateWaitsForTheSyncOfItsBatch: one that is under way may have begun before the batch was written.
func TestADuplicateWaitsForTheSyncOfItsBatch(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	l := w.open()
	g := newGate(d)
	g.set(true)
	before := appendOnly(t, l, makeBatch(t, 0, 1, 1000))
	<-g.waiting
	b := batch.NewBuilder(batch.Meta{ProducerID: 7})
	b.Append(1000, nil, []byte("once"))
	once, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	again := append(batch.Batch(nil), once...)
	a, dup := appendOnly(t, l, once), appendOnly(t, l, again)
	if !dup.Duplicate || dup.Commit != a.Commit {
		t.Errorf("duplicate %+v waits for another sync than the batch, %+v", dup, a)
	}
	g.set(false)
	g.release <- nil
	for _, c := range []Commit{before.Commit, a.Commit, dup.Commit} {
		if err := c.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestADuplicateOfABatchThatFlushMessagesHasWaitWaitsToo(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	w.config.Sync, w.config.FlushMessages = SyncNone, 2
	l := w.open()
	g := newGate(d)
	g.set(true)
	b := batch.NewBuilder(batch.Meta{ProducerID: 7})
	b.Append(1000, nil, []byte("once"))
	b.Append(1000, nil, []byte("and again"))
	first, err := b.Build()
	must(t, err)
	again := append(batch.Batch(nil), first...)
	a := appendOnly(t, l, first)
	<-g.waiting
	if dup := appendOnly(t, l, again); !dup.Duplicate || dup.Commit == nil || dup.Commit != a.Commit {
		t.Errorf("duplicate %+v", dup)
	}
	g.release <- nil
	must(t, a.Commit.Wait(t.Context()))
	g.set(false)
	if dup := appendOnly(t, l, again); !dup.Duplicate || dup.Commit != nil {
		t.Errorf("duplicate of a durable batch: %+v", dup)
	}
}

func TestAFailedSyncMakesTheLogReadOnlyAndIsNotRetried(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	w.closeMayFail = true
	l := w.open()
	want := put(t, l, makeBatch(t, 0, 1, 1000))
	g := newGate(d)
	g.set(true)
	a := appendOnly(t, l, makeBatch(t, 1, 1, 1000))
	<-g.waiting
	b := appendOnly(t, l, makeBatch(t, 2, 1, 1000))
	g.release <- syscall.EIO
	for _, c := range []Commit{a.Commit, b.Commit} {
		if err := c.Wait(t.Context()); !errors.Is(err, ErrReadOnly) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("commit: %v", err)
		}
	}
	if _, err := l.Append(makeBatch(t, 3, 1, 1000), AppendOptions{}); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("append: %v", err)
	}
	if len(g.waiting) != 0 {
		t.Fatal("synced again")
	}
	sameBatches(t, readEverything(t, l, 0), []batch.Batch{want})
	g.set(false)
	w.close()
	w.epoch++
	l = w.open()
	put(t, l, makeBatch(t, 4, 1, 1000))
	if l.Err() != nil {
		t.Fatal(l.Err())
	}
}

func TestAFullDiskRefusesWritesAndTakesThemAgain(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	w.config.SegmentBytes = 4000
	l := w.open()
	var want []batch.Batch
	used, err := d.DiskUsage("data")
	if err != nil {
		t.Fatal(err)
	}
	_ = used
	for capacity := int64(3000); capacity < 9000; capacity += 777 {
		d.SetCapacity(capacity)
		for i := 0; ; i++ {
			b := makeBatch(t, i, 2, 1000)
			a, err := l.Append(b, AppendOptions{})
			if err != nil {
				if !errors.Is(err, ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("append on a full disk: %v", err)
				}
				break
			}
			if err := a.Commit.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			want = append(want, b)
		}
		sameBatches(t, readEverything(t, l, 0), want)
	}
	d.SetCapacity(0)
	want = append(want, put(t, l, makeBatch(t, 1000, 2, 1000)))
	sameBatches(t, readEverything(t, l, 0), want)
	w.close()
	sameBatches(t, readEverything(t, w.open(), 0), want)
}

func TestAShortWriteIsCutBack(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	l := w.open()
	want := []batch.Batch{put(t, l, makeBatch(t, 0, 1, 1000))}
	d.OnOp(func(op simdisk.Op) error {
		if op.Kind == simdisk.Write {
			return &simdisk.ShortWrite{Bytes: 30, Err: syscall.EIO}
		}
		return nil
	})
	if _, err := l.Append(makeBatch(t, 1, 1, 1000), AppendOptions{}); !errors.Is(err, syscall.EIO) {
		t.Fatalf("append: %v", err)
	}
	d.OnOp(nil)
	if content := contentOf(t, d, "00000000000000000000.log"); len(content) != len(want[0]) {
		t.Fatalf("%d bytes are left", len(content))
	}
	want = append(want, put(t, l, makeBatch(t, 2, 1, 1000)))
	sameBatches(t, readEverything(t, l, 0), want)
}

func TestWhatIsSyncedWhenByMode(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		change  func(*Config)
		waits   bool          // the append waits for a sync
		visible bool          // readers see it at once
		after   time.Duration // when it is durable without anything else happening; 0: never
	}{
		{name: "every write", change: func(c *Config) { c.Sync = SyncEveryWrite }, waits: true},
		{name: "interval", change: func(c *Config) { c.Sync, c.SyncInterval = SyncInterval, time.Second }, visible: true, after: time.Second},
		{name: "none", change: func(c *Config) { c.Sync = SyncNone }, visible: true},
		{name: "none, flush.messages 1", change: func(c *Config) { c.Sync, c.FlushMessages = SyncNone, 1 }, waits: true},
		{name: "none, flush.messages 2", change: func(c *Config) { c.Sync, c.FlushMessages = SyncNone, 2 }, waits: true, visible: true},
		{name: "none, flush.messages 3", change: func(c *Config) { c.Sync, c.FlushMessages = SyncNone, 3 }, visible: true},
		{name: "none, flush.ms", change: func(c *Config) { c.Sync, c.FlushInterval = SyncNone, time.Minute }, visible: true, after: time.Minute},
		{name: "flush.ms above the interval", change: func(c *Config) {
			c.Sync, c.SyncInterval, c.FlushInterval = SyncInterval, time.Second, time.Minute
		}, visible: true, after: time.Second},
		{name: "flush.ms never makes it laxer", change: func(c *Config) { c.Sync, c.FlushInterval = SyncEveryWrite, time.Minute }, waits: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, d := simWorld(t)
			c.change(&w.config)
			l := w.open()
			g := newGate(d)
			g.set(true)
			a := appendOnly(t, l, makeBatch(t, 0, 2, 1000))
			if (a.Commit != nil) != c.waits {
				t.Fatalf("waits: %v", a.Commit != nil)
			}
			if got := l.Offsets().HighWatermark == 2; got != c.visible {
				t.Fatalf("visible: %v", got)
			}
			switch {
			case c.waits:
				<-g.waiting
				g.release <- nil
				if err := a.Commit.Wait(t.Context()); err != nil || l.Offsets().HighWatermark != 2 {
					t.Fatal(err, l.Offsets())
				}
			case c.after > 0:
				w.clock.Advance(c.after - 1)
				if len(g.waiting) != 0 {
					t.Fatal("too early")
				}
				w.clock.Advance(1)
				<-g.waiting
				g.release <- nil
			default:
				w.clock.Advance(time.Hour)
				if len(g.waiting) != 0 {
					t.Fatal("synced")
				}
			}
			g.set(false)
		})
	}
}

func TestReadersAndWritersAcrossRolls(t *testing.T) {
	t.Parallel()
	w := osWorld(t)
	w.config.SegmentBytes = 3000
	w.config.Sync, w.config.FlushMessages = SyncNone, 40
	l := w.open()
	const writers, each = 4, 150
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			for i := range each {
				b := makeBatch(t, n*each+i, 1+i%3, 1000)
				a, err := l.Append(b, AppendOptions{})
				if err == nil && a.Commit != nil {
					err = a.Commit.Wait(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for last := false; ; {
				if err := follow(l); err != nil {
					t.Error(err)
					return
				}
				if last {
					return
				}
				select {
				case <-done:
					last = true
				default:
				}
			}
		})
	}
	wg.Wait()
	close(done)
	readers.Wait()
	if got := len(readEverything(t, l, 0)); got != writers*each {
		t.Fatalf("%d batches", got)
	}
}

// follow reads the log from its start to its end: offsets must be without gaps, and every batch sound.
func follow(l *Log) error {
	all, err := tryReadEverything(l, l.Offsets().Start)
	next := int64(-1)
	for _, b := range all {
		if next >= 0 && b.BaseOffset() != next {
			return fmt.Errorf("offset %d after %d", b.BaseOffset(), next)
		}
		if bad := b.VerifyChecksum(); bad != nil {
			return bad
		}
		next = b.NextOffset()
	}
	return err
}
