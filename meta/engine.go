package meta

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/vfs"
)

// Pebble's background work rests for backgroundRetry after an error, and after so many errors in a row that it doesn't look
// as if they would pass, the engine gives up.
const (
	backgroundRetry  = 500 * time.Millisecond
	backgroundErrors = 8
)

// formatMarker is the name under which Pebble keeps the version of its format.
const formatMarker = "format-version"

// engine is Pebble from its opening to its end, by closing or by the first error that it can't cope with. From such an
// error on nothing it does reaches the disk, which is then as a crash at that moment would have left it.
type engine struct {
	dir   string
	clock clock.Clock
	log   *zap.Logger
	fs    *pebbleFS
	db    *pebble.DB
	tasks *scheduler // of the one in db

	failure    atomic.Pointer[error] // what ended all writing
	background atomic.Int32          // failures of background work in a row
	done       chan struct{}         // closed when background work need not rest any more
	opened     atomic.Bool
	stuck      chan struct{} // closed when opening can't come to an end
	stuckOnce  sync.Once
}

// openEngine opens what lies in the directory, which the caller has locked and keeps locked until after close.
func openEngine(disk vfs.FS, dir string, o *Options) (*engine, error) {
	e := &engine{
		dir: dir, clock: o.Clock, log: o.Logger, done: make(chan struct{}), stuck: make(chan struct{}),
	}
	e.fs = &pebbleFS{fs: disk, wal: newWALSyncer(o.Durability, o.Clock, e.fail), failed: e.fail, rest: e.rest}
	err := e.open(disk)
	if err == nil {
		err = e.failed()
	}
	if err != nil {
		_ = e.close() // would only say the same again
		return nil, err
	}
	e.opened.Store(true)
	e.tasks.enable()
	return e, nil
}

func (e *engine) open(disk vfs.FS) error {
	var err error
	if e.fs.proofs, err = openProofs(disk, e.dir, e.log); err != nil {
		return err
	}
	if err = e.fs.proofs.verify(); err != nil {
		return err
	}
	if err = e.removeOptions(); err != nil {
		return err
	}
	if err = e.setFormat(); err != nil {
		return err
	}
	return e.openPebble()
}

// setFormat says in a directory without a store that it has the newest format. Pebble would begin with the oldest, with a
// write-ahead log to match, in which a flipped bit looks like the log's end, and step up from there: a dozen syncs, and a
// close and another opening to get rid of that log.
func (e *engine) setFormat() error {
	marker, version, err := atomicfs.LocateMarker(e.fs, e.dir, formatMarker)
	if err != nil {
		return err
	}
	if version == "" {
		err = marker.Move(pebble.FormatNewest.String())
	}
	return errors.Join(err, marker.Close())
}

// openPebble opens Pebble. It tries without an end to write a table of what it finds in its logs; when that fails, it is
// left behind at it, asleep, with nothing it may still write.
func (e *engine) openPebble() error {
	type result struct {
		db  *pebble.DB
		err error
	}
	finished := make(chan result, 1)
	e.tasks = newScheduler()
	options := e.options()
	go func() {
		db, err := pebble.Open(e.dir, options)
		finished <- result{db, err}
	}()
	select {
	case r := <-finished:
		e.db = r.db
		return r.err
	case <-e.stuck:
		return e.failed()
	}
}

// removeOptions removes the notes of the settings that Pebble was last opened with: they are the same always, and not worth
// a refusal should they have become unreadable.
func (e *engine) removeOptions() error {
	names, err := e.fs.List(e.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "OPTIONS-") {
			continue
		}
		if err = e.fs.Remove(filepath.Join(e.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// The store is small and mostly idle: these keep Pebble's memory to a few MiB. Pebble makes writers wait, without an end,
// when its background work doesn't keep up; it never falls behind so far, and when it fails the engine does.
const (
	memTableBytes     = 4 << 20
	cacheBytes        = 2 << 20
	maxOpenFiles      = 64
	stallAtMemTables  = 64
	stallAtL0         = 1000
	levelBytes        = 16 << 20
	fileCacheShards   = 1
	manifestFileBytes = 1 << 20
)

func (e *engine) options() *pebble.Options {
	o := &pebble.Options{
		FS:                          e.fs,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: stallAtMemTables,
		L0StopWritesThreshold:       stallAtL0,
		LBaseMaxBytes:               levelBytes,
		CacheSize:                   cacheBytes,
		MaxOpenFiles:                maxOpenFiles,
		MaxManifestFileSize:         manifestFileBytes,
		DisableTableStats:           true, // collecting them over a table that can't be read never ends
		Logger:                      pebbleLogger{e, e.log.Sugar()},
		EventListener: &pebble.EventListener{
			BackgroundError: e.backgroundError,
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				e.fail(fmt.Errorf("%w: %s: %w", ErrDamaged, i.Path, i.Details))
			},
			FlushEnd: func(i pebble.FlushInfo) {
				if i.Err == nil {
					e.background.Store(0)
				}
			},
		},
	}
	o.Experimental.FileCacheShards = fileCacheShards
	o.Experimental.CompactionScheduler = e.tasks
	return o
}

// commit applies changes. It returns once they have reached the operating system; with lasting, once they are durable.
func (e *engine) commit(changes *pebble.Batch, lasting bool) error {
	if lasting {
		e.fs.wal.lasting.Add(1)
		defer e.fs.wal.lasting.Add(-1)
	}
	if err := changes.Commit(pebble.Sync); err != nil {
		return err
	}
	// Pebble takes for granted that reporting a failed commit as fatal ends the process, and then says that all is well.
	return e.failed()
}

// fail ends all writing.
func (e *engine) fail(err error) {
	err = fmt.Errorf("metadata store %s: %w", e.dir, err)
	if e.failure.CompareAndSwap(nil, &err) {
		e.fs.stop()
		e.log.Error("metadata store failed", zap.String("dir", e.dir), zap.Error(err))
	}
}

// failed is the error that ended all writing, or nil.
func (e *engine) failed() error {
	if err := e.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// errPebble stands for what Pebble gave no error value for.
var errPebble = errors.New("storage engine failed")

// fatal is called where Pebble can't go on, and expects not to.
func (e *engine) fatal(format string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok {
			e.fail(err)
			return
		}
	}
	e.fail(fmt.Errorf("%w: %s", errPebble, fmt.Sprintf(format, args...)))
}

// backgroundError hears of failing flushes and compactions, which Pebble tries again at once: that would keep a processor
// busy. Compactions are held up here; flushes are in rest. It is called with Pebble's main lock held.
func (e *engine) backgroundError(err error) {
	if e.failed() == nil {
		e.log.Warn("metadata store: background work failed", zap.String("dir", e.dir), zap.Error(err))
	}
	e.tasks.pause()
	if !e.opened.Load() {
		e.fail(err)
		e.leave()
	}
	if e.background.Add(1) >= backgroundErrors {
		e.fail(err)
	}
	if e.failed() == nil {
		e.clock.AfterFunc(backgroundRetry, e.tasks.resume)
	}
}

// rest is called before a table is made, where Pebble holds no locks, and lets a flush that comes after a failure wait.
func (e *engine) rest() {
	switch {
	case e.failed() != nil && !e.opened.Load():
		e.leave()
	case e.failed() != nil:
		<-e.done
	case e.background.Load() > 0:
		timer := e.clock.NewTimer(backgroundRetry)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-e.done:
		}
	}
}

// leave ends an opening that Pebble would try for ever. The calling goroutine, one of Pebble's, never goes on: an error that
// comes before there is a table to make would keep a processor busy. Nobody else waits for what it holds: the opening is left
// behind, and nothing else knows of this Pebble.
func (e *engine) leave() {
	e.stuckOnce.Do(func() { close(e.stuck) })
	select {}
}

// close closes what is open. The lock stays.
func (e *engine) close() error {
	close(e.done)
	e.fs.wal.end()
	var err error
	if e.db != nil {
		err = e.db.Close()
	}
	if e.fs.proofs != nil {
		err = errors.Join(err, e.fs.proofs.sync(), e.fs.proofs.close())
	}
	if failure := e.failed(); failure != nil && err == nil {
		err = failure
	}
	return err
}

// pebbleLogger passes Pebble's messages on: its chatter for debugging, and what it takes for fatal to the engine.
type pebbleLogger struct {
	engine *engine
	log    *zap.SugaredLogger
}

// Infof implements pebble.Logger.
func (l pebbleLogger) Infof(format string, args ...any) { l.log.Debugf(format, args...) }

// Errorf implements pebble.Logger.
func (l pebbleLogger) Errorf(format string, args ...any) { l.log.Errorf(format, args...) }

// Fatalf implements pebble.Logger, and returns; see engine.commit.
func (l pebbleLogger) Fatalf(format string, args ...any) { l.engine.fatal(format, args...) }
