package meta

import (
	"fmt"
	"maps"

	"github.com/kbroker/kbroker/storage"
)

// Topics is an immutable view of the topics as they are now.
func (s *Store) Topics() *Topics { return s.topics.Load() }

// DeleteTopics removes topics, their partitions' records and all cursors on them, all in one commit or none; [ErrNoTopic]
// if one isn't there. It returns the topics in order; one that stands twice in the list is there once.
func (s *Store) DeleteTopics(ids []storage.TopicID) ([]*Topic, error) {
	s.changes.Lock()
	defer s.changes.Unlock()
	gone := make([]*Topic, 0, len(ids))
	names := make(map[string]bool, len(ids))
	for _, id := range ids {
		t := s.Topics().WithID(id)
		if t == nil {
			return nil, fmt.Errorf("delete topic %s: %w", id, ErrNoTopic)
		}
		if !names[t.Name] {
			names[t.Name] = true
			gone = append(gone, t)
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	if err := s.deleteTopics(gone, names); err != nil {
		return nil, fmt.Errorf("delete %d topics, %s first: %w", len(gone), gone[0].Name, err)
	}
	left := s.Topics().without(gone)
	s.topics.Store(left)
	s.starts.Range(func(key, _ any) bool {
		if k, ok := key.(logKey); ok && left.WithID(k.id) == nil {
			s.starts.Delete(k)
		}
		return true
	})
	return gone, nil
}

// deleteTopics commits the removal. No cursor can be committed meanwhile, and none on the topics afterwards.
func (s *Store) deleteTopics(gone []*Topic, names map[string]bool) error {
	if s.broken.Load() {
		s.recoverLocked()
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.closed {
		return ErrClosed
	}
	if err := s.engineError(); err != nil {
		return err
	}
	var b Batch
	escaped := make(map[string]bool, len(gone))
	for _, t := range gone {
		escaped[string(appendEscaped(nil, t.Name))] = true
		b.remove(topicKey(t.Name))
		err := s.scan(string(appendKey(nil, partitionPrefix, t.Name, "")), func(key, _ []byte) error {
			b.remove(key)
			return nil
		})
		if err != nil {
			return err
		}
	}
	err := s.scan(cursorPrefix, func(key, _ []byte) error {
		topic, keyErr := cursorTopic(key)
		if keyErr == nil && escaped[string(topic)] {
			b.remove(key)
		}
		return keyErr
	})
	if err != nil {
		return err
	}
	if err = s.write(&b, true); err != nil {
		return err
	}
	maps.Copy(s.deleted, names)
	return nil
}

// GrowTopic sets a larger number of partitions; [ErrNoTopic]. A number that isn't larger changes nothing.
func (s *Store) GrowTopic(id storage.TopicID, partitions int32) (*Topic, error) {
	return s.changeTopic(id, "grow topic", func(t *Topic) { t.Partitions = max(t.Partitions, partitions) })
}

// SetTopicConfigs replaces the topic's own settings, which are copied; [ErrNoTopic].
func (s *Store) SetTopicConfigs(id storage.TopicID, configs map[string]string) (*Topic, error) {
	return s.changeTopic(id, "configure topic", func(t *Topic) { t.Configs = maps.Clone(configs) })
}

// changeTopic commits a changed copy of a topic.
func (s *Store) changeTopic(id storage.TopicID, what string, change func(*Topic)) (*Topic, error) {
	s.changes.Lock()
	defer s.changes.Unlock()
	old := s.Topics().WithID(id)
	if old == nil {
		return nil, fmt.Errorf("%s %s: %w", what, id, ErrNoTopic)
	}
	t := *old
	change(&t)
	var b Batch
	b.set(topicKey(t.Name), t.encode())
	if err := s.change(&b); err != nil {
		return nil, fmt.Errorf("%s %s: %w", what, t.Name, err)
	}
	s.topics.Store(s.Topics().with(&t))
	return &t, nil
}

// loadTopics reads all topics.
func (s *Store) loadTopics() error {
	var all []*Topic
	err := s.scan(topicPrefix, func(key, value []byte) error {
		parts, err := keyParts(key, topicPrefix, 1)
		if err != nil {
			return err
		}
		t, err := decodeTopic(parts[0], value)
		if err != nil {
			return fmt.Errorf("topic %s: %w", parts[0], err)
		}
		all = append(all, t)
		return nil
	})
	if err != nil {
		return err
	}
	s.topics.Store(NewTopics(all))
	return nil
}

// LogStart is the log start offset of a partition, 0 if none was set.
func (s *Store) LogStart(id storage.TopicID, partition int32) int64 {
	start, _ := s.starts.Load(logKey{id, partition})
	offset, _ := start.(int64) // nothing else is stored
	return offset
}

// SetLogStart makes a partition's log start offset durable; [ErrNoTopic].
func (s *Store) SetLogStart(id storage.TopicID, partition int32, start int64) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	t := s.Topics().WithID(id)
	if t == nil {
		return fmt.Errorf("set log start of %s-%d: %w", id, partition, ErrNoTopic)
	}
	var b Batch
	b.set(partitionKey(t.Name, partition), encodeLogStart(id, start))
	if err := s.change(&b); err != nil {
		return fmt.Errorf("set log start of %s-%d: %w", t.Name, partition, err)
	}
	s.starts.Store(logKey{id, partition}, start)
	return nil
}

// loadStarts reads the log start offsets of the topics there are.
func (s *Store) loadStarts() error {
	return s.scan(partitionPrefix, func(key, value []byte) error {
		topic, partition, err := parsePartitionKey(key)
		if err != nil {
			return err
		}
		id, start, err := decodeLogStart(value)
		if err != nil {
			return fmt.Errorf("partition %s-%d: %w", topic, partition, err)
		}
		if t := s.Topics().Named(topic); t != nil && t.ID == id {
			s.starts.Store(logKey{id, partition}, start)
		}
		return nil
	})
}

// ReserveProducerIDs makes a block of n producer ids durable as handed out and returns the first.
func (s *Store) ReserveProducerIDs(n int64) (int64, error) {
	s.changes.Lock()
	defer s.changes.Unlock()
	first := s.nextPID
	var b Batch
	b.set([]byte(producerKey), encodeNumber(first+n))
	if err := s.change(&b); err != nil {
		return 0, fmt.Errorf("reserve producer ids: %w", err)
	}
	s.nextPID = first + n
	return first, nil
}

func (s *Store) loadProducerID() error {
	value, err := s.get([]byte(producerKey))
	if err != nil || value == nil {
		return err
	}
	if s.nextPID, err = decodeNumber(value); err != nil {
		return fmt.Errorf("%s: %w", producerKey, err)
	}
	return nil
}
