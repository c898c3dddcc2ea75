package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reconciler moves a member one step closer to its target assignment.
type reconciler struct {
	k           *consumer
	member      *consumerMember // with the target it is to reach
	targetEpoch int32
	subscribed  map[topicID]bool
	resubscribe bool // its subscription has changed: what it no longer wants is taken away at once
	ownedKnown  bool // it has said what it owns
	owned       []kmsg.ConsumerGroupHeartbeatRequestTopic
}

// next is the member after this step; the same one if it can't move.
func (r *reconciler) next() *consumerMember {
	m := r.member
	switch m.state {
	case memberStable:
		if m.epoch != r.targetEpoch {
			return r.approach()
		}
		if r.resubscribe {
			return r.shrink()
		}
		return m
	case memberUnrevoked:
		if !r.owns(m.revoking) {
			return r.approach()
		}
		if r.resubscribe {
			return r.shrink()
		}
		return m
	default:
		return r.approach()
	}
}

// owns says whether the member still has any of these partitions. As long as it doesn't say, it may.
func (r *reconciler) owns(partitions assignment) bool {
	if !r.ownedKnown {
		return true
	}
	for i := range r.owned {
		for _, number := range r.owned[i].Partitions {
			if partitions.has(r.owned[i].TopicID, number) {
				return true
			}
		}
	}
	return false
}

// shrink takes away the topics that the member no longer subscribes to, without waiting for a new target.
func (r *reconciler) shrink() *consumerMember {
	m := r.member
	kept, unwanted := make(assignment), make(assignment)
	for topic, list := range m.assigned {
		if r.subscribed[topic] {
			kept[topic] = list
		} else {
			unwanted[topic] = list
		}
	}
	if len(unwanted) == 0 {
		return m
	}
	revoking := m.revoking.union(unwanted)
	if r.owns(revoking) {
		return m.at(memberUnrevoked, m.epoch, kept, revoking)
	}
	return m.at(m.state, m.epoch, kept, m.revoking)
}

// approach goes for the whole target: first what is too much is taken away; if nothing is, what is free is given.
func (r *reconciler) approach() *consumerMember {
	m := r.member
	kept, tooMuch := make(assignment), make(assignment)
	m.assigned.each(func(topic topicID, p ownedPartition) {
		if r.wants(topic, p.number) {
			kept.add(topic, p)
		} else {
			tooMuch.add(topic, p)
		}
	})
	if len(tooMuch) > 0 && r.owns(tooMuch) {
		return m.at(memberUnrevoked, m.epoch, kept, tooMuch)
	}
	state := memberStable
	m.target.each(func(topic topicID, p ownedPartition) {
		switch {
		case !r.subscribed[topic] || kept.has(topic, p.number):
		case r.k.holders[freePartition{topic, p.number}] > 0 && !m.revoking.has(topic, p.number):
			state = memberUnreleased
		default:
			kept.add(topic, ownedPartition{p.number, r.targetEpoch})
		}
	})
	return m.at(state, r.targetEpoch, kept, nil)
}

func (r *reconciler) wants(topic topicID, number int32) bool {
	return r.subscribed[topic] && r.member.target.has(topic, number)
}

// at is the member in another state; the same one if nothing is different.
func (m *consumerMember) at(state memberState, epoch int32, assigned, revoking assignment) *consumerMember {
	if m.state == state && m.epoch == epoch && m.assigned.equal(assigned) && m.revoking.equal(revoking) {
		return m
	}
	moved := *m
	if moved.epoch != epoch {
		moved.previousEpoch = moved.epoch
	}
	moved.state, moved.epoch, moved.assigned, moved.revoking = state, epoch, assigned, revoking
	return &moved
}

// reconcile moves a member towards its target as the change has it.
func (c *change) reconcile(t *turn, m *consumerMember, resubscribe, ownedKnown bool, owned []kmsg.ConsumerGroupHeartbeatRequestTopic) *consumerMember {
	if !resubscribe && m.state == memberStable && m.epoch == c.assignmentEpoch {
		return m
	}
	r := reconciler{
		k: c.k, member: m, targetEpoch: c.assignmentEpoch, resubscribe: resubscribe, ownedKnown: ownedKnown, owned: owned,
		subscribed: make(map[topicID]bool),
	}
	for _, topic := range topicsOf(m, c.regexes, t.c.topics()) {
		r.subscribed[topic.ID] = true
	}
	next := r.next()
	if next != m {
		c.set(next)
	}
	return next
}

// coveredBy says whether all partitions in a request are part of an assignment.
func coveredBy(owned []kmsg.ConsumerGroupHeartbeatRequestTopic, a assignment) bool {
	for i := range owned {
		if slices.ContainsFunc(owned[i].Partitions, func(n int32) bool { return !a.has(owned[i].TopicID, n) }) {
			return false
		}
	}
	return true
}
