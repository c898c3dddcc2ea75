package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// upgrade makes a consumer group of a classic group of consumers when a member joins by KIP-848. The members keep what was
// assigned to them last; the one that joins causes a rebalance. First writes the records; the group changes over once they
// are committed.
func (k *classic) upgrade(t *turn) (*consumer, func(*meta.Batch), *refusal) {
	cannot := func(why string) (*consumer, func(*meta.Batch), *refusal) {
		return nil, nil, refuse(protocol.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group because %s.", k.group.id, why)
	}
	switch {
	case !t.cfg.Consumer.Upgrade:
		return cannot("online upgrade is disabled")
	case k.protocolType != consumerProtocolType:
		return cannot("the group does not use the consumer embedded protocol")
	case len(k.order) > t.cfg.Consumer.MaxSize:
		return cannot("the group size exceeds the consumer group maximum size")
	}
	next := newConsumer(k.group)
	next.epoch = max(firstEpoch, k.next-1)
	next.assignmentEpoch = next.epoch
	name := k.protocol
	if name == "" {
		name = k.chooseProtocol(nil, nil)
	}
	for _, m := range k.order {
		upgraded, ok := m.upgrade(name, k.generation, t.c.topics())
		if !ok {
			return cannot("the embedded consumer protocol is malformed")
		}
		next.file(m.id, upgraded)
		next.timers[m.id].session = t.now + m.session
	}
	return next, func(b *meta.Batch) {
		b.DeleteGroup(markKey(k.group.id))
		for id, m := range next.members {
			b.PutGroup(memberKey(k.group.id, id), m.encode())
		}
	}, nil
}

// upgrade is the member in a consumer group; false if what it or the leader has written is not what consumers write.
func (m *member) upgrade(protocolName string, generation int32, view *meta.Topics) (*consumerMember, bool) {
	said, ok := subscription(m.metadata(protocolName))
	if !ok {
		return nil, false
	}
	assigned := make(assignment)
	if len(m.assignment) > 0 {
		var given kmsg.ConsumerMemberAssignment
		if given.ReadFrom(m.assignment) != nil || len(given.UserData) > 0 {
			return nil, false
		}
		for i := range given.Topics {
			topic := view.Named(given.Topics[i].Topic)
			if topic == nil {
				continue
			}
			for _, number := range given.Topics[i].Partitions {
				assigned.add(topic.ID, ownedPartition{number, generation})
			}
		}
	}
	target := make(assignment, len(assigned))
	assigned.each(func(topic topicID, p ownedPartition) { target.add(topic, ownedPartition{number: p.number}) })
	return &consumerMember{
		id: m.id, instance: m.instance, rack: keepString(said.Rack), clientID: m.clientID, clientHost: m.clientHost,
		rebalance: m.rebalance, names: keepNames(said.Topics), classic: &classicSide{m.session, m.protocols},
		epoch: generation, previousEpoch: generation, assigned: assigned, target: target,
	}, true
}

// downgradable says whether the group becomes a classic one when these members go: all others speak the classic protocol.
func (k *consumer) downgradable(t *turn, gone []*consumerMember) bool {
	left := len(k.members) - len(gone)
	if !t.cfg.Consumer.Downgrade || left < 0 || left > t.cfg.MaxSize {
		return false
	}
	going := make(map[string]bool, len(gone))
	native := false
	for _, m := range gone {
		going[m.id] = true
		native = native || m.classic == nil
	}
	classics := 0
	for id, m := range k.members {
		if going[id] {
			continue
		}
		if m.classic == nil {
			return false
		}
		classics++
	}
	return classics > 0 && native
}

// downgrade makes a classic group of those who stay. They rebalance, and a static member that joins in the place of one
// that goes takes part.
func (k *consumer) downgrade(t *turn, gone []*consumerMember, joining *joinRequest) error {
	g := k.group
	next := newClassic(g)
	next.generation, next.next = k.epoch, k.epoch+1
	going := make(map[string]bool, len(gone))
	for _, m := range gone {
		going[m.id] = true
	}
	var b meta.Batch
	for _, m := range k.inOrder() {
		b.DeleteGroup(memberKey(g.id, m.id))
		if !going[m.id] {
			next.insert(m.downgrade(t.now), consumerProtocolType)
		}
	}
	next.protocol = next.chooseProtocol(nil, nil)
	next.noteTopics()
	for _, m := range next.order {
		// What it has, not what it is to have: if the group is upgraded again before it rejoins, nobody else may get that.
		had := k.members[m.id]
		m.assignment = embed(had.assigned.union(had.revoking), m.metadata(next.protocol), t.c.topics())
	}
	b.PutGroup(groupKey(g.id), next.record().encode())
	b.PutGroup(markKey(g.id), mark{next.generation, next.next}.encode())
	if err := t.c.commit(&b); err != nil {
		return err
	}
	t.c.log.Info("consumer group downgraded", zap.String("group", g.id), zap.Int("members", len(next.order)))
	g.recorded, g.consumer, g.classic = true, nil, next
	next.state, next.marked = stateStable, next.next
	for _, m := range next.order {
		next.extend(t, m)
	}
	next.prepare(t)
	if joining != nil {
		joining.MemberID = ""
		next.join(t, joining)
	}
	return nil
}

// downgrade is the member in a classic group.
func (m *consumerMember) downgrade(now time.Duration) *member {
	return &member{
		id: m.id, instance: m.instance, clientID: m.clientID, clientHost: m.clientHost, session: m.classic.session,
		rebalance: m.rebalance, protocols: m.classic.protocols, deadline: now + m.classic.session, synced: true,
	}
}

// makeClassic turns a consumer group without members into an empty classic one.
func (g *group) makeClassic(t *turn) error {
	empty := classicRecord{generation: g.consumer.epoch, emptySinceMs: g.consumer.emptySinceMs}
	var b meta.Batch
	b.PutGroup(groupKey(g.id), empty.encode())
	if err := t.c.commit(&b); err != nil {
		return err
	}
	next := newClassic(g)
	next.generation, next.next, next.emptySinceMs = g.consumer.epoch, g.consumer.epoch+1, g.consumer.emptySinceMs
	g.consumer, g.classic = nil, next
	return nil
}
