package group

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// versionOwnMemberID is the first version of ConsumerGroupHeartbeat at which clients make their member ids (KIP-1082).
const versionOwnMemberID = 1

// refusal is why a request of KIP-848 fails; nil when it doesn't.
type refusal struct {
	code    protocol.ErrorCode
	message string
}

func refuse(code protocol.ErrorCode, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// ConsumerGroupHeartbeat is all that members of consumer groups say: that they join, what they subscribe to, what they
// own, that they are alive, and that they leave. The answer has a new assignment if there is one.
func (c *Coordinator) ConsumerGroupHeartbeat(client Client, req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	answer, refused := c.consumerHeartbeat(client, req)
	if refused != nil {
		answer = kmsg.NewPtrConsumerGroupHeartbeatResponse()
		answer.ErrorCode = int16(refused.code)
		answer.ErrorMessage = &refused.message
	}
	return answer
}

func (c *Coordinator) consumerHeartbeat(client Client, req *kmsg.ConsumerGroupHeartbeatRequest) (*kmsg.ConsumerGroupHeartbeatResponse, *refusal) {
	if refused := checkHeartbeat(c.config().Consumer, req); refused != nil {
		return nil, refused
	}
	g := c.lockForHeartbeat(req)
	if g == nil {
		return nil, refuse(protocol.GroupIDNotFound, "Group %s not found.", req.Group)
	}
	defer g.mu.Unlock()
	if c.draining.Load() {
		return nil, refuse(protocol.NotCoordinator, "The broker is stopping.")
	}
	t := g.turn()
	if req.MemberEpoch < 0 {
		return g.leaveConsumer(t, req)
	}
	k, first, refused := g.consumerFor(t, req)
	if refused != nil {
		return nil, refused
	}
	h := &heartbeat{k: k, t: t, client: client, req: req, change: k.change()}
	h.change.first = first
	answer, refused := h.handle()
	g.buryUnused()
	return answer, refused
}

// checkHeartbeat looks at what is wrong whatever the group is.
func checkHeartbeat(cfg ConsumerConfig, req *kmsg.ConsumerGroupHeartbeatRequest) *refusal {
	invalid := func(message string) *refusal { return &refusal{protocol.InvalidRequest, message} }
	needsID := req.Version >= versionOwnMemberID || req.MemberEpoch > 0 || req.MemberEpoch == -1
	switch {
	case needsID && strings.TrimSpace(req.MemberID) == "":
		return invalid("MemberId can't be empty.")
	case strings.TrimSpace(req.Group) == "":
		return invalid("GroupId can't be empty.")
	case req.InstanceID != nil && strings.TrimSpace(*req.InstanceID) == "":
		return invalid("InstanceId can't be empty.")
	case req.RackID != nil && strings.TrimSpace(*req.RackID) == "":
		return invalid("RackId can't be empty.")
	case req.MemberEpoch < epochLeft:
		return invalid("MemberEpoch is invalid.")
	case req.MemberEpoch == epochLeft && req.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	case req.MemberEpoch == 0 && req.RebalanceTimeoutMillis == -1:
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	case req.MemberEpoch == 0 && (req.Topics == nil || len(req.Topics) > 0):
		return invalid("TopicPartitions must be empty when (re-)joining.")
	case req.MemberEpoch == 0 && req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
		return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	case req.ServerAssignor != nil && !slices.Contains(cfg.Assignors, *req.ServerAssignor):
		return refuse(protocol.UnsupportedAssignor, "ServerAssignor %s is not supported. Supported assignors: %s.",
			*req.ServerAssignor, strings.Join(cfg.Assignors, ", "))
	}
	return nil
}

// lockForHeartbeat finds the group, and makes it for a member that joins.
func (c *Coordinator) lockForHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) *group {
	if req.MemberEpoch == 0 {
		return c.lockOrMake(req.Group)
	}
	return c.lock(req.Group)
}

// consumerFor is the group's membership in this protocol. A member that joins turns a group that has none, an empty classic
// one included, into a consumer group, and upgrades a classic group of consumers; first then writes what replaces the
// classic group's records. The group changes over once that is committed.
func (g *group) consumerFor(t *turn, req *kmsg.ConsumerGroupHeartbeatRequest) (k *consumer, first func(*meta.Batch), refused *refusal) {
	switch {
	case g.consumer != nil:
		return g.consumer, nil, nil
	case req.MemberEpoch != 0:
		return nil, nil, refuse(protocol.GroupIDNotFound, "Group %s is not a consumer group.", g.id)
	case g.classic != nil && len(g.classic.order) > 0:
		return g.classic.upgrade(t)
	}
	k = newConsumer(g)
	if g.classic != nil {
		k.epoch = max(k.epoch, g.classic.next)
	}
	return k, func(b *meta.Batch) { b.DeleteGroup(markKey(g.id)) }, nil
}

// heartbeat is one heartbeat of a member that stays or joins.
type heartbeat struct {
	k      *consumer
	t      *turn
	client Client
	req    *kmsg.ConsumerGroupHeartbeatRequest
	change *change
}

func (h *heartbeat) handle() (*kmsg.ConsumerGroupHeartbeatResponse, *refusal) {
	before, refused := h.member()
	if refused != nil {
		return nil, refused
	}
	next := h.updated(before)
	unresolved, refused := h.k.resubscribe(h.t, h.change, before, next)
	if refused != nil {
		return nil, refused
	}
	h.change.maybeAssign(h.t, h.t.cfg.Consumer.AssignmentInterval)
	next = h.change.member(next.id)
	resubscribed := before.regex != next.regex || !slices.Equal(before.names, next.names)
	next = h.change.reconcile(h.t, next, resubscribed, h.req.Topics != nil, h.req.Topics)
	if h.change.needed() {
		if h.change.commit(h.t) != nil {
			return nil, refuse(protocol.CoordinatorNotAvailable, "The group's records could not be written.")
		}
	}
	h.k.watch(h.t, before, next)
	if h.k.group.consumer != h.k {
		h.k.install(h.t)
	}
	if unresolved {
		h.k.wantResolve(h.t, 0)
	}
	h.k.noticeTopics(h.t)
	return h.answer(before, next), nil
}

// needed says whether there is anything to commit.
func (c *change) needed() bool { return len(c.put) > 0 || c.header() }

// member finds the member that the request is from, or makes it.
func (h *heartbeat) member() (*consumerMember, *refusal) {
	if h.req.MemberID == "" {
		h.req.MemberID = h.t.c.newUUID()
	}
	id := h.req.MemberID
	m := h.k.members[id]
	if h.req.InstanceID != nil {
		return h.staticMember(id, *h.req.InstanceID)
	}
	if m == nil {
		if h.req.MemberEpoch != 0 {
			return nil, refuse(protocol.UnknownMemberID, "Member %s is not a member of group %s.", id, h.k.group.id)
		}
		return h.newMember(id)
	}
	return m, h.checkEpoch(m)
}

func (h *heartbeat) newMember(id string) (*consumerMember, *refusal) {
	if limit := h.t.cfg.Consumer.MaxSize; len(h.k.members) >= limit {
		return nil, refuse(protocol.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.", limit)
	}
	return &consumerMember{id: strings.Clone(id)}, nil
}

// staticMember finds the member of an instance. A member that joins takes the place of the one before, which may be itself,
// if that one has left for a while, or speaks the classic protocol.
func (h *heartbeat) staticMember(id, instance string) (*consumerMember, *refusal) {
	m := h.k.static[instance]
	switch {
	case m == nil && h.req.MemberEpoch == 0 && h.k.members[id] != nil:
		return h.k.members[id], nil // one that has not been an instance before
	case m == nil && h.req.MemberEpoch == 0:
		return h.newMember(id)
	case m == nil:
		return nil, refuse(protocol.UnknownMemberID, "Instance id %s is unknown.", instance)
	case m.id == id && (h.req.MemberEpoch != 0 || m.classic != nil || m.epoch == epochLeft):
		return m, h.checkEpoch(m)
	case h.req.MemberEpoch != 0:
		return nil, refuse(protocol.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", id, instance, m.id)
	case m.classic == nil && m.epoch != epochLeft:
		return nil, refuse(protocol.UnreleasedInstanceID,
			"Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.", id, instance, m.id)
	}
	return h.change.replace(m, id), nil
}

// replace puts a new member id in the place of an old one; it starts with what the old one had.
func (c *change) replace(old *consumerMember, id string) *consumerMember {
	next := *old
	next.id, next.epoch, next.previousEpoch = strings.Clone(id), 0, 0
	c.remove(old.id)
	c.set(&next)
	return &next
}

// checkEpoch fences a member that isn't where the group thinks it is. The epoch before is let through if the member has
// nothing that it shouldn't: the answer with the new epoch may have been lost.
func (h *heartbeat) checkEpoch(m *consumerMember) *refusal {
	epoch := h.req.MemberEpoch
	switch {
	case epoch == 0 || epoch == m.epoch:
		return nil
	case epoch > m.epoch:
		return refuse(protocol.FencedMemberEpoch, "The consumer group member has a greater member epoch (%d) than the one known by "+
			"the group coordinator (%d). The member must abandon all its partitions and rejoin.", epoch, m.epoch)
	case epoch == m.previousEpoch && h.req.Topics != nil && coveredBy(h.req.Topics, m.assigned):
		return nil
	}
	return refuse(protocol.FencedMemberEpoch, "The consumer group member has a smaller member epoch (%d) than the one known by "+
		"the group coordinator (%d). The member must abandon all its partitions and rejoin.", epoch, m.epoch)
}

// updated is the member with what the request says of it. It is part of the change if anything is different.
func (h *heartbeat) updated(m *consumerMember) *consumerMember {
	next := *m
	req := h.req
	if req.InstanceID != nil {
		next.instance = keepString(req.InstanceID)
	}
	if req.RackID != nil {
		next.rack = keepString(req.RackID)
	}
	if req.RebalanceTimeoutMillis != -1 {
		next.rebalance = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	}
	if req.ServerAssignor != nil {
		next.assignor = strings.Clone(*req.ServerAssignor)
	}
	if req.SubscribedTopicNames != nil {
		next.names = keepNames(req.SubscribedTopicNames)
	}
	if req.SubscribedTopicRegex != nil {
		next.regex = strings.Clone(*req.SubscribedTopicRegex)
	}
	next.clientID, next.clientHost = strings.Clone(h.client.ID), strings.Clone(h.client.Host)
	next.classic = nil
	if h.change.member(m.id) == nil || !m.sameSelf(&next) {
		h.change.set(&next)
	}
	return &next
}

// keepNames copies topic names, in order, each once.
func keepNames(names []string) []string {
	kept := make([]string, len(names))
	for i, name := range names {
		kept[i] = strings.Clone(name)
	}
	slices.Sort(kept)
	return slices.Compact(kept)
}

// sameSelf says whether the member says the same about itself as in another state.
func (m *consumerMember) sameSelf(o *consumerMember) bool {
	return sameString(m.instance, o.instance) && sameString(m.rack, o.rack) && m.clientID == o.clientID &&
		m.clientHost == o.clientHost && m.rebalance == o.rebalance && m.assignor == o.assignor && m.regex == o.regex &&
		slices.Equal(m.names, o.names) && (m.classic == nil) == (o.classic == nil)
}

func sameString(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// resubscribe moves the group epoch if what the group subscribes to is different, because the member says so or because
// topics have come, gone or grown. It says whether a pattern has to be resolved: until it is, it stands for nothing, and
// the epoch moves then.
func (k *consumer) resubscribe(t *turn, c *change, before, next *consumerMember) (unresolved bool, refused *refusal) {
	moved := !slices.Equal(before.names, next.names)
	if before.regex != next.regex {
		_, resolved := c.regexes[next.regex]
		if next.regex != "" && !resolved {
			if _, err := compileSubscription(next.regex); err != nil {
				return false, refuse(protocol.InvalidRegularExpression,
					"SubscribedTopicRegex `%s` is not a valid regular expression: %v.", next.regex, err)
			}
			unresolved = true
		}
		moved = moved || resolved || next.regex == ""
		c.dropUnusedRegexes()
	}
	if before.assignor != next.assignor {
		offered := t.cfg.Consumer.Assignors
		moved = moved || preferredAssignor(offered, k.inOrder()) != preferredAssignor(offered, c.members())
	}
	if moved || k.seen != t.c.topics() || c.first != nil || unresolved {
		moved = c.refreshHash(t) || moved
	}
	if moved {
		c.epoch = k.epoch + 1
	}
	return unresolved, nil
}

// install makes this the group's membership, in place of a classic one. What waits there is told to start over.
func (k *consumer) install(t *turn) {
	g := k.group
	if g.classic != nil {
		if left := len(g.classic.order); left > 0 {
			t.c.log.Info("classic group upgraded", zap.String("group", g.id), zap.Int("members", left))
		}
		g.classic.abandonWaiting(protocol.RebalanceInProgress)
		g.classic = nil
	}
	g.consumer = k
	g.wake(k.nextDeadline(), t.now)
}

// watch sets a member's deadlines.
func (k *consumer) watch(t *turn, before, next *consumerMember) {
	d := k.timers[next.id]
	k.extend(t, next)
	d.join, d.sync = 0, 0
	switch {
	case next.state != memberUnrevoked:
		d.revoke = 0
	case d.revoke == 0 || !before.revoking.equal(next.revoking):
		k.until(t, &d.revoke, next.rebalance)
	}
}

// answer has the assignment when the member joins, asks for everything, or gets a new one.
func (h *heartbeat) answer(before, next *consumerMember) *kmsg.ConsumerGroupHeartbeatResponse {
	answer := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	answer.MemberID = kmsg.StringPtr(next.id)
	answer.MemberEpoch = next.epoch
	answer.HeartbeatIntervalMillis = int32(h.t.cfg.Consumer.HeartbeatInterval.Milliseconds())
	req := h.req
	full := req.RebalanceTimeoutMillis != -1 && (req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil) && req.Topics != nil
	if req.MemberEpoch == 0 || full || !before.assigned.samePartitions(next.assigned) {
		answer.Assignment = assignmentAnswer(next.assigned)
	}
	return answer
}

func assignmentAnswer(a assignment) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	answer := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	answer.Topics = make([]kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic, 0, len(a))
	for _, topic := range a.topics() {
		t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		t.TopicID, t.Partitions = topic, a.numbers(topic)
		answer.Topics = append(answer.Topics, t)
	}
	return &answer
}

// leaveConsumer takes a member out, or notes that a static one has left for a while and keeps its partitions.
func (g *group) leaveConsumer(t *turn, req *kmsg.ConsumerGroupHeartbeatRequest) (*kmsg.ConsumerGroupHeartbeatResponse, *refusal) {
	k := g.consumer
	if k == nil {
		return nil, refuse(protocol.GroupIDNotFound, "Group %s is not a consumer group.", g.id)
	}
	m := k.members[req.MemberID]
	if req.InstanceID != nil {
		m = k.static[*req.InstanceID]
	}
	switch {
	case m == nil:
		return nil, refuse(protocol.UnknownMemberID, "Member %s is not a member of group %s.", req.MemberID, g.id)
	case m.id != req.MemberID:
		return nil, refuse(protocol.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.",
			req.MemberID, *req.InstanceID, m.id)
	}
	var err error
	if req.MemberEpoch == epochLeft {
		err = k.leaveForAWhile(t, m)
	} else {
		err = k.fence(t, []*consumerMember{m}, "left")
	}
	if err != nil {
		return nil, refuse(protocol.CoordinatorNotAvailable, "The group's records could not be written.")
	}
	answer := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	answer.MemberID = kmsg.StringPtr(req.MemberID)
	answer.MemberEpoch = req.MemberEpoch
	return answer, nil
}

// leaveForAWhile keeps a static member's place until its session ends. Whoever takes the place may commit for all its
// partitions, so the epochs at which they were assigned count no more.
func (k *consumer) leaveForAWhile(t *turn, m *consumerMember) error {
	left := *m
	left.epoch, left.state, left.revoking, left.assigned = epochLeft, memberStable, nil, make(assignment, len(m.assigned))
	m.assigned.each(func(topic topicID, p ownedPartition) { left.assigned.add(topic, ownedPartition{number: p.number}) })
	c := k.change()
	c.set(&left)
	if err := c.commit(t); err != nil {
		return err
	}
	k.timers[m.id].revoke = 0
	return nil
}
