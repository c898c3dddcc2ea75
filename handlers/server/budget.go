package server

import "sync"

// budget is a bound in bytes that many connections share. Who asks for more than is left waits in line; nobody is refused.
// Concurrent calls are allowed.
//
// Connections that each hold a part and wait for more could wait for each other for ever. With overdraft set, the first in
// line may then take what it needs beyond the total, one connection at a time.
type budget struct {
	total     int64
	overdraft bool

	mu struct {
		sync.Mutex
		used    int64
		lent    bool // a hold is beyond the total
		waiters []*budgetWaiter
	}
}

// hold is what one user has of a budget. It is used by one goroutine at a time.
type hold struct {
	bytes int64
	over  bool // may go beyond the total
}

// budgetWaiter is a hold in line for n bytes. The fields are guarded by the budget's lock until granted is closed.
type budgetWaiter struct {
	hold    *hold
	n       int64
	granted chan struct{}
}

// newBudget makes a budget of total bytes.
func newBudget(total int64, overdraft bool) *budget {
	return &budget{total: total, overdraft: overdraft}
}

// acquire adds n bytes to a hold, waiting until there is room. It is false, with nothing added, if done is closed first.
func (b *budget) acquire(done <-chan struct{}, h *hold, n int64) bool {
	b.mu.Lock()
	if len(b.mu.waiters) == 0 && b.grant(h, n) || h.over && b.grant(h, n) {
		b.mu.Unlock()
		return true
	}
	w := &budgetWaiter{hold: h, n: n, granted: make(chan struct{})}
	b.mu.waiters = append(b.mu.waiters, w)
	b.mu.Unlock()
	select {
	case <-w.granted:
		return true
	case <-done:
		return b.leave(w)
	}
}

// leave takes a waiter out of the line. It is true if its turn has come meanwhile.
func (b *budget) leave(w *budgetWaiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range b.mu.waiters {
		if o == w {
			b.mu.waiters = append(b.mu.waiters[:i], b.mu.waiters[i+1:]...)
			b.wake()
			return false
		}
	}
	return true
}

// force adds n bytes to a hold whether there is room or not.
func (b *budget) force(h *hold, n int64) {
	b.mu.Lock()
	h.bytes += n
	b.mu.used += n
	b.mu.Unlock()
}

// release gives back all that a hold has.
func (b *budget) release(h *hold) {
	if h.bytes == 0 && !h.over {
		return
	}
	b.mu.Lock()
	b.mu.used -= h.bytes
	if h.over {
		b.mu.lent = false
	}
	*h = hold{}
	b.wake()
	b.mu.Unlock()
}

// grant adds n bytes to a hold if it may have them. The caller holds the lock.
func (b *budget) grant(h *hold, n int64) bool {
	switch {
	case h.over, b.mu.used+n <= b.total:
	case b.overdraft && !b.mu.lent:
		h.over, b.mu.lent = true, true
	default:
		return false
	}
	h.bytes += n
	b.mu.used += n
	return true
}

// wake serves the line from its head. The caller holds the lock.
func (b *budget) wake() {
	for len(b.mu.waiters) > 0 {
		w := b.mu.waiters[0]
		if !b.grant(w.hold, w.n) {
			return
		}
		b.mu.waiters[0] = nil
		b.mu.waiters = b.mu.waiters[1:]
		close(w.granted)
	}
}

// inUse is how much is held.
func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}
