package group

import (
	"strings"
	"sync"
	"time"

	"github.com/kbroker/kbroker/protocol/clock"
)

// group is one group id: a membership machine, if there ever was a member, and committed offsets.
type group struct {
	id string
	c  *Coordinator

	mu       sync.Mutex
	dead     bool     // deleted; whoever finds it looks again
	classic  *classic // at most one of the two; none in a group that has only offsets
	consumer *consumer
	timer    clock.Timer
	wakeAt   time.Duration // what the timer is armed for; 0 when it isn't
	offsets  offsets       // has its own lock, below mu
	recorded bool          // the store holds a record of the machine
}

func (c *Coordinator) newGroup(id string) *group {
	return &group{id: strings.Clone(id), c: c}
}

// turn begins an event of this group, with the settings that hold for it. The caller holds g.mu.
func (g *group) turn() *turn {
	t := g.c.turn()
	if g.c.groupConfig != nil {
		t.cfg.Consumer = g.c.groupConfig(g.id, t.cfg.Consumer)
	}
	return t
}

// empty says that the group has no members, and nobody is in the middle of joining.
func (g *group) empty() bool {
	switch {
	case g.classic != nil:
		return g.classic.state == stateEmpty
	case g.consumer != nil:
		return len(g.consumer.members) == 0
	default:
		return true
	}
}

// deserted says that, and that nobody has been given a member id to join with.
func (g *group) deserted() bool {
	return g.empty() && (g.classic == nil || g.classic.deserted())
}

// buryUnused forgets a group that was made for a request which was refused. The caller holds g.mu.
func (g *group) buryUnused() {
	if g.recorded || g.dead || g.consumer != nil || g.classic != nil && (!g.classic.deserted() || g.classic.generation > 0) {
		return
	}
	g.offsets.mu.Lock()
	vacant := len(g.offsets.topics) == 0 && len(g.offsets.txns) == 0 && !g.offsets.busy()
	g.offsets.mu.Unlock()
	if vacant {
		g.c.bury(g)
	}
}

// tidy does so for a request that has let go of the group.
func (g *group) tidy() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.buryUnused()
}

// wake sees to it that tick runs at that time or before. The caller holds g.mu.
func (g *group) wake(at, now time.Duration) {
	if g.wakeAt != 0 && g.wakeAt <= at {
		return
	}
	g.wakeAt = at
	d := max(at-now, 0)
	if g.timer == nil {
		g.timer = g.c.clock.AfterFunc(d, g.tick)
		return
	}
	g.timer.Reset(d)
}

// disarm stops the timer. The caller holds g.mu.
func (g *group) disarm() {
	if g.timer != nil {
		g.timer.Stop()
	}
	g.wakeAt = 0
}

// tick lets the machine do what has become due.
func (g *group) tick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead || g.wakeAt == 0 || g.c.draining.Load() {
		return
	}
	g.wakeAt = 0
	t := g.turn()
	switch {
	case g.classic != nil:
		g.classic.tick(t)
	case g.consumer != nil:
		g.consumer.tick(t)
	}
	var next time.Duration
	switch { // a tick may have turned one into the other
	case g.classic != nil:
		next = g.classic.nextDeadline()
	case g.consumer != nil:
		next = g.consumer.nextDeadline()
	}
	if next != 0 {
		g.wake(next, t.now)
	}
}
