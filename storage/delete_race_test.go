package storage

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol/batch"
)

// A trim that is under way while its topic is deleted plans the removal of files whose names may be another topic's by then.
func TestATrimDuringADeleteRemovesNothingOfTheTopicMadeAnew(t *testing.T) {
	t.Parallel()
	w := osWorld(t)
	w.config.SegmentBytes, w.config.FileDeleteDelay = 300, time.Minute
	l := w.open()
	for i := range 6 {
		put(t, l, makeBatch(t, i, 1, 1000))
	}
	set := w.set
	deleted := make(chan error, 1)
	set.options.SetLogStart = func(p Partition, o int64) error {
		go func() { deleted <- set.Delete(p.ID) }()
		for {
			if _, err := set.Get(p.ID, p.Number); errors.Is(err, ErrClosed) {
				break
			}
			runtime.Gosched()
		}
		for range 1000 { // it waits for the log now
			runtime.Gosched()
		}
		w.starts[p] = o
		return nil
	}
	if _, err := l.Trim(4); err != nil {
		t.Fatal(err)
	}
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	again := w.part
	again.ID = TopicID{9}
	l, err := set.Open(again, w.config, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []batch.Batch
	for i := range 6 {
		want = append(want, put(t, l, makeBatch(t, 100+i, 1, 1000)))
	}
	w.clock.Advance(time.Hour)
	w.close()
	w.part = again
	sameBatches(t, readEverything(t, w.open(), 0), want)
}

// A log may be deleted before the goroutine that is to recover it has begun.
func TestALogThatIsDeletedBeforeItsRecoveryBeginsStaysDeleted(t *testing.T) {
	t.Parallel()
	w := osWorld(t)
	put(t, w.open(), makeBatch(t, 0, 1, 1000))
	w.close()
	var err error
	if w.set, err = OpenSet(w.fs, w.dir, w.options()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	late, _, err := w.set.add(w.part, w.config, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err = w.set.Delete(w.part.ID); err != nil {
		t.Fatal(err)
	}
	w.part.ID = TopicID{9}
	l, err := w.set.Open(w.part, w.config, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []batch.Batch{put(t, l, makeBatch(t, 1, 1, 1000))}
	if err = late.open(); !errors.Is(err, ErrClosed) {
		t.Errorf("recovery of a deleted log: %v", err)
	}
	if _, err = late.Append(makeBatch(t, 2, 1, 1000), AppendOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("append to a deleted log: %v", err)
	}
	w.close()
	sameBatches(t, readEverything(t, w.open(), 0), want)
}
