package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// traffic is a writer, readers and the upkeep on one log at the same time.
type traffic struct {
	*testing.T
	log     *Log
	keys    int
	wrote   chan struct{} // a record was acknowledged; not every one is told
	written struct {
		sync.Mutex
		latest map[string]int64 // acknowledged version of each key
		count  int64
	}
}

// write writes versions of keys until the context ends, half of them in transactions, some of those aborted.
func (c *traffic) write(ctx context.Context) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := int64(1); ctx.Err() == nil; n++ {
		key := fmt.Sprint("key ", rng.IntN(c.keys))
		m := batch.NoProducer()
		abort := rng.IntN(3) == 0
		if rng.IntN(2) == 0 {
			m = batch.Meta{ProducerID: 1, BaseSequence: -2, Transactional: true}
			for _, p := range c.log.Producers() {
				m.BaseSequence = p.LastSequence
			}
			m.BaseSequence = max(m.BaseSequence, -1) + 1
		}
		version := n
		if m.Transactional && abort {
			version = -n // nobody must see it
		}
		b := batch.NewBuilder(m)
		b.Append(n, []byte(key), fmt.Append(nil, version))
		out, err := b.Build()
		if err != nil {
			c.Error(err)
			return
		}
		if !c.append(out) {
			return
		}
		if m.Transactional && !c.append(batch.ControlBatch(1, 0, batch.Marker{Commit: !abort}, n)) {
			return
		}
		if version < 0 {
			continue
		}
		c.written.Lock()
		c.written.latest[key] = version
		c.written.count++
		c.written.Unlock()
		select {
		case c.wrote <- struct{}{}:
		default:
		}
	}
}

func (c *traffic) append(b batch.Batch) bool {
	a, err := c.log.Append(b, AppendOptions{TransactionVerified: true})
	if err == nil {
		err = a.Commit.Wait(context.Background())
	}
	if err != nil {
		c.Error(err)
	}
	return err == nil
}

// read reads what is committed from the start to the end: no key may be at an older version than was acknowledged when the
// reading began, nothing aborted may be seen, and offsets go up.
func (c *traffic) read(limit int64) {
	c.written.Lock()
	want := maps.Clone(c.written.latest)
	c.written.Unlock()
	got := map[string]int64{}
	offset := c.log.Offsets().Start
	for ok := true; ok; {
		offset, ok = c.readSome(offset, limit, got)
	}
	for k, v := range want {
		if got[k] < v {
			c.Errorf("%s is at version %d, though %d was acknowledged", k, got[k], v)
			return
		}
	}
}

func (c *traffic) readSome(offset, limit int64, got map[string]int64) (next int64, more bool) {
	r, err := c.log.Read(offset, ReadOptions{MaxBytes: limit, WholeFirst: true, Isolation: ReadCommitted})
	if errors.Is(err, ErrOffsetOutOfRange) {
		return r.Start, true
	}
	if err != nil || r.Records == nil {
		if err != nil {
			c.Error(err)
		}
		return offset, false
	}
	defer r.Records.Release()
	all, err := r.Records.AppendTo(nil)
	if err != nil {
		c.Error(err)
		return offset, false
	}
	coming, aborted := r.Aborted, false
	for len(all) > 0 {
		b, rest, err := batch.Next(all, 0)
		if err != nil {
			break
		}
		if b.BaseOffset() < offset && b.LastOffset() < offset {
			c.Errorf("batch at %d where %d was asked for", b.BaseOffset(), offset)
		}
		for len(coming) > 0 && coming[0].FirstOffset <= b.LastOffset() {
			coming, aborted = coming[1:], true
		}
		offset, all = b.NextOffset(), rest
		if b.IsControl() {
			if m, markerErr := batch.ParseMarker(b); markerErr == nil && !m.Commit {
				aborted = false
			}
			continue
		}
		if b.IsTransactional() && aborted {
			continue
		}
		rs, err := b.Records(1 << 20)
		if err != nil {
			c.Error(err)
			return offset, false
		}
		for rs.Next() {
			record := rs.Record()
			var version int64
			if _, err := fmt.Fscan(bytes.NewReader(record.Value), &version); err != nil || version < 0 {
				c.Errorf("version %q at %d was seen", record.Value, b.BaseOffset())
			}
			got[string(record.Key)] = version
		}
		rs.Release()
	}
	return offset, true
}

func TestReadersAndAWriterAreNotDisturbedByUpkeep(t *testing.T) {
	t.Parallel()
	w := upkeepWorld(t, everyMinute)
	c := &w.config
	c.Compact, c.Delete, c.MinCleanableRatio = true, false, 0
	c.SegmentBytes, c.IndexIntervalBytes, c.DeleteRetention = 3000, 300, 0
	l := w.open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := &traffic{T: t, log: l, keys: 50, wrote: make(chan struct{}, 1)}
	run.written.latest = map[string]int64{}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(run.wrote)
		run.write(ctx)
	})
	enough := func() bool {
		run.written.Lock()
		defer run.written.Unlock()
		return t.Failed() || (run.written.count >= 400 && testMetric(t, w.set.upkeep.passes) >= 5)
	}
	for _, limit := range []int64{1, 500, 1 << 20} {
		wg.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				run.read(limit)
			}
		})
	}
	wg.Go(func() { // what the timers would do, were the records written in seconds
		for range run.wrote {
			w.clock.Advance(200 * time.Millisecond)
			if enough() {
				cancel()
			}
		}
		cancel()
	})
	wg.Go(func() { // queries by time
		for ctx.Err() == nil {
			if _, _, err := l.OffsetForTime(rand.Int64N(1000), ReadUncommitted); err != nil {
				t.Error(err)
			}
			if _, _, err := l.MaxTimestamp(ReadCommitted); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	w.set.maintenance.idle()
	w.close()
	l = w.open()
	run.log = l
	run.read(1 << 20)
}

func TestTopicIsDeletedWhileItIsCompacted(t *testing.T) {
	t.Parallel()
	compacting := true
	for n := int64(1); compacting; n += 20 { // the n-th operation of the compaction is when the topic is deleted
		w := upkeepWorld(t, everyMinute)
		c := &w.config
		c.Compact, c.MinCleanableRatio, c.SegmentBytes = true, 0, 500
		l := w.open()
		for i := range 50 {
			put(t, l, keyed(t, w.clock.Now(), fmt.Sprint(i), "a", "b"))
		}
		var operations atomic.Int64
		reached, ended := make(chan struct{}), make(chan struct{})
		w.fs.(*simdisk.Disk).OnOp(func(simdisk.Op) error { //nolint:forcetypeassert // upkeepWorld's is one
			if operations.Add(1) == n {
				close(reached)
			}
			return nil
		})
		w.clock.Advance(time.Second)
		go func() {
			defer close(ended)
			w.set.maintenance.idle()
		}()
		select {
		case <-reached:
		case <-ended:
			compacting = false
		}
		if err := w.set.Delete(w.part.ID); err != nil {
			t.Fatal(err)
		}
		again := Partition{Topic: w.part.Topic, ID: TopicID{77}, Number: 0}
		l, err := w.set.Open(again, w.config, 0)
		if err != nil {
			t.Fatal(err)
		}
		put(t, l, keyed(t, w.clock.Now(), "new", "a"))
		<-ended
		if got := contents(t, l); len(got) != 1 || got[0] != "0 a=new" {
			t.Fatalf("the new topic has %v", got)
		}
		w.close()
		report, err := Verify(w.fs, w.dir)
		if err != nil || !report.Sound() || len(report.Findings) > 0 {
			t.Fatal(err, report)
		}
	}
}
