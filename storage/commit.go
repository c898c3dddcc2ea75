package storage

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// indexSyncInterval is how long index entries may stay unsynced.
const indexSyncInterval = time.Second

// A sync waits up to ten seconds for others to close files.
const (
	descriptorAttempts = 500
	descriptorPause    = 20 * time.Millisecond
)

// group is the appends that share one sync. Its fields are guarded by the log's mu until done is closed.
type group struct {
	done    chan struct{}
	err     error
	members int
	end     int64 // the log end when its sync began
}

var _ Commit = (*group)(nil)

// Done is closed when the group's sync has returned.
func (g *group) Done() <-chan struct{} { return g.done }

// Err is nil if the appends are durable and visible; valid after Done.
func (g *group) Err() error { return g.err }

// Wait waits for Done or for the context's end.
func (g *group) Wait(ctx context.Context) error {
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join adds an append to the group that the next sync will cover, and sees to it that there is one. The goroutine that
// syncs lives only while there are groups. The caller holds mu.
func (l *Log) join() *group {
	if l.mu.group == nil {
		l.mu.group = &group{done: make(chan struct{})}
	}
	l.mu.group.members++
	if !l.mu.syncing {
		l.mu.syncing = true
		l.set.background(l.syncGroups)
	}
	return l.mu.group
}

// commitOf is what a duplicate waits for: the group of the first batch, if it isn't durable yet. The caller holds mu.
func (l *Log) commitOf(lastOffset int64, config *Config) Commit {
	seen := lastOffset < l.mu.offsets.HighWatermark
	if seen && (config.syncsEveryWrite() || config.FlushMessages <= 0) {
		return nil
	}
	if g := l.mu.inFlight; g != nil && lastOffset < g.end {
		return g
	}
	if seen && l.mu.group == nil {
		return nil // nor did the first one wait
	}
	return l.join()
}

// syncGroups syncs until no group waits.
func (l *Log) syncGroups() {
	for l.syncGroup() {
	}
}

// syncGroup syncs the group that waits, and says whether to look for another. Once a sync has failed it makes no other: that one
// could succeed, though what the first should have written is gone. An append that was under way then may still form a group, which
// fails too.
func (l *Log) syncGroup() bool {
	l.set.syncs.enter()
	defer l.set.syncs.leave()
	l.mu.Lock()
	g := l.mu.group
	if failure := l.mu.failure; failure != nil && g != nil {
		l.mu.group = nil
		l.mu.Unlock()
		g.finish(failure)
		return true
	}
	if g == nil {
		l.endSync()
		dirty := l.mu.epochs.dirty
		l.mu.Unlock()
		if dirty {
			l.saveEpochsLater()
		}
		return false
	}
	l.mu.group, l.mu.inFlight, l.mu.unsynced = nil, g, 0
	g.end = l.mu.offsets.End
	s := l.mu.active()
	l.mu.Unlock()
	mark := s.Mark()
	l.settle(g, s, mark, l.syncData(s))
	return true
}

// syncData makes a segment's data durable. A sync that could not even begin because too many files are open is tried again, unlike
// one that failed: nothing has been lost.
func (l *Log) syncData(s *segment.Segment) error {
	err := s.SyncData()
	for attempt := 0; attempt < descriptorAttempts && vfs.IsTooManyFiles(err); attempt++ {
		<-l.set.clock.NewTimer(descriptorPause).C()
		err = s.SyncData()
	}
	return err
}

// slots bounds what goes on side by side and takes file descriptors.
type slots chan struct{}

func (s slots) enter() { s <- struct{}{} }
func (s slots) leave() { <-s }

// endSync lets others sync again. The caller holds mu.
func (l *Log) endSync() {
	l.mu.syncing = false
	l.mu.idle.Broadcast()
}

// settle draws the conclusions of a sync that covers everything up to the mark: index entries, the high watermark, and the
// group, which may be nil. The caller has set syncing.
func (l *Log) settle(g *group, s *segment.Segment, mark segment.Mark, syncErr error) {
	if syncErr == nil {
		if err := s.Commit(mark); err != nil {
			l.set.metrics.indexErrors.Inc()
			l.set.logger.Warn("index lags behind; its entries are written again with the next ones",
				zap.Stringer("partition", l.part), zap.Error(err))
		}
	}
	l.mu.Lock()
	moved := false
	if syncErr != nil {
		syncErr = l.fail("sync", syncErr)
	} else {
		moved = l.advance(min(mark.Next, l.mu.offsets.End), min(mark.Size, l.mu.endPos))
		l.syncIndexLater()
	}
	l.mu.inFlight = nil
	var lost *group
	if syncErr != nil {
		lost, l.mu.group = l.mu.group, nil
	}
	l.mu.Unlock()
	l.set.metrics.synced(g)
	if moved {
		l.wake()
	}
	g.finish(syncErr)
	lost.finish(syncErr)
}

// finish tells the group's members how it ended.
func (g *group) finish(err error) {
	if g != nil {
		g.err = err
		close(g.done)
	}
}

// syncLater arms the timer that syncs what has been written, if the mode wants that. The caller holds mu.
func (l *Log) syncLater(config *Config) {
	within := config.syncWithin()
	if within <= 0 || l.mu.syncTimer != nil {
		return
	}
	l.mu.syncTimer = l.set.clock.AfterFunc(within, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mu.syncTimer = nil
		if l.mu.phase == ready && l.mu.failure == nil && l.mu.unsynced > 0 {
			l.join()
		}
	})
}

// syncIndexLater arms the timer that syncs the index entries written to the last segment; those of the segments before
// were synced by the roll. The caller holds mu.
func (l *Log) syncIndexLater() {
	if l.mu.indexTimer != nil || l.mu.phase != ready {
		return
	}
	l.mu.indexTimer = l.set.clock.AfterFunc(indexSyncInterval, func() {
		l.mu.Lock()
		l.mu.indexTimer = nil
		s := l.mu.active()
		l.mu.Unlock()
		l.set.syncs.enter()
		defer l.set.syncs.leave()
		if err := s.SyncIndex(); err != nil && !segment.IsClosed(err) {
			l.indexLost(s, err)
		}
	})
}

// indexLost handles an index whose sync failed: what of it is on disk is not known, so it is written anew.
func (l *Log) indexLost(s *segment.Segment, err error) {
	l.set.metrics.indexErrors.Inc()
	l.set.logger.Warn("index could not be synced and is written anew", zap.Stringer("partition", l.part), zap.Error(err))
	if err = l.rebuild(s); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = l.fail("rebuild index", err)
	}
}

// pauseSyncs waits until no sync is under way and keeps others from starting, until resumeSyncs. The caller holds writing.
func (l *Log) pauseSyncs() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.mu.syncing {
		l.mu.idle.Wait()
	}
	l.mu.syncing = true
}

// resumeSyncs ends pauseSyncs, and starts a sync if a group has formed meanwhile.
func (l *Log) resumeSyncs() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.group != nil && l.mu.phase == ready {
		l.set.background(l.syncGroups)
		return
	}
	l.endSync()
}

// flush makes everything written durable, data and index. The caller holds writing and has paused syncs.
func (l *Log) flush() error {
	l.mu.Lock()
	s, g, failure := l.mu.active(), l.mu.group, l.mu.failure
	l.mu.group, l.mu.unsynced = nil, 0
	l.mu.Unlock()
	if s == nil || failure != nil {
		g.finish(failure)
		return failure
	}
	mark := s.Mark()
	err := l.syncData(s)
	l.settle(g, s, mark, err)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err = s.Commit(mark); err != nil {
		return err
	}
	return s.SyncIndex()
}
