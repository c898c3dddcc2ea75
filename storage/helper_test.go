package storage

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/vfs"
)

// startTime is where tests' clocks start.
var startTime = time.UnixMilli(1_700_000_000_000)

// world is a data directory with a set, and what is needed to open it again.
type world struct {
	tb     testing.TB
	fs     vfs.FS
	dir    string
	clock  *clock.Manual
	epoch  int32
	starts map[Partition]int64
	set    *Set
	config Config
	part   Partition

	closeMayFail bool
	maintenance  func() Maintenance
	logger       *zap.Logger
}

func newWorld(tb testing.TB, fs vfs.FS, dir string) *world {
	tb.Helper()
	w := &world{
		tb: tb, fs: fs, dir: dir, clock: clock.NewManual(startTime), starts: map[Partition]int64{},
		config: DefaultConfig(), part: Partition{Topic: "orders", ID: TopicID{1, 2, 3}, Number: 0},
	}
	w.config.FileDeleteDelay = 0
	return w
}

func osWorld(tb testing.TB) *world {
	tb.Helper()
	return newWorld(tb, vfs.OS(), filepath.Join(tb.TempDir(), "data"))
}

func (w *world) options() SetOptions {
	return SetOptions{
		Clock: w.clock, Epoch: w.epoch, Maintenance: w.maintenance, Logger: w.logger,
		LogStart:    func(p Partition) int64 { return w.starts[p] },
		SetLogStart: func(p Partition, o int64) error { w.starts[p] = o; return nil },
	}
}

// open opens the set and its one partition.
func (w *world) open() *Log {
	w.tb.Helper()
	l, err := w.tryOpen()
	if err != nil {
		w.tb.Fatal(err)
	}
	return l
}

func (w *world) tryOpen() (*Log, error) {
	w.tb.Helper()
	var err error
	if w.set, err = OpenSet(w.fs, w.dir, w.options()); err != nil {
		w.tb.Fatal(err)
	}
	w.tb.Cleanup(w.close)
	return w.set.Open(w.part, w.config, 0)
}

// close closes the set cleanly.
func (w *world) close() {
	w.tb.Helper()
	if w.set == nil {
		return
	}
	set := w.set
	w.set = nil
	if err := set.Close(context.Background()); err != nil && !w.closeMayFail {
		w.tb.Error(err)
	}
}

// record is a batch of n records whose values are made from seed.
func makeBatch(tb testing.TB, seed, n int, timestamp int64) batch.Batch {
	tb.Helper()
	b := batch.NewBuilder(batch.NoProducer())
	for i := range n {
		b.Append(timestamp+int64(i), nil, fmt.Appendf(nil, "value %d of batch %d", i, seed))
	}
	out, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// put appends and waits for the acknowledgement. It returns the bytes as they must be read.
func put(tb testing.TB, l *Log, b batch.Batch) batch.Batch {
	tb.Helper()
	a, err := l.Append(b, AppendOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	if a.Commit != nil {
		if err := a.Commit.Wait(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	}
	return b
}

// readAll reads everything from an offset on, batch by batch.
func readEverything(tb testing.TB, l *Log, offset int64) []batch.Batch {
	tb.Helper()
	all, err := tryReadEverything(l, offset)
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func tryReadEverything(l *Log, offset int64) ([]batch.Batch, error) {
	var all []batch.Batch
	for {
		r, err := l.Read(offset, ReadOptions{MaxBytes: 3000, WholeFirst: true})
		if err != nil || r.Records == nil {
			return all, err
		}
		bytes, err := r.Records.AppendTo(nil)
		r.Records.Release()
		if err != nil {
			return all, err
		}
		for len(bytes) > 0 {
			b, rest, err := batch.Next(bytes, 0)
			if err != nil {
				break // cut by the limit
			}
			all = append(all, b)
			offset, bytes = b.NextOffset(), rest
		}
	}
}

// seeds is how many seeds a test plays.
func seeds(n int) int {
	switch {
	case testing.Short():
		return n / 20
	case raceDetector:
		return n / 8
	default:
		return n
	}
}
