package storage

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// uncleanLog is a log of segments of one record each, of one key.
func uncleanLog(t *testing.T) (*world, *Log, *simdisk.Disk) {
	t.Helper()
	w := upkeepWorld(t, nil)
	w.config.Compact, w.config.Delete, w.config.MinCleanableRatio, w.config.SegmentBytes = true, false, 0, 100
	l := w.open()
	for i := range 4 {
		put(t, l, keyed(t, w.clock.Now(), fmt.Sprint(i), "a"))
	}
	return w, l, w.fs.(*simdisk.Disk) //nolint:forcetypeassert // it is
}

func compactNow(t *testing.T, w *world, l *Log) error {
	t.Helper()
	plan, _ := l.planCompaction(w.clock.Now())
	if !plan.due {
		t.Fatal("nothing to compact")
	}
	return l.compact(t.Context(), plan, compactionLimits{MapBytes: 1 << 20, MapLoad: 0.9, Pace: func(int) error { return nil }})
}

// failOn makes operations of a kind on names with an ending fail.
func failOn(d *simdisk.Disk, kind simdisk.Kind, ending string, err error) {
	d.OnOp(func(op simdisk.Op) error {
		if op.Kind == kind && strings.HasSuffix(op.Name, ending) {
			return err
		}
		return nil
	})
}

func TestReadsGoOnIfCompactedSegmentsCanNotBePutInPlace(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{segment.SuffixData + segment.CleanSuffix, segment.SuffixIndex + segment.CleanSuffix} {
		w, l, d := uncleanLog(t)
		w.closeMayFail = true
		failOn(d, simdisk.Rename, ending, syscall.EIO)
		if err := compactNow(t, w, l); err == nil || l.Err() == nil {
			t.Fatalf("%v, %v: what is in place isn't known, and the log takes writes", err, l.Err())
		}
		for _, isolation := range []Isolation{ReadUncommitted, ReadCommitted} {
			r, err := l.Read(0, ReadOptions{MaxBytes: 1000, WholeFirst: true, Isolation: isolation})
			if err != nil || r.Records == nil {
				t.Fatalf("%s: isolation %d: %v", ending, isolation, err)
			}
			r.Records.Release()
		}
		d.OnOp(nil)
		w.close()
		l = w.open()
		if got := contents(t, l); !slices.Equal(got, []string{"1 a=1", "2 a=2", "3 a=3"}) || l.Err() != nil {
			t.Errorf("after a restart: %v, %v", got, l.Err())
		}
	}
}

// uncleanAbortedLog is an uncleanLog with an aborted transaction. When it is compacted, its marker goes to the first segment.
func uncleanAbortedLog(t *testing.T) (*world, *Log, *simdisk.Disk) {
	t.Helper()
	w, l, d := uncleanLog(t)
	abortedAt(t, l, 4)
	put(t, l, keyed(t, w.clock.Now(), "6", "b"))
	w.config.SegmentBytes = 10_000
	l.SetConfig(w.config)
	return w, l, d
}

// mergedTxnIndex ends the name that the new index of aborted transactions has until it is in place.
const mergedTxnIndex = segment.SuffixTxnIndex + segment.CleanSuffix

func TestCommittedReadsGoOnIfTheIndexOfAbortedTransactionsCanNotBePutInPlace(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{segment.SuffixData + segment.CleanSuffix, mergedTxnIndex} {
		w, l, d := uncleanAbortedLog(t)
		w.closeMayFail = true
		failOn(d, simdisk.Rename, ending, syscall.EIO)
		if err := compactNow(t, w, l); err == nil {
			t.Fatal("what is in place isn't known, and nobody is told")
		}
		for range 2 {
			if _, aborted := committed(t, l, 0); len(aborted) != 1 || aborted[0].FirstOffset != 4 {
				t.Fatalf("%s: aborted transactions: %v", ending, aborted)
			}
		}
		d.OnOp(nil)
		w.close()
		if _, aborted := committed(t, w.open(), 0); len(aborted) != 1 {
			t.Errorf("%s: after a restart: %v", ending, aborted)
		}
	}
}

// TestCommittedReadsWaitForAReplacement: readers get the new segments before their index of aborted transactions has its name.
func TestCommittedReadsWaitForAReplacement(t *testing.T) {
	t.Parallel()
	w, l, d := uncleanAbortedLog(t)
	looked, done := make(chan struct{}), make(chan error, 1)
	var look, rename sync.Once
	d.OnOp(func(op simdisk.Op) error {
		switch {
		case op.Kind == simdisk.Rename && strings.HasSuffix(op.Name, mergedTxnIndex):
			rename.Do(func() {
				go func() {
					r, err := l.Read(0, ReadOptions{MaxBytes: 1000, WholeFirst: true, Isolation: ReadCommitted})
					if err == nil {
						r.Records.Release()
					}
					done <- err
				}()
				<-looked
			})
		case op.Kind == simdisk.Open && strings.HasSuffix(op.Name, segment.SuffixTxnIndex):
			look.Do(func() { close(looked) })
		}
		return nil
	})
	if err := compactNow(t, w, l); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCompactionOnAFullDiskLeavesTheLogWritable(t *testing.T) {
	t.Parallel()
	w, l, d := uncleanAbortedLog(t) // so that the snapshot has to be written anew
	if err := l.tryCheckpoint(); err != nil {
		t.Fatal(err)
	}
	failOn(d, simdisk.Write, snapshotName+segment.TempSuffix, syscall.ENOSPC)
	if err := compactNow(t, w, l); err != nil {
		t.Error(err)
	}
	d.OnOp(nil)
	put(t, l, keyed(t, w.clock.Now(), "7", "b"))
	want := []string{"3 a=3", "6 b=6", "7 b=7"}
	for _, killed := range []bool{true, false} {
		w.closeMayFail = killed
		if killed {
			w.fs = d.Kill()
		}
		w.close()
		l = w.open()
		got := slices.DeleteFunc(contents(t, l), func(r string) bool { return strings.HasPrefix(r, "5 ") }) // the marker
		if !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	}
}

// abortedAt appends a transaction of one record at an offset, and its abort.
func abortedAt(tb testing.TB, l *Log, at int64) {
	tb.Helper()
	b := batch.NewBuilder(batch.Meta{ProducerID: 5, Transactional: true})
	b.Append(1000, []byte("a"), []byte("aborted"))
	data, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	for i, b := range []batch.Batch{data, batch.ControlBatch(5, 0, batch.Marker{}, 1000)} {
		a, err := l.Append(b, AppendOptions{TransactionVerified: true})
		if err == nil {
			err = a.Commit.Wait(tb.Context())
		}
		if err != nil || a.BaseOffset != at+int64(i) {
			tb.Fatal(a, err)
		}
	}
}

// Retention and compaction work on the same logs; who comes second just starts again.
func TestCompactionOfWhatRetentionRemovesIsNoFailure(t *testing.T) {
	t.Parallel()
	for _, trimmed := range []int64{1, 3} {
		w := upkeepWorld(t, everyMinute)
		w.config.Compact, w.config.MinCleanableRatio, w.config.SegmentBytes, w.config.SegmentAge = true, 1, 100, time.Second
		core, lines := observer.New(zap.WarnLevel)
		w.logger = zap.New(core)
		l := w.open()
		for i := range 4 {
			put(t, l, keyed(t, w.clock.Now(), fmt.Sprint(i), "a"))
		}
		put(t, l, keyed(t, w.clock.Now(), "4", "b"))
		var once sync.Once
		w.fs.(*simdisk.Disk).OnOp(func(op simdisk.Op) error { //nolint:forcetypeassert // it is
			if op.Kind == simdisk.Write && strings.HasSuffix(op.Name, segment.CleanSuffix) {
				once.Do(func() {
					if _, err := l.Trim(trimmed); err != nil {
						t.Error(err)
					}
				})
			}
			return nil
		})
		c := w.config
		c.MinCleanableRatio = 0
		l.SetConfig(c)
		w.pass(3 * time.Second)
		if got := contents(t, l); !slices.Equal(got, []string{"3 a=3", "4 b=4"}) {
			t.Errorf("got %v", got)
		}
		if n := testMetric(t, w.set.upkeep.failed); n > 0 || lines.Len() > 0 {
			t.Errorf("%v failures, %v", n, lines.All())
		}
	}
}
