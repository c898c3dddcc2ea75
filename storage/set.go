package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// defaultOpenFiles is SetOptions.MaxOpenFiles unless set.
const defaultOpenFiles = 512

// syncShare bounds the syncs side by side to one in so many of MaxOpenFiles: each has up to two files open.
const syncShare = 2

// SetOptions is what a set needs from outside. Clock is required.
type SetOptions struct {
	Clock  clock.Clock
	Logger *zap.Logger // nil: none
	// Registerer takes the metrics; nil: none.
	Registerer prometheus.Registerer
	// Epoch is the broker's start counter. A partition's leader epoch is Epoch less the epochBase given to Open.
	Epoch int32
	// LogStart returns the durable log start offset of a partition, 0 if there is none; SetLogStart makes one durable
	// before it returns. Nil: log starts don't move.
	LogStart    func(Partition) int64
	SetLogStart func(Partition, int64) error
	// Maintenance tells how logs are looked after; it is asked again and again. Nil: there is no retention, compaction or
	// scrub, and no segment rolls unless something is appended.
	Maintenance func() Maintenance
	// MaxOpenFiles bounds the segment files that are open while nobody reads or writes them; 0 means 512.
	MaxOpenFiles int
	// KeepFree is how many bytes of the filesystem are left to metadata, or an eighth of a small one: appends that would take of
	// them are refused with ErrNoSpace. Compaction, which makes room in the end, may take half. 0 keeps nothing free.
	KeepFree int64
	// MaxParallelRecovery bounds how many partitions are recovered, or closed, at a time; 0 means twice the processors.
	MaxParallelRecovery int
}

// Set is the logs below one data directory. Concurrent calls are allowed.
//
// The directory must be locked by the caller: two sets on the same directory destroy it.
type Set struct {
	fs                   vfs.FS
	dir, topics, deleted string
	options              SetOptions
	clock                clock.Clock
	logger               *zap.Logger
	files                *segment.Files
	aborted              abortedCache
	metrics              *metrics
	upkeep               *maintenanceMetrics
	maintenance          *maintenance  // nil if there is none
	appending            space         // for appends
	compacting           space         // for compaction
	slots                chan struct{} // one taken by each recovery
	syncs                slots         // one taken by each sync in the background
	work                 sync.WaitGroup
	layout               sync.Mutex // held while directories are made or moved; after a log's writing
	removing             sync.Mutex // held while files are removed whose time has come; before mu

	mu struct {
		sync.RWMutex
		closing  bool
		logs     map[TopicID]map[int32]*Log
		removals map[*removal]struct{}
	}
}

// errNoLogStart is returned by a trim where nothing keeps log starts.
var errNoLogStart = errors.New("there is no place to keep a log start")

// OpenSet prepares the data directory. It opens no logs.
func OpenSet(fs vfs.FS, dir string, o SetOptions) (*Set, error) {
	s := &Set{
		fs: fs, dir: dir, topics: filepath.Join(dir, topicsName), deleted: filepath.Join(dir, deletedName),
		options: o, clock: o.Clock, logger: o.Logger,
	}
	if s.clock == nil {
		return nil, errors.New("open logs: no clock")
	}
	if s.logger == nil {
		s.logger = zap.NewNop()
	}
	if s.options.LogStart == nil {
		s.options.LogStart = func(Partition) int64 { return 0 }
	}
	if s.options.SetLogStart == nil {
		s.options.SetLogStart = func(Partition, int64) error { return errNoLogStart }
	}
	if s.options.MaxOpenFiles <= 0 {
		s.options.MaxOpenFiles = defaultOpenFiles
	}
	if s.options.MaxParallelRecovery <= 0 {
		s.options.MaxParallelRecovery = 2 * runtime.GOMAXPROCS(0)
	}
	s.appending.fs, s.appending.dir, s.appending.keep = fs, dir, o.KeepFree
	s.compacting.fs, s.compacting.dir, s.compacting.keep = fs, dir, o.KeepFree/2
	s.files = segment.NewFiles(fs, s.options.MaxOpenFiles)
	s.syncs = make(slots, max(s.options.MaxOpenFiles/syncShare, 1))
	s.slots = make(chan struct{}, s.options.MaxParallelRecovery)
	s.mu.logs = map[TopicID]map[int32]*Log{}
	s.mu.removals = map[*removal]struct{}{}
	for _, d := range []string{s.topics, s.deleted} {
		if err := fs.MkdirAll(d, dirPerm); err != nil {
			return nil, fmt.Errorf("open logs: %w", err)
		}
	}
	if err := fs.SyncDir(dir); err != nil {
		return nil, fmt.Errorf("open logs: %w", err)
	}
	s.metrics = newMetrics(o.Registerer, s)
	s.upkeep = newMaintenanceMetrics(o.Registerer)
	s.maintenance = newMaintenance(s)
	return s, nil
}

// Open opens the log of a partition and recovers what is on disk, before it returns. It makes no directory or file before
// the first append. epochBase is taken off SetOptions.Epoch. A log that is open already is returned as it is. If recovery
// fails, Get returns the log all the same, and its methods that error.
func (s *Set) Open(p Partition, c Config, epochBase int32) (*Log, error) {
	l, fresh, err := s.add(p, c, epochBase)
	if err != nil || !fresh {
		return l, err
	}
	if err = l.open(); err != nil {
		return nil, err
	}
	l.sealed()
	return l, nil
}

// Start is Open in the background: it returns at once, and the log answers ErrNotReady until it has been recovered. A
// log without files is ready when Start returns.
func (s *Set) Start(p Partition, c Config, epochBase int32) (*Log, error) {
	l, fresh, err := s.add(p, c, epochBase)
	if err != nil || !fresh {
		return l, err
	}
	names, err := s.list(l.dir)
	if err == nil && names == nil {
		l.startEmpty()
		return l, nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.closing {
		return nil, ErrClosed
	}
	s.background(func() {
		if l.open() == nil { // else it is logged, counted, and what the log answers from then on
			l.sealed()
		}
	})
	return l, nil
}

// add registers a log. fresh is false if there was one.
func (s *Set) add(p Partition, c Config, epochBase int32) (l *Log, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closing {
		return nil, false, ErrClosed
	}
	if l = s.mu.logs[p.ID][p.Number]; l != nil {
		return l, false, nil
	}
	l = newLog(s, p, c, epochBase)
	if s.mu.logs[p.ID] == nil {
		s.mu.logs[p.ID] = map[int32]*Log{}
	}
	s.mu.logs[p.ID][p.Number] = l
	return l, true, nil
}

// Get returns a log that has been opened, or ErrClosed. One that is still being recovered is returned too.
func (s *Set) Get(id TopicID, partition int32) (*Log, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if l := s.mu.logs[id][partition]; l != nil {
		return l, nil
	}
	return nil, ErrClosed
}

// Each calls visit for every log, in no order, until it returns false.
func (s *Set) Each(visit func(*Log) bool) {
	for _, l := range s.all() {
		if !visit(l) {
			return
		}
	}
}

func (s *Set) all() []*Log {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var logs []*Log
	for _, partitions := range s.mu.logs {
		for _, l := range partitions {
			logs = append(logs, l)
		}
	}
	return logs
}

// Close syncs everything, writes checkpoints, and closes all logs. It returns the first error, or the context's when that
// ends first, in which case closing goes on in the background.
func (s *Set) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.mu.closing {
		s.mu.Unlock()
		return nil
	}
	s.mu.closing = true
	s.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- s.close() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("close logs: %w", ctx.Err())
	}
}

func (s *Set) close() error {
	s.maintenance.close()
	var wg sync.WaitGroup
	var first error
	var once sync.Once
	for _, l := range s.all() {
		s.slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-s.slots }()
			if err := l.close(); err != nil {
				once.Do(func() { first = fmt.Errorf("close %s: %w", l.part, err) })
			}
		})
	}
	wg.Wait()
	s.work.Wait()
	s.removeNow()
	return first
}

// background runs f on a goroutine that Close waits for. The caller holds the mu of a log that answers calls, or the set's
// and has seen that it isn't closing.
func (s *Set) background(f func()) {
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		f()
	}()
}

// totals is the sum over all logs.
type totals struct {
	logs, segments int
	bytes          int64
}

func (s *Set) totals() totals {
	var t totals
	s.Each(func(l *Log) bool {
		t.logs++
		t.segments += l.Segments()
		t.bytes += l.Size()
		return true
	})
	return t
}
