package handlers

import (
	"context"
	"sync/atomic"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// parkedFetch is a Fetch that waits for more than it has found.
//
// Its partitions are in one of two states: quiet, or moved since they were last looked at. A log that moves on marks its
// partition and fills the wake channel, which holds one signal however many logs move; the waiting goroutine then looks at
// the marked ones only and adds up what there is to read.
type parkedFetch struct {
	*fetch
	wake    chan struct{}
	watched []parkedPartition
	size    int64 // bytes there are to read, over all partitions
}

// parkedPartition is one partition of a parked fetch. It implements storage.Waiter.
type parkedPartition struct {
	wake  chan struct{}
	moved atomic.Bool

	log    Log // nil if the partition doesn't exist
	offset int64
	limit  int64
	size   int64           // bytes there were to read when it was last looked at
	seen   storage.Offsets // when it was read, before it was watched
}

// Advance marks the partition and wakes the fetch.
func (p *parkedPartition) Advance() {
	if p.moved.Swap(true) {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// park lets go of what was read, so that no files are held, and keeps its sizes.
func (f *fetch) park() *parkedFetch {
	w := &parkedFetch{fetch: f, wake: make(chan struct{}, 1), watched: make([]parkedPartition, len(f.results))}
	for i := range f.results {
		r, p := &f.results[i], &w.watched[i]
		p.wake, p.offset, p.limit = w.wake, r.part.offset, max(1, int64(r.part.maxBytes))
		p.log, p.seen, p.size = r.log, r.offsets, r.size()
		w.size += p.size
		r.release()
	}
	return w
}

// wait answers the fetch when enough has come, when its time is over or when the context ends.
func (w *parkedFetch) wait(ctx context.Context) protocol.Response {
	stop := w.watch()
	left := w.query.maxWait - w.h.Clock.Now().Sub(w.started)
	timer := w.h.Clock.NewTimer(left)
	for done := w.enough(); !done; {
		select {
		case <-w.wake:
			done = w.enough()
		case <-timer.C():
			done = true
		case <-ctx.Done():
			done = true
		}
	}
	timer.Stop()
	stop()
	w.read()
	return w.respond()
}

// watch puts a waiter on each log. What has moved between the first read and now is marked.
func (w *parkedFetch) watch() (stop func()) {
	stops := make([]func(), 0, len(w.watched))
	for i := range w.watched {
		p := &w.watched[i]
		if p.log == nil {
			continue
		}
		stops = append(stops, p.log.Watch(p))
		if p.log.Offsets() != p.seen {
			p.moved.Store(true)
		}
	}
	return func() {
		for _, f := range stops {
			f()
		}
	}
}

// enough looks at the partitions that have moved and says whether the fetch can be answered.
func (w *parkedFetch) enough() bool {
	for i := range w.watched {
		p := &w.watched[i]
		if !p.moved.Load() {
			continue
		}
		p.moved.Store(false) // before looking, so that a move meanwhile isn't missed
		size, err := p.measure(w.query.isolation, w.query.minBytes)
		if err != nil {
			return true
		}
		w.size += size - p.size
		p.size = size
	}
	return w.size >= w.query.minBytes
}

// measure is how many bytes there are to read, up to the partition's limit. When any will do, it doesn't look for more.
func (p *parkedPartition) measure(i storage.Isolation, need int64) (int64, error) {
	if need <= 1 && visibleEnd(p.log.Offsets(), i) > p.offset {
		return 1, nil
	}
	found, err := p.log.Read(p.offset, storage.ReadOptions{Isolation: i, MaxBytes: p.limit, WholeFirst: true})
	if err != nil || found.Records == nil {
		return 0, err
	}
	defer found.Records.Release()
	return found.Records.Size(), nil
}

// visibleEnd is the end of what a reader may see.
func visibleEnd(o storage.Offsets, i storage.Isolation) int64 {
	if i == storage.ReadCommitted {
		return o.LastStable
	}
	return o.HighWatermark
}
