package storage

import (
	"errors"
	"fmt"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/producer"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// Append writes one validated batch: it gets the next offset and the current leader epoch, written into its bytes, which
// are not kept after the call. Unless the answer says otherwise, it is acknowledged by the answer's Commit. Errors:
// ErrOutOfOrderSequence, ErrProducerEpoch, ErrTransactionNotOpen, ErrTransactionOpen, ErrCoordinatorEpoch, ErrBatchTooLarge,
// ErrReadOnly, ErrNoSpace, ErrNotReady, ErrClosed, or of the disk; the log is as it was then.
func (l *Log) Append(b batch.Batch, o AppendOptions) (Appended, error) {
	config := l.config.Load()
	l.writing.Lock()
	defer l.writing.Unlock()
	done, answered, err := l.admit(b, o, config)
	if err != nil || answered {
		return done, err
	}
	if err = l.set.appending.take(len(b)); err != nil {
		return Appended{}, l.writeError("append", err)
	}
	s, err := l.room(b, config)
	if err != nil {
		return Appended{}, l.writeError("roll", err)
	}
	l.mu.Lock()
	base, epoch := l.mu.offsets.End, l.leaderEpoch()
	l.mu.Unlock()
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(epoch)
	if err = s.Write(b); err != nil {
		return Appended{}, l.writeError("append", err)
	}
	return l.publish(b, config, s), nil
}

// admit checks whether a batch may be appended. answered is true if it was before. The caller holds writing.
func (l *Log) admit(b batch.Batch, o AppendOptions, config *Config) (done Appended, answered bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err = l.mu.usable(); err == nil {
		err = l.mu.failure
	}
	if err != nil {
		return Appended{}, false, err
	}
	if int64(len(b)) > config.SegmentBytes {
		return Appended{}, false, fmt.Errorf("%w: %d bytes", ErrBatchTooLarge, len(b))
	}
	if b.ProducerID() < 0 {
		return Appended{}, false, nil
	}
	duplicate, err := l.producers(config).Check(b, producer.Options{
		TransactionVerified: o.TransactionVerified, TransactionV2: o.TransactionV2,
	})
	if err != nil {
		return Appended{}, false, fmt.Errorf("%s: %w", l.part, err)
	}
	if duplicate == nil {
		return Appended{}, false, nil
	}
	return Appended{
		BaseOffset: duplicate.BaseOffset, Duplicate: true, DuplicateTimestamp: duplicate.MaxTimestamp,
		LogStart: l.mu.offsets.Start, Commit: l.commitOf(duplicate.LastOffset, config),
	}, true, nil
}

// producers is the state of the log's producers, made when it is first needed. The caller holds mu.
func (l *Log) producers(config *Config) *producer.State {
	if l.mu.producers == nil {
		l.mu.producers = producer.New(config.ProducerExpiration.Milliseconds())
	}
	return l.mu.producers
}

// publish makes a written batch part of the log and, as far as the mode says so, visible. The caller holds writing.
func (l *Log) publish(b batch.Batch, config *Config, s *segment.Segment) Appended {
	l.mu.Lock()
	if l.mu.endPos == 0 {
		l.begun(config)
	}
	l.mu.tail.add(b.BaseOffset(), l.mu.endPos)
	l.mu.offsets.End = b.NextOffset()
	l.mu.endPos += int64(len(b))
	l.mu.sinceCheckpoint += int64(len(b))
	l.mu.unsynced += int64(b.LastOffsetDelta()) + 1
	if l.mu.epochs.note(b.LeaderEpoch(), b.BaseOffset()) {
		l.mu.epochs.dirty = true
	}
	if b.ProducerID() >= 0 {
		if done, ok := l.producers(config).Append(b, b.BaseOffset()); ok && done.Aborted {
			l.mu.aborted.add(s.Base, done)
		}
	}
	strict := config.syncsEveryWrite()
	moved := false
	if !strict {
		moved = l.advance(l.mu.offsets.End, l.mu.endPos)
	}
	answer := Appended{BaseOffset: b.BaseOffset(), LogStart: l.mu.offsets.Start}
	if strict || (config.FlushMessages > 0 && l.mu.unsynced >= config.FlushMessages) {
		answer.Commit = l.join()
	} else {
		l.syncLater(config)
	}
	if l.mu.sinceCheckpoint >= checkpointBytes {
		l.checkpointSoon()
	}
	l.mu.Unlock()
	l.set.metrics.appended(len(b))
	if moved {
		l.wake()
	}
	return answer
}

// writeError makes an error of the disk one of the package's. The caller holds writing.
func (l *Log) writeError(op string, err error) error {
	l.set.metrics.writeErrors.Inc()
	if errors.Is(err, segment.ErrNotCut) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.fail(op, err)
	}
	if vfs.IsNoSpace(err) {
		return fmt.Errorf("%s: %s: %w: %w", l.part, op, ErrNoSpace, err)
	}
	return fmt.Errorf("%s: %s: %w", l.part, op, err)
}
