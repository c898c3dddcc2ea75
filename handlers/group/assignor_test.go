package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbroker/kbroker/meta"
)

func TestRangesAreConsecutiveAndAlikeForTopicsWithAsManyPartitions(t *testing.T) {
	t.Parallel()
	a, b := &meta.Topic{Name: "a", Partitions: 5}, &meta.Topic{Name: "b", Partitions: 5}
	a.ID[0], b.ID[0] = 1, 2
	instance := "z"
	members := []*assignable{
		{id: "1", topics: []*meta.Topic{a, b}}, {id: "2", topics: []*meta.Topic{a, b}}, {id: "3", instance: &instance, topics: []*meta.Topic{a, b}},
	}
	assignRanges(members)
	for i, want := range []string{"[2 3]", "[4]", "[0 1]"} { // static members come first
		for _, topic := range []*meta.Topic{a, b} {
			if got := fmt.Sprint(members[i].next.numbers(topic.ID)); got != want {
				t.Errorf("member %s, topic %s: %s, want %s", members[i].id, topic.Name, got, want)
			}
		}
	}
}

// TestAssignorsDealOutEverythingFairly runs random groups through many changes. Each partition of a subscribed topic goes
// to exactly one member that subscribes to it; uniform is as even as that allows, and moves nothing that doesn't have to.
func TestAssignorsDealOutEverythingFairly(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		same := r.IntN(2) == 0
		var topics []*meta.Topic
		for i := range 1 + r.IntN(4) {
			topic := &meta.Topic{Name: fmt.Sprint("t", i), Partitions: int32(1 + r.IntN(7))}
			topic.ID[0] = byte(i + 1)
			topics = append(topics, topic)
		}
		targets := map[string]assignment{}
		for round := range 6 {
			var members []*assignable
			for i := range 1 + r.IntN(6) {
				id := fmt.Sprint("m", i)
				m := &assignable{id: id, topics: topics, current: targets[id]}
				if !same {
					m.topics = nil
					for _, topic := range topics {
						if r.IntN(2) == 0 {
							m.topics = append(m.topics, topic)
						}
					}
				}
				members = append(members, m)
			}
			for name, assign := range map[string]assignor{"range": assignRanges, "uniform": assignUniformly} {
				assign(members)
				if complaint := unfair(members, name == "uniform"); complaint != "" {
					t.Fatalf("seed %d round %d %s: %s", seed, round, name, complaint)
				}
			}
			assignUniformly(members)
			targets = map[string]assignment{}
			for _, m := range members {
				targets[m.id] = m.next
				m.current = m.next
			}
			assignUniformly(members)
			for _, m := range members {
				if !m.next.samePartitions(m.current) {
					t.Fatalf("seed %d round %d: assigned again without a change, %s goes from %v to %v", seed, round, m.id, m.current, m.next)
				}
			}
			if r.IntN(2) == 0 {
				grown := *topics[0]
				grown.Partitions++
				topics = slices.Clone(topics)
				topics[0] = &grown
			}
		}
	}
}

// unfair says what is wrong with an assignment.
func unfair(members []*assignable, even bool) string {
	topics, by := subscribers(members)
	owner := map[freePartition]*assignable{}
	for _, m := range members {
		count := 0
		for topic, list := range m.next {
			if !slices.ContainsFunc(m.topics, func(t *meta.Topic) bool { return t.ID == topic }) {
				return fmt.Sprintf("%s has a topic that it doesn't subscribe to", m.id)
			}
			for _, p := range list {
				place := freePartition{topic, p.number}
				if owner[place] != nil {
					return fmt.Sprintf("%v belongs to %s and %s", place, owner[place].id, m.id)
				}
				owner[place] = m
				count++
			}
		}
		if count != m.count {
			return fmt.Sprintf("%s has %d, counted %d", m.id, count, m.count)
		}
	}
	for _, topic := range topics {
		for number := range topic.Partitions {
			m := owner[freePartition{topic.ID, number}]
			if m == nil {
				return fmt.Sprintf("nobody has %s/%d", topic.Name, number)
			}
			for _, other := range by[topic.ID] {
				if even && m.count > other.count+1 {
					return fmt.Sprintf("%s has %d, %s could have %s/%d and has %d", m.id, m.count, other.id, topic.Name, number, other.count)
				}
			}
		}
	}
	if len(owner) != func() (n int) {
		for _, topic := range topics {
			n += int(topic.Partitions)
		}
		return n
	}() {
		return "partitions that aren't there"
	}
	return ""
}

func TestUniformMovesAsLittleAsItMust(t *testing.T) {
	t.Parallel()
	topic := &meta.Topic{Name: "a", Partitions: 12}
	topic.ID[0] = 1
	member := func(id string, current assignment) *assignable {
		return &assignable{id: id, topics: []*meta.Topic{topic}, current: current}
	}
	members := []*assignable{member("m1", nil), member("m2", nil), member("m3", nil)}
	assignUniformly(members)
	four := []*assignable{
		member("m0", nil), member("m1", members[0].next), member("m2", members[1].next), member("m3", members[2].next),
	}
	assignUniformly(four)
	if moved := moves(four); moved != 3 {
		t.Errorf("a fourth member made %d partitions move, want 3", moved)
	}
	left := []*assignable{member("m0", four[0].next), member("m2", four[2].next), member("m3", four[3].next)}
	assignUniformly(left)
	if moved := moves(left); moved != 3 {
		t.Errorf("a leaving member made %d partitions move, want 3", moved)
	}
}

// moves is how many partitions members got that they didn't have.
func moves(members []*assignable) (n int) {
	for _, m := range members {
		m.next.each(func(topic topicID, p ownedPartition) {
			if !m.current.has(topic, p.number) {
				n++
			}
		})
	}
	return n
}

func BenchmarkAssignUniformly(b *testing.B) {
	var topics []*meta.Topic
	for i := range 10 {
		topic := &meta.Topic{Name: fmt.Sprint("t", i), Partitions: 200}
		topic.ID[0] = byte(i + 1)
		topics = append(topics, topic)
	}
	var members []*assignable
	for i := range 1000 {
		members = append(members, &assignable{id: fmt.Sprintf("m%04d", i), topics: topics})
	}
	assignUniformly(members)
	for _, m := range members {
		m.current = m.next
	}
	b.ResetTimer()
	for b.Loop() {
		assignUniformly(members)
	}
}
