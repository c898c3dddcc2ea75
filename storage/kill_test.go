package storage

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// TestAPowerCutAfterAKillTakesNothingThatWasAcknowledged: what a killed process left in memory alone, the name of a segment for
// one, is there for the next one to see, which must not build on it.
func TestAPowerCutAfterAKillTakesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	for at := int64(0); ; at++ {
		w, d := simWorld(t)
		w.closeMayFail = true
		w.config.SegmentBytes = 500
		l := w.open()
		var left atomic.Int64
		left.Store(at)
		d.OnOp(func(op simdisk.Op) error {
			if op.Kind.Changes() && left.Add(-1) < 0 {
				return simdisk.ErrPowerCut // stands for the end of the process: what was written so far is kept
			}
			return nil
		})
		acknowledged := appendSome(t, w, l, 3)
		d.OnOp(nil)
		w.close()
		killed := d.Kill()
		w.fs = killed
		w.epoch++
		l = w.open()
		all := readEverything(t, l, 0)
		if len(all) < acknowledged {
			t.Fatalf("kill before operation %d: %d of %d batches are left", at, len(all), acknowledged)
		}
		killed.OnOp(func(op simdisk.Op) error {
			if strings.HasSuffix(op.Name, epochsName+segment.TempSuffix) {
				return simdisk.ErrPowerCut // after the acknowledgement, and before the history of epochs makes names durable
			}
			return nil
		})
		all = append(all, put(t, l, makeBatch(t, 100, 1, 1000)))
		for seed := range uint64(8) {
			w.fs = killed.Crash(rand.New(rand.NewPCG(seed, uint64(at))))
			again := newWorld(t, w.fs, w.dir)
			again.epoch = 2
			sameBatches(t, readEverything(t, again.open(), 0), all)
			again.close()
		}
		w.close()
		if acknowledged == 3 {
			return
		}
	}
}

// appendSome appends batches until one isn't acknowledged, and says how many were.
func appendSome(t *testing.T, w *world, l *Log, n int) int {
	t.Helper()
	for i := range n {
		a, err := l.Append(makeBatch(t, i, 10, 1000), AppendOptions{})
		if err == nil {
			err = a.Commit.Wait(context.Background())
		}
		if err != nil {
			return i
		}
	}
	w.set.work.Wait()
	return n
}
