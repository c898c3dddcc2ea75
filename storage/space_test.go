package storage

import (
	"errors"
	"testing"

	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

func TestAppendsLeaveTheLastOfTheDiskToMetadata(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	o := w.options()
	o.KeepFree = 1 << 20
	set, err := OpenSet(w.fs, w.dir, o)
	must(t, err)
	l, err := set.Open(w.part, w.config, 0)
	must(t, err)
	usage, err := d.DiskUsage(w.dir)
	must(t, err)
	used := int64(usage.TotalBytes - usage.AvailableBytes)
	d.SetCapacity(used + 900_000) // of which an eighth is kept
	n := 0
	for ; err == nil && n < 10000; n++ {
		_, err = l.Append(makeBatch(t, 0, 10, 100), AppendOptions{})
	}
	usage, usageErr := d.DiskUsage(w.dir)
	must(t, usageErr)
	if !errors.Is(err, ErrNoSpace) || n < 10 || usage.AvailableBytes < usage.TotalBytes/20 { // index entries take some
		t.Fatalf("after %d appends, with %d of %d bytes left: %v", n, usage.AvailableBytes, usage.TotalBytes, err)
	}
	d.SetCapacity(0)
	if _, err = l.Append(makeBatch(t, 0, 10, 100), AppendOptions{}); err != nil {
		t.Errorf("with room: %v", err)
	}
	d.OnOp(func(op simdisk.Op) error {
		if op.Kind == simdisk.DiskUsage {
			return errors.New("no answer")
		}
		return nil
	})
	set.appending.left.Store(0)
	if _, err = l.Append(makeBatch(t, 0, 10, 100), AppendOptions{}); err != nil {
		t.Errorf("on a filesystem that doesn't say what is free: %v", err)
	}
	must(t, set.Close(t.Context()))
}
