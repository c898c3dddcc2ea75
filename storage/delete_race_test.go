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
