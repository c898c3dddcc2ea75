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
// written its next state over it by then. The same way the store is made to agree after a commit has failed.

const (
	settleAfter = 50 * time.Millisecond
	// settleAgain is the pause after an error.
	settleAgain = 5 * time.Second
	// settleTogether bounds how many ids are locked and written together.
	settleTogether = 256
)

// settler remembers of whom the store doesn't have the last state.
type settler struct {
	settling sync.Mutex // held by who locks several entries; comes before all of them

	sync.Mutex
	behind []*entry
	timer  clock.Timer
	at     time.Time // when the timer fires, if behind isn't empty
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
	behind := s.behind
	s.behind = nil
	for _, e := range behind {
		e.listed = false
	}
	return behind
}

// settleLater sees to it that an entry's state gets into the store after a pause.
func (c *Coordinator) settleLater(e *entry, pause time.Duration) {
	s := &c.settler
	s.Lock()
	defer s.Unlock()
	if !e.listed {
		e.listed = true
		s.behind = append(s.behind, e)
	}
	at := c.Clock.Now().Add(pause)
	if s.closed || len(s.behind) > 1 && !at.Before(s.at) {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.at = at
	s.timer = c.Clock.AfterFunc(pause, c.settle)
}

// settle writes the states that aren't in the store.
func (c *Coordinator) settle() {
	c.settler.settling.Lock()
	defer c.settler.settling.Unlock()
	behind := c.settler.take()
	for len(behind) > 0 {
		n := min(len(behind), settleTogether)
		c.settleSome(behind[:n])
		behind = behind[n:]
	}
}

// settleSome does so for some entries, each of them locked meanwhile, so that none is written over a newer state.
func (c *Coordinator) settleSome(behind []*entry) {
	var b meta.Batch
	written := make([]*entry, 0, len(behind))
	for _, e := range behind {
		e.mu.Lock()
		if e.dead || !e.known || !e.late && !e.unsettled {
			e.mu.Unlock()
			continue
		}
		b.PutTransaction(e.id, e.state.encode(nil))
		written = append(written, e)
	}
	if len(written) == 0 {
		return
	}
	err := c.Store.Commit(&b)
	if err != nil {
		c.metrics.storeErrors.Inc()
		c.Logger.Warn("transactions' states not committed; it is tried again", zap.Int("transactional ids", len(written)), zap.Error(err))
	}
	for _, e := range written {
		if err == nil {
			e.late, e.unsettled = false, false
		} else {
			c.settleLater(e, settleAgain)
		}
		e.mu.Unlock()
	}
}
