package group

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kbroker/kbroker/meta"
)

// assignable is a member as assignors see it.
type assignable struct {
	id       string
	instance *string
	topics   []*meta.Topic // what it subscribes to and is there, by name
	current  assignment    // the target assignment so far
	next     assignment
	count    int
}

// assignor deals out all partitions of the topics that members subscribe to: each to exactly one member that subscribes to
// its topic. It sets next of every member. It is deterministic: members come ordered by id.
type assignor func(members []*assignable)

// assignors are the server-side assignors by name (group.consumer.assignors).
func assignorNamed(name string) (assignor, bool) {
	switch name {
	case "uniform":
		return assignUniformly, true
	case "range":
		return assignRanges, true
	default:
		return nil, false
	}
}

// subscribers lists for each topic the members that subscribe to it, in their order. Topics are ordered by name.
func subscribers(members []*assignable) (topics []*meta.Topic, by map[topicID][]*assignable) {
	by = make(map[topicID][]*assignable)
	for _, m := range members {
		for _, topic := range m.topics {
			if by[topic.ID] == nil {
				topics = append(topics, topic)
			}
			by[topic.ID] = append(by[topic.ID], m)
		}
	}
	slices.SortFunc(topics, func(a, b *meta.Topic) int { return strings.Compare(a.Name, b.Name) })
	return topics, by
}

// give adds a partition to a member's next assignment.
func (m *assignable) give(topic topicID, number int32) {
	m.next.add(topic, ownedPartition{number: number})
	m.count++
}

// take removes a partition from a member's next assignment.
func (m *assignable) take(topic topicID, number int32) {
	list := slices.DeleteFunc(m.next[topic], func(p ownedPartition) bool { return p.number == number })
	m.next[topic] = list
	if len(list) == 0 {
		delete(m.next, topic)
	}
	m.count--
}

// assignRanges gives the members of each topic consecutive partitions, the first ones one more if they don't come out
// even. Members are ordered by instance id, then those without one by member id, so that topics with as many partitions
// are assigned alike, which joins by key rely on.
func assignRanges(members []*assignable) {
	for _, m := range members {
		m.next, m.count = make(assignment), 0
	}
	topics, by := subscribers(members)
	for _, topic := range topics {
		list := by[topic.ID]
		slices.SortFunc(list, byInstance)
		each, more := int(topic.Partitions)/len(list), int(topic.Partitions)%len(list)
		number := int32(0)
		for i, m := range list {
			share := each
			if i < more {
				share++
			}
			for range share {
				m.give(topic.ID, number)
				number++
			}
		}
	}
}

func byInstance(a, b *assignable) int {
	switch {
	case a.instance != nil && b.instance != nil:
		return cmp.Compare(*a.instance, *b.instance)
	case a.instance != nil:
		return -1
	case b.instance != nil:
		return 1
	default:
		return cmp.Compare(a.id, b.id)
	}
}
