package meta

import (
	"bytes"
	"fmt"
)

// Cursors calls yield with every committed offset, in no order that means anything, until it returns an error, which
// Cursors returns. It sees the store as it was when it was called.
func (s *Store) Cursors(yield func(group string, tp TopicPartition, c Cursor) error) error {
	return s.read(cursorPrefix, func(key, value []byte) error {
		group, tp, err := parseCursorKey(key)
		if err != nil {
			return err
		}
		c, err := decodeCursor(value)
		if err != nil {
			return fmt.Errorf("cursor of %q on %s-%d: %w", group, tp.Topic, tp.Partition, err)
		}
		return yield(group, tp, c)
	})
}

// Groups calls yield with the record of every group, as [Store.Cursors] does. The record is yield's to keep.
func (s *Store) Groups(yield func(group string, record []byte) error) error {
	return s.records(groupPrefix, yield)
}

// Transactions calls yield with the record of every transactional id, as [Store.Cursors] does. The record is yield's to
// keep.
func (s *Store) Transactions(yield func(id string, record []byte) error) error {
	return s.records(txnPrefix, yield)
}

func (s *Store) records(prefix string, yield func(name string, record []byte) error) error {
	return s.read(prefix, func(key, value []byte) error {
		parts, err := keyParts(key, prefix, 1)
		if err != nil {
			return err
		}
		record, err := unversioned(value)
		if err != nil {
			return fmt.Errorf("record %q: %w", key, err)
		}
		return yield(parts[0], bytes.Clone(record))
	})
}

// Configs calls yield with every dynamic configuration, as [Store.Cursors] does. The settings are yield's to keep.
func (s *Store) Configs(yield func(kind, name string, settings map[string]string) error) error {
	return s.read(configPrefix, func(key, value []byte) error {
		parts, err := keyParts(key, configPrefix, 2)
		if err != nil {
			return err
		}
		settings, err := decodeConfig(value)
		if err != nil {
			return fmt.Errorf("configuration of %s %q: %w", parts[0], parts[1], err)
		}
		return yield(parts[0], parts[1], settings)
	})
}

// PutConfig makes the dynamic configuration of a resource durable, in place of the one before. Kind and name are free.
func (s *Store) PutConfig(kind, name string, settings map[string]string) error {
	var b Batch
	b.set(configKey(kind, name), encodeConfig(settings))
	return s.changeConfig(&b, kind, name)
}

// DeleteConfig removes the dynamic configuration of a resource, durably; no error if there is none.
func (s *Store) DeleteConfig(kind, name string) error {
	var b Batch
	b.remove(configKey(kind, name))
	return s.changeConfig(&b, kind, name)
}

func (s *Store) changeConfig(b *Batch, kind, name string) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	if err := s.change(b); err != nil {
		return fmt.Errorf("configure %s %q: %w", kind, name, err)
	}
	return nil
}

// read scans a prefix of an open store.
func (s *Store) read(prefix string, yield func(key, value []byte) error) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return ErrClosed
	}
	if s.engine == nil {
		return s.recovery.err
	}
	return s.scan(prefix, yield)
}
