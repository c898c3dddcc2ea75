package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// Heartbeat prolongs a member's session and tells it whether to rejoin.
func (c *Coordinator) Heartbeat(req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	answer := kmsg.NewPtrHeartbeatResponse()
	answer.ErrorCode = int16(c.heartbeat(req))
	return answer
}

func (c *Coordinator) heartbeat(req *kmsg.HeartbeatRequest) protocol.ErrorCode {
	if req.Group == "" {
		return protocol.InvalidGroupID
	}
	g := c.lock(req.Group)
	if g == nil {
		return protocol.UnknownMemberID
	}
	defer g.mu.Unlock()
	switch {
	case g.consumer != nil:
		return g.consumer.heartbeatClassic(g.turn(), req)
	case g.classic != nil:
		return g.classic.heartbeat(g.turn(), req)
	default:
		return protocol.UnknownMemberID
	}
}

// heartbeat answers REBALANCE_IN_PROGRESS while members gather. When they have gathered and the assignment is awaited,
// heartbeats of the new generation are welcome.
func (k *classic) heartbeat(t *turn, req *kmsg.HeartbeatRequest) protocol.ErrorCode {
	if code := k.check(req.MemberID, req.InstanceID); code != protocol.None {
		return code
	}
	if req.Generation != k.generation {
		return protocol.IllegalGeneration
	}
	k.extend(t, k.members[req.MemberID])
	if k.state == statePreparingRebalance {
		return protocol.RebalanceInProgress
	}
	return protocol.None
}

// LeaveGroup takes members out of a group: one at versions below 3, any number above. A static member may be removed by
// its instance id alone.
func (c *Coordinator) LeaveGroup(version int16, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	answer := kmsg.NewPtrLeaveGroupResponse()
	answer.Members = []kmsg.LeaveGroupResponseMember{}
	leavers := req.Members
	if version < 3 {
		leavers = []kmsg.LeaveGroupRequestMember{{MemberID: req.MemberID}}
	}
	if req.Group == "" {
		answer.ErrorCode = int16(protocol.InvalidGroupID)
		return answer
	}
	codes := c.leave(req.Group, leavers)
	if version < 3 {
		answer.ErrorCode = int16(codes[0])
		return answer
	}
	for i := range leavers {
		left := kmsg.NewLeaveGroupResponseMember()
		left.MemberID, left.InstanceID = leavers[i].MemberID, leavers[i].InstanceID
		left.ErrorCode = int16(codes[i])
		answer.Members = append(answer.Members, left)
	}
	return answer
}

// leave returns one code per leaver.
func (c *Coordinator) leave(id string, leavers []kmsg.LeaveGroupRequestMember) []protocol.ErrorCode {
	codes := make([]protocol.ErrorCode, len(leavers))
	for i := range codes {
		codes[i] = protocol.UnknownMemberID
	}
	g := c.lock(id)
	if g == nil {
		return codes
	}
	defer g.mu.Unlock()
	switch {
	case g.consumer != nil:
		clear(codes)
		g.consumer.leaveClassic(g.turn(), leavers, codes)
	case g.classic != nil:
		clear(codes)
		g.classic.leave(g.turn(), leavers, codes)
	}
	return codes
}

func (k *classic) leave(t *turn, leavers []kmsg.LeaveGroupRequestMember, codes []protocol.ErrorCode) {
	gone := make(map[*member]bool, len(leavers))
	var order []*member
	cancelled := false
	for i := range leavers {
		id := leavers[i].MemberID
		if _, pending := k.pending[id]; pending {
			delete(k.pending, id)
			cancelled = true
			continue
		}
		var m *member
		if m, codes[i] = k.leaver(&leavers[i]); m == nil {
			continue
		}
		if gone[m] {
			codes[i] = protocol.UnknownMemberID
			continue
		}
		gone[m] = true
		order = append(order, m)
	}
	if len(order) == 0 {
		if cancelled && k.state == statePreparingRebalance {
			k.maybeCompleteJoin(t)
		}
		return
	}
	if k.putOut(t, order, "left") != nil {
		for i := range leavers {
			if codes[i] == protocol.None {
				codes[i] = protocol.CoordinatorNotAvailable
			}
		}
	}
}

// leaver finds the member that leaves.
func (k *classic) leaver(l *kmsg.LeaveGroupRequestMember) (*member, protocol.ErrorCode) {
	if l.MemberID == "" {
		if l.InstanceID == nil || k.static[*l.InstanceID] == nil {
			return nil, protocol.UnknownMemberID
		}
		return k.static[*l.InstanceID], protocol.None
	}
	if code := k.check(l.MemberID, l.InstanceID); code != protocol.None {
		return nil, code
	}
	return k.members[l.MemberID], protocol.None
}
