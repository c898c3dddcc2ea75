package meta

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"
)

// recover tries to put a failed engine right, the way a restart would: what has reached the disk is opened anew. A disk that
// was full may have room again. Between two attempts there is a pause that grows.
func (s *Store) recover() {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.recoverLocked()
}

// recoverLocked is recover for those who hold s.changes.
func (s *Store) recoverLocked() {
	s.gate.Lock()
	defer s.gate.Unlock()
	now := s.opts.Clock.Now()
	if s.closed || !s.broken.Load() || now.Before(s.recovery.next) {
		return
	}
	s.recovery.pause = min(max(2*s.recovery.pause, firstRecoveryPause), lastRecoveryPause)
	s.recovery.next = now.Add(s.recovery.pause)
	if s.engine != nil {
		if s.recovery.err = s.engine.close(); s.recovery.err == nil {
			s.recovery.err = errPebble
		}
		s.engine = nil
	}
	err := s.reopen()
	if err != nil {
		s.recovery.err = fmt.Errorf("metadata store %s: %w", s.dir, explain(err))
		s.opts.Logger.Warn("metadata store is still out of order", zap.String("dir", s.dir), zap.Error(err))
		return
	}
	s.recovery = recovery{}
	s.broken.Store(false)
	s.opts.Logger.Info("metadata store takes writes again", zap.String("dir", s.dir))
}

// reopen makes a new engine and lets the disk follow what is kept in memory: a change that was answered with an error may
// have reached the disk, and must not come to light now.
func (s *Store) reopen() error {
	e, err := openEngine(s.disk, s.dir, &s.opts)
	if err != nil {
		return err
	}
	s.engine = e
	if err = s.restore(); err != nil {
		s.engine = nil
		closeErr := e.close()
		if closeErr != nil {
			s.opts.Logger.Warn("close metadata store", zap.String("dir", s.dir), zap.Error(closeErr))
		}
		return err
	}
	return nil
}

// restore writes topics and log start offsets as they are known in memory where the disk has others. Producer ids may have
// been handed out for nothing, and stay so.
func (s *Store) restore() error {
	want := make(map[string][]byte)
	for _, t := range s.Topics().All() {
		want[string(topicKey(t.Name))] = t.encode()
	}
	s.starts.Range(func(key, value any) bool {
		k, _ := key.(logKey)
		start, _ := value.(int64)
		if t := s.Topics().WithID(k.id); t != nil {
			want[string(partitionKey(t.Name, k.partition))] = encodeLogStart(k.id, start)
		}
		return true
	})
	var b Batch
	for _, prefix := range []string{topicPrefix, partitionPrefix} {
		err := s.scan(prefix, func(key, value []byte) error {
			expected, known := want[string(key)]
			if !known {
				b.remove(key)
			} else if bytes.Equal(expected, value) {
				delete(want, string(key))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		b.set([]byte(key), want[key])
	}
	if err := s.write(&b, true); err != nil {
		return err
	}
	handedOut := s.nextPID
	if err := s.loadProducerID(); err != nil {
		return err
	}
	s.nextPID = max(s.nextPID, handedOut)
	return nil
}
