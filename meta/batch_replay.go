package meta

import (
	"bytes"
	"fmt"
)

// BatchReader is told the changes of a batch, in order, as they were put in. Bytes are valid during the call only.
type BatchReader interface {
	PutCursor(group string, tp TopicPartition, c Cursor)
	DeleteCursor(group string, tp TopicPartition)
	PutGroup(group string, record []byte)
	DeleteGroup(group string)
	PutTransaction(id string, record []byte)
	DeleteTransaction(id string)
}

// Replay tells a reader what the coordinators have put into the batch; a store that isn't this package's can be made from
// that. It fails on changes that only this package makes.
func (b *Batch) Replay(to BatchReader) error {
	from := 0
	for i := range b.ops {
		o := &b.ops[i]
		key, value := b.data[from:o.key], b.data[o.key:o.end]
		from = o.end
		if err := replay(to, key, value, o.remove); err != nil {
			return err
		}
	}
	return nil
}

func replay(to BatchReader, key, value []byte, remove bool) error {
	switch {
	case bytes.HasPrefix(key, []byte(cursorPrefix)):
		return replayCursor(to, key, value, remove)
	case bytes.HasPrefix(key, []byte(groupPrefix)):
		return replayRecord(key, value, remove, groupPrefix, to.PutGroup, to.DeleteGroup)
	case bytes.HasPrefix(key, []byte(txnPrefix)):
		return replayRecord(key, value, remove, txnPrefix, to.PutTransaction, to.DeleteTransaction)
	default:
		return fmt.Errorf("key %q: %w", key, errKey)
	}
}

func replayCursor(to BatchReader, key, value []byte, remove bool) error {
	group, tp, err := parseCursorKey(key)
	if err != nil {
		return err
	}
	if remove {
		to.DeleteCursor(group, tp)
		return nil
	}
	c, err := decodeCursor(value)
	if err == nil {
		to.PutCursor(group, tp, c)
	}
	return err
}

func replayRecord(key, value []byte, remove bool, prefix string, put func(string, []byte), drop func(string)) error {
	parts, err := keyParts(key, prefix, 1)
	if err != nil {
		return err
	}
	if remove {
		drop(parts[0])
		return nil
	}
	put(parts[0], value[1:]) // behind the format version
	return nil
}
