package group

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
)

// resolveInterval is the least time between two resolutions of a group's patterns, but for new ones.
const resolveInterval = time.Second

// compileSubscription makes a pattern that has to match a topic's whole name. Go's syntax is RE2's, which KIP-848 wants.
func compileSubscription(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err
	}
	return regexp.Compile("^(?:" + pattern + ")$")
}

// topicsOf lists the topics that are there of those that a member subscribes to, by name. A pattern that has not been
// resolved stands for none.
func topicsOf(m *consumerMember, regexes map[string][]string, view *meta.Topics) []*meta.Topic {
	names := m.names
	if found := regexes[m.regex]; m.regex != "" && len(found) > 0 {
		names = slices.Compact(slices.Sorted(slices.Values(slices.Concat(names, found))))
	}
	topics := make([]*meta.Topic, 0, len(names))
	for _, name := range names {
		if topic := view.Named(name); topic != nil {
			topics = append(topics, topic)
		}
	}
	return topics
}

// refreshHash looks at the topics that the group subscribes to, and says whether any has come, gone, grown or been
// replaced, or whether others are subscribed to now.
func (c *change) refreshHash(t *turn) bool {
	view := t.c.topics()
	subscribed := make(map[string]bool)
	for _, m := range c.members() {
		for _, topic := range topicsOf(m, c.regexes, view) {
			subscribed[topic.Name] = true
		}
	}
	hash := uint64(0)
	if len(subscribed) > 0 {
		sum := fnv.New64a()
		for _, name := range slices.Sorted(maps.Keys(subscribed)) {
			topic := view.Named(name)
			_, _ = sum.Write([]byte(name))
			_, _ = sum.Write(topic.ID[:])
			_, _ = sum.Write(binary.BigEndian.AppendUint32(nil, uint32(topic.Partitions)))
		}
		hash = sum.Sum64()
	}
	changed := hash != c.metadataHash
	c.metadataHash, c.seen = hash, view
	return changed
}

// maybeAssign computes a new target assignment if the group epoch has moved on, but not too often: while many members
// join, one computation serves them all.
func (c *change) maybeAssign(t *turn, interval time.Duration) {
	if c.assignmentEpoch >= c.epoch {
		return
	}
	if c.assignedAt != 0 && interval > 0 && t.now < c.assignedAt+interval {
		return
	}
	view := t.c.topics()
	members := c.members()
	parties := make([]*assignable, len(members))
	for i, m := range members {
		parties[i] = &assignable{id: m.id, instance: m.instance, topics: topicsOf(m, c.regexes, view), current: m.target}
	}
	assign, known := assignorNamed(preferredAssignor(t.cfg.Consumer.Assignors, members))
	if !known {
		assign = assignUniformly
	}
	if len(parties) > 0 {
		assign(parties)
	}
	for i, m := range members {
		if !m.target.samePartitions(parties[i].next) {
			moved := *m
			moved.target = parties[i].next
			c.set(&moved)
		}
	}
	c.assignmentEpoch, c.assignedAt = c.epoch, t.now
}

// preferredAssignor is the name of the one that most members ask for, or the first on offer.
func preferredAssignor(offered []string, members []*consumerMember) string {
	var votes []string
	for _, m := range members {
		if m.assignor != "" {
			votes = append(votes, m.assignor)
		}
	}
	best := mostVoted(votes)
	if best == "" && len(offered) > 0 {
		best = offered[0]
	}
	return best
}

// dropUnusedRegexes forgets patterns that nobody subscribes to.
func (c *change) dropUnusedRegexes() {
	used := make(map[string]bool)
	for _, m := range c.members() {
		used[m.regex] = true
	}
	for pattern := range c.regexes {
		if !used[pattern] {
			c.regexes = maps.Clone(c.regexes)
			maps.DeleteFunc(c.regexes, func(p string, _ []string) bool { return !used[p] })
			return
		}
	}
}

// wantResolve sees to it that patterns are resolved, soon after the answer has gone: matching thousands of names takes a
// while, and the member gets what it subscribes to with a later heartbeat anyway.
func (k *consumer) wantResolve(t *turn, wait time.Duration) {
	if at := t.now + wait; k.resolveBy == 0 || at < k.resolveBy {
		k.resolveBy = at
		k.group.wake(at, t.now)
	}
}

// noticeTopics looks whether topics have come or gone since the patterns were resolved.
func (k *consumer) noticeTopics(t *turn) {
	if len(k.regexes) > 0 && k.seenByRegex != t.c.topics() {
		k.wantResolve(t, resolveInterval)
	}
}

// resolve finds the topics that the members' patterns stand for.
func (k *consumer) resolve(t *turn) {
	k.resolveBy = 0
	view := t.c.topics()
	c := k.change()
	c.regexes = make(map[string][]string)
	for _, m := range k.members {
		if _, done := c.regexes[m.regex]; done || m.regex == "" {
			continue
		}
		pattern, err := compileSubscription(m.regex)
		if err != nil {
			t.c.log.Warn("bad pattern in the store", zap.String("group", k.group.id), zap.Error(err))
			continue
		}
		found := []string{}
		for _, topic := range view.All() {
			if pattern.MatchString(topic.Name) {
				found = append(found, topic.Name)
			}
		}
		c.regexes[m.regex] = found
	}
	moved := false
	for pattern, found := range c.regexes {
		moved = moved || !slices.Equal(found, k.regexes[pattern])
	}
	if c.refreshHash(t) || moved {
		c.epoch = k.epoch + 1
	}
	if c.header() && c.commit(t) != nil {
		k.wantResolve(t, commitRetry)
		return
	}
	k.seenByRegex = view
}
