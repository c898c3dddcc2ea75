package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// journal notes what is done to a disk, in a few words.
type journal struct {
	mu  sync.Mutex
	ops []string
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ops = append(j.ops, fmt.Sprintf(format, args...))
}

// take returns what was noted since the last call.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	ops := j.ops
	j.ops = nil
	return ops
}

// short is a file's name within the partition, without leading zeros.
func short(name string) string {
	name = strings.TrimPrefix(strings.Replace(name, testDir, "", 1), "/")
	if name == "" {
		return "."
	}
	trimmed := strings.TrimLeft(name, "0")
	if strings.HasPrefix(trimmed, ".") {
		trimmed = "0" + trimmed
	}
	return trimmed
}

func (j *journal) hook(op simdisk.Op) error {
	switch op.Kind {
	case simdisk.Write, simdisk.Sync, simdisk.SyncDir, simdisk.Create, simdisk.Mkdir, simdisk.Remove, simdisk.Truncate:
		j.note("%s %s", op.Kind, short(op.Name))
	case simdisk.Rename:
		j.note("rename %s %s", short(op.Name), short(op.NewName))
	default:
	}
	return nil
}

// replaced is how a side file gets into place.
func replaced(name string) []string {
	temp := name + ".tmp"
	return []string{"create " + temp, "write " + temp, "sync " + temp, "rename " + temp + " " + name, "syncdir ."}
}

// begun is how a segment comes into being.
func begun(base string) []string {
	return []string{
		"create " + base + ".index", "write " + base + ".index", "sync " + base + ".index", "create " + base + ".log", "syncdir .",
	}
}

// seaLog is a log whose operations on the disk are noted.
func seaLog(t *testing.T, change func(*Config)) (*world, *Log, *journal) {
	t.Helper()
	w, d := simWorld(t)
	change(&w.config)
	j := &journal{}
	l := w.open()
	d.OnOp(j.hook)
	t.Cleanup(func() { d.OnOp(nil) })
	return w, l, j
}

func sameOps(t *testing.T, got []string, want ...[]string) {
	t.Helper()
	all := slices.Concat(want...)
	if !slices.Equal(got, all) {
		t.Fatalf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(all, "\n\t"))
	}
}

// abortOne appends a transaction of one batch and its abort.
func abortOne(t *testing.T, l *Log, sequence int32) {
	t.Helper()
	b := batch.NewBuilder(batch.Meta{ProducerID: 5, BaseSequence: sequence, Transactional: true})
	b.Append(1000, nil, []byte("never"))
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []batch.Batch{out, batch.ControlBatch(5, 0, batch.Marker{}, 1000)} {
		if _, err = l.Append(b, AppendOptions{TransactionVerified: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheOrderOfWrites pins the order in which things get to the disk, on which rests what recovery concludes. The numbers are
// those of docs/storage-format.md.
func TestTheOrderOfWrites(t *testing.T) {
	t.Parallel()
	t.Run("1 to 3: a partition, a segment, an append", func(t *testing.T) {
		t.Parallel()
		w, l, j := seaLog(t, func(*Config) {})
		put(t, l, makeBatch(t, 0, 1, 1000))
		w.set.work.Wait()
		sameOps(t, j.take(),
			[]string{"mkdir data/topics/orders", "mkdir ."}, replaced("id"),
			[]string{"syncdir data/topics/orders", "syncdir data/topics", "syncdir data"},
			begun("0"), []string{"write 0.log", "sync 0.log", "write 0.index"}, replaced("epochs"))
		put(t, l, makeBatch(t, 1, 1, 1000))
		w.clock.Advance(indexSyncInterval)
		sameOps(t, j.take(), []string{"write 0.log", "sync 0.log", "write 0.index", "sync 0.index"})
	})
	t.Run("4 and 5: a roll, and a checkpoint", func(t *testing.T) {
		t.Parallel()
		w, l, j := seaLog(t, func(c *Config) { c.Sync, c.SegmentBytes = SyncNone, 400 })
		abortOne(t, l, 0)
		if err := l.saveEpochs(); err != nil {
			t.Fatal(err)
		}
		j.take()
		put(t, l, makeBatch(t, 1, 8, 1000))
		w.set.work.Wait()
		sameOps(t, j.take(),
			[]string{"sync 0.log", "write 0.index", "sync 0.index"}, replaced("0.txnindex"), begun("2"), []string{"write 2.log"},
			[]string{"sync 2.log", "write 2.index", "sync 2.index"}, replaced("snapshot"))
	})
	t.Run("5: a clean stop", func(t *testing.T) {
		t.Parallel()
		w, l, j := seaLog(t, func(c *Config) { c.Sync = SyncNone })
		abortOne(t, l, 0)
		j.take()
		w.close()
		sameOps(t, j.take(), []string{"sync 0.log", "write 0.index", "sync 0.index", "sync 0.index"},
			replaced("epochs"), replaced("0.txnindex"), replaced("snapshot"))
		if l = w.open(); l.Err() != nil {
			t.Fatal(l.Err())
		}
		w.close()
		sameOps(t, j.take(), []string{"syncdir data", "sync 0.log", "sync 0.index"})
	})
	t.Run("6: a trim", func(t *testing.T) {
		t.Parallel()
		w, l, j := seaLog(t, func(c *Config) { c.Sync, c.SegmentBytes = SyncNone, 200 })
		set := w.set.options.SetLogStart
		w.set.options.SetLogStart = func(p Partition, start int64) error {
			if o := l.Offsets(); o.Start >= start {
				t.Errorf("start %d can be seen before it is durable", o.Start)
			}
			j.note("log start %d", start)
			return set(p, start)
		}
		for i := range 3 {
			put(t, l, makeBatch(t, i, 3, 1000))
		}
		w.set.work.Wait()
		j.take()
		if _, err := l.Trim(4); err != nil {
			t.Fatal(err)
		}
		w.set.work.Wait()
		sameOps(t, j.take(), []string{"log start 4", "remove 0.log", "remove 0.index", "remove 0.txnindex"},
			[]string{"sync 6.log", "sync 6.index"}, replaced("snapshot"))
	})
	t.Run("7: a deletion", func(t *testing.T) {
		t.Parallel()
		w, l, j := seaLog(t, func(*Config) {})
		put(t, l, makeBatch(t, 0, 1, 1000))
		w.set.work.Wait()
		j.take()
		if err := w.set.Delete(w.part.ID); err != nil {
			t.Fatal(err)
		}
		w.set.work.Wait()
		gone := filepath.Join("data/deleted", w.part.ID.String()+"-0")
		sameOps(t, j.take()[:4], []string{
			"rename . " + gone, "syncdir data/deleted", "syncdir data/topics/orders", "remove data/topics/orders",
		})
	})
	t.Run("replacing segments", func(t *testing.T) {
		t.Parallel()
		w, l, j := seaLog(t, func(c *Config) {
			c.Sync, c.Compact, c.SegmentBytes, c.MinCleanableRatio, c.ProducerExpiration = SyncNone, true, 400, 0, -1
		})
		abortOne(t, l, 0)
		put(t, l, makeBatch(t, 1, 8, 1000))
		put(t, l, makeBatch(t, 2, 8, 1000))
		w.close()
		w.config.SegmentBytes = 4000
		l = w.open()
		w.set.work.Wait()
		j.take()
		plan, _ := l.planCompaction(w.clock.Now())
		limits := compactionLimits{MapBytes: 1 << 20, MapLoad: 0.9, Pace: func(int) error { return nil }}
		if err := l.compact(t.Context(), plan, limits); err != nil {
			t.Fatal(err)
		}
		files := []string{"create 0.log.clean.tmp", "create 0.index.clean.tmp"}
		for _, name := range []string{"0.log", "0.index"} {
			files = append(files, "write "+name+".clean.tmp", "sync "+name+".clean.tmp")
		}
		for _, name := range []string{"0.txnindex", "0.swap"} {
			name += ".clean.tmp"
			files = append(files, "create "+name, "write "+name, "sync "+name)
		}
		sameOps(t, j.take(), []string{"sync 10.log"}, files,
			[]string{"syncdir .", "rename 0.swap.clean.tmp 0.swap", "syncdir ."},
			[]string{"rename 0.log.clean.tmp 0.log", "rename 0.index.clean.tmp 0.index", "rename 0.txnindex.clean.tmp 0.txnindex"},
			[]string{"remove 2.log", "remove 2.index", "remove 2.txnindex", "syncdir ."}, replaced("snapshot"), []string{"remove 0.swap"})
	})
}

// TestACheckpointComesAfterSoManyBytes: in every mode, also if nothing else asks for a sync.
func TestACheckpointComesAfterSoManyBytes(t *testing.T) {
	t.Parallel()
	for _, mode := range []SyncMode{SyncEveryWrite, SyncInterval, SyncNone} {
		w, l, j := seaLog(t, func(c *Config) { c.Sync = mode })
		put(t, l, makeBatch(t, 0, 1, 1000))
		w.set.work.Wait()
		l.mu.Lock()
		l.mu.sinceCheckpoint = checkpointBytes - 1
		l.mu.Unlock()
		j.take()
		put(t, l, makeBatch(t, 1, 1, 1000))
		w.set.work.Wait()
		if ops := j.take(); !slices.Contains(ops, "rename snapshot.tmp snapshot") {
			t.Errorf("mode %d: %v", mode, ops)
		}
		put(t, l, makeBatch(t, 2, 1, 1000))
		w.set.work.Wait()
		if ops := j.take(); slices.Contains(ops, "rename snapshot.tmp snapshot") {
			t.Errorf("mode %d: once more at once: %v", mode, ops)
		}
	}
}

func TestACheckpointClaimsNothingWhoseSyncFailed(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	w.closeMayFail = true
	w.config.Sync = SyncNone
	l := w.open()
	put(t, l, makeBatch(t, 0, 1, 1000))
	d.OnOp(func(op simdisk.Op) error {
		if op.Kind == simdisk.Sync && strings.HasSuffix(op.Name, ".log") {
			return syscall.EIO
		}
		return nil
	})
	if err := l.tryCheckpoint(); !errors.Is(err, ErrReadOnly) {
		t.Errorf("checkpoint: %v", err)
	}
	d.OnOp(nil)
	w.close()
	if _, err := d.Stat(filepath.Join(testDir, snapshotName)); err == nil {
		t.Error("there is a snapshot")
	}
}
