package meta

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kbroker/kbroker/protocol/clock"
)

// CreateTopics makes topics durable and visible, all in one commit or none; [ErrTopicExists] if one is there or stands
// twice in the list. It sets ID, EpochBase and CreatedMs and returns the topics as stored. The configs are copied.
func (s *Store) CreateTopics(all []Topic) ([]*Topic, error) {
	s.changes.Lock()
	defer s.changes.Unlock()
	made := make([]*Topic, len(all))
	names := make(map[string]bool, len(all))
	var b Batch
	for i, t := range all {
		if s.Topics().Named(t.Name) != nil || names[t.Name] {
			return nil, fmt.Errorf("create topic %s: %w", t.Name, ErrTopicExists)
		}
		names[t.Name] = true
		id, err := s.newID()
		if err != nil {
			return nil, err
		}
		t.ID, t.EpochBase, t.CreatedMs = id, s.Epoch(), clock.UnixMilli(s.opts.Clock)
		t.Configs = maps.Clone(t.Configs)
		made[i] = &t
		b.set(topicKey(t.Name), t.encode())
	}
	if err := s.change(&b); err != nil {
		return nil, fmt.Errorf("create %d topics: %w", len(all), err)
	}
	s.undelete(names)
	s.topics.Store(s.Topics().withNew(made))
	return made, nil
}

// undelete lets cursors on topics be committed again. The caller holds s.changes, without which nothing is added to
// s.deleted; what is committed waits for the gate only if a name is in it.
func (s *Store) undelete(names map[string]bool) {
	for name := range names {
		if s.deleted[name] {
			s.gate.Lock()
			delete(s.deleted, name)
			s.gate.Unlock()
		}
	}
}

// withNew returns a view that has topics more. One is put in its place; of many a new view is made, once.
func (t *Topics) withNew(topics []*Topic) *Topics {
	if len(topics) == 1 {
		return t.with(topics[0])
	}
	return NewTopics(slices.Concat(topics, t.sorted))
}
