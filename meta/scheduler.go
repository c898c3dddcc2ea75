package meta

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler lets Pebble run one compaction at a time, and none before enable: Pebble can't clean up after an opening that
// fails while one runs. Unlike Pebble's own it has no ticker, so that an idle store is idle.
type scheduler struct {
	db pebble.DBForCompaction // set by Register, before anything else

	mu       sync.Mutex
	idle     sync.Cond // signalled when granting ends
	enabled  bool
	paused   bool
	ended    bool
	running  bool // a compaction runs or is being granted
	granting bool
	refused  bool // TrySchedule has said no since granting began
}

func newScheduler() *scheduler {
	s := new(scheduler)
	s.idle.L = &s.mu
	return s
}

// Register implements pebble.CompactionScheduler.
func (s *scheduler) Register(_ int, db pebble.DBForCompaction) { s.db = db }

// Unregister implements pebble.CompactionScheduler.
func (s *scheduler) Unregister() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for s.granting {
		s.idle.Wait()
	}
}

// TrySchedule implements pebble.CompactionScheduler. Pebble holds its main lock; when it is refused it waits for a grant.
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running || !s.enabled || s.paused || s.ended {
		s.refused = true
		return false, nil
	}
	s.running = true
	return true, grant{s}
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. What is allowed never changes.
func (s *scheduler) UpdateGetAllowedWithoutPermission() {}

// enable lets compactions run, and begins with one that waits.
func (s *scheduler) enable() {
	s.mu.Lock()
	s.enabled = true
	s.mu.Unlock()
	s.grantWaiting()
}

// pause lets no compaction begin until resume. It is called with Pebble's main lock held.
func (s *scheduler) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = true
}

// resume ends a pause.
func (s *scheduler) resume() {
	s.mu.Lock()
	s.paused = false
	s.mu.Unlock()
	s.grantWaiting()
}

// grantWaiting starts a compaction if one waits and none runs.
func (s *scheduler) grantWaiting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running || s.granting || s.ended || s.paused || !s.enabled {
		return
	}
	s.running, s.granting = true, true
	for again := true; again; again = !s.running && s.refused && !s.paused && !s.ended {
		s.running, s.refused = true, false
		s.mu.Unlock()
		waiting, _ := s.db.GetWaitingCompaction()
		started := waiting && s.db.Schedule(grant{s})
		s.mu.Lock()
		s.running = started
	}
	s.granting = false
	s.idle.Broadcast()
}

// grant is the permission to run one compaction.
type grant struct{ s *scheduler }

// Started implements pebble.CompactionGrantHandle.
func (g grant) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (g grant) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (g grant) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle.
func (g grant) Done() {
	g.s.mu.Lock()
	g.s.running = false
	g.s.mu.Unlock()
	g.s.grantWaiting()
}
