package meta

import (
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/vfs"
)

func testOptions() Options {
	return Options{Clock: clock.NewManual(time.UnixMilli(1_700_000_000_000)), NodeID: 1}
}

func TestScratchTimes(t *testing.T) {
	dir := t.TempDir() + "/meta"
	for range 3 {
		start := time.Now()
		s, err := Open(vfs.OS(), dir, testOptions())
		if err != nil {
			t.Fatal(err)
		}
		opened := time.Since(start)
		if _, err = s.ReserveProducerIDs(10); err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		if err = s.Close(); err != nil {
			t.Fatal(err)
		}
		t.Log(opened, time.Since(start), s.Epoch(), s.ClusterID())
	}
}
