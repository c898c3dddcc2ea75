package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/producer"
	"github.com/kbroker/kbroker/storage/segment"
)

// phase is where a log is in its life.
type phase uint8

const (
	recovering phase = iota // calls answer ErrNotReady
	ready
	refused // recovery failed for good: calls answer Log.refusal
	closed  // closed or deleted: calls answer ErrClosed
)

// Log is one partition's log. Concurrent calls are allowed.
//
// Lock order: structure, writing, saving, mu; segments lock themselves inside. structure is held by whoever takes segments
// out of the log or puts others in their place: a trim, a compaction at its end, a rebuilt index, a close; an append doesn't
// wait for it. writing is held by whoever changes what is on disk: an
// append, a roll, a trim, a checkpoint's start, a close; saving by whoever writes a side file of the partition. mu guards the state that readers look at, and is held only
// shortly, never across a call of the disk. The commit group's sync runs with neither.
type Log struct {
	set    *Set
	part   Partition
	dir    string
	config atomic.Pointer[Config]
	epoch  int32 // leader epoch of this start

	lastPass atomic.Pointer[time.Time] // when the last compaction ended; nil if there was none

	structure sync.Mutex
	writing   sync.Mutex
	saving    sync.Mutex

	rolling bool // a roll has ended the last segment and not begun another; guarded by writing

	// Log end and start of the last snapshot written; guarded by saving.
	snapshotEnd, snapshotStart int64

	mu state
}

// state is what mu guards.
type state struct {
	sync.Mutex
	phase   phase
	refusal error
	failure error // why the log takes no writes

	offsets  Offsets
	segments []*segment.Segment // by base; never changed in place; the last one takes the appends
	endPos   int64              // position of the log end in the last segment
	seenPos  int64              // position of the high watermark in the last segment
	tail     *tail              // of the last segment
	epochs   epochs
	aborted  aborted

	producers *producer.State // nil until the first append with a producer id

	group    *group // takes the appends that wait for the next sync
	inFlight *group // being synced
	syncing  bool   // a sync is under way, or a roll or the like that wants none beside it
	idle     sync.Cond

	swaps           uint64    // counts the beginnings and ends of replacements of segments; odd while one is under way
	filled          time.Time // when the first batch of the last segment came; zero if there is none
	unsynced        int64     // records written since the last sync began
	sinceCheckpoint int64     // bytes written since the last checkpoint
	checkpointing   bool
	checkpointDue   bool        // something has happened since the last checkpoint began that wants one
	syncTimer       clock.Timer // pending sync of SyncInterval
	indexTimer      clock.Timer // pending sync of the index

	waiters []*watch
}

func newLog(set *Set, p Partition, c Config, epochBase int32) *Log {
	l := &Log{set: set, part: p, epoch: max(set.options.Epoch-epochBase, 0)}
	l.dir = filepath.Join(set.topics, p.Topic, strconv.Itoa(int(p.Number)))
	c = c.complete()
	l.config.Store(&c)
	l.mu.idle.L = &l.mu
	return l
}

// Partition names the log.
func (l *Log) Partition() Partition { return l.part }

// usable returns why the log answers no calls, or nil. The caller holds mu.
func (s *state) usable() error {
	switch s.phase {
	case ready:
		return nil
	case recovering:
		return ErrNotReady
	case refused:
		return s.refusal
	default:
		return ErrClosed
	}
}

// isClosed says whether the log's life has ended.
func (l *Log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.phase == closed
}

// active is the segment that takes appends; nil before the first one. The caller holds mu.
func (s *state) active() *segment.Segment {
	if len(s.segments) == 0 {
		return nil
	}
	return s.segments[len(s.segments)-1]
}

// Offsets tells where the log stands; zeros while it is being recovered.
func (l *Log) Offsets() Offsets {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.offsets
}

// LeaderEpoch is the epoch that the next append gets; while the log is being recovered, that of this start.
func (l *Log) LeaderEpoch() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.phase == recovering {
		return l.epoch // what recovery finds is its own until it ends
	}
	return l.leaderEpoch()
}

// leaderEpoch is never below one that is in the log already. The caller holds mu.
func (l *Log) leaderEpoch() int32 { return max(l.epoch, l.mu.epochs.last()) }

// SetConfig replaces the configuration; it holds from the next append on. The index interval holds for segments made
// later.
func (l *Log) SetConfig(c Config) {
	c = c.complete()
	l.config.Store(&c)
	l.set.maintenance.wake(l, l.set.clock.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.phase != recovering && l.mu.producers != nil {
		l.mu.producers.SetExpiration(c.ProducerExpiration.Milliseconds())
	}
}

// Size is the length of all segments' data in bytes; 0 while the log is being recovered.
func (l *Log) Size() int64 {
	total := int64(0)
	l.mu.Lock()
	if l.mu.phase == recovering {
		l.mu.Unlock()
		return total
	}
	segments := l.mu.segments
	l.mu.Unlock()
	for _, s := range segments {
		total += s.Size()
	}
	return total
}

// Segments is the number of segments; 0 while the log is being recovered.
func (l *Log) Segments() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.phase == recovering {
		return 0
	}
	return len(l.mu.segments)
}

// Err is nil while the log takes writes; else it says why not: ErrNotReady, ErrClosed, ErrReadOnly with its cause, or what
// recovery found.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.mu.usable(); err != nil {
		return err
	}
	return l.mu.failure
}

// fail makes the log read-only, for good. The caller holds mu.
func (l *Log) fail(op string, cause error) error {
	err := fmt.Errorf("%s: %s: %w: %w", l.part, op, ErrReadOnly, cause)
	if l.mu.failure == nil {
		l.mu.failure = err
		l.set.metrics.readOnly.Inc()
		l.set.logger.Error("log takes no writes",
			zap.Stringer("partition", l.part), zap.String("operation", op), zap.Error(cause))
	}
	return err
}

// segmentOptions is what the log's segments share.
func (l *Log) segmentOptions() segment.Options {
	return segment.Options{
		FS: l.set.fs, Dir: l.dir, Files: l.set.files, IndexInterval: l.config.Load().IndexIntervalBytes,
	}
}

// corruption turns what a segment reports into the package's error.
func (l *Log) corruption(s *segment.Segment, err error) error {
	var d *segment.DamagedError
	if errors.As(err, &d) {
		return &CorruptionError{Partition: l.part, Segment: s.DataName(), Position: d.From, Kind: d.Kind}
	}
	return fmt.Errorf("%s: %w", l.part, err)
}
