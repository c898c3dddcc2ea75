package group

import (
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
)

// memberState is how far a member of a consumer group is on its way to its target assignment:
//
//	          the target has moved, and takes partitions away
//	Stable ────────────────────────────────────────────────────▶ UnrevokedPartitions
//	 ▲ ▲ │                                                          │  │ gave them up, all others are free
//	 │ │ │ the target has moved; some of it still belong to others  │  └────────────────────────▶ Stable
//	 │ │ ▼                                                          ▼
//	 │ UnreleasedPartitions ◀───────────────────────────────────────┘ gave them up, others have not yet
//	 └────────┘ what was missing has become free
//
// A member is given a partition only when nobody has it any more: each heartbeat first takes away (the member stays in its
// epoch until it says that it has given up), then gives what is free. The states are moved by [reconciler.next] alone.
type memberState byte

const (
	memberStable memberState = iota
	memberUnrevoked
	memberUnreleased
)

// firstEpoch is the epoch of a group before its first member: member epoch 0 means joining.
const firstEpoch = 1

// epochLeft is the epoch of a static member that has left for a while.
const epochLeft = -2

// consumerMember is a member of a consumer group. A member that is part of a group is never changed, but replaced.
type consumerMember struct {
	id         string
	instance   *string
	rack       *string
	clientID   string
	clientHost string
	rebalance  time.Duration
	names      []string // of subscribed topics, in order
	regex      string   // "" for none
	assignor   string   // "" for no preference
	classic    *classicSide

	epoch         int32
	previousEpoch int32
	state         memberState
	assigned      assignment
	revoking      assignment // to be given up by the member; nobody else gets it before
	target        assignment
}

// classicSide is what is known of a member that still speaks the classic protocol.
type classicSide struct {
	session   time.Duration
	protocols []protocolChoice
}

// timers are a member's deadlines; 0 is none. They aren't kept in the store: after a restart they begin anew.
type timers struct {
	session time.Duration
	revoke  time.Duration // when it must have given up what is taken away
	join    time.Duration // when a classic member that was told to rejoin must have
	sync    time.Duration // when a classic member that has joined must have asked for its assignment
}

// consumer is the membership of a group in the protocol of KIP-848. Its methods are called with the group's lock held.
//
// The group epoch grows whenever the target assignment has to be computed anew; the assignment epoch is the group epoch
// for which it was. A member has arrived when it is Stable at the assignment epoch.
type consumer struct {
	group *group

	epoch           int32
	assignmentEpoch int32
	assignedAt      time.Duration       // when the target was computed; 0: the next may be at any time
	metadataHash    uint64              // of the subscribed topics' ids and partition counts
	regexes         map[string][]string // the topics that each pattern stands for, as resolved last

	members map[string]*consumerMember
	static  map[string]*consumerMember // by instance id
	timers  map[string]*timers         // by member id
	holders map[freePartition]int      // members that have a partition or have not given it up yet

	seen         *meta.Topics  // the view that metadataHash is of
	seenByRegex  *meta.Topics  // the view that the patterns were resolved in
	resolveBy    time.Duration // when patterns are resolved next; 0: no need
	emptySinceMs int64
}

func newConsumer(g *group) *consumer {
	return &consumer{
		group: g, epoch: firstEpoch, regexes: make(map[string][]string), members: make(map[string]*consumerMember),
		static: make(map[string]*consumerMember), timers: make(map[string]*timers), holders: make(map[freePartition]int),
	}
}

// arrived says that a member has the target assignment of the assignment epoch.
func (k *consumer) arrived(m *consumerMember) bool {
	return m.state == memberStable && m.epoch == k.assignmentEpoch
}

// stateName is the group's state in descriptions and lists.
func (k *consumer) stateName() string {
	switch {
	case len(k.members) == 0:
		return "Empty"
	case k.epoch > k.assignmentEpoch:
		return "Assigning"
	}
	for _, m := range k.members {
		if !k.arrived(m) {
			return "Reconciling"
		}
	}
	return "Stable"
}

// inOrder lists the members by id.
func (k *consumer) inOrder() []*consumerMember {
	list := make([]*consumerMember, 0, len(k.members))
	for _, m := range k.members {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *consumerMember) int { return strings.Compare(a.id, b.id) })
	return list
}

// subscribes says whether a member subscribes to the topic, by name or pattern.
func (k *consumer) subscribes(topic string) bool {
	for _, m := range k.members {
		if slices.Contains(m.names, topic) || m.regex != "" && slices.Contains(k.regexes[m.regex], topic) {
			return true
		}
	}
	return false
}

// change is what an event does to a group: it is committed, then applied. Until then the group is as it was.
type change struct {
	k               *consumer
	epoch           int32
	assignmentEpoch int32
	assignedAt      time.Duration
	metadataHash    uint64
	regexes         map[string][]string
	seen            *meta.Topics
	put             map[string]*consumerMember // nil: removed
	first           func(*meta.Batch)          // what the records replace, when the group is new
}

func (k *consumer) change() *change {
	return &change{
		k: k, epoch: k.epoch, assignmentEpoch: k.assignmentEpoch, assignedAt: k.assignedAt, metadataHash: k.metadataHash,
		regexes: k.regexes, seen: k.seen,
	}
}

// set replaces a member; remove takes one out.
func (c *change) set(m *consumerMember) {
	if c.put == nil {
		c.put = make(map[string]*consumerMember, 1)
	}
	c.put[m.id] = m
}

func (c *change) remove(id string) {
	if c.put == nil {
		c.put = make(map[string]*consumerMember, 1)
	}
	c.put[id] = nil
}

// member is a member as it will be.
func (c *change) member(id string) *consumerMember {
	if m, changed := c.put[id]; changed {
		return m
	}
	return c.k.members[id]
}

// members lists the members as they will be, by id.
func (c *change) members() []*consumerMember {
	list := make([]*consumerMember, 0, len(c.k.members)+1)
	for id, m := range c.k.members {
		if _, changed := c.put[id]; !changed {
			list = append(list, m)
		}
	}
	for _, m := range c.put {
		if m != nil {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b *consumerMember) int { return strings.Compare(a.id, b.id) })
	return list
}

// header says whether the group's own record changes.
func (c *change) header() bool {
	return !c.k.group.recorded || c.first != nil || c.epoch != c.k.epoch || c.assignmentEpoch != c.k.assignmentEpoch ||
		c.metadataHash != c.k.metadataHash || !sameRegexes(c.regexes, c.k.regexes)
}

func sameRegexes(a, b map[string][]string) bool {
	if len(a) != len(b) {
		return false
	}
	for pattern, topics := range a {
		other, found := b[pattern]
		if !found || !slices.Equal(topics, other) {
			return false
		}
	}
	return true
}

// commit makes the change durable and applies it.
func (c *change) commit(t *turn) error {
	var b meta.Batch
	if c.first != nil {
		c.first(&b)
	}
	id := c.k.group.id
	if c.header() {
		b.PutGroup(groupKey(id), c.encode(t))
	}
	for memberID, m := range c.put {
		if m == nil {
			b.DeleteGroup(memberKey(id, memberID))
		} else {
			b.PutGroup(memberKey(id, memberID), m.encode())
		}
	}
	if err := t.c.commit(&b); err != nil {
		return err
	}
	c.apply(t)
	return nil
}

// apply is the only place where a consumer group's kept state changes.
func (c *change) apply(t *turn) {
	k := c.k
	k.group.recorded = true
	if c.epoch != k.epoch {
		t.c.metrics.rebalances.Inc()
	}
	k.epoch, k.assignmentEpoch, k.assignedAt = c.epoch, c.assignmentEpoch, c.assignedAt
	k.metadataHash, k.regexes, k.seen = c.metadataHash, c.regexes, c.seen
	had := len(k.members)
	for id, m := range c.put {
		k.file(id, m)
	}
	if had > 0 && len(k.members) == 0 {
		k.emptySinceMs = t.wallMs
	}
}

// file replaces a member in all books; nil takes it out.
func (k *consumer) file(id string, m *consumerMember) {
	if old := k.members[id]; old != nil {
		k.hold(old, -1)
		delete(k.members, id)
		if old.instance != nil && k.static[*old.instance] == old {
			delete(k.static, *old.instance)
		}
	}
	if m == nil {
		delete(k.timers, id)
		return
	}
	k.hold(m, 1)
	k.members[id] = m
	if m.instance != nil {
		k.static[*m.instance] = m
	}
	if k.timers[id] == nil {
		k.timers[id] = &timers{}
	}
}

// hold counts what a member has.
func (k *consumer) hold(m *consumerMember, by int) {
	for _, part := range []assignment{m.assigned, m.revoking} {
		for topic, list := range part {
			for _, p := range list {
				place := freePartition{topic, p.number}
				if k.holders[place] += by; k.holders[place] == 0 {
					delete(k.holders, place)
				}
			}
		}
	}
}

// tick does what has become due.
func (k *consumer) tick(t *turn) {
	var gone []*consumerMember
	for _, m := range k.inOrder() {
		if k.timers[m.id].due(t.now) {
			gone = append(gone, m)
		}
	}
	if len(gone) > 0 {
		if k.fence(t, gone, "a deadline passed") != nil {
			for _, m := range gone {
				*k.timers[m.id] = timers{session: t.now + commitRetry}
			}
		} else {
			t.c.metrics.expired.Add(float64(len(gone)))
		}
	}
	if k.group.consumer == k && k.resolveBy != 0 && k.resolveBy <= t.now { // it may have become a classic group
		k.resolve(t)
	}
}

func (d *timers) due(now time.Duration) bool {
	for _, at := range []time.Duration{d.session, d.revoke, d.join, d.sync} {
		if at != 0 && at <= now {
			return true
		}
	}
	return false
}

// nextDeadline is the earliest time at which tick has something to do; 0 for none.
func (k *consumer) nextDeadline() time.Duration {
	next := k.resolveBy
	for _, d := range k.timers {
		for _, at := range []time.Duration{d.session, d.revoke, d.join, d.sync} {
			if at != 0 && (next == 0 || at < next) {
				next = at
			}
		}
	}
	return next
}

// until sets a deadline.
func (k *consumer) until(t *turn, deadline *time.Duration, wait time.Duration) {
	*deadline = t.now + wait
	k.group.wake(*deadline, t.now)
}

// extend begins a member's session anew.
func (k *consumer) extend(t *turn, m *consumerMember) {
	wait := t.cfg.Consumer.SessionTimeout
	if m.classic != nil {
		wait = m.classic.session
	}
	k.until(t, &k.timers[m.id].session, wait)
}

// fence takes members out; what they had is free at once. If only members that speak the classic protocol are left, the
// group becomes a classic one.
func (k *consumer) fence(t *turn, gone []*consumerMember, why string) error {
	for _, m := range gone {
		t.c.log.Debug("member put out", zap.String("group", k.group.id), zap.String("member", m.id), zap.String("why", why))
	}
	if k.downgradable(t, gone) {
		return k.downgrade(t, gone, nil)
	}
	c := k.change()
	for _, m := range gone {
		c.remove(m.id)
	}
	c.dropUnusedRegexes()
	c.refreshHash(t)
	c.epoch = k.epoch + 1
	if len(c.members()) == 0 {
		c.assignmentEpoch, c.assignedAt = c.epoch, 0
	}
	return c.commit(t)
}
