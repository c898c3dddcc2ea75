package storage

import (
	"container/heap"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/segment"
)

// Maintenance is how the logs of a set are looked after.
type Maintenance struct {
	// RetentionInterval is the time between searches for segments to remove, or to end because of their age;
	// InitialDelay the time before the first.
	RetentionInterval, InitialDelay time.Duration

	Compact           bool  // whether logs are compacted at all
	CompactionThreads int   // how many are at a time; at least 1
	MapBytes          int64 // memory for the maps of keys, of all threads together
	MapLoad           float64
	BytesPerSecond    float64       // that compaction may read and write; <= 0: no limit
	Backoff           time.Duration // after a failed pass

	ScrubInterval       time.Duration // between rereads of everything; <= 0: never
	ScrubBytesPerSecond float64       // <= 0: no limit
}

// maintenance looks after the logs of a set: it removes and ends segments, compacts logs and rereads them. It has goroutines
// only while there is something to do; what is to be done later waits in a queue with one timer. A nil maintenance does
// nothing.
//
// Lock order: a log's mu before maintenance's.
type maintenance struct {
	set      *Set
	settings func() Maintenance
	ctx      context.Context //nolint:containedctx // ends with the set
	end      context.CancelFunc
	pacer    pacer // of compaction
	scrubber pacer
	work     sync.WaitGroup

	mu struct {
		sync.Mutex
		closed  bool
		queue   deadlines
		places  map[*Log]*deadline
		timer   clock.Timer
		timerAt time.Time
		sweepAt time.Time
		scrubAt time.Time // zero: not planned

		ready      map[*Log]struct{} // may be compacted
		busy       map[*Log]struct{} // being compacted
		looking    bool
		compacting int
		scrubbing  bool
	}
}

// deadline is when a log is to be looked at.
type deadline struct {
	log   *Log
	at    time.Time
	place int
}

// deadlines is a heap by time.
type deadlines []*deadline

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

// Push is part of heap.Interface.
func (d *deadlines) Push(x any) {
	e := x.(*deadline) //nolint:forcetypeassert // the heap holds nothing else
	e.place = len(*d)
	*d = append(*d, e)
}

// Pop is part of heap.Interface.
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	e := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return e
}

// newMaintenance makes what the options ask for; nil if that is nothing.
func newMaintenance(s *Set) *maintenance {
	if s.options.Maintenance == nil {
		return nil
	}
	m := &maintenance{set: s, settings: s.options.Maintenance}
	m.ctx, m.end = context.WithCancel(context.Background())
	m.pacer.clock, m.scrubber.clock = s.clock, s.clock
	m.mu.places = map[*Log]*deadline{}
	m.mu.ready, m.mu.busy = map[*Log]struct{}{}, map[*Log]struct{}{}
	now, c := s.clock.Now(), m.settings()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.sweepAt = later(now, c.InitialDelay)
	if c.ScrubInterval > 0 {
		m.mu.scrubAt = later(now, c.ScrubInterval)
	}
	m.arm()
	return m
}

// later is a time that is never so far that it can't be told any more.
func later(now time.Time, d time.Duration) time.Time {
	return now.Add(min(max(d, 0), math.MaxInt64/2))
}

// close ends everything and waits until it has ended.
func (m *maintenance) close() {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.mu.closed = true
	stop(&m.mu.timer)
	m.mu.Unlock()
	m.end()
	m.work.Wait()
}

// wake has a log looked at, no later than at a time.
func (m *maintenance) wake(l *Log, at time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.closed {
		return
	}
	d := m.mu.places[l]
	switch {
	case d == nil:
		d = &deadline{log: l, at: at}
		m.mu.places[l] = d
		heap.Push(&m.mu.queue, d)
	case at.Before(d.at):
		d.at = at
		heap.Fix(&m.mu.queue, d.place)
	default:
		return
	}
	m.arm()
}

// arm sets the timer to what comes next. The caller holds mu.
func (m *maintenance) arm() {
	if m.mu.closed || m.mu.looking {
		return // who is looking arms it at the end
	}
	next := m.mu.sweepAt
	if !m.mu.scrubAt.IsZero() && m.mu.scrubAt.Before(next) && !m.mu.scrubbing {
		next = m.mu.scrubAt
	}
	if len(m.mu.queue) > 0 && m.mu.queue[0].at.Before(next) {
		next = m.mu.queue[0].at
	}
	if m.mu.timer != nil && m.mu.timerAt.Equal(next) {
		return
	}
	stop(&m.mu.timer)
	m.mu.timerAt = next
	m.mu.timer = m.set.clock.AfterFunc(max(next.Sub(m.set.clock.Now()), 0), m.tick)
}

// tick is the timer's function.
func (m *maintenance) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.timer = nil
	if m.mu.closed || m.mu.looking {
		return
	}
	m.mu.looking = true
	m.work.Go(m.look)
}

// look does what is due, and starts what takes long.
func (m *maintenance) look() {
	for {
		now := m.set.clock.Now()
		m.mu.Lock()
		if m.mu.closed {
			m.mu.looking = false
			m.mu.Unlock()
			return
		}
		sweep := !now.Before(m.mu.sweepAt)
		if sweep {
			m.mu.sweepAt = later(now, max(m.settings().RetentionInterval, time.Millisecond))
		}
		var l *Log
		if len(m.mu.queue) > 0 && !now.Before(m.mu.queue[0].at) {
			d := heap.Pop(&m.mu.queue).(*deadline) //nolint:forcetypeassert // as in Push
			l = d.log
			delete(m.mu.places, l)
		}
		scrub := !m.mu.scrubAt.IsZero() && !now.Before(m.mu.scrubAt) && !m.mu.scrubbing
		if scrub {
			m.mu.scrubbing = true
			m.work.Go(m.scrub)
		}
		if !sweep && l == nil {
			m.mu.looking = false
			m.arm()
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		if l != nil {
			m.attend(l, now)
		}
		if sweep {
			m.sweep(now)
		}
	}
}

// sweep attends to every log.
func (m *maintenance) sweep(now time.Time) {
	m.set.Each(func(l *Log) bool {
		m.attend(l, now)
		l.ExpireProducers(now.UnixMilli())
		return m.ctx.Err() == nil
	})
}

// attend removes what is to be removed of a log, ends its last segment if it is old, and sees whether it is to be compacted.
func (m *maintenance) attend(l *Log, now time.Time) {
	if l.Err() != nil {
		return // there is nothing to be done for it, or not yet
	}
	err := l.retain(now)
	due, rollErr := l.rollIdle(now)
	if l.Err() != nil {
		return
	}
	if err = errors.Join(err, rollErr); err != nil {
		m.set.logger.Warn("log could not be maintained; it is tried again",
			zap.Stringer("partition", l.part), zap.Error(err))
		m.wake(l, later(now, max(m.settings().Backoff, compactionPause)))
		return
	}
	c := m.settings()
	if !l.config.Load().Compact || !c.Compact {
		return // the sweep is often enough
	}
	if !due.IsZero() {
		m.wake(l, due)
	}
	plan, next := l.planCompaction(now)
	if plan.due {
		next = time.Time{}
		if rest := l.rested(now); rest > 0 {
			next = now.Add(rest)
		} else {
			m.compactSoon(l)
		}
	}
	if !next.IsZero() {
		m.wake(l, next)
	}
}

// compactSoon hands a log to the goroutines that compact, and starts one if there are not enough.
func (m *maintenance) compactSoon(l *Log) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.ready[l] = struct{}{}
	if m.mu.closed || m.mu.compacting >= max(m.settings().CompactionThreads, 1) {
		return
	}
	m.mu.compacting++
	m.work.Go(m.compactAll)
}

// compactAll compacts until nothing is left to do, the dirtiest log first.
func (m *maintenance) compactAll() {
	for {
		l, plan := m.dirtiest()
		if l == nil {
			return
		}
		c := m.settings()
		err := l.compact(m.ctx, plan, compactionLimits{
			MapBytes: c.MapBytes / int64(max(c.CompactionThreads, 1)), MapLoad: c.MapLoad,
			Pace: func(bytes int) error {
				if spaceErr := m.set.compacting.take(bytes); spaceErr != nil {
					return spaceErr
				}
				return m.pacer.pace(m.ctx, bytes, m.settings().BytesPerSecond)
			},
		})
		now := m.set.clock.Now()
		l.lastPass.Store(&now)
		m.release(l)
		if err == nil || errors.Is(err, errGone) || segment.IsClosed(err) {
			m.wake(l, now) // what retention or a deletion was faster with is looked at anew
			continue
		}
		if m.ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) {
			continue
		}
		m.set.upkeep.failed.Inc()
		m.set.logger.Warn("log could not be compacted; it is tried again", zap.Stringer("partition", l.part), zap.Error(err))
		m.wake(l, later(now, max(c.Backoff, compactionPause)))
	}
}

// dirtiest takes the log with the largest part to compact off the list; nil, which ends the goroutine's turn, if there is
// none that nobody is at.
func (m *maintenance) dirtiest() (*Log, compactionPlan) {
	for {
		candidates := m.candidates()
		if candidates == nil {
			return nil, compactionPlan{}
		}
		now := m.set.clock.Now()
		var best *Log
		var bestPlan compactionPlan
		var rest []*Log
		for _, l := range candidates {
			plan, _ := l.planCompaction(now)
			switch {
			case !plan.due:
				rest = append(rest, l)
			case best == nil || plan.ratio > bestPlan.ratio:
				best, bestPlan = l, plan
			}
		}
		if m.claim(best, rest) {
			return best, bestPlan
		}
	}
}

// candidates lists the logs that may be compacted and that nobody is at. If there are none, or the set is being closed, the
// calling goroutine no longer counts.
func (m *maintenance) candidates() []*Log {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*Log
	for l := range m.mu.ready {
		if _, busy := m.mu.busy[l]; !busy {
			list = append(list, l)
		}
	}
	if m.mu.closed || len(list) == 0 {
		m.mu.compacting--
		return nil
	}
	return list
}

// claim takes logs off the list that there is nothing to do for, and one that is now being compacted, unless another
// goroutine was faster.
func (m *maintenance) claim(best *Log, rest []*Log) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range rest {
		delete(m.mu.ready, l)
	}
	if best == nil {
		return false
	}
	_, listed := m.mu.ready[best]
	if _, busy := m.mu.busy[best]; busy || !listed {
		return false
	}
	delete(m.mu.ready, best)
	m.mu.busy[best] = struct{}{}
	return true
}

// release ends claim.
func (m *maintenance) release(l *Log) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.busy, l)
}

// forget drops what is planned for a log that is no more.
func (m *maintenance) forget(l *Log) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.ready, l)
	if d := m.mu.places[l]; d != nil {
		heap.Remove(&m.mu.queue, d.place)
		delete(m.mu.places, l)
	}
}

// sealed has a log looked at that may be compacted, now that a segment of it has ended, or it has just been opened.
func (l *Log) sealed() {
	if l.config.Load().Compact {
		l.set.maintenance.wake(l, l.set.clock.Now())
	}
}

// begun notes the time of the first batch in the last segment and, where the log is compacted, sees to it that the segment
// ends in time. The caller holds mu.
func (l *Log) begun(config *Config) {
	l.mu.filled = l.set.clock.Now()
	if !config.Compact || l.set.maintenance == nil {
		return
	}
	if age := config.rollAge(l.part, l.mu.active().Base); age > 0 {
		l.set.maintenance.wake(l, later(l.mu.filled, age))
	}
}

// rested is how long a log is still left alone after a pass.
func (l *Log) rested(now time.Time) time.Duration {
	last := l.lastPass.Load()
	if last == nil {
		return 0
	}
	return last.Add(compactionPause).Sub(now)
}
