package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// versionSyncProtocol is the first version of SyncGroup in which a member has to say what it takes the group to work by.
const versionSyncProtocol = 5

// SyncGroup gives a member its assignment, and empties the request. It returns when the leader has assigned, which takes at
// most the rebalance timeout, or soon after ctx ends.
func (c *Coordinator) SyncGroup(ctx context.Context, version int16, req *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	w := newWaiter[*kmsg.SyncGroupResponse](version)
	c.sync(req, w)
	*req = kmsg.SyncGroupRequest{} // the wait may be long, and has no use for it
	return w.wait(ctx, func() *kmsg.SyncGroupResponse { return syncFailed(protocol.NotCoordinator) })
}

func (c *Coordinator) sync(req *kmsg.SyncGroupRequest, w *waiter[*kmsg.SyncGroupResponse]) {
	switch {
	case w.version >= versionSyncProtocol && (req.ProtocolType == nil || req.Protocol == nil):
		w.answer(syncFailed(protocol.InconsistentGroupProtocol))
		return
	case req.Group == "":
		w.answer(syncFailed(protocol.InvalidGroupID))
		return
	}
	g := c.lock(req.Group)
	if g == nil {
		w.answer(syncFailed(protocol.UnknownMemberID))
		return
	}
	defer g.mu.Unlock()
	switch {
	case c.draining.Load():
		w.answer(syncFailed(protocol.NotCoordinator))
	case g.consumer != nil:
		w.answer(g.consumer.syncClassic(g.turn(), req))
	case g.classic == nil:
		w.answer(syncFailed(protocol.UnknownMemberID))
	default:
		g.classic.sync(g.turn(), req, w)
	}
}

func (k *classic) sync(t *turn, req *kmsg.SyncGroupRequest, w *waiter[*kmsg.SyncGroupResponse]) {
	if code := k.checkSync(req); code != protocol.None {
		w.answer(syncFailed(code))
		return
	}
	m := k.members[req.MemberID]
	m.synced = true
	if k.state == stateStable {
		k.extend(t, m)
		w.answer(k.synced(m))
		return
	}
	k.answerSync(m, syncFailed(protocol.RebalanceInProgress)) // an earlier call, whose connection is usually gone
	m.sync = w
	if m.id == k.leader {
		k.settle(t, req.GroupAssignment)
	}
}

// checkSync says whether a member may have its assignment of the current generation.
func (k *classic) checkSync(req *kmsg.SyncGroupRequest) protocol.ErrorCode {
	if code := k.check(req.MemberID, req.InstanceID); code != protocol.None {
		return code
	}
	switch {
	case req.Generation != k.generation:
		return protocol.IllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != k.protocolType,
		req.Protocol != nil && k.protocol != "" && *req.Protocol != k.protocol:
		return protocol.InconsistentGroupProtocol
	case k.state == statePreparingRebalance:
		return protocol.RebalanceInProgress
	case k.state == stateEmpty:
		return protocol.UnknownMemberID
	}
	return protocol.None
}

// settle takes the leader's assignments: the generation becomes stable. Members that it left out get nothing.
func (k *classic) settle(t *turn, assignments []kmsg.SyncGroupRequestGroupAssignment) {
	given := make(map[string][]byte, len(assignments))
	for i := range assignments {
		given[assignments[i].MemberID] = assignments[i].MemberAssignment
	}
	record := k.record()
	for i, m := range record.members {
		settled := *m
		settled.assignment = keepBytes(given[m.id])
		record.members[i] = &settled
	}
	var b meta.Batch
	b.PutGroup(groupKey(k.group.id), record.encode())
	b.DeleteGroup(markKey(k.group.id))
	if t.c.commit(&b) != nil {
		// The rebalance isn't over; whoever waited asks again.
		k.dropAssignments(t, protocol.CoordinatorNotAvailable)
		return
	}
	k.group.recorded = true
	k.state = stateStable
	for i, m := range k.order {
		m.assignment = record.members[i].assignment
		if m.sync != nil {
			k.extend(t, m)
			k.answerSync(m, k.synced(m))
		}
	}
}

// record is the group as it is kept when it is stable.
func (k *classic) record() *classicRecord {
	return &classicRecord{
		generation: k.generation, protocolType: k.protocolType, protocol: k.protocol, leader: k.leader,
		members: append([]*member(nil), k.order...),
	}
}
