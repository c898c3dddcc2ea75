package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// answerJoin answers a join that waits, if any.
func (k *classic) answerJoin(m *member, answer *kmsg.JoinGroupResponse) {
	if m.join == nil {
		return
	}
	w := m.join
	m.join = nil
	k.joining--
	w.answer(answer)
}

// answerSync answers a sync that waits, if any.
func (k *classic) answerSync(m *member, answer *kmsg.SyncGroupResponse) {
	w := m.sync
	m.sync = nil
	w.answer(answer)
}

// awaitJoin makes w the join that the member waits for. An earlier one, whose connection is usually gone, is answered.
func (k *classic) awaitJoin(m *member, w *waiter[*kmsg.JoinGroupResponse]) {
	k.answerJoin(m, joinFailed(m.id, protocol.RebalanceInProgress))
	m.join = w
	k.joining++
}

// joinFailed is the answer to a join that failed.
func joinFailed(memberID string, code protocol.ErrorCode) *kmsg.JoinGroupResponse {
	answer := kmsg.NewPtrJoinGroupResponse()
	answer.ErrorCode = int16(code)
	answer.Generation = -1
	answer.MemberID = memberID
	answer.Members = []kmsg.JoinGroupResponseMember{}
	return answer
}

// joined is a member's answer for the current generation. The leader is told who the members are.
func (k *classic) joined(m *member) *kmsg.JoinGroupResponse {
	answer := kmsg.NewPtrJoinGroupResponse()
	answer.Generation = k.generation
	answer.ProtocolType = kmsg.StringPtr(k.protocolType)
	if k.protocol != "" { // which some protocol is called
		answer.Protocol = kmsg.StringPtr(k.protocol)
	}
	answer.LeaderID = k.leader
	answer.MemberID = m.id
	answer.Members = []kmsg.JoinGroupResponseMember{}
	if m.id == k.leader {
		answer.Members = k.memberList()
	}
	return answer
}

// memberList is what the leader is told: everyone's metadata for the chosen protocol.
func (k *classic) memberList() []kmsg.JoinGroupResponseMember {
	list := make([]kmsg.JoinGroupResponseMember, len(k.order))
	for i, m := range k.order {
		list[i] = kmsg.NewJoinGroupResponseMember()
		list[i].MemberID = m.id
		list[i].InstanceID = m.instance
		list[i].ProtocolMetadata = m.metadata(k.protocol)
	}
	return list
}

// syncFailed is the answer to a sync that failed.
func syncFailed(code protocol.ErrorCode) *kmsg.SyncGroupResponse {
	answer := kmsg.NewPtrSyncGroupResponse()
	answer.ErrorCode = int16(code)
	answer.MemberAssignment = []byte{}
	return answer
}

// synced is a member's assignment.
func (k *classic) synced(m *member) *kmsg.SyncGroupResponse {
	answer := kmsg.NewPtrSyncGroupResponse()
	answer.ProtocolType = kmsg.StringPtr(k.protocolType)
	answer.Protocol = kmsg.StringPtr(k.protocol)
	answer.MemberAssignment = m.assignment
	if answer.MemberAssignment == nil {
		answer.MemberAssignment = []byte{}
	}
	return answer
}
