package group

import (
	"cmp"
	"maps"
	"slices"
)

// topicID is a topic's id. Members of consumer groups own partitions of topics by id, so that a topic made again under the
// same name is another one.
type topicID = [16]byte

// ownedPartition is a partition that a member has, and the member epoch at which it got it.
type ownedPartition struct{ number, epoch int32 }

// assignment is a set of partitions: by topic, in order, no topic without any. It is never changed once it is part of a
// member. In target assignments the epochs are 0.
type assignment map[topicID][]ownedPartition

// find looks a partition up.
func (a assignment) find(topic topicID, number int32) (ownedPartition, bool) {
	list := a[topic]
	i, found := slices.BinarySearchFunc(list, number, func(p ownedPartition, want int32) int { return cmp.Compare(p.number, want) })
	if !found {
		return ownedPartition{}, false
	}
	return list[i], true
}

func (a assignment) has(topic topicID, number int32) bool {
	_, found := a.find(topic, number)
	return found
}

// add puts a partition in; a must not be shared.
func (a assignment) add(topic topicID, p ownedPartition) {
	list := a[topic]
	i, found := slices.BinarySearchFunc(list, p.number, func(p ownedPartition, want int32) int { return cmp.Compare(p.number, want) })
	if !found {
		a[topic] = slices.Insert(list, i, p)
	}
}

// each calls f for all partitions, in the order of topics and partitions.
func (a assignment) each(f func(topic topicID, p ownedPartition)) {
	for _, topic := range a.topics() {
		for _, p := range a[topic] {
			f(topic, p)
		}
	}
}

// topics lists the topics in order.
func (a assignment) topics() []topicID {
	return slices.SortedFunc(maps.Keys(a), func(x, y topicID) int { return slices.Compare(x[:], y[:]) })
}

// numbers lists a topic's partitions.
func (a assignment) numbers(topic topicID) []int32 {
	numbers := make([]int32, len(a[topic]))
	for i, p := range a[topic] {
		numbers[i] = p.number
	}
	return numbers
}

// samePartitions says whether two assignments have the same partitions, whatever the epochs.
func (a assignment) samePartitions(b assignment) bool {
	return maps.EqualFunc(a, b, func(x, y []ownedPartition) bool {
		return slices.EqualFunc(x, y, func(p, q ownedPartition) bool { return p.number == q.number })
	})
}

// equal compares epochs too.
func (a assignment) equal(b assignment) bool {
	return maps.EqualFunc(a, b, slices.Equal[[]ownedPartition])
}

// union has the partitions of both.
func (a assignment) union(b assignment) assignment {
	if len(b) == 0 {
		return a
	}
	u := make(assignment, len(a)+len(b))
	for topic, list := range a {
		u[topic] = slices.Clone(list)
	}
	for topic, list := range b {
		for _, p := range list {
			u.add(topic, p)
		}
	}
	return u
}

// size is the number of partitions.
func (a assignment) size() int {
	n := 0
	for _, list := range a {
		n += len(list)
	}
	return n
}
