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

// TestASyncWaitsForADescriptor: nothing is lost yet where a sync could not begin because too many files were open.
func TestASyncWaitsForADescriptor(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	o := w.options()
	o.MaxOpenFiles = 1 // the index's entry has closed the data file
	set, err := OpenSet(w.fs, w.dir, o)
	must(t, err)
	l, err := set.Open(w.part, w.config, 0)
	must(t, err)
	put(t, l, makeBatch(t, 0, 1, 1000))
	l.mu.Lock()
	s := l.mu.active()
	l.mu.Unlock()
	refused := 0
	d.OnOp(func(op simdisk.Op) error {
		if op.Kind == simdisk.OpenReadWrite && strings.HasSuffix(op.Name, segment.SuffixData) && refused < 2 {
			refused++
			return syscall.EMFILE
		}
		return nil
	})
	before := w.clock.Pending()
	done := make(chan error, 1)
	go func() { done <- l.syncData(s) }()
	for range 2 {
		w.clock.AwaitPending(before + 1)
		w.clock.Advance(descriptorPause)
	}
	if err = <-done; err != nil || refused != 2 {
		t.Errorf("refused %d times: %v", refused, err)
	}
	must(t, set.Close(t.Context()))
}
