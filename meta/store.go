package meta

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kbroker/kbroker/storage/vfs"
)

// lockName is the file that keeps a second broker out; Pebble knows it under that name.
const lockName = "LOCK"

// Store is the metadata store. Concurrent calls are allowed.
//
// Lock order: changes, then gate.
type Store struct {
	dir  string
	opts Options
	disk vfs.FS
	lock io.Closer
	ids  identity

	// changes orders everything that changes what is kept in memory beside Pebble.
	changes  sync.Mutex
	topics   atomic.Pointer[Topics]
	starts   sync.Map // logKey to int64: log start offsets that aren't 0
	nextPID  int64
	recovery recovery

	// gate is held for reading by everything that uses the engine, and for writing where it is replaced or closed, and while
	// a topic is deleted, so that a deletion meets either all of a commit's cursors or none.
	gate    sync.RWMutex
	engine  *engine
	closed  bool
	deleted map[string]bool // topics by name, deleted since the start and not made again; changes is held too to change it

	broken  atomic.Bool // the engine has failed and not been replaced
	unclean atomic.Bool // Close is not to say that all is well
	metrics metrics
}

// Open opens the store in a directory, and makes it if there is none. It fails with [ErrLocked] if it is in use, with
// [ErrNodeID] if it belongs to another broker, [ErrSchema] if a newer version wrote it, and [ErrDamaged] if bytes that had
// been made durable are bad or missing.
func Open(disk vfs.FS, dir string, o Options) (*Store, error) {
	o.setDefaults()
	s := &Store{dir: dir, opts: o, disk: disk, deleted: make(map[string]bool)}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open metadata store %s: %w", dir, explain(err))
	}
	return s, nil
}

func (s *Store) open() error {
	if err := makeDir(s.disk, s.dir); err != nil {
		return err
	}
	var err error
	if s.lock, err = s.disk.Lock(filepath.Join(s.dir, lockName)); err != nil {
		return err
	}
	if s.engine, err = openEngine(s.disk, s.dir, &s.opts); err != nil {
		return errors.Join(err, s.lock.Close())
	}
	if err = s.load(); err == nil {
		err = s.metrics.register(s.opts.Registerer, s)
	}
	if err != nil {
		_ = s.engine.close() // what went wrong is known
		return errors.Join(err, s.lock.Close())
	}
	return nil
}

// makeDir makes the store's directory, and the names of it and of those above that were missing durable. Pebble syncs the
// one above each time it opens.
func makeDir(disk vfs.FS, dir string) error {
	var missing []string
	for name := dir; ; name = filepath.Dir(name) {
		if _, err := disk.Stat(name); err == nil || name == filepath.Dir(name) {
			break
		}
		missing = append(missing, name)
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

// load reads what is kept in memory, makes identities where there are none, and marks the store as in use.
func (s *Store) load() error {
	for _, step := range []func() error{s.loadIdentity, s.loadTopics, s.loadStarts, s.loadProducerID} {
		if err := step(); err != nil {
			return err
		}
	}
	return s.begin()
}

// KeepUnclean lets Close not mark the store as stopped cleanly, so that the next start counts: something else of the broker
// could not be closed, and may lack what had been seen.
func (s *Store) KeepUnclean() { s.unclean.Store(true) }

// Close marks the store as stopped cleanly, waits for running calls, and closes it. Later calls return [ErrClosed].
func (s *Store) Close() error {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.metrics.unregister()
	err := s.engineError()
	if err == nil && !s.unclean.Load() {
		err = s.markClean()
	}
	if s.engine != nil {
		if closeErr := s.engine.close(); err == nil {
			err = closeErr
		}
	}
	if err = errors.Join(err, s.lock.Close()); err != nil {
		return fmt.Errorf("close metadata store %s: %w", s.dir, err)
	}
	return nil
}

// Commit makes the changes of a batch, all or none. When it returns they have reached the operating system, and are durable
// by the store's durability. Committers that come together share the way to the disk. After an error it is unknown whether
// the changes happened. The batch may be used again.
func (s *Store) Commit(b *Batch) error {
	if s.broken.Load() {
		s.recover()
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return ErrClosed
	}
	return s.write(b, false)
}

// change commits a batch that must last. The caller holds s.changes, so that the store isn't closed meanwhile.
func (s *Store) change(b *Batch) error {
	if s.broken.Load() {
		s.recoverLocked()
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return ErrClosed
	}
	return s.write(b, true)
}

// write commits a batch; lasting means that it is durable when write returns. The caller holds the gate.
func (s *Store) write(b *Batch, lasting bool) error {
	if err := s.engineError(); err != nil {
		return err
	}
	if b.Len() == 0 {
		return nil
	}
	changes := s.engine.db.NewBatchWithSize(len(b.data) + 16*len(b.ops) + 16)
	if err := s.fill(changes, b); err != nil {
		return errors.Join(fmt.Errorf("commit: %w", err), changes.Close())
	}
	if changes.Empty() {
		return changes.Close()
	}
	if err := s.engine.commit(changes, lasting); err != nil {
		s.broken.Store(true)
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

// engineError says why the engine can't be used, if it can't. The caller holds the gate.
func (s *Store) engineError() error {
	if s.engine == nil {
		return s.recovery.err
	}
	err := s.engine.failed()
	if err != nil {
		s.broken.Store(true)
	}
	return err
}

// get reads a value; nil if there is none. The value is the caller's.
func (s *Store) get(key []byte) ([]byte, error) {
	value, closer, err := s.engine.db.Get(key)
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
// only. The caller holds the gate.
func (s *Store) scan(prefix string, yield func(key, value []byte) error) error {
	end := []byte(prefix)
	end[len(end)-1]++
	it, err := s.engine.db.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: end})
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

// explain says in words what an operator can do about an error that opening met.
func explain(err error) error {
	switch {
	case pebble.IsCorruptionError(err), errors.Is(err, errKey), errors.Is(err, errValue), errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf("another broker is using it: %w", err)
	}
	if errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%w; the broker does not start, because it would forget topics or committed offsets: "+
			"restore this directory from a copy; or, to start without, move it and the directory topics beside it away "+
			"(`kbroker storage dump --records` shows what is in the logs)", err)
	}
	return err
}

// recovery says how often it has been tried to put a failed engine right.
type recovery struct {
	next  time.Time     // not before
	pause time.Duration // doubled each time
	err   error         // why there is no engine
}

const (
	firstRecoveryPause = time.Second
	lastRecoveryPause  = 30 * time.Second
)
