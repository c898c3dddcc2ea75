package group

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/kbroker/kbroker/meta"
)

var errDisk = errors.New("disk failed")

// memoryStore is a Store whose commits can fail. What it holds outlives a coordinator, as a disk does.
type memoryStore struct {
	mu      sync.Mutex
	groups  map[string][]byte
	cursors map[string]map[meta.TopicPartition]meta.Cursor
	fail    func() bool   // asked at each commit; nil never fails
	deceive bool          // commits that fail count all the same
	hold    chan struct{} // when set, commits wait until it is closed
	commits int
	deleted map[string]bool // topics that were deleted
}

func newMemoryStore() *memoryStore {
	return &memoryStore{groups: make(map[string][]byte), cursors: make(map[string]map[meta.TopicPartition]meta.Cursor)}
}

func (s *memoryStore) Commit(b *meta.Batch) error {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits++
	failed := s.fail != nil && s.fail()
	if failed && !s.deceive {
		return errDisk
	}
	err := b.Replay((*memoryWriter)(s))
	if failed {
		return errDisk
	}
	return err
}

func (s *memoryStore) Groups(yield func(string, []byte) error) error {
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		if err := yield(name, s.groups[name]); err != nil {
			return err
		}
	}
	return nil
}

func (s *memoryStore) Cursors(yield func(string, meta.TopicPartition, meta.Cursor) error) error {
	for _, group := range slices.Sorted(maps.Keys(s.cursors)) {
		for tp, cursor := range s.cursors[group] {
			if err := yield(group, tp, cursor); err != nil {
				return err
			}
		}
	}
	return nil
}

// setFail makes commits fail or succeed.
func (s *memoryStore) setFail(fail bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = func() bool { return fail }
}

// deleteTopic removes a topic's cursors as the store does before TopicsDeleted.
func (s *memoryStore) deleteTopic(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted == nil {
		s.deleted = make(map[string]bool)
	}
	s.deleted[name] = true
	for _, cursors := range s.cursors {
		maps.DeleteFunc(cursors, func(tp meta.TopicPartition, _ meta.Cursor) bool { return tp.Topic == name })
	}
}

// memoryWriter takes the changes of a batch.
type memoryWriter memoryStore

func (w *memoryWriter) PutCursor(group string, tp meta.TopicPartition, c meta.Cursor) {
	if w.deleted[tp.Topic] {
		return
	}
	if w.cursors[group] == nil {
		w.cursors[group] = make(map[meta.TopicPartition]meta.Cursor)
	}
	w.cursors[group][tp] = c
}

func (w *memoryWriter) DeleteCursor(group string, tp meta.TopicPartition) {
	if delete(w.cursors[group], tp); len(w.cursors[group]) == 0 {
		delete(w.cursors, group)
	}
}

func (w *memoryWriter) PutGroup(group string, record []byte) {
	w.groups[group] = slices.Clone(record)
}

func (w *memoryWriter) DeleteGroup(group string)      { delete(w.groups, group) }
func (w *memoryWriter) PutTransaction(string, []byte) {}
func (w *memoryWriter) DeleteTransaction(string)      {}
