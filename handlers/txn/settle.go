package txn

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol/clock"
)

// That a transaction is complete needn't be in the store before anyone is answered: what is there, Prepare*, leads to the
// same. So it is written a little later, for all transactions of that time at once; a producer that goes on at once has
// written its next state over it by then.

const (
	settleAfter = 50 * time.Millisecond
	// settleTogether bounds how many ids are locked and written together.
	settleTogether = 256
)

// settler remembers whose completion isn't in the store.
type settler struct {
	settling sync.Mutex // held by who locks several entries; comes before all of them

	sync.Mutex
	late   []*entry
	timer  clock.Timer
	armed  bool
	closed bool
}

func (s *settler) stop() {
	s.Lock()
	defer s.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// take empties the list.
func (s *settler) take() []*entry {
	s.Lock()
	defer s.Unlock()
	late := s.late
	s.late, s.armed = nil, false
	for _, e := range late {
		e.listed = false
	}
	return late
}

// settleLater sees to it that a completion gets into the store.
func (c *Coordinator) settleLater(e *entry) {
	s := &c.settler
	s.Lock()
	defer s.Unlock()
	if !e.listed {
		e.listed = true
		s.late = append(s.late, e)
	}
	if s.armed || s.closed {
		return
	}
	s.armed = true
	s.timer = c.Clock.AfterFunc(settleAfter, c.settle)
}

// settle writes the completions that aren't in the store yet.
func (c *Coordinator) settle() {
	c.settler.settling.Lock()
	defer c.settler.settling.Unlock()
	late := c.settler.take()
	for len(late) > 0 {
		n := min(len(late), settleTogether)
		c.settleSome(late[:n])
		late = late[n:]
	}
}

// settleSome does so for some entries, each of them locked meanwhile, so that none is written over a newer state. An error
// is no harm: the next commit of the id says more, or the next process completes the transaction once more.
func (c *Coordinator) settleSome(late []*entry) {
	var b meta.Batch
	written := late[:0:0]
	for _, e := range late {
		e.mu.Lock()
		if !e.late || e.dead || e.unsettled {
			e.mu.Unlock()
			continue
		}
		e.late = false
		b.PutTransaction(e.id, e.state.encode(nil))
		written = append(written, e)
	}
	if b.Len() > 0 {
		if err := c.Store.Commit(&b); err != nil {
			c.metrics.storeErrors.Inc()
			c.Logger.Warn("completed transactions not noted", zap.Error(err))
		}
	}
	for _, e := range written {
		e.mu.Unlock()
	}
}
