package group

import (
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
)

// scheduleSweep arms the timer for the next look at what has expired.
func (c *Coordinator) scheduleSweep() {
	c.sweeper.Lock()
	defer c.sweeper.Unlock()
	interval := c.config().RetentionCheckInterval
	if c.sweeper.closed || interval <= 0 {
		return
	}
	c.sweeper.timer = c.clock.AfterFunc(interval, func() {
		c.sweep()
		c.scheduleSweep()
	})
}

// sweep removes offsets past their retention, and groups of which nothing is left.
func (c *Coordinator) sweep() {
	removed := 0
	for _, g := range c.all() {
		removed += c.sweepGroup(g)
	}
	c.metrics.offsetsExpired.Add(float64(removed))
	if removed > 0 {
		c.log.Info("committed offsets expired", zap.Int("offsets", removed))
	}
}

// sweepGroup returns how many offsets it removed.
func (c *Coordinator) sweepGroup(g *group) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return 0
	}
	t := g.turn()
	o := &g.offsets
	o.mu.Lock()
	o.quiet()
	expired := g.expired(t)
	count := o.count()
	var err error
	switch {
	case len(expired) == count && len(o.txns) == 0 && g.deserted():
		err = c.erase(g, expired)
	case len(expired) > 0:
		err = c.deleteOffsets(g, expired)
	default:
		o.mu.Unlock()
	}
	if err != nil {
		return 0
	}
	return len(expired)
}

// expired lists the offsets past their retention, which counts
//   - from the commit in a group that never had members (its consumers assign themselves);
//   - from when the last member went, in a group that had;
//   - from the commit, for topics that nobody subscribes to any more, in a stable group of consumers and in a consumer
//     group of KIP-848 at any time.
//
// A commit that says itself how long it is to be kept (versions 2 to 4) is kept so long. The caller holds g.mu and
// g.offsets.mu.
func (g *group) expired(t *turn) []meta.TopicPartition {
	rule := g.retention(t)
	if rule == nil {
		return nil
	}
	var expired []meta.TopicPartition
	for name, list := range g.offsets.topics {
		for _, p := range list {
			if rule(name, p.cursor) && !g.offsets.pending(name, p.partition) {
				expired = append(expired, meta.TopicPartition{Topic: name, Partition: p.partition})
			}
		}
	}
	return expired
}

// retention is the rule by which the group's offsets expire as it stands; nil when none do.
func (g *group) retention(t *turn) func(topic string, c meta.Cursor) bool {
	retentionMs := t.cfg.OffsetsRetention.Milliseconds()
	old := func(c meta.Cursor, sinceMs int64) bool {
		if c.ExpireMs >= 0 {
			return t.wallMs >= c.ExpireMs
		}
		return t.wallMs-sinceMs >= retentionMs
	}
	k := g.classic
	switch {
	case g.consumer != nil:
		return func(topic string, c meta.Cursor) bool { return old(c, c.CommitMs) && !g.consumer.subscribes(topic) }
	case k == nil || k.protocolType == "":
		return func(_ string, c meta.Cursor) bool { return old(c, c.CommitMs) }
	case k.state == stateEmpty:
		return func(_ string, c meta.Cursor) bool {
			if k.emptySinceMs > 0 {
				return old(c, max(k.emptySinceMs, c.CommitMs))
			}
			return old(c, c.CommitMs)
		}
	case k.state == stateStable && k.protocolType == consumerProtocolType:
		return func(topic string, c meta.Cursor) bool { return old(c, c.CommitMs) && !k.subscribes(topic) }
	default:
		return nil
	}
}

// count is the number of committed offsets. The caller holds o.mu.
func (o *offsets) count() int {
	n := 0
	for _, list := range o.topics {
		n += len(list)
	}
	return n
}
