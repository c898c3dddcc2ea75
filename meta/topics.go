package meta

import (
	"maps"
	"slices"
	"sort"
	"strings"

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

// with returns a view in which topic is in place of the one of that name, or added.
func (t *Topics) with(topic *Topic) *Topics {
	next := t.clone()
	at, found := next.find(topic.Name)
	if found {
		delete(next.byID, next.sorted[at].ID)
		next.sorted[at] = topic
	} else {
		next.sorted = slices.Insert(next.sorted, at, topic)
	}
	next.byName[topic.Name], next.byID[topic.ID] = topic, topic
	return next
}

// without returns a view that lacks topic.
func (t *Topics) without(topics []*Topic) *Topics {
	next := t.clone()
	for _, topic := range topics {
		delete(next.byName, topic.Name)
		delete(next.byID, topic.ID)
	}
	next.sorted = slices.DeleteFunc(next.sorted, func(t *Topic) bool { return next.byID[t.ID] == nil })
	return next
}

func (t *Topics) clone() *Topics {
	return &Topics{byName: maps.Clone(t.byName), byID: maps.Clone(t.byID), sorted: slices.Clone(t.sorted)}
}

func (t *Topics) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(t.sorted, name, func(o *Topic, name string) int { return strings.Compare(o.Name, name) })
}
