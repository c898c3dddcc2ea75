package meta

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/vfs"
)

// backgroundRetry is how long Pebble's background work rests after an error.
const backgroundRetry = 500 * time.Millisecond

// Store is the metadata store. Concurrent calls are allowed.
//
// Lock order: changes, then gate.
type Store struct {
	dir        string
	nodeID     int32
	clock      clock.Clock
	log        *zap.Logger
	logger     *zap.SugaredLogger
	random     io.Reader
	durability Durability

	fs   *pebbleFS
	lock *pebble.Lock
	db   *pebble.DB
	ids  identity

	failure atomic.Pointer[error] // what ended all writing
	done    chan struct{}         // closed by Close

	// changes orders everything that changes what is kept in memory beside Pebble.
	changes sync.Mutex
	topics  atomic.Pointer[Topics]
	starts  sync.Map // logKey to int64: log start offsets that aren't 0
	nextPID int64

	// gate is held for reading by commits of the coordinators, for writing by Close and while a topic is deleted, so that
	// a deletion meets either all of a commit's cursors or none.
	gate    sync.RWMutex
	closed  bool
	deleted map[string]bool // names of topics that were deleted since the start and not made again

	metrics metrics
}

// Open opens the store in a directory, and makes it if there is none. It fails with [ErrLocked] if it is in use, with
// [ErrNodeID] if it belongs to another broker, [ErrSchema] if a newer version wrote it, and [ErrDamaged] if bytes that had
// been made durable are bad or missing.
func Open(disk vfs.FS, dir string, o Options) (*Store, error) {
	o.setDefaults()
	s := &Store{
		dir: dir, nodeID: o.NodeID, clock: o.Clock, log: o.Logger, logger: o.Logger.Sugar(), random: o.Random,
		durability: o.Durability, done: make(chan struct{}), deleted: make(map[string]bool),
	}
	if err := s.open(disk, o); err != nil {
		return nil, fmt.Errorf("open metadata store %s: %w", dir, explain(err))
	}
	return s, nil
}

func (s *Store) open(disk vfs.FS, o Options) error {
	if err := makeDir(disk, s.dir); err != nil {
		return err
	}
	s.fs = &pebbleFS{fs: disk, wal: newWALSyncer(o.Durability, o.Clock, s.fail), failed: s.fail}
	var err error
	if s.lock, err = pebble.LockDirectory(s.dir, s.fs); err != nil {
		return err
	}
	if err = s.openLocked(); err == nil {
		err = s.metrics.register(o.Registerer, s)
	}
	if err != nil {
		return errors.Join(err, s.abandon())
	}
	return nil
}

// openLocked opens what lies in the directory, which is locked.
func (s *Store) openLocked() error {
	var err error
	if s.fs.proofs, err = openProofs(s.fs.fs, s.dir, s.log); err != nil {
		return err
	}
	if err = s.fs.proofs.verify(); err != nil {
		return err
	}
	if err = s.openPebble(); err != nil {
		return err
	}
	if err = s.failed(); err != nil {
		return err
	}
	return s.load()
}

// makeDir makes the store's directory and its name durable.
func makeDir(disk vfs.FS, dir string) error {
	missing := []string{dir}
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		if _, err := disk.Stat(parent); err == nil || parent == filepath.Dir(parent) {
			break
		}
		missing = append(missing, parent)
	}
	if err := disk.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for _, name := range missing {
		if err := disk.SyncDir(filepath.Dir(name)); err != nil {
			return err
		}
	}
	return nil
}

// openPebble opens Pebble, and twice if it had to be made or brought to the newest format: the write-ahead log of the
// session that did so still has the old format, in which a flipped bit looks like the log's end.
func (s *Store) openPebble() error {
	if err := s.removeOptions(); err != nil {
		return err
	}
	current, err := s.isCurrent()
	if err != nil {
		return err
	}
	if !current {
		db, openErr := pebble.Open(s.dir, s.pebbleOptions(s.fs))
		if openErr != nil {
			return openErr
		}
		if err = db.Close(); err != nil {
			return err
		}
	}
	s.db, err = pebble.Open(s.dir, s.pebbleOptions(s.fs))
	return err
}

// removeOptions removes the notes of the settings that Pebble was last opened with: they are the same always, and not worth
// a refusal should they have become unreadable.
func (s *Store) removeOptions() error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "OPTIONS-") {
			continue
		}
		if err = s.fs.Remove(filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// isCurrent says whether there is a store in the newest format.
func (s *Store) isCurrent() (bool, error) {
	found, err := pebble.Peek(s.dir, s.fs)
	if err != nil {
		return false, err
	}
	return found.Exists && found.FormatMajorVersion == pebble.FormatNewest, nil
}

// load reads what is kept in memory, makes identities where there are none, and marks the store as in use.
func (s *Store) load() error {
	for _, step := range []func() error{s.loadIdentity, s.loadTopics, s.loadStarts, s.loadProducerID} {
		if err := step(); err != nil {
			return err
		}
	}
	return s.begin()
}

// abandon closes what is open, without more ado.
func (s *Store) abandon() error {
	s.fs.wal.end()
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	if s.fs.proofs != nil {
		err = errors.Join(err, s.fs.proofs.sync(), s.fs.proofs.close())
	}
	return errors.Join(err, s.lock.Close())
}

// Close marks the store as stopped cleanly, waits for running calls, and closes it. Later calls return [ErrClosed].
func (s *Store) Close() error {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.gate.Lock()
	if s.closed {
		s.gate.Unlock()
		return nil
	}
	s.closed = true
	s.gate.Unlock()
	close(s.done)
	s.metrics.unregister()
	err := s.markClean()
	if closeErr := s.abandon(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("close metadata store %s: %w", s.dir, err)
	}
	return nil
}

// Commit makes the changes of a batch, all or none. When it returns they have reached the operating system, and are durable
// by the store's durability. Committers that come together share the way to the disk. After an error it is unknown whether
// the changes happened. The batch may be used again.
func (s *Store) Commit(b *Batch) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return ErrClosed
	}
	return s.write(b, false)
}

// write commits a batch; lasting means that it is durable when write returns. The caller sees to it that the store isn't
// closed meanwhile.
func (s *Store) write(b *Batch, lasting bool) error {
	if err := s.failed(); err != nil {
		return err
	}
	if b.Len() == 0 {
		return nil
	}
	changes := s.db.NewBatchWithSize(len(b.data) + 16*len(b.ops) + 16)
	if err := s.fill(changes, b); err != nil {
		return errors.Join(fmt.Errorf("commit: %w", err), changes.Close())
	}
	if changes.Empty() {
		return changes.Close()
	}
	if lasting {
		s.fs.wal.lasting.Add(1)
		defer s.fs.wal.lasting.Add(-1)
	}
	err := changes.Commit(pebble.Sync)
	if err == nil {
		// Pebble takes for granted that reporting a failed commit as fatal ends the process, and says that all is well.
		err = s.failed()
	}
	if err != nil {
		return err
	}
	s.metrics.committed(lasting)
	return changes.Close()
}

// fill adds the batch's operations to Pebble's. Cursors on topics that have been deleted meanwhile are left out, or a new
// topic of that name would inherit them.
func (s *Store) fill(changes *pebble.Batch, b *Batch) error {
	from := 0
	for i := range b.ops {
		o := &b.ops[i]
		key, value := b.data[from:o.key], b.data[o.key:o.end]
		from = o.end
		var err error
		switch {
		case o.remove:
			err = changes.Delete(key, nil)
		case len(s.deleted) > 0 && s.deleted[o.topic]:
		default:
			err = changes.Set(key, value, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fail ends all writing for good, on the disk too: what a database in an unknown state would write later must not get
// there.
func (s *Store) fail(err error) {
	err = fmt.Errorf("metadata store %s takes no more writes until the broker is restarted: %w", s.dir, err)
	if s.failure.CompareAndSwap(nil, &err) {
		s.fs.stop()
		s.log.Error("metadata store failed", zap.String("dir", s.dir), zap.Error(err))
	}
}

// fatal is called where Pebble can't go on.
func (s *Store) fatal(format string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok {
			s.fail(err)
			return
		}
	}
	s.fail(fmt.Errorf("%w: %s", errPebble, fmt.Sprintf(format, args...)))
}

// errPebble stands for what Pebble gave no error value for.
var errPebble = errors.New("storage engine failed")

// failed is the error that ended all writing, or nil.
func (s *Store) failed() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// get reads a value; nil if there is none. The value is the caller's.
func (s *Store) get(key []byte) ([]byte, error) {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	value = append([]byte{}, value...)
	return value, closer.Close()
}

// scan calls yield with each key that begins with prefix and its value, in order, as of now. Both are valid during the call
// only.
func (s *Store) scan(prefix string, yield func(key, value []byte) error) error {
	end := []byte(prefix)
	end[len(end)-1]++
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: end})
	if err != nil {
		return fmt.Errorf("read %s: %w", prefix, err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, valueErr := it.ValueAndErr()
		if valueErr != nil {
			err = fmt.Errorf("read %q: %w", it.Key(), valueErr)
			break
		}
		if err = yield(it.Key(), value); err != nil {
			break
		}
	}
	if closeErr := it.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("read %s: %w", prefix, closeErr)
	}
	return err
}

// backgroundError hears of failing flushes and compactions, which Pebble tries again at once; when the disk is full that
// would keep a processor busy, so it is made to wait.
func (s *Store) backgroundError(err error) {
	s.log.Error("metadata store: background work failed", zap.String("dir", s.dir), zap.Error(err))
	timer := s.clock.NewTimer(backgroundRetry)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-s.done:
	}
}

// explain says in words what an operator can do about an error that opening met.
func explain(err error) error {
	switch {
	case errors.Is(err, pebble.ErrCorruption):
		return fmt.Errorf("%w: %w; the broker does not start, because it would forget topics or committed offsets: "+
			"restore this directory from a copy, or move it away to start with empty metadata", ErrDamaged, err)
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf("another broker is using it: %w", err)
	default:
		return err
	}
}
