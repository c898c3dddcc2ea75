package group

import (
	"slices"

	"github.com/kbroker/kbroker/meta"
)

// assignUniformly makes the members' numbers of partitions as equal as their subscriptions allow, and moves as few
// partitions as that takes.
func assignUniformly(members []*assignable) {
	topics, by := subscribers(members)
	free := keepCurrent(members, topics, by)
	if alike(members) {
		free = append(free, trim(members, topics)...)
		fill(members, topics, free)
		return
	}
	// Partitions that few members can have go first, each to the one that has least.
	slices.SortStableFunc(free, func(a, b freePartition) int { return len(by[a.topic]) - len(by[b.topic]) })
	for _, p := range free {
		least(by[p.topic]).give(p.topic, p.number)
	}
	for moved := true; moved; {
		moved = balance(topics, by)
	}
}

type freePartition struct {
	topic  topicID
	number int32
}

// keepCurrent gives members what they have, as far as it is there and they subscribe to it, and returns what nobody has.
func keepCurrent(members []*assignable, topics []*meta.Topic, by map[topicID][]*assignable) (free []freePartition) {
	owner := make(map[freePartition]*assignable)
	for _, m := range members {
		m.next, m.count = make(assignment), 0
		for _, topic := range m.topics {
			for _, p := range m.current[topic.ID] {
				place := freePartition{topic.ID, p.number}
				if p.number < topic.Partitions && owner[place] == nil {
					owner[place] = m
					m.give(topic.ID, p.number)
				}
			}
		}
	}
	for _, topic := range topics {
		for number := range topic.Partitions {
			if owner[freePartition{topic.ID, number}] == nil && len(by[topic.ID]) > 0 {
				free = append(free, freePartition{topic.ID, number})
			}
		}
	}
	return free
}

// alike says whether all members subscribe to the same topics.
func alike(members []*assignable) bool {
	for _, m := range members {
		if !slices.Equal(m.topics, members[0].topics) {
			return false
		}
	}
	return true
}

// quotas is how many partitions each member may have; those that have most get the ones that are left over.
func quotas(members []*assignable, topics []*meta.Topic) map[*assignable]int {
	total := 0
	for _, topic := range topics {
		total += int(topic.Partitions)
	}
	richest := slices.Clone(members)
	slices.SortStableFunc(richest, func(a, b *assignable) int { return b.count - a.count })
	quota := make(map[*assignable]int, len(members))
	for i, m := range richest {
		quota[m] = total / len(members)
		if i < total%len(members) {
			quota[m]++
		}
	}
	return quota
}

// trim takes from members what is above their quotas: their last partitions.
func trim(members []*assignable, topics []*meta.Topic) (free []freePartition) {
	quota := quotas(members, topics)
	for _, m := range members {
		for i := len(topics) - 1; i >= 0 && m.count > quota[m]; i-- {
			topic := topics[i].ID
			for m.count > quota[m] && len(m.next[topic]) > 0 {
				number := m.next[topic][len(m.next[topic])-1].number
				m.take(topic, number)
				free = append(free, freePartition{topic, number})
			}
		}
	}
	return free
}

// fill gives members what they are short of.
func fill(members []*assignable, topics []*meta.Topic, free []freePartition) {
	quota := quotas(members, topics)
	for _, m := range members {
		for m.count < quota[m] && len(free) > 0 {
			m.give(free[0].topic, free[0].number)
			free = free[1:]
		}
	}
}

func least(members []*assignable) *assignable {
	best := members[0]
	for _, m := range members[1:] {
		if m.count < best.count {
			best = m
		}
	}
	return best
}

// balance moves partitions from members that have at least two more than another one that could have them. Each move makes
// the sum of squares smaller, so it comes to an end. It says whether it moved any.
func balance(topics []*meta.Topic, by map[topicID][]*assignable) (moved bool) {
	for _, topic := range topics {
		for _, from := range by[topic.ID] {
			for i := len(from.next[topic.ID]) - 1; i >= 0; i-- {
				to := least(by[topic.ID])
				if from.count < to.count+2 {
					break
				}
				number := from.next[topic.ID][i].number
				from.take(topic.ID, number)
				to.give(topic.ID, number)
				moved = true
			}
		}
	}
	return moved
}
