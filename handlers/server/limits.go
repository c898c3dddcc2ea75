package server

import (
	"net/netip"
	"sync"
	"time"
)

// entry says how a connection fared with the limits.
type entry int

const (
	entered entry = iota
	tooManyOfAddress
	shutDown
)

// connLimits counts connections, all and by address. Concurrent calls are allowed.
type connLimits struct {
	bounds  func(netip.Addr) (all, ofAddress int)
	stopped chan struct{}

	mu struct {
		sync.Mutex
		all       int
		byAddress map[netip.Addr]int
		stop      bool
	}
	left *sync.Cond
}

func (l *connLimits) init(bounds func(netip.Addr) (all, ofAddress int)) {
	l.bounds = bounds
	l.stopped = make(chan struct{})
	l.mu.byAddress = make(map[netip.Addr]int)
	l.left = sync.NewCond(&l.mu)
}

// enter counts a connection in. When there are too many in all it calls full, without the lock, and waits.
func (l *connLimits) enter(a netip.Addr, full func()) entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, most := l.bounds(a); l.mu.byAddress[a] >= most {
		return tooManyOfAddress
	}
	if l.full(a) {
		l.mu.Unlock()
		full()
		l.mu.Lock()
	}
	for l.full(a) && !l.mu.stop {
		l.left.Wait()
	}
	if l.mu.stop {
		return shutDown
	}
	l.mu.all++
	l.mu.byAddress[a]++
	return entered
}

// full says whether no more connection may come in. The caller holds the lock.
func (l *connLimits) full(a netip.Addr) bool {
	most, _ := l.bounds(a)
	return l.mu.all >= most
}

// leave counts a connection out.
func (l *connLimits) leave(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.all--
	if l.mu.byAddress[a]--; l.mu.byAddress[a] == 0 {
		delete(l.mu.byAddress, a)
	}
	l.left.Signal()
}

// recheck wakes those who wait, since the bounds may have changed.
func (l *connLimits) recheck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left.Broadcast()
}

// stop lets nobody in any more. It is called once.
func (l *connLimits) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.stop = true
	close(l.stopped)
	l.left.Broadcast()
}

const (
	// logBurst warnings may come at once, then one per logPause.
	logBurst = 5
	logPause = 10 * time.Second
)

// logLimit keeps peers from filling the log. The zero value is ready; concurrent calls are allowed.
type logLimit struct {
	mu struct {
		sync.Mutex
		credit  int
		last    time.Time
		skipped int
	}
}

// allow says whether one more line may be written, and how many were left out since the last.
func (l *logLimit) allow(now time.Time) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.last.IsZero() {
		l.mu.credit, l.mu.last = logBurst, now
	}
	if n := int(min(now.Sub(l.mu.last)/logPause, logBurst)); n > 0 {
		l.mu.credit, l.mu.last = min(l.mu.credit+n, logBurst), now
	}
	if l.mu.credit == 0 {
		l.mu.skipped++
		return 0, false
	}
	l.mu.credit--
	skipped, l.mu.skipped = l.mu.skipped, 0
	return skipped, true
}
