package clock

import (
	"sort"
	"sync"
	"time"
)

// Manual is a clock for tests: it stands still until Advance. Functions run on the goroutine that calls Advance, in
// the order of their deadlines, so a test is deterministic. Concurrent calls are allowed.
type Manual struct {
	mu     sync.Mutex
	armed  sync.Cond // a timer was added
	now    time.Time
	seq    int
	timers []*manualTimer
}

// NewManual makes a clock that stands at start.
func NewManual(start time.Time) *Manual {
	m := &Manual{now: start}
	m.armed.L = &m.mu
	return m
}

// Now returns where the clock stands.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// AfterFunc implements [Clock].
func (m *Manual) AfterFunc(d time.Duration, f func()) Timer {
	t := &manualTimer{clock: m, fire: func(time.Time) { f() }}
	t.Reset(d)
	return t
}

// NewTimer implements [Clock].
func (m *Manual) NewTimer(d time.Duration) Timer {
	c := make(chan time.Time, 1)
	t := &manualTimer{clock: m, c: c, fire: func(now time.Time) {
		select {
		case c <- now:
		default:
		}
	}}
	t.Reset(d)
	return t
}

// Advance moves the clock by d and fires what has become due, each timer at its own deadline.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	end := m.now.Add(d)
	for {
		t := m.nextDue(end)
		if t == nil {
			break
		}
		if t.at.After(m.now) {
			m.now = t.at
		}
		now := m.now
		m.mu.Unlock()
		t.fire(now)
		m.mu.Lock()
	}
	m.now = end
	m.mu.Unlock()
}

// Set moves the wall clock to t, also backwards, without firing anything.
func (m *Manual) Set(t time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = t
}

// Pending is the number of timers that have neither fired nor been stopped.
func (m *Manual) Pending() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.timers)
}

// AwaitPending returns once at least n timers are pending, such as those of goroutines that are to wait on the clock before it is
// advanced. It has no deadline: where the timers never come, it never returns.
func (m *Manual) AwaitPending(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.timers) < n {
		m.armed.Wait()
	}
}

// nextDue takes the earliest timer due by end off the list. The caller holds m.mu.
func (m *Manual) nextDue(end time.Time) *manualTimer {
	if len(m.timers) == 0 || m.timers[0].at.After(end) {
		return nil
	}
	t := m.timers[0]
	m.timers = m.timers[1:]
	return t
}

type manualTimer struct {
	clock *Manual
	at    time.Time
	seq   int
	c     chan time.Time
	fire  func(time.Time)
}

func (t *manualTimer) C() <-chan time.Time { return t.c }

func (t *manualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.remove()
}

func (t *manualTimer) Reset(d time.Duration) bool {
	m := t.clock
	m.mu.Lock()
	defer m.mu.Unlock()
	was := t.remove()
	m.seq++
	t.at, t.seq = m.now.Add(d), m.seq
	m.timers = append(m.timers, t)
	sort.Slice(m.timers, func(i, j int) bool {
		if m.timers[i].at.Equal(m.timers[j].at) {
			return m.timers[i].seq < m.timers[j].seq
		}
		return m.timers[i].at.Before(m.timers[j].at)
	})
	m.armed.Broadcast()
	return was
}

// remove takes the timer off the clock's list. The caller holds the clock's lock.
func (t *manualTimer) remove() bool {
	for i, o := range t.clock.timers {
		if o == t {
			t.clock.timers = append(t.clock.timers[:i], t.clock.timers[i+1:]...)
			return true
		}
	}
	return false
}
