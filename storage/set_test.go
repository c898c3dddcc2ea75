package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kbroker/kbroker/protocol/batch"
)

func TestPartitionsWithoutRecordsMakeNoFilesAndCostLittle(t *testing.T) { // alone: it measures memory
	w := osWorld(t)
	w.open()
	const partitions = 10_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	started := time.Now()
	logs := make([]*Log, partitions)
	for n := range partitions {
		l, err := w.set.Start(Partition{Topic: "many", ID: TopicID{9}, Number: int32(n)}, w.config, 0)
		if err != nil {
			t.Fatal(err)
		}
		logs[n] = l
	}
	took := time.Since(started)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if per := (after.HeapAlloc - before.HeapAlloc) / partitions; per > 1024 && !raceDetector {
		t.Errorf("%d bytes each", per)
	}
	if took > 5*time.Second {
		t.Errorf("opening took %s", took)
	}
	if names, err := w.fs.List(filepath.Join(w.dir, topicsName)); err != nil || len(names) != 0 {
		t.Errorf("files were made: %v %v", names, err)
	}
	if o := logs[partitions-1].Offsets(); o != (Offsets{}) {
		t.Errorf("%+v", o)
	}
	runtime.KeepAlive(logs)
}

func TestDeletedTopicsAreMovedAwayAndInheritNothing(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	l := w.open()
	put(t, l, makeBatch(t, 0, 3, 1000))
	r, err := l.Read(0, ReadOptions{MaxBytes: 1 << 20, WholeFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	woken := &counter{}
	defer l.Watch(woken)()
	if err = w.set.Delete(w.part.ID); err != nil {
		t.Fatal(err)
	}
	if woken.n.Load() == 0 {
		t.Error("waiters were not told")
	}
	if b, readErr := r.Records.AppendTo(nil); readErr != nil || len(b) == 0 {
		t.Errorf("a reader of the deleted log was disturbed: %v", readErr)
	}
	r.Records.Release()
	r.Records.Release()
	if _, err = l.Append(makeBatch(t, 1, 1, 1000), AppendOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if _, err = l.Read(0, ReadOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, err = w.set.Get(w.part.ID, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("get: %v", err)
	}
	again := w.part
	again.ID = TopicID{4, 5}
	l, err = w.set.Open(again, w.config, 0)
	if err != nil {
		t.Fatal(err)
	}
	if o := l.Offsets(); o.End != 0 {
		t.Errorf("the new topic begins at %+v", o)
	}
	b := put(t, l, makeBatch(t, 5, 1, 1000))
	sameBatches(t, readEverything(t, l, 0), []batch.Batch{b})
	w.close()
	if names, err := d.List("data/deleted"); err != nil || len(names) != 0 {
		t.Errorf("left in deleted: %v %v", names, err)
	}
}

type counter struct{ n atomic.Int64 }

func (c *counter) Advance() { c.n.Add(1) }

func TestADirectoryOfAnotherTopicIsMovedAside(t *testing.T) {
	t.Parallel()
	for _, sweep := range []bool{true, false} {
		w, d := simWorld(t)
		put(t, w.open(), makeBatch(t, 0, 3, 1000))
		w.close()
		w.part.ID = TopicID{7}
		set, err := OpenSet(w.fs, w.dir, w.options())
		if err != nil {
			t.Fatal(err)
		}
		if sweep {
			err = set.Sweep(func(topic string, partition int32, id TopicID) bool {
				return topic == "orders" && partition == 0 && id == w.part.ID
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		l, err := set.Open(w.part, w.config, 0)
		if err != nil || l.Offsets().End != 0 {
			t.Fatalf("%v %+v", err, l.Offsets())
		}
		put(t, l, makeBatch(t, 1, 1, 1000))
		if err = set.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		names, err := d.List("data/deleted")
		if err != nil || (len(names) == 0) != sweep {
			t.Fatalf("sweep %v: in deleted: %v %v", sweep, names, err)
		}
	}
}

// What a file manager leaves in the directories is nobody's topic, and no reason not to start.
func TestSweepPassesOverFiles(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	put(t, w.open(), makeBatch(t, 0, 3, 1000))
	w.close()
	for _, dir := range []string{"data", "data/topics", "data/topics/orders", testDir} {
		if err := replaceFile(d, filepath.Join(dir, ".DS_Store"), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	report, err := Verify(d, "data")
	if err != nil || !report.Sound() || report.Partitions != 1 {
		t.Error(err, report)
	}
	for _, where := range []string{"topics/.DS_Store", "topics/orders/.DS_Store", "topics/orders/0/.DS_Store"} {
		if !strings.Contains(report.String(), where+": is none of the broker's files") {
			t.Errorf("%s isn't named: %v", where, report)
		}
	}
	if actions, repairErr := Repair(d, "data", RepairOptions{}); repairErr != nil || len(actions) != 1 {
		t.Error(repairErr, actions)
	}
	set, err := OpenSet(w.fs, w.dir, w.options())
	if err != nil {
		t.Fatal(err)
	}
	if err = set.Sweep(func(string, int32, TopicID) bool { return true }); err != nil {
		t.Error(err)
	}
	if err = set.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSweepLeavesKnownPartitionsAlone(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	want := put(t, w.open(), makeBatch(t, 0, 3, 1000))
	w.close()
	set, err := OpenSet(w.fs, w.dir, w.options())
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	err = set.Sweep(func(topic string, partition int32, id TopicID) bool {
		asked = append(asked, fmt.Sprint(topic, partition, id))
		return true
	})
	if err != nil || !slices.Equal(asked, []string{fmt.Sprint("orders", 0, w.part.ID)}) {
		t.Fatalf("%v %v", asked, err)
	}
	l, err := set.Open(w.part, w.config, 0)
	if err != nil {
		t.Fatal(err)
	}
	sameBatches(t, readEverything(t, l, 0), []batch.Batch{want})
	if err := set.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestManySegmentsWithFewOpenFiles(t *testing.T) {
	t.Parallel()
	w := osWorld(t)
	w.config.SegmentBytes, w.config.Sync = 300, SyncNone
	set, err := OpenSet(w.fs, w.dir, SetOptions{Clock: w.clock, MaxOpenFiles: 8, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := set.Open(w.part, w.config, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []batch.Batch
	for i := range 200 {
		want = append(want, put(t, l, makeBatch(t, i, 2, 1000)))
	}
	if l.Segments() < 90 {
		t.Fatalf("%d segments", l.Segments())
	}
	sameBatches(t, readEverything(t, l, 0), want)
	if n := set.files.Open(); n > 10 {
		t.Errorf("%d files open", n)
	}
	if err := set.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := set.files.Open(); n != 0 {
		t.Errorf("%d files open after closing", n)
	}
}

func TestALogIsNotReadyWhileItIsRecovered(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	want := put(t, w.open(), makeBatch(t, 0, 3, 1000))
	w.close()
	o := w.options()
	o.MaxParallelRecovery = 1
	set, err := OpenSet(w.fs, w.dir, o)
	if err != nil {
		t.Fatal(err)
	}
	set.slots <- struct{}{} // another partition is being recovered
	l, err := set.Start(w.part, w.config, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = l.Read(0, ReadOptions{}); !errors.Is(err, ErrNotReady) {
		t.Errorf("read: %v", err)
	}
	if _, _, err = l.OffsetForTime(0, ReadUncommitted); !errors.Is(err, ErrNotReady) {
		t.Errorf("by time: %v", err)
	}
	if got, err := set.Get(w.part.ID, 0); err != nil || got != l {
		t.Errorf("get: %v", err)
	}
	<-set.slots
	for errors.Is(l.Err(), ErrNotReady) {
		runtime.Gosched()
	}
	sameBatches(t, readEverything(t, l, 0), []batch.Batch{want})
	if err := set.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestTrimRemovesWholeSegmentsAndSurvivesAKill(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	want := library(t, w)
	w.close()
	l := w.open()
	r, err := l.Read(0, ReadOptions{MaxBytes: 1 << 20, WholeFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	middle := want[7].BaseOffset() + 1
	if want[7].LastOffset() == want[7].BaseOffset() {
		t.Fatal("the test wants an offset inside a batch")
	}
	start, err := l.Trim(middle)
	if err != nil || start != middle {
		t.Fatalf("%d %v", start, err)
	}
	if start, err = l.Trim(3); err != nil || start != middle {
		t.Fatalf("a trim moved the start down: %d %v", start, err)
	}
	if _, err = l.Trim(l.Offsets().End + 1); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("beyond the end: %v", err)
	}
	if l.Segments() != 2 {
		t.Fatalf("%d segments", l.Segments())
	}
	if _, err = l.Read(middle-1, ReadOptions{}); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("below the start: %v", err)
	}
	sameBatches(t, readEverything(t, l, middle), want[7:])
	if b, err := r.Records.AppendTo(nil); err != nil || len(b) == 0 {
		t.Fatalf("a reader was disturbed: %v", err)
	}
	r.Records.Release()
	w.closeMayFail = true
	w.fs = d.Kill()
	w.close()
	l = w.open()
	if o := l.Offsets(); o.Start != middle {
		t.Fatalf("%+v", o)
	}
	sameBatches(t, readEverything(t, l, middle), want[7:])
	if o, err := l.Trim(l.Offsets().End); err != nil || o != l.Offsets().End || l.Segments() != 1 {
		t.Fatalf("%d %v %d", o, err, l.Segments())
	}
	b := put(t, l, makeBatch(t, 1, 1, 1))
	sameBatches(t, readEverything(t, l, b.BaseOffset()), []batch.Batch{b})
}

func TestFilesOfTrimmedSegmentsStayForTheDelay(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	w.config.FileDeleteDelay = time.Minute
	library(t, w)
	l, err := w.set.Get(w.part.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	first := "00000000000000000000.log"
	if _, err := l.Trim(l.Offsets().End); err != nil {
		t.Fatal(err)
	}
	contentOf(t, d, first)
	w.clock.Advance(time.Minute)
	if _, err := d.Stat(filepath.Join(testDir, first)); err == nil {
		t.Fatal("still there")
	}
}

func TestWaitersHearOfAppendsTrimsAndTheEnd(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	l := w.open()
	c := &counter{}
	stop := l.Watch(c)
	for i, act := range []func(){
		func() { put(t, l, makeBatch(t, 0, 3, 1000)) },
		func() { _, _ = l.Trim(1) },
	} {
		before := c.n.Load()
		act()
		if c.n.Load() == before {
			t.Errorf("act %d was not told", i)
		}
	}
	stop()
	stop()
	before := c.n.Load()
	put(t, l, makeBatch(t, 0, 3, 1000))
	if c.n.Load() != before {
		t.Error("told after stop")
	}
}

func TestEpochsGoOnAcrossRestarts(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	l := w.open()
	if got := l.EpochEnd(-2); got != (EpochEnd{-1, -1}) {
		t.Errorf("epoch -2 of an empty log: %+v", got)
	}
	if got := l.EpochEnd(0); got != (EpochEnd{0, 0}) {
		t.Fatalf("in an empty log: %+v", got)
	}
	if got := l.EpochAt(0); got != 0 {
		t.Fatalf("in an empty log: %d", got)
	}
	for i, appended := range []bool{true, false, true, true} { // the second start appends nothing
		if i > 0 {
			w.close()
			w.epoch = int32(2 * i)
			l = w.open()
		}
		if appended {
			put(t, l, makeBatch(t, i, 10, 1000))
		}
	}
	for _, c := range []struct {
		ask  int32
		want EpochEnd
	}{
		{-2, EpochEnd{-2, 0}},
		{-1, EpochEnd{-1, -1}},
		{0, EpochEnd{0, 10}},
		{1, EpochEnd{0, 10}},
		{3, EpochEnd{0, 10}},
		{4, EpochEnd{4, 20}},
		{5, EpochEnd{4, 20}},
		{6, EpochEnd{6, 30}},
		{7, EpochEnd{-1, -1}},
	} {
		if got := l.EpochEnd(c.ask); got != c.want {
			t.Errorf("end of %d: %+v, want %+v", c.ask, got, c.want)
		}
	}
	for offset, want := range map[int64]int32{0: 0, 9: 0, 10: 4, 19: 4, 20: 6, 30: 6, 31: -1, -1: -1} {
		if got := l.EpochAt(offset); got != want {
			t.Errorf("epoch at %d: %d, want %d", offset, got, want)
		}
	}
	w.close()
	w.epoch = 9
	l = w.open()
	if got := l.EpochEnd(9); got != (EpochEnd{9, 30}) || l.LeaderEpoch() != 9 {
		t.Errorf("current epoch: %+v %d", got, l.LeaderEpoch())
	}
	if got := l.EpochEnd(8); got != (EpochEnd{6, 30}) {
		t.Errorf("epoch before: %+v", got)
	}
}

// What is asked of an epoch before the first is answered with where the first one begins now.
func TestTheFirstEpochBeginsWhereTheLogDoes(t *testing.T) {
	t.Parallel()
	w := osWorld(t)
	w.epoch = 1
	l := w.open()
	for i := range 6 {
		put(t, l, makeBatch(t, i, 1, 1000))
	}
	for range 2 {
		if _, err := l.Trim(4); err != nil {
			t.Fatal(err)
		}
		if end := l.EpochEnd(0); end != (EpochEnd{Epoch: 0, EndOffset: 4}) {
			t.Errorf("%+v", end)
		}
		if e := l.EpochAt(4); e != 1 {
			t.Errorf("epoch %d at the start", e)
		}
		w.close()
		l = w.open()
	}
}

func TestProducersAreRememberedAcrossRestarts(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	w.closeMayFail = true
	l := w.open()
	send := func(sequence int32) batch.Batch {
		b := batch.NewBuilder(batch.Meta{ProducerID: 3, BaseSequence: sequence})
		b.Append(startTime.UnixMilli(), nil, []byte("x"))
		b.Append(startTime.UnixMilli(), nil, []byte("y"))
		out, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	put(t, l, send(0))
	put(t, l, send(2))
	for _, how := range []string{"clean", "kill", "kill without snapshot"} {
		switch how {
		case "clean":
			w.close()
		default:
			d = d.Kill()
			w.close()
			if how != "kill" {
				if err := d.Remove(filepath.Join(testDir, snapshotName)); err != nil {
					t.Fatal(err)
				}
			}
			w.fs = d
		}
		l = w.open()
		if a := appendOnly(t, l, send(2)); !a.Duplicate || a.BaseOffset != 2 {
			t.Fatalf("%s: %+v", how, a)
		}
		if _, err := l.Append(send(5), AppendOptions{}); !errors.Is(err, ErrOutOfOrderSequence) {
			t.Fatalf("%s: %v", how, err)
		}
		if p := l.Producers(); len(p) != 1 || p[0].LastSequence != 3 || p[0].TxnStartOffset != -1 {
			t.Fatalf("%s: %+v", how, p)
		}
	}
}
