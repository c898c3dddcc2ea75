package storage

import (
	"fmt"

	"github.com/kbroker/kbroker/protocol/clock"
)

// close makes everything durable, writes a checkpoint unless the last one still holds, and gives the files up.
func (l *Log) close() error {
	l.structure.Lock()
	defer l.structure.Unlock()
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	first := l.mu.phase == ready
	l.mu.Unlock()
	if !first {
		l.shut()
		return nil
	}
	l.pauseSyncs()
	err := l.flush()
	l.mu.Lock()
	var c *snapshot
	s := l.mu.active()
	if err == nil && s != nil {
		c = l.capture(s)
	}
	l.mu.Unlock()
	if c != nil && l.outdated(c) {
		err = l.writeSnapshot(c, s)
	}
	l.shut()
	return err
}

// outdated says whether the snapshot on disk says something else than c.
func (l *Log) outdated(c *snapshot) bool {
	l.saving.Lock()
	defer l.saving.Unlock()
	return l.snapshotEnd != c.end || l.snapshotStart != c.start
}

// discard gives the files up without a sync: the log has been deleted. Appends that wait for one fail.
func (l *Log) discard() {
	l.structure.Lock()
	defer l.structure.Unlock()
	l.writing.Lock()
	defer l.writing.Unlock()
	l.pauseSyncs()
	l.shut()
}

// shut ends the log's life. The caller holds writing and, if the log was ready, has paused syncs.
func (l *Log) shut() {
	l.saving.Lock() // no side file is written from here on: the directory may soon be another log's
	defer l.saving.Unlock()
	l.mu.Lock()
	g := l.mu.group
	l.mu.group = nil
	segments := l.mu.segments
	l.mu.phase = closed
	stop(&l.mu.syncTimer)
	stop(&l.mu.indexTimer)
	l.endSync()
	l.mu.Unlock()
	g.finish(fmt.Errorf("%s: %w", l.part, ErrClosed))
	l.set.aborted.forget(l)
	for _, s := range segments {
		s.Close()
	}
	l.wake()
}

func stop(t *clock.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}
