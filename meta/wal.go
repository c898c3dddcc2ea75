package meta

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kbroker/kbroker/protocol/clock"
)

// Durability says when a commit of cursors, groups and transactions is durable. What a commit wrote is with the operating
// system when it returns, whatever the durability, and so survives the end of the process. The zero value is [SyncAlways].
type Durability struct {
	lax   bool
	every time.Duration
}

// SyncAlways makes commits durable before they return. Committers that come together share a sync.
func SyncAlways() Durability { return Durability{} }

// SyncInterval makes commits durable at most d after they returned.
func SyncInterval(d time.Duration) Durability { return Durability{lax: true, every: max(d, 1)} }

// SyncNever leaves it to the operating system when commits become durable.
func SyncNever() Durability { return Durability{lax: true} }

// walSyncer decides which of the syncs that Pebble asks of its write-ahead log are done.
//
// Pebble writes the bytes of a commit to the log's file only on the way to a sync: without one they stay in the process for
// as long as their block isn't full, and are gone with it. So every commit asks for a sync, and where durability is lax the
// file skips it. A commit that must last raises lasting before it starts and lowers it after it has returned: the sync that
// Pebble's flush loop calls for it comes in between, and so is a real one. A log is synced for real before it is closed; so
// of all logs only the newest can have lost anything in a crash.
type walSyncer struct {
	durability Durability
	clock      clock.Clock
	failed     func(error) // told of the first failing write or sync, before Pebble is

	lasting atomic.Int64

	mu struct {
		sync.Mutex
		open  map[*walFile]struct{}
		timer clock.Timer // pending while something written isn't synced, in SyncInterval
		armed bool
		ended bool
	}
}

func newWALSyncer(d Durability, c clock.Clock, failed func(error)) *walSyncer {
	w := &walSyncer{durability: d, clock: c, failed: failed}
	w.mu.open = make(map[*walFile]struct{})
	return w
}

func (w *walSyncer) wrap(f *provenFile) pebblevfs.File {
	file := &walFile{provenFile: f, syncer: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.open[file] = struct{}{}
	return file
}

// mustSync says whether a sync asked for now has to be done.
func (w *walSyncer) mustSync() bool { return !w.durability.lax || w.lasting.Load() > 0 }

// later sees to it that what is written is synced within the interval.
func (w *walSyncer) later() {
	if w.durability.every == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.mu.armed && !w.mu.ended {
		w.mu.armed = true
		w.mu.timer = w.clock.AfterFunc(w.durability.every, w.syncAll)
	}
}

// syncAll syncs the open logs that need it. Errors are kept in the file, where Pebble's next sync finds them.
func (w *walSyncer) syncAll() {
	w.mu.Lock()
	w.mu.armed = false
	files := make([]*walFile, 0, len(w.mu.open))
	for f := range w.mu.open {
		files = append(files, f)
	}
	w.mu.Unlock()
	for _, f := range files {
		_ = f.syncIfDirty()
	}
}

// end stops the timer.
func (w *walSyncer) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.ended = true
	if w.mu.timer != nil {
		w.mu.timer.Stop()
	}
}

// walFile is a write-ahead log. Pebble writes and syncs it from one goroutine; the interval's timer syncs it from another.
type walFile struct {
	*provenFile
	syncer *walSyncer
	dirty  atomic.Bool // written since the last real sync began

	state struct {
		sync.Mutex
		closed bool
		err    error // the first failure, which all later syncs return: the bytes are gone for good
	}
}

func (f *walFile) Write(b []byte) (int, error) {
	f.dirty.Store(true)
	n, err := f.provenFile.Write(b)
	if err != nil {
		f.state.Lock()
		defer f.state.Unlock()
		return n, f.fail(fmt.Errorf("write: %w", err))
	}
	return n, nil
}

// Sync syncs now, or later, or not at all.
func (f *walFile) Sync() error {
	if f.syncer.mustSync() {
		return f.syncNow()
	}
	f.syncer.later()
	f.state.Lock()
	defer f.state.Unlock()
	return f.state.err
}

func (f *walFile) SyncData() error { return f.Sync() }

func (f *walFile) syncNow() error {
	f.state.Lock()
	defer f.state.Unlock()
	return f.syncLocked()
}

func (f *walFile) syncIfDirty() error {
	f.state.Lock()
	defer f.state.Unlock()
	if f.state.closed || !f.dirty.Load() {
		return f.state.err
	}
	return f.syncLocked()
}

// syncLocked is a real sync. The caller holds f.state.
func (f *walFile) syncLocked() error {
	if f.state.err != nil {
		return f.state.err
	}
	f.dirty.Store(false)
	if err := f.provenFile.Sync(); err != nil {
		return f.fail(fmt.Errorf("sync: %w", err))
	}
	return nil
}

// fail keeps the first error. The caller holds f.state.
func (f *walFile) fail(err error) error {
	if f.state.err == nil {
		f.state.err = err
		f.syncer.failed(err)
	}
	return f.state.err
}

// Close syncs what isn't, so that a log that has a successor is whole. A failure has ended all writing and is not returned,
// since Pebble would panic.
func (f *walFile) Close() error {
	s := f.syncer
	s.mu.Lock()
	delete(s.mu.open, f)
	s.mu.Unlock()
	_ = f.syncIfDirty()
	f.state.Lock()
	defer f.state.Unlock()
	f.state.closed = true
	if err := f.File.Close(); err != nil {
		_ = f.fail(fmt.Errorf("close: %w", err))
	}
	return nil
}
