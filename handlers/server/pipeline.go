package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kbroker/kbroker/protocol"
)

// slot is an answer that waits for its place in the order of a connection.
type slot struct {
	resp     protocol.Response
	key      int16
	bytesIn  int
	received time.Time
}

// pipeline is the part of a connection where answers wait that couldn't be written by the reader at once. The reader puts
// slots in; the writer goroutine, started at the first one, takes them out in order, runs what is Later, and writes.
//
// The invariant: while pending is 0 the reader may write to the connection, otherwise only the writer does.
type pipeline struct {
	conn *conn
	max  int

	pending atomic.Int32 // slots put in and not yet written or dropped; only the reader adds

	mu struct {
		sync.Mutex
		queue    []slot
		overlap  bool // all pending slots let a Produce start
		started  bool // the writer runs
		closed   bool // nothing more comes: the writer ends once the queue is empty
		failed   bool // the connection is gone: whoever waits gives up
		draining bool
		ctx      context.Context // ends with the connection
		park     context.Context // ends at the drain too
		cancel   context.CancelFunc
		unpark   context.CancelFunc
	}
	toWriter *sync.Cond // something was put in, or closed
	toReader *sync.Cond // something was taken out, or failed
	stopped  chan struct{}
}

func (p *pipeline) init(c *conn, most int) {
	p.conn, p.max = c, most
	p.toWriter, p.toReader = sync.NewCond(&p.mu.Mutex), sync.NewCond(&p.mu.Mutex)
	p.stopped = make(chan struct{})
}

// idle says whether all answers have been written, so that the reader may write.
func (p *pipeline) idle() bool { return p.pending.Load() == 0 }

// wait returns when a request may start: all before it are answered, or it and they are Produces that may overlap. It is
// false when the connection is gone.
func (p *pipeline) wait(produce bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.mu.failed && !p.may(produce) {
		p.toReader.Wait()
	}
	return !p.mu.failed
}

// may says whether a request may start. The caller holds the lock.
func (p *pipeline) may(produce bool) bool {
	n := int(p.pending.Load())
	return n == 0 || produce && p.mu.overlap && n < p.max
}

// put adds an answer behind those that wait. Only the reader calls it.
func (p *pipeline) put(s slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	overlaps := s.resp.Later == nil && !s.resp.Close || s.resp.Later != nil && s.resp.Overlap
	p.mu.overlap = overlaps && (p.mu.overlap || p.pending.Load() == 0)
	p.pending.Add(1)
	p.mu.queue = append(p.mu.queue, s)
	if !p.mu.started {
		p.mu.started = true
		p.contexts()
		go p.run()
	}
	p.toWriter.Signal()
}

// contexts makes what Later is called with. The caller holds the lock.
func (p *pipeline) contexts() {
	p.mu.ctx, p.mu.cancel = context.WithCancel(context.Background())
	p.mu.park, p.mu.unpark = context.WithCancel(p.mu.ctx)
	if p.mu.failed {
		p.mu.cancel()
	}
	if p.mu.draining {
		p.mu.unpark()
	}
}

// run is the writer goroutine.
func (p *pipeline) run() {
	defer close(p.stopped)
	for {
		s, ctx, ok := p.take()
		if !ok {
			return
		}
		p.conn.writeSlot(ctx, &s)
		p.taken()
	}
}

// take waits for the next slot. The context is the one for its Later: a Produce's ends only with the connection, so that a
// drain waits for its sync; that of others ends at the drain.
func (p *pipeline) take() (s slot, ctx context.Context, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.mu.queue) == 0 {
		if p.mu.closed {
			return s, nil, false
		}
		p.toWriter.Wait()
	}
	s = p.mu.queue[0]
	p.mu.queue[0] = slot{}
	if p.mu.queue = p.mu.queue[1:]; len(p.mu.queue) == 0 {
		p.mu.queue = nil
	}
	if s.resp.Overlap {
		return s, p.mu.ctx, true
	}
	return s, p.mu.park, true
}

// taken says that the slot last taken has been dealt with.
func (p *pipeline) taken() {
	p.mu.Lock()
	p.pending.Add(-1)
	p.toReader.Signal()
	p.mu.Unlock()
}

// drain wakes what is parked; it then answers with what it has.
func (p *pipeline) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.draining = true
	if p.mu.unpark != nil {
		p.mu.unpark()
	}
}

// fail says that the connection is gone. Concurrent and repeated calls are allowed.
func (p *pipeline) fail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.failed = true
	if p.mu.cancel != nil {
		p.mu.cancel()
	}
	p.toReader.Broadcast()
}

// close ends the writer once everything put in has been dealt with, and waits for it. Only the reader calls it.
func (p *pipeline) close() {
	p.mu.Lock()
	p.mu.closed = true
	started, cancel := p.mu.started, p.mu.cancel
	p.toWriter.Signal()
	p.mu.Unlock()
	if started {
		<-p.stopped
		cancel()
	}
}
