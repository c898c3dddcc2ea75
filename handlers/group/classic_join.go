package group

import (
	"context"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// versionMemberIDRequired is the first version of JoinGroup at which a dynamic member must come back with the id it is
// given (KIP-394), so that a join whose answer is lost leaves no ghost behind.
const versionMemberIDRequired = 4

// versionSkipAssignment is the first version of JoinGroup at which a static leader can be told that it leads but has
// nothing to assign (KIP-814).
const versionSkipAssignment = 9

// maxPending bounds the member ids of a group that have been given out and not come back, which a client may ask for without
// end; maxIDPrefix is how much of a client id is in them.
const (
	maxPending  = 10_000
	maxIDPrefix = 255
)

// maxProtocols bounds what a member may offer; clients have a handful. The work of a join grows with their square.
const maxProtocols = 256

// joinRequest is a JoinGroup with its sender and the call that waits for the answer.
type joinRequest struct {
	*kmsg.JoinGroupRequest
	client Client
	wait   *waiter[*kmsg.JoinGroupResponse]
}

func (r *joinRequest) fail(memberID string, code protocol.ErrorCode) {
	r.wait.answer(joinFailed(memberID, code))
}

// sessionTimeout and rebalanceTimeout are the member's timeouts. Version 0 has one for both.
func (r *joinRequest) sessionTimeout() time.Duration {
	return time.Duration(r.SessionTimeoutMillis) * time.Millisecond
}

func (r *joinRequest) rebalanceTimeout() time.Duration {
	if r.wait.version == 0 || r.RebalanceTimeoutMillis < 0 {
		return r.sessionTimeout()
	}
	return time.Duration(r.RebalanceTimeoutMillis) * time.Millisecond
}

// JoinGroup brings a member into a group, and empties the request. It returns when the join phase is over, which takes at
// most the rebalance timeout of the slowest member, or soon after ctx ends: the member then stays as if its connection had
// been lost.
func (c *Coordinator) JoinGroup(ctx context.Context, client Client, version int16, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	r := &joinRequest{JoinGroupRequest: req, client: client, wait: newWaiter[*kmsg.JoinGroupResponse](version)}
	c.join(r)
	memberID := req.MemberID
	*req = kmsg.JoinGroupRequest{} // the wait may be long, and has no use for it
	return r.wait.wait(ctx, func() *kmsg.JoinGroupResponse {
		return joinFailed(memberID, protocol.NotCoordinator)
	})
}

func (c *Coordinator) join(r *joinRequest) {
	cfg := c.config()
	switch {
	case r.Group == "":
		r.fail(r.MemberID, protocol.InvalidGroupID)
		return
	case r.sessionTimeout() < cfg.MinSessionTimeout || r.sessionTimeout() > cfg.MaxSessionTimeout:
		r.fail(r.MemberID, protocol.InvalidSessionTimeout)
		return
	}
	g := c.lockForJoin(r)
	if g == nil {
		r.fail(r.MemberID, protocol.UnknownMemberID)
		return
	}
	defer g.mu.Unlock()
	if c.draining.Load() {
		r.fail(r.MemberID, protocol.NotCoordinator)
		return
	}
	t := g.turn()
	if g.consumer != nil && !g.empty() {
		g.joinConsumer(t, r)
		return
	}
	if g.consumer != nil && g.makeClassic(t) != nil {
		r.fail(r.MemberID, protocol.CoordinatorNotAvailable)
		return
	}
	if g.classic == nil {
		g.classic = newClassic(g)
	}
	g.classic.join(t, r)
}

// lockForJoin finds the group, and makes it for a member that has no id yet. Though the join be refused, the group is there
// until the next sweep.
func (c *Coordinator) lockForJoin(r *joinRequest) *group {
	if r.MemberID == "" {
		return c.lockOrMake(r.Group)
	}
	return c.lock(r.Group)
}

func (k *classic) join(t *turn, r *joinRequest) {
	switch {
	case !k.accepts(t, r):
		k.turnAway(t, r)
	case !k.speaks(r):
		r.fail(r.MemberID, protocol.InconsistentGroupProtocol)
	case r.MemberID == "":
		k.joinNew(t, r)
	default:
		k.joinAgain(t, r)
	}
}

// accepts says whether there is room. While members gather, those who have come count, not those of the last generation.
func (k *classic) accepts(t *turn, r *joinRequest) bool {
	m := k.members[r.MemberID]
	if m == nil && r.InstanceID != nil {
		m = k.static[*r.InstanceID]
	}
	switch k.state {
	case stateEmpty:
		return true
	case statePreparingRebalance:
		return m != nil && m.join != nil || k.joining < t.cfg.MaxSize
	default:
		return m != nil || len(k.order) < t.cfg.MaxSize
	}
}

// turnAway refuses a member for which there is no room. One that had a place in the last generation has lost it, and the
// others don't wait for it.
func (k *classic) turnAway(t *turn, r *joinRequest) {
	r.fail("", protocol.GroupMaxSizeReached)
	delete(k.pending, r.MemberID)
	if m := k.members[r.MemberID]; m != nil {
		k.remove(m, protocol.GroupMaxSizeReached)
	}
	if k.state == statePreparingRebalance {
		k.maybeCompleteJoin(t)
	}
}

// speaks says whether the member has a protocol in common with all others.
func (k *classic) speaks(r *joinRequest) bool {
	if len(r.Protocols) > maxProtocols {
		return false
	}
	if len(k.order) == 0 {
		return r.ProtocolType != "" && len(r.Protocols) > 0
	}
	if r.ProtocolType != k.protocolType {
		return false
	}
	for i := range r.Protocols {
		if k.supports[r.Protocols[i].Name] == len(k.order) {
			return true
		}
	}
	return false
}

// joinNew is the join of a client that has no member id.
func (k *classic) joinNew(t *turn, r *joinRequest) {
	if r.InstanceID != nil {
		id := t.c.newMemberID(*r.InstanceID)
		if existing := k.static[*r.InstanceID]; existing != nil {
			k.replaceStatic(t, r, existing, id)
			return
		}
		k.add(t, r, id)
		return
	}
	id := t.c.newMemberID(r.client.ID)
	if r.wait.version < versionMemberIDRequired {
		k.add(t, r, id)
		return
	}
	if len(k.pending) >= maxPending {
		r.fail("", protocol.CoordinatorNotAvailable)
		return
	}
	if k.pending == nil {
		k.pending = make(map[string]time.Duration)
	}
	k.pending[id] = t.now + r.sessionTimeout()
	k.group.wake(k.pending[id], t.now)
	r.fail(id, protocol.MemberIDRequired)
}

// add brings a new member in, which takes a rebalance.
func (k *classic) add(t *turn, r *joinRequest, id string) {
	if k.begin(t) != nil {
		r.fail(r.MemberID, protocol.CoordinatorNotAvailable)
		return
	}
	delete(k.pending, id)
	m := newMember(r, id)
	m.isNew, m.join = true, r.wait
	m.deadline = t.now + newMemberJoinTimeout
	k.group.wake(m.deadline, t.now)
	k.insert(m, r.ProtocolType)
	k.newcomer = true
	k.rebalance(t)
}

func newMember(r *joinRequest, id string) *member {
	m := &member{
		id: strings.Clone(id), instance: keepString(r.InstanceID),
		clientID: strings.Clone(r.client.ID), clientHost: strings.Clone(r.client.Host),
	}
	m.update(r)
	return m
}

// joinAgain is the join of a client that has a member id.
func (k *classic) joinAgain(t *turn, r *joinRequest) {
	if _, pending := k.pending[r.MemberID]; pending && r.InstanceID == nil {
		k.add(t, r, r.MemberID)
		return
	}
	if code := k.check(r.MemberID, r.InstanceID); code != protocol.None {
		r.fail(r.MemberID, code)
		return
	}
	m := k.members[r.MemberID]
	if k.current(m, r) {
		k.extend(t, m)
		r.wait.answer(k.joined(m))
		return
	}
	if k.begin(t) != nil {
		r.fail(r.MemberID, protocol.CoordinatorNotAvailable)
		return
	}
	k.update(m, r)
	k.awaitJoin(m, r.wait)
	k.rebalance(t)
}

// current says that a member that joins again has nothing new to say, so that the generation as it is is its answer: its
// last answer was lost, or it is a follower that came too late to see that the rebalance is over. A stable leader always
// causes a rebalance: that is how it says that what it assigns has changed.
func (k *classic) current(m *member, r *joinRequest) bool {
	switch k.state {
	case stateCompletingRebalance:
		return m.says(r.Protocols)
	case stateStable:
		return m.id != k.leader && m.says(r.Protocols)
	default:
		return false
	}
}

// check says whether there is such a member: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another one has taken over.
func (k *classic) check(memberID string, instance *string) protocol.ErrorCode {
	if instance != nil {
		m := k.static[*instance]
		if m == nil {
			return protocol.UnknownMemberID
		}
		if m.id != memberID {
			return protocol.FencedInstanceID
		}
	}
	if k.members[memberID] == nil {
		return protocol.UnknownMemberID
	}
	return protocol.None
}

// update takes over what a member says about itself.
func (k *classic) update(m *member, r *joinRequest) {
	k.count(m, -1)
	m.update(r)
	k.count(m, 1)
}

// replaceStatic gives the place of a static member to a new member id of the same instance. In a stable group nobody
// notices, unless the protocol of the group would change.
func (k *classic) replaceStatic(t *turn, r *joinRequest, old *member, id string) {
	next := newMember(r, id)
	next.clientID, next.clientHost, next.assignment = old.clientID, old.clientHost, old.assignment
	if k.state == stateStable && k.chooseProtocol(old, next.protocols) == k.protocol {
		k.replaceQuietly(t, r, old, next)
		return
	}
	if k.begin(t) != nil {
		r.fail(r.MemberID, protocol.CoordinatorNotAvailable)
		return
	}
	k.swap(old, next)
	k.extend(t, next)
	k.awaitJoin(next, r.wait)
	k.rebalance(t)
}

// replaceQuietly keeps generation and assignments. The leader is told that it leads but must not assign; below version 9,
// which can't say so, it is told of the old leader, and takes itself for a follower.
func (k *classic) replaceQuietly(t *turn, r *joinRequest, old, next *member) {
	record := k.record()
	for i, m := range k.order {
		if m == old {
			record.members[i] = next
		}
	}
	leader := k.leader
	if leader == old.id {
		record.leader = next.id
	}
	var b meta.Batch
	b.PutGroup(groupKey(k.group.id), record.encode())
	if t.c.commit(&b) != nil {
		r.fail(r.MemberID, protocol.CoordinatorNotAvailable)
		return
	}
	next.synced = old.synced
	k.swap(old, next)
	k.extend(t, next)
	answer := k.joined(next)
	if r.wait.version >= versionSkipAssignment {
		answer.SkipAssignment = next.id == k.leader
	} else {
		answer.LeaderID, answer.Members = leader, []kmsg.JoinGroupResponseMember{}
	}
	r.wait.answer(answer)
}

// swap puts next in old's place. What old waits for is answered: it is fenced.
func (k *classic) swap(old, next *member) {
	k.answerJoin(old, joinFailed(old.id, protocol.FencedInstanceID))
	k.answerSync(old, syncFailed(protocol.FencedInstanceID))
	for i, m := range k.order {
		if m == old {
			k.order[i] = next
		}
	}
	delete(k.members, old.id)
	k.members[next.id] = next
	k.static[*next.instance] = next
	k.count(old, -1)
	k.count(next, 1)
	if k.leader == old.id {
		k.leader = next.id
	}
}
