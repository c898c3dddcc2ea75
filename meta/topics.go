package meta

import (
	"sort"

	"github.com/kbroker/kbroker/storage"
)

// Topics is an immutable view of all topics. Concurrent calls are allowed.
type Topics struct {
	byName map[string]*Topic
	byID   map[storage.TopicID]*Topic
	sorted []*Topic // by name
}

// NewTopics makes a view of the given topics.
func NewTopics(all []*Topic) *Topics {
	t := &Topics{
		byName: make(map[string]*Topic, len(all)),
		byID:   make(map[storage.TopicID]*Topic, len(all)),
		sorted: append([]*Topic(nil), all...),
	}
	for _, topic := range all {
		t.byName[topic.Name] = topic
		t.byID[topic.ID] = topic
	}
	sort.Slice(t.sorted, func(i, j int) bool { return t.sorted[i].Name < t.sorted[j].Name })
	return t
}

// Named returns the topic of that name, or nil.
func (t *Topics) Named(name string) *Topic { return t.byName[name] }

// WithID returns the topic of that id, or nil.
func (t *Topics) WithID(id storage.TopicID) *Topic { return t.byID[id] }

// All lists the topics by name. The slice must not be changed.
func (t *Topics) All() []*Topic { return t.sorted }

// Len is the number of topics.
func (t *Topics) Len() int { return len(t.sorted) }

// with returns a view in which t is in place of the topic of that name, or added.
func (t *Topics) with(topic *Topic) *Topics {
	all := make([]*Topic, 0, len(t.sorted)+1)
	for _, o := range t.sorted {
		if o.Name != topic.Name {
			all = append(all, o)
		}
	}
	return NewTopics(append(all, topic))
}

// without returns a view that lacks the topic of that id.
func (t *Topics) without(id storage.TopicID) *Topics {
	all := make([]*Topic, 0, len(t.sorted))
	for _, o := range t.sorted {
		if o.ID != id {
			all = append(all, o)
		}
	}
	return NewTopics(all)
}
