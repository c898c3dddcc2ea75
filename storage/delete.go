package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/vfs"
)

// list returns the names in a directory; nil without an error if it isn't there.
func (s *Set) list(dir string) ([]string, error) {
	names, err := s.fs.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if names == nil && err == nil {
		names = []string{}
	}
	return names, err
}

// Delete closes the logs of a topic and moves their directories out of the way; the bytes are removed in the background.
// When it returns, the move is durable.
func (s *Set) Delete(id TopicID) error {
	s.mu.Lock()
	partitions := s.mu.logs[id]
	delete(s.mu.logs, id)
	closing := s.mu.closing
	s.mu.Unlock()
	if closing {
		return ErrClosed
	}
	dirs := make([]string, 0, len(partitions))
	for _, l := range partitions {
		l.discard()
		s.maintenance.forget(l)
		dirs = append(dirs, l.dir)
	}
	s.forgetRemovals(id)
	err := s.moveAside(id, dirs...)
	s.removeDeleted()
	if err != nil {
		return fmt.Errorf("delete logs of topic %s: %w", id, err)
	}
	return nil
}

// moveAside moves directories of a topic's partitions to deleted/. When it returns, all moves are durable, which takes two
// syncs however many there are. It is no error if there is no such directory.
func (s *Set) moveAside(id TopicID, dirs ...string) error {
	s.layout.Lock()
	defer s.layout.Unlock()
	var errs []error
	var topic string
	for _, dir := range dirs {
		switch err := s.moveOne(dir, id); {
		case err == nil:
			topic = filepath.Dir(dir)
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, err)
		}
	}
	if topic == "" {
		return errors.Join(errs...)
	}
	for _, d := range []string{s.deleted, topic} {
		if err := s.fs.SyncDir(d); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	if rest, err := s.list(topic); err == nil && len(rest) == 0 {
		_ = s.fs.Remove(topic) // an empty directory does no harm
	}
	return errors.Join(errs...)
}

// moveOne moves a partition's directory to a name in deleted/ that is free; fs.ErrNotExist if there is none. The caller holds
// layout.
func (s *Set) moveOne(dir string, id TopicID) error {
	if _, err := s.fs.Stat(dir); err != nil {
		return err
	}
	name := filepath.Join(s.deleted, id.String()+"-"+filepath.Base(dir))
	target := name
	for n := 1; ; n++ {
		if _, err := s.fs.Stat(target); errors.Is(err, fs.ErrNotExist) {
			return s.fs.Rename(dir, target)
		} else if err != nil {
			return err
		}
		target = fmt.Sprintf("%s.%d", name, n)
	}
}

// removeDeleted removes what lies in deleted/, in the background.
func (s *Set) removeDeleted() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.closing {
		return
	}
	s.background(func() {
		names, err := s.list(s.deleted)
		for _, name := range names {
			err = errors.Join(err, s.fs.RemoveAll(filepath.Join(s.deleted, name)))
		}
		if err != nil {
			s.logger.Warn("deleted partitions are not removed entirely; the next start tries again", zap.Error(err))
		}
	})
}

// Sweep goes over the data directory at the start, before logs are opened: a partition's directory that is not the known
// one, by topic, partition and the id in it, is moved aside, and what lies in deleted/ is removed in the background. A
// directory whose id can't be read is left alone if the topic has a log there, for Open to judge.
func (s *Set) Sweep(known func(topic string, partition int32, id TopicID) bool) error {
	topics, err := vfs.ListDirs(s.fs, s.topics)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for _, topic := range topics {
		partitions, err := vfs.ListDirs(s.fs, filepath.Join(s.topics, topic))
		if err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
		for _, name := range partitions {
			if err := s.sweepPartition(topic, name, known); err != nil {
				return fmt.Errorf("sweep %s/%s: %w", topic, name, err)
			}
		}
	}
	s.removeDeleted()
	return nil
}

func (s *Set) sweepPartition(topic, name string, known func(string, int32, TopicID) bool) error {
	number, err := strconv.ParseInt(name, 10, 32)
	if err != nil || strconv.Itoa(int(number)) != name {
		return nil //nolint:nilerr // not a partition's directory, so not ours
	}
	dir := filepath.Join(s.topics, topic, name)
	id, err := readID(s.fs, dir)
	if err != nil {
		s.logger.Warn("partition's id can't be read", zap.String("directory", dir), zap.Error(err))
		return nil
	}
	if known(topic, int32(number), id) {
		return nil
	}
	s.logger.Info("partition of a topic that is no more is removed", zap.String("directory", dir), zap.Stringer("topic_id", id))
	return s.moveAside(id, dir)
}

// removal is files that are to be removed later.
type removal struct {
	part  Partition
	names []string
	timer clock.Timer
}

// removeLater removes files after a delay, or when the set is closed, whichever comes first.
func (s *Set) removeLater(p Partition, names []string, delay time.Duration) {
	r := &removal{part: p, names: names}
	if delay <= 0 {
		s.remove(r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.removals[r] = struct{}{}
	r.timer = s.clock.AfterFunc(delay, func() {
		s.removing.Lock()
		defer s.removing.Unlock()
		s.mu.Lock()
		_, due := s.mu.removals[r]
		delete(s.mu.removals, r)
		s.mu.Unlock()
		if due {
			s.remove(r)
		}
	})
}

func (s *Set) remove(r *removal) {
	var errs []error
	for _, name := range r.names {
		if err := s.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		s.logger.Warn("files could not be removed; the next start tries again",
			zap.Stringer("partition", r.part), zap.Error(err))
	}
}

// removeNow does what is pending, and waits for what is under way.
func (s *Set) removeNow() {
	s.removing.Lock()
	defer s.removing.Unlock()
	s.mu.Lock()
	pending := s.mu.removals
	s.mu.removals = map[*removal]struct{}{}
	s.mu.Unlock()
	for r := range pending {
		r.timer.Stop()
		s.remove(r)
	}
}

// forgetRemovals drops what is pending for a topic, and waits for what is under way: its directories go as a whole, and the
// same names may soon belong to another topic of that name. No log of the topic may plan more.
func (s *Set) forgetRemovals(id TopicID) {
	s.removing.Lock()
	defer s.removing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.mu.removals {
		if r.part.ID == id {
			r.timer.Stop()
			delete(s.mu.removals, r)
		}
	}
}
