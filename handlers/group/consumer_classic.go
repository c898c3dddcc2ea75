package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// While a group is moved from the classic protocol to KIP-848, or back, it has members of both kinds. To one that speaks
// the classic protocol the group looks like a classic group that it doesn't lead: its member epoch is the generation; it
// joins to say what it owns and to get on, and syncs to learn what is assigned. Nothing of this waits for others.

// joinConsumer is a classic JoinGroup to a consumer group with members.
func (g *group) joinConsumer(t *turn, r *joinRequest) {
	k := g.consumer
	if !t.cfg.Consumer.Upgrade && !t.cfg.Consumer.Downgrade || !k.speaks(r) {
		r.fail("", protocol.InconsistentGroupProtocol)
		return
	}
	id := r.MemberID
	if id == "" {
		id = t.c.newUUID()
	}
	existing := k.members[id]
	if r.InstanceID != nil {
		existing = k.static[*r.InstanceID]
	}
	if existing == nil && len(k.members) >= t.cfg.Consumer.MaxSize {
		r.fail("", protocol.GroupMaxSizeReached)
		return
	}
	if r.MemberID == "" && r.InstanceID == nil && r.wait.version >= versionMemberIDRequired {
		r.fail(id, protocol.MemberIDRequired)
		return
	}
	said, ok := subscription(r.Protocols[0].Metadata)
	if !ok {
		r.fail("", protocol.InconsistentGroupProtocol)
		return
	}
	if code := k.checkRejoin(r, existing); code != protocol.None {
		r.fail(r.MemberID, code)
		return
	}
	if existing != nil && r.InstanceID != nil && k.downgradable(t, []*consumerMember{existing}) {
		if k.downgrade(t, []*consumerMember{existing}, r) != nil {
			r.fail(r.MemberID, protocol.CoordinatorNotAvailable)
		}
		return
	}
	k.admit(t, r, id, existing, &said)
}

// speaks says whether a classic member's protocols are known to all other classic members.
func (k *consumer) speaks(r *joinRequest) bool {
	if r.ProtocolType != consumerProtocolType || len(r.Protocols) == 0 {
		return false
	}
	for i := range r.Protocols {
		known := true
		for _, m := range k.members {
			known = known && (m.classic == nil || repeats(m.classic.protocols, r.Protocols[i].Name))
		}
		if known {
			return true
		}
	}
	return false
}

// checkRejoin checks a static member that says who it is.
func (k *consumer) checkRejoin(r *joinRequest, existing *consumerMember) protocol.ErrorCode {
	switch {
	case r.InstanceID == nil || r.MemberID == "":
		return protocol.None
	case existing == nil:
		return protocol.UnknownMemberID
	case existing.id != r.MemberID:
		return protocol.FencedInstanceID
	default:
		return protocol.None
	}
}

// admit lets a classic member in, or on.
func (k *consumer) admit(t *turn, r *joinRequest, id string, existing *consumerMember, said *kmsg.ConsumerMemberMetadata) {
	c := k.change()
	before := existing
	switch {
	case existing == nil:
		before = &consumerMember{id: strings.Clone(id)}
	case existing.id != id:
		before = c.replace(existing, id)
	}
	next := *before
	next.instance, next.rack = keepString(r.InstanceID), keepString(said.Rack)
	next.clientID, next.clientHost = strings.Clone(r.client.ID), strings.Clone(r.client.Host)
	next.rebalance, next.names, next.regex, next.assignor = r.rebalanceTimeout(), keepNames(said.Topics), "", ""
	next.classic = &classicSide{session: r.sessionTimeout(), protocols: keepProtocols(r.Protocols)}
	c.set(&next)
	if _, refused := k.resubscribe(t, c, before, &next); refused != nil {
		r.fail(r.MemberID, refused.code)
		return
	}
	c.maybeAssign(t, t.cfg.Consumer.AssignmentInterval)
	resubscribed := before.regex != next.regex || !slices.Equal(before.names, next.names)
	joined := c.reconcile(t, c.member(next.id), resubscribed, true, ownedByID(said, t.c.topics()))
	if c.commit(t) != nil {
		r.fail(r.MemberID, protocol.CoordinatorNotAvailable)
		return
	}
	d := k.timers[joined.id]
	d.join, d.revoke = 0, 0
	k.extend(t, joined)
	k.until(t, &d.sync, joined.rebalance)
	answer := joinFailed(joined.id, protocol.None)
	answer.Generation = joined.epoch
	answer.ProtocolType = kmsg.StringPtr(consumerProtocolType)
	answer.Protocol = kmsg.StringPtr(joined.classic.protocols[0].name)
	r.wait.answer(answer)
}

// ownedByID turns what a classic member says it owns into ids.
func ownedByID(said *kmsg.ConsumerMemberMetadata, view *meta.Topics) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	var owned []kmsg.ConsumerGroupHeartbeatRequestTopic
	for i := range said.OwnedPartitions {
		if topic := view.Named(said.OwnedPartitions[i].Topic); topic != nil {
			owned = append(owned, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic.ID, Partitions: said.OwnedPartitions[i].Partitions})
		}
	}
	return owned
}

// classicMember finds a member that speaks the classic protocol.
func (k *consumer) classicMember(id string, instance *string) (*consumerMember, protocol.ErrorCode) {
	m := k.members[id]
	if instance != nil {
		if m = k.static[*instance]; m != nil && m.id != id {
			return nil, protocol.FencedInstanceID
		}
	}
	if m == nil || m.classic == nil {
		return nil, protocol.UnknownMemberID
	}
	return m, protocol.None
}

// syncClassic answers a classic member's assignment.
func (k *consumer) syncClassic(t *turn, req *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	m, code := k.classicMember(req.MemberID, req.InstanceID)
	switch {
	case code != protocol.None:
		return syncFailed(code)
	case req.Generation != m.epoch:
		return syncFailed(protocol.IllegalGeneration)
	case req.ProtocolType != nil && *req.ProtocolType != consumerProtocolType,
		req.Protocol != nil && *req.Protocol != m.classic.protocols[0].name:
		return syncFailed(protocol.InconsistentGroupProtocol)
	case k.assignmentEpoch > m.epoch && m.state != memberUnrevoked:
		k.mustRejoin(t, m)
		return syncFailed(protocol.RebalanceInProgress)
	}
	k.timers[m.id].sync = 0
	k.extend(t, m)
	answer := kmsg.NewPtrSyncGroupResponse()
	answer.ProtocolType, answer.Protocol = keepString(req.ProtocolType), keepString(req.Protocol)
	answer.MemberAssignment = embed(m.assigned, m.classic.protocols[0].metadata, t.c.topics())
	return answer
}

// heartbeatClassic tells a classic member to rejoin when there is something to give up or to get.
func (k *consumer) heartbeatClassic(t *turn, req *kmsg.HeartbeatRequest) protocol.ErrorCode {
	m, code := k.classicMember(req.MemberID, req.InstanceID)
	if code != protocol.None {
		return code
	}
	if req.Generation != m.epoch {
		return protocol.IllegalGeneration
	}
	k.extend(t, m)
	if m.epoch < k.assignmentEpoch || m.state == memberUnrevoked || m.state == memberUnreleased && !k.awaited(m) {
		k.mustRejoin(t, m)
		return protocol.RebalanceInProgress
	}
	return protocol.None
}

// awaited says whether something of the member's target still belongs to others.
func (k *consumer) awaited(m *consumerMember) (awaited bool) {
	m.target.each(func(topic topicID, p ownedPartition) {
		awaited = awaited || !m.assigned.has(topic, p.number) && k.holders[freePartition{topic, p.number}] > 0
	})
	return awaited
}

// mustRejoin gives a classic member its rebalance timeout to rejoin, from when it was told first.
func (k *consumer) mustRejoin(t *turn, m *consumerMember) {
	if d := k.timers[m.id]; d.join == 0 {
		k.until(t, &d.join, m.rebalance)
	}
}

// leaveClassic takes members of either kind out.
func (k *consumer) leaveClassic(t *turn, leavers []kmsg.LeaveGroupRequestMember, codes []protocol.ErrorCode) {
	var gone []*consumerMember
	for i := range leavers {
		m := k.members[leavers[i].MemberID]
		if leavers[i].InstanceID != nil {
			m = k.static[*leavers[i].InstanceID]
		}
		switch {
		case m == nil:
			codes[i] = protocol.UnknownMemberID
		case leavers[i].MemberID != "" && m.id != leavers[i].MemberID:
			codes[i] = protocol.FencedInstanceID
		case !slices.Contains(gone, m):
			gone = append(gone, m)
		}
	}
	if len(gone) == 0 || k.fence(t, gone, "left") == nil {
		return
	}
	for i := range codes {
		if codes[i] == protocol.None {
			codes[i] = protocol.CoordinatorNotAvailable
		}
	}
}

// embed writes an assignment as classic consumers read it, in the version of what they wrote.
func embed(a assignment, metadata []byte, view *meta.Topics) []byte {
	said, _ := subscription(metadata)
	written := kmsg.NewConsumerMemberAssignment()
	written.Version = said.Version
	for _, id := range a.topics() {
		if topic := view.WithID(id); topic != nil {
			written.Topics = append(written.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topic.Name, Partitions: a.numbers(id)})
		}
	}
	return written.AppendTo(nil)
}
