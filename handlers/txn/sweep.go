package txn

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
)

// sweeps holds the timers of the searches for what has timed out or expired.
type sweeps struct {
	sync.Mutex
	timers [2]clock.Timer
	closed bool
}

func (s *sweeps) stop() {
	s.Lock()
	defer s.Unlock()
	s.closed = true
	for _, t := range s.timers {
		if t != nil {
			t.Stop()
		}
	}
}

func (c *Coordinator) scheduleSweeps() {
	c.every(0, func(s Config) time.Duration { return s.AbortInterval }, c.abortTimedOut)
	c.every(1, func(s Config) time.Duration { return s.ExpireInterval }, c.expireIDs)
}

// every arms a timer that runs a search again and again.
func (c *Coordinator) every(slot int, interval func(Config) time.Duration, search func()) {
	c.sweeps.Lock()
	defer c.sweeps.Unlock()
	if c.sweeps.closed {
		return
	}
	c.sweeps.timers[slot] = c.Clock.AfterFunc(max(interval(c.Config()), time.Millisecond), func() {
		search()
		c.every(slot, interval, search)
	})
}

// abortTimedOut aborts the transactions that have been open for too long and shuts their producers out.
func (c *Coordinator) abortTimedOut() {
	for _, e := range c.all() {
		e.mu.Lock()
		if !e.dead && e.state.timedOut(c.Clock.Now().UnixMilli()) && c.agree(e) == protocol.None {
			open := e.state
			if c.fence(e) == protocol.None {
				c.metrics.timedOut.Inc()
				c.Logger.Info("transaction aborted, as its time is up", zap.String("transactional id", e.id),
					zap.Int64("producer id", open.ProducerID), zap.Int16("producer epoch", open.Epoch))
			}
		}
		e.mu.Unlock()
	}
}

// expireIDs forgets the transactional ids that haven't been used for long.
func (c *Coordinator) expireIDs() {
	expirationMs := c.Config().IDExpiration.Milliseconds()
	for _, e := range c.all() {
		e.mu.Lock()
		if !e.dead && e.known && e.state.expired(c.Clock.Now().UnixMilli(), expirationMs) {
			c.forget(e)
		}
		e.mu.Unlock()
	}
}

// forget removes a transactional id. The caller holds e.mu.
func (c *Coordinator) forget(e *entry) {
	var b meta.Batch
	b.DeleteTransaction(e.id)
	if err := c.Store.Commit(&b); err != nil {
		e.unsettled = true
		c.settleLater(e, settleAgain)
		c.metrics.storeErrors.Inc()
		c.Logger.Warn("transactional id not removed", zap.String("transactional id", e.id), zap.Error(err))
		return
	}
	c.metrics.expired.Inc()
	c.bury(e)
}
