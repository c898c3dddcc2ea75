package storage

import (
	"errors"
	"fmt"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/storage/segment"
)

// checkpointBytes is after how many appended bytes a checkpoint is written, so that a restart after a kill examines
// little.
const checkpointBytes = 64 << 20

// errLagging is returned when the index lags behind, so that a checkpoint would claim too much.
var errLagging = errors.New("index lags behind")

// checkpointSoon starts a checkpoint. If one is under way, which may have seen the log as it was, another follows. The caller holds mu.
func (l *Log) checkpointSoon() {
	l.mu.checkpointDue = true
	if l.mu.checkpointing {
		return
	}
	l.mu.checkpointing = true
	l.set.background(l.checkpoint)
}

// checkpoint writes snapshots until none is due, each of the log as it is when it begins. Appends go on meanwhile. The caller
// has set checkpointing.
func (l *Log) checkpoint() {
	var err error
	for more := true; more; {
		err = l.tryCheckpoint()
		l.mu.Lock()
		more = err == nil && l.mu.checkpointDue
		l.mu.checkpointing = more
		l.mu.Unlock()
	}
	if err != nil && l.Err() == nil {
		l.set.metrics.checkpointErrors.Inc()
		l.set.logger.Warn("no checkpoint was written; a restart will examine more",
			zap.Stringer("partition", l.part), zap.Error(err))
	}
}

func (l *Log) tryCheckpoint() error {
	l.writing.Lock()
	l.mu.Lock()
	l.mu.checkpointDue = false
	err := l.mu.usable()
	if err == nil {
		err = l.mu.failure
	}
	if err != nil || l.mu.active() == nil {
		l.mu.Unlock()
		l.writing.Unlock()
		return err
	}
	s := l.mu.active()
	c := l.capture(s)
	g := l.join()
	l.mu.Unlock()
	l.writing.Unlock()
	<-g.done
	if g.err != nil {
		return g.err
	}
	l.set.syncs.enter()
	defer l.set.syncs.leave()
	return l.writeSnapshot(c, s)
}

// capture is what a snapshot will say once everything written so far is durable. The caller holds writing and mu.
func (l *Log) capture(s *segment.Segment) *snapshot {
	l.mu.sinceCheckpoint = 0
	mark := s.Mark()
	c := &snapshot{
		swaps: l.mu.swaps, id: l.part.ID, end: mark.Next, start: l.mu.offsets.Start, base: s.Base, size: mark.Size,
		entries: s.EntriesDue(), generation: s.Generation(), aborted: l.mu.aborted.counts(),
	}
	if l.mu.producers != nil {
		c.producers = l.mu.producers.Encode(nil)
	}
	return c
}

// writeSnapshot writes a snapshot whose claims about the data hold, once those about side files do too.
func (l *Log) writeSnapshot(c *snapshot, s *segment.Segment) error {
	if s.Entries() < c.entries {
		return errLagging
	}
	switch err := s.SyncIndex(); {
	case segment.IsClosed(err):
		return nil // it has been removed or replaced, and the roll before that has asked for another checkpoint
	case err != nil:
		return fmt.Errorf("sync index: %w", err)
	}
	if err := l.saveEpochs(); err != nil {
		return err
	}
	if err := l.saveAborted(); err != nil {
		return err
	}
	l.saving.Lock()
	defer l.saving.Unlock()
	if l.snapshotEnd > c.end || l.outlived(c) {
		return nil // a later one was faster, other segments are in place, or the directory is no longer ours
	}
	if err := replaceFile(l.set.fs, filepath.Join(l.dir, snapshotName), c.encode()); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	l.snapshotEnd, l.snapshotStart = c.end, c.start
	l.set.metrics.checkpoints.Inc()
	return nil
}

// outlived says whether a snapshot that was captured must not be written any more.
func (l *Log) outlived(c *snapshot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.phase == closed || l.mu.swaps != c.swaps
}
