package server

import "time"

const (
	// sweeps is how often within the shortest timeout connections are looked at, so how exact it is.
	sweeps       = 8
	minSweepTime = 10 * time.Millisecond
	maxSweepTime = 5 * time.Second
)

// sweepEvery is how often connections are looked at. A deadline kept in a field and looked at now and then costs a
// request nothing, which timers of the runtime's poller don't.
func (s *Server) sweepEvery() time.Duration {
	return min(max(min(s.opts.MaxIdle, s.opts.StallTimeout)/sweeps, minSweepTime), maxSweepTime)
}

// sweep closes the connections that have let their time pass, and lets those in that wait for a place if there may be more
// now. It runs again while there are any connections.
func (s *Server) sweep() {
	s.limits.recheck()
	now := s.since(s.clock.Now())
	for _, c := range s.all() {
		c.expire(now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.conns) == 0 {
		s.mu.janitor = nil
		return
	}
	s.mu.janitor = s.clock.AfterFunc(s.sweepEvery(), s.sweep)
}

// expire closes the connection if its time has passed. While answers are pending it is the broker's turn.
func (c *conn) expire(now int64) {
	if !c.expired(now) {
		return
	}
	c.server.metrics.timedOut.Add(1)
	c.server.opts.Logger.Debug("connection closed for silence", c.peerField())
	c.fail()
}

func (c *conn) expired(now int64) bool {
	passed := func(due int64) bool { return due != 0 && due <= now }
	switch {
	case passed(c.writeDue.Load()):
		return true
	case !c.pipe.idle():
		return false
	case passed(c.frameDue.Load()):
		return true
	default:
		return passed(c.idleDue.Load()) && c.answered.Load()+int64(c.server.opts.MaxIdle) <= now
	}
}
