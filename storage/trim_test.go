package storage

import (
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// trimWorld is a log of five segments of 10 records.
func trimWorld(t *testing.T) (*world, *Log) {
	t.Helper()
	w, _ := simWorld(t)
	w.config.SegmentBytes, w.config.ProducerExpiration = 400, -1
	l := w.open()
	w.fill(l, 5, w.clock.Now())
	if got := bases(l); len(got) != 5 {
		t.Fatal(got)
	}
	return w, l
}

func isThere(t *testing.T, w *world, base int64) bool {
	t.Helper()
	_, err := w.fs.Stat(filepath.Join(testDir, segment.FileName(base, segment.SuffixData)))
	return err == nil
}

func TestALogStartThatCanNotBeKeptDoesNotMove(t *testing.T) {
	t.Parallel()
	w, l := trimWorld(t)
	w.set.options.SetLogStart = func(Partition, int64) error { return syscall.EIO }
	if start, err := l.Trim(20); err == nil || start != 0 {
		t.Fatalf("%d %v", start, err)
	}
	if o := l.Offsets(); o.Start != 0 || l.Segments() != 5 || !isThere(t, w, 0) {
		t.Fatalf("%+v, %d segments", o, l.Segments())
	}
	readEverything(t, l, 0)
}

// TestTheHigherLogStartCounts: a metadata store that was put back from a copy may know an older one.
func TestTheHigherLogStartCounts(t *testing.T) {
	t.Parallel()
	for _, restored := range []int64{0, 10, 40} {
		w, l := trimWorld(t)
		if _, err := l.Trim(30); err != nil {
			t.Fatal(err)
		}
		w.close()
		w.starts[w.part] = restored
		if o := w.open().Offsets(); o.Start != max(30, restored) {
			t.Errorf("%d in the store, 30 in the snapshot: %+v", restored, o)
		}
		w.close()
	}
}

func TestFilesThatAreDueLaterGoAtACleanStop(t *testing.T) {
	t.Parallel()
	w, l := trimWorld(t)
	w.config.FileDeleteDelay = time.Hour
	l.SetConfig(w.config)
	if _, err := l.Trim(20); err != nil {
		t.Fatal(err)
	}
	if !isThere(t, w, 0) || !isThere(t, w, 10) {
		t.Fatal("gone before the delay")
	}
	w.close()
	if isThere(t, w, 0) || isThere(t, w, 10) || !isThere(t, w, 20) {
		t.Fatal("a clean stop leaves what a trim has removed")
	}
}

// TestACleanStopWaitsForARemovalUnderWay: who opens the directory next must find nobody at work in it.
func TestACleanStopWaitsForARemovalUnderWay(t *testing.T) {
	t.Parallel()
	w, l := trimWorld(t)
	w.config.FileDeleteDelay = time.Hour
	l.SetConfig(w.config)
	if _, err := l.Trim(20); err != nil {
		t.Fatal(err)
	}
	w.set.work.Wait()
	closed := make(chan error, 1)
	var once sync.Once
	w.fs.(*simdisk.Disk).OnOp(func(op simdisk.Op) error { //nolint:forcetypeassert // it is
		if op.Kind == simdisk.Remove {
			once.Do(func() {
				go func() { closed <- w.set.Close(t.Context()) }()
				for range 1000 { // long enough for one that doesn't wait
					for !l.isClosed() {
						runtime.Gosched()
					}
					runtime.Gosched()
				}
				if len(closed) > 0 {
					t.Error("closed before the files were gone")
				}
			})
		}
		return nil
	})
	w.clock.Advance(time.Hour)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestATopicMadeAgainKeepsItsFiles: what was to be removed of the topic before it has the same names.
func TestATopicMadeAgainKeepsItsFiles(t *testing.T) {
	t.Parallel()
	w, l := trimWorld(t)
	w.config.FileDeleteDelay = time.Hour
	l.SetConfig(w.config)
	if _, err := l.Trim(20); err != nil {
		t.Fatal(err)
	}
	if err := w.set.Delete(w.part.ID); err != nil {
		t.Fatal(err)
	}
	again := w.part
	again.ID = TopicID{9}
	l, err := w.set.Open(again, w.config, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.fill(l, 3, w.clock.Now())
	want := readEverything(t, l, 0)
	w.clock.Advance(2 * time.Hour)
	if !isThere(t, w, 0) || !isThere(t, w, 10) {
		t.Fatal("removed with the files of the topic before")
	}
	w.part = again
	w.close()
	sameBatches(t, readEverything(t, w.open(), 0), want)
}

// TestATrimTakesItsTransactionsAlong: what a checkpoint says of files, and where read_committed ends, is of what is left.
func TestATrimTakesItsTransactionsAlong(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	w.config.SegmentBytes, w.config.ProducerExpiration = 400, -1
	l := w.open()
	gone, open := txn{t: t, l: l, id: 1}, txn{t: t, l: l, id: 2}
	gone.send(1)
	gone.end(false)
	first := open.send(1)
	w.fill(l, 3, w.clock.Now())
	last := l.Offsets().HighWatermark
	if got := l.Offsets().LastStable; got != first.BaseOffset() {
		t.Fatalf("stable up to %d, with a transaction open from %d on", got, first.BaseOffset())
	}
	if _, err := l.Trim(last); err != nil {
		t.Fatal(err)
	}
	if o := l.Offsets(); o.Start != last || o.LastStable != last {
		t.Fatalf("%+v", o)
	}
	w.close()
	b, err := readFile(w.fs, filepath.Join(testDir, snapshotName))
	if err != nil {
		t.Fatal(err)
	}
	s, err := decodeSnapshot(b)
	if err != nil || len(s.aborted) != 0 || s.start != last {
		t.Fatalf("%v %+v", err, s)
	}
}

// TestATrimDuringACheckpointIsFollowedByAnother: the one under way may have seen the log start as it was.
func TestATrimDuringACheckpointIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	w, l := trimWorld(t)
	w.set.work.Wait()
	var once sync.Once
	w.fs.(*simdisk.Disk).OnOp(func(op simdisk.Op) error { //nolint:forcetypeassert // it is
		if op.Kind == simdisk.Create && strings.HasSuffix(op.Name, snapshotName+segment.TempSuffix) {
			once.Do(func() {
				if _, err := l.Trim(30); err != nil {
					t.Error(err)
				}
			})
		}
		return nil
	})
	if _, err := l.Trim(10); err != nil {
		t.Fatal(err)
	}
	w.set.work.Wait()
	if s, err := l.readSnapshot(); err != nil || s.start != 30 {
		t.Fatalf("%v, %+v", err, s)
	}
}
