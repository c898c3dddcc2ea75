package storage

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// What a failed sync has lost is still in the page cache, and no later sync writes it. A restart reads it and takes it in; so it
// must write it again, or the next loss of power leaves a hole in what it has marked as durable.
func TestWhatAFailedSyncLostIsWrittenAgainByTheNextStart(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		w, d := simWorld(t)
		w.closeMayFail = true
		w.config.Sync = SyncNone
		l := w.open()
		want := []batch.Batch{put(t, l, makeBatch(t, 0, 1, 1000))}
		var failed atomic.Bool
		d.OnOp(func(op simdisk.Op) error {
			if op.Kind == simdisk.Sync && strings.HasSuffix(op.Name, segment.SuffixData) && failed.CompareAndSwap(false, true) {
				return syscall.EIO
			}
			return nil
		})
		for i := range 400 { // acknowledged once written: the death of the process must not lose them
			want = append(want, put(t, l, makeBatch(t, 1+i, 5, 1000)))
		}
		c := w.config
		c.FlushMessages = 1
		l.SetConfig(c)
		a, err := l.Append(makeBatch(t, 999, 1, 1000), AppendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err = a.Commit.Wait(t.Context()); err == nil {
			t.Fatal("the sync succeeded")
		}
		d = d.Kill()
		w.close()
		w.fs, w.epoch = d, 1
		l = w.open()
		got := readEverything(t, l, 0)
		sameBatches(t, got[:len(want)], want)
		w.fs, w.epoch = d.Crash(rand.New(rand.NewPCG(seed, 1))), 2
		w.close()
		sameBatches(t, readEverything(t, w.open(), 0), got)
	}
}
