package meta

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

func durabilities() map[string]Durability {
	return map[string]Durability{
		"always": SyncAlways(), "interval": SyncInterval(time.Second), "never": SyncNever(),
	}
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0xdeadbeef)) }

// seeds is how many runs a test makes: fewer under the race detector, which slows them down tenfold.
func seeds(n uint64) uint64 {
	if raceEnabled {
		return max(n/10, 3)
	}
	return n
}

// hasLines says whether each line of want is in got.
func hasLines(got, want string) bool {
	for line := range strings.Lines(want + "\n") {
		if !strings.Contains(got+"\n", line) {
			return false
		}
	}
	return true
}

func TestKillLosesNothingInAnyMode(t *testing.T) {
	t.Parallel()
	for name, durability := range durabilities() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := simdisk.New(1)
			o := testOptions()
			o.Durability = durability
			for round := range 20 {
				s := open(t, disk, o)
				for i := range 5 {
					mustCommit(t, s, putCursor(fmt.Sprint("g", i), "t", int64(round*10+i)))
				}
				want := dump(t, s)
				disk = disk.Kill()
				s = open(t, disk, o)
				if got := dump(t, s); got != want {
					t.Fatalf("after a kill:\n%s\nwant\n%s", got, want)
				}
				disk = disk.Kill()
			}
		})
	}
}

func TestCrashLosesNothingWhereCommitsAreAlwaysSynced(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	for seed := range seeds(50) {
		s := open(t, disk, testOptions())
		for i := range 5 {
			mustCommit(t, s, putCursor(fmt.Sprint("g", i), "t", int64(seed)*10))
		}
		want := dump(t, s)
		disk = disk.Crash(seeded(seed))
		s = open(t, disk, testOptions())
		if got := dump(t, s); got != want {
			t.Fatalf("seed %d: after a crash:\n%s\nwant\n%s", seed, got, want)
		}
		disk = disk.Kill()
	}
}

func TestWhatMustLastSurvivesACrashInAnyMode(t *testing.T) {
	t.Parallel()
	for name, durability := range durabilities() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds(50) {
				o := testOptions()
				o.Durability = durability
				disk := simdisk.New(seed)
				s := open(t, disk, o)
				mustCommit(t, s, putCursor("g", "t", 1))
				topic := mustCreate(t, s, "a")
				mustCommit(t, s, putCursor("g", "t", 2))
				if err := s.SetLogStart(topic.ID, 0, 5); err != nil {
					t.Fatal(err)
				}
				first, err := s.ReserveProducerIDs(10)
				if err != nil {
					t.Fatal(err)
				}
				if err = s.PutConfig("broker", "1", map[string]string{"a": "b"}); err != nil {
					t.Fatal(err)
				}
				want := dump(t, s)
				mustCommit(t, s, putCursor("h", "t", 3))
				s = open(t, disk.Crash(seeded(seed)), o)
				if got := dump(t, s); !hasLines(got, want) {
					t.Fatalf("seed %d: after a crash:\n%s\nwant\n%s", seed, got, want)
				}
				if again, err := s.ReserveProducerIDs(10); err != nil || again < first+10 {
					t.Fatalf("seed %d: producer ids from %d were handed out again, %v", seed, again, err)
				}
			}
		})
	}
}

func TestIntervalSyncsWhatIsOlder(t *testing.T) {
	t.Parallel()
	for seed := range seeds(50) {
		clk := clock.NewManual(time.UnixMilli(0))
		o := Options{Clock: clk, NodeID: 1, Durability: SyncInterval(100 * time.Millisecond)}
		disk := simdisk.New(seed)
		s := open(t, disk, o)
		mustCommit(t, s, putCursor("g", "t", 1))
		mustCommit(t, s, putCursor("g", "t", 2))
		clk.Advance(100 * time.Millisecond)
		want := dump(t, s)
		mustCommit(t, s, putCursor("h", "t", 3))
		if got := dump(t, open(t, disk.Crash(seeded(seed)), o)); !hasLines(got, want) {
			t.Fatalf("seed %d: after a crash:\n%s\nwant\n%s", seed, got, want)
		}
	}
}

func TestLaxCommitsDontSync(t *testing.T) {
	t.Parallel()
	for name, durability := range durabilities() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := simdisk.New(1)
			o := testOptions()
			o.Durability = durability
			s := open(t, disk, o)
			syncs := 0
			disk.OnOp(func(op simdisk.Op) error {
				if op.Kind == simdisk.Sync {
					syncs++
				}
				return nil
			})
			for i := range 10 {
				mustCommit(t, s, putCursor("g", "t", int64(i)))
			}
			want := 0
			if name == "always" {
				want = 10
			}
			if syncs != want {
				t.Errorf("%d syncs for 10 commits, want %d", syncs, want)
			}
		})
	}
}

func TestRotatedLogsAreWhole(t *testing.T) {
	t.Parallel()
	for seed := range seeds(10) {
		o := testOptions()
		o.Durability = SyncNever()
		disk := simdisk.New(seed)
		s := open(t, disk, o)
		record := make([]byte, 100<<10)
		for i := range 60 { // several memtables
			mustCommit(t, s, func(b *Batch) { b.PutGroup(fmt.Sprint("g", i), record) })
		}
		disk = disk.Crash(seeded(seed))
		s = open(t, disk, o)
		found := 0
		err := s.Groups(func(group string, got []byte) error {
			if group != fmt.Sprint("g", found) && len(got) != len(record) {
				t.Errorf("group %s", group)
			}
			found++
			return nil
		})
		if err != nil || found < 20 {
			t.Errorf("seed %d: %d groups, %v", seed, found, err)
		}
	}
}

func TestCommittersShareTheWayToTheDisk(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	s := open(t, disk, testOptions())
	const committers, each = 16, 20
	var wg sync.WaitGroup
	for c := range committers {
		wg.Go(func() {
			var b Batch
			for i := range each {
				b.Reset()
				putCursor(fmt.Sprint("g", c), "t", int64(i))(&b)
				if err := s.Commit(&b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range each {
			topic, err := createTopic(s, Topic{Name: fmt.Sprint("t", i), Partitions: 1})
			if err == nil && i%2 == 0 {
				_, err = deleteTopic(s, topic.ID)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	want := dump(t, s)
	if got := dump(t, open(t, disk.Crash(seeded(1)), testOptions())); got != want {
		t.Errorf("after a crash:\n%s\nwant\n%s", got, want)
	}
}

// damageable is a store with data in logs and, if flushed, in tables.
func damageable(t *testing.T, flushed bool) (disk *simdisk.Disk, want string) {
	t.Helper()
	disk = simdisk.New(1)
	s := open(t, disk, testOptions())
	for i := range 5 {
		topic := mustCreate(t, s, fmt.Sprint("t", i))
		mustCommit(t, s, putCursor("g", topic.Name, 7))
	}
	if flushed {
		if err := s.engine.db.Flush(); err != nil {
			t.Fatal(err)
		}
		mustCommit(t, s, putCursor("h", "t", 8))
	}
	want = s.ClusterID() + dump(t, s)
	return disk.Kill(), want
}

// examine opens a damaged store and fails unless that is refused for the damage or nothing is missing.
func examine(t *testing.T, disk *simdisk.Disk, want, what string) {
	t.Helper()
	s, err := Open(disk, testDir, testOptions())
	if err != nil {
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), testDir) {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	defer s.Close() //nolint:errcheck // done with
	if err = s.Cursors(func(string, TopicPartition, Cursor) error { return nil }); err != nil {
		return // the coordinator reads them all before it serves anyone
	}
	if got := s.ClusterID() + dump(t, s); got != want {
		t.Errorf("%s: without a word, the store became\n%s\nwant\n%s", what, got, want)
	}
}

func TestFlippedBitsAreNoticedOrHarmless(t *testing.T) {
	t.Parallel()
	for _, flushed := range []bool{false, true} {
		disk, want := damageable(t, flushed)
		names, err := disk.List(testDir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			path := testDir + "/" + name
			info, err := disk.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			for at := int64(0); at < info.Size(); at += max(info.Size()/int64(seeds(60)), 1) {
				rotten := disk.Snapshot()
				if err = rotten.FlipBit(path, at*8+at%8); err != nil {
					t.Fatal(err)
				}
				examine(t, rotten, want, fmt.Sprintf("bit %d of byte %d of %s flipped", at%8, at, name))
			}
		}
	}
}

func TestShortenedLogsAreNoticed(t *testing.T) {
	t.Parallel()
	disk, want := damageable(t, false)
	names, err := disk.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if kind, _ := appendOnly(name); kind == 0 {
			continue
		}
		short := disk.Snapshot()
		f, err := short.OpenReadWrite(testDir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err == nil {
			err = f.Truncate(size / 2)
		}
		if err != nil {
			t.Fatal(err)
		}
		examine(t, short, want, name+" cut in half")
	}
}

func TestFullDiskFailsCommitsUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.UnixMilli(0))
	disk := simdisk.New(1)
	s := open(t, disk, Options{Clock: clk, NodeID: 1})
	mustCommit(t, s, putCursor("g", "t", 1))
	mustCreate(t, s, "a")
	usage, err := disk.DiskUsage(testDir)
	if err != nil {
		t.Fatal(err)
	}
	disk.SetCapacity(int64(usage.TotalBytes - usage.AvailableBytes + 10))
	var b Batch
	putCursor("h", "t", 2)(&b)
	if err = s.Commit(&b); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("on a full disk: %v", err)
	}
	for range 3 {
		clk.Advance(time.Minute)
		if _, err = createTopic(s, Topic{Name: "b"}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("still on a full disk: %v", err)
		}
	}
	disk.SetCapacity(0)
	if err = s.Commit(&b); err == nil {
		t.Fatal("tried again without a pause")
	}
	clk.Advance(time.Minute)
	if err = s.Commit(&b); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	mustCreate(t, s, "c")
	want := dump(t, s)
	if strings.Contains(want, "Name:b") {
		t.Errorf("a topic that wasn't made is there:\n%s", want)
	}
	if got := dump(t, open(t, disk.Kill(), testOptions())); got != want {
		t.Errorf("after a restart:\n%s\nwant\n%s", got, want)
	}
}
