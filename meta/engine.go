package meta

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
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

// engine is Pebble from its opening to its end, by closing or by the first error that it can't cope with. From such an
// error on nothing it does reaches the disk, which is then as a crash at that moment would have left it.
type engine struct {
	dir   string
	clock clock.Clock
	log   *zap.Logger
	fs    *pebbleFS
	db    *pebble.DB

	failure    atomic.Pointer[error] // what ended all writing
	background atomic.Int32          // failures of background work in a row
	done       chan struct{}         // closed when background work need not rest any more
}

// openEngine opens what lies in the directory, which the caller has locked and keeps locked until after close.
func openEngine(disk vfs.FS, dir string, lock *pebble.Lock, o *Options) (*engine, error) {
	e := &engine{dir: dir, clock: o.Clock, log: o.Logger, done: make(chan struct{})}
	e.fs = &pebbleFS{fs: disk, wal: newWALSyncer(o.Durability, o.Clock, e.fail), failed: e.fail}
	err := e.open(disk, lock)
	if err == nil {
		err = e.failed()
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *engine) open(disk vfs.FS, lock *pebble.Lock) error {
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
	return e.openPebble(lock)
}

// openPebble opens Pebble, and twice if it had to be made or brought to the newest format: the write-ahead log of the
// session that did so still has the old format, which doesn't tell rot from a torn end.
func (e *engine) openPebble(lock *pebble.Lock) error {
	found, err := pebble.Peek(e.dir, e.fs)
	if err != nil {
		return err
	}
	if !found.Exists || found.FormatMajorVersion != pebble.FormatNewest {
		db, openErr := pebble.Open(e.dir, e.options(lock))
		if openErr != nil {
			return openErr
		}
		if err = db.Close(); err != nil {
			return err
		}
	}
	e.db, err = pebble.Open(e.dir, e.options(lock))
	return err
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
	compactAtL0       = 2
	levelBytes        = 16 << 20
	fileCacheShards   = 1
	manifestFileBytes = 1 << 20
)

func (e *engine) options(lock *pebble.Lock) *pebble.Options {
	o := &pebble.Options{
		FS:                          e.fs,
		Lock:                        lock,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: stallAtMemTables,
		L0CompactionThreshold:       compactAtL0,
		L0StopWritesThreshold:       stallAtL0,
		LBaseMaxBytes:               levelBytes,
		CacheSize:                   cacheBytes,
		MaxOpenFiles:                maxOpenFiles,
		MaxManifestFileSize:         manifestFileBytes,
		Logger:                      pebbleLogger{e, e.log.Sugar()},
		EventListener: &pebble.EventListener{
			BackgroundError: e.backgroundError,
			FlushEnd: func(i pebble.FlushInfo) {
				if i.Err == nil {
					e.background.Store(0)
				}
			},
		},
	}
	o.Experimental.FileCacheShards = fileCacheShards
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

// backgroundError hears of failing flushes and compactions. Pebble tries again at once, which would keep a processor busy
// while the disk is full; so it is made to wait.
func (e *engine) backgroundError(err error) {
	if e.failed() == nil {
		e.log.Warn("metadata store: background work failed", zap.String("dir", e.dir), zap.Error(err))
	}
	if e.background.Add(1) >= backgroundErrors {
		e.fail(err)
	}
	timer := e.clock.NewTimer(backgroundRetry)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-e.done:
	}
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
