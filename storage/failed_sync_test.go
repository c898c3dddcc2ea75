package storage

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// The second sync would succeed, though the first has thrown away what it should have written.
func TestAnAppendUnderWayWhenASyncFailsIsNotAcknowledgedByAnother(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	w.closeMayFail = true
	l := w.open()
	want := put(t, l, makeBatch(t, 0, 1, 1000))
	var writing, syncs atomic.Int32
	written, goOn, failed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	d.OnOp(func(op simdisk.Op) error {
		switch {
		case !strings.HasSuffix(op.Name, segment.SuffixData):
		case op.Kind == simdisk.Write && writing.Add(1) == 2:
			close(written)
			<-goOn
		case op.Kind == simdisk.Sync && syncs.Add(1) == 1:
			<-written
			return syscall.EIO
		}
		return nil
	})
	first := appendOnly(t, l, makeBatch(t, 1, 1, 1000))
	go func() {
		<-first.Commit.Done()
		close(failed)
		close(goOn)
	}()
	second := appendOnly(t, l, makeBatch(t, 2, 1, 1000)) // its write ends after the sync has failed
	<-failed
	for _, c := range []Commit{first.Commit, second.Commit} {
		if err := c.Wait(t.Context()); !errors.Is(err, ErrReadOnly) || !errors.Is(err, syscall.EIO) {
			t.Errorf("commit: %v", err)
		}
	}
	if n := syncs.Load(); n != 1 {
		t.Errorf("%d syncs", n)
	}
	if o := l.Offsets(); o.HighWatermark != 1 {
		t.Errorf("%+v", o)
	}
	sameBatches(t, readEverything(t, l, 0), []batch.Batch{want})
}
