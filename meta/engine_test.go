package meta

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// Pebble writes chunks of the kinds 9 to 12 only if the store was made in a format that notes how much had been synced.
func TestNewStoresLogTellsRotFromATornEnd(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	open(t, disk, testOptions())
	names, err := disk.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		f, err := disk.Open(testDir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		chunk := make([]byte, 7)
		if _, err = f.ReadAt(chunk, 0); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if kind := chunk[6]; kind < 9 || kind > 12 {
			t.Errorf("%s begins with a chunk of kind %d", name, kind)
		}
	}
}

// Each sync costs a millisecond of a broker's start on a slow disk.
func TestOpeningSyncsLittle(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	for _, limit := range []int{11, 10} {
		syncs := 0
		disk.OnOp(func(op simdisk.Op) error {
			if op.Kind == simdisk.Sync || op.Kind == simdisk.SyncDir {
				syncs++
			}
			return nil
		})
		s := open(t, disk, testOptions())
		disk.OnOp(nil)
		if syncs > limit {
			t.Errorf("%d syncs, limit %d", syncs, limit)
		}
		mustClose(t, s)
	}
}

func TestManyLogsAndManifestsKeepTheirProofs(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	for round := range 40 {
		s := open(t, disk, testOptions())
		mustCommit(t, s, putCursor(fmt.Sprint("g", round), "t", 1))
		if round%2 == 0 {
			disk = disk.Crash(seeded(uint64(round)))
		}
		_ = s.Close()
	}
	info, err := disk.Stat(testDir + "/" + proofName)
	if err != nil || info.Size() != proofPairs*2*proofSlotBytes {
		t.Errorf("%d bytes of proofs, %v", info.Size(), err)
	}
	cursors := 0
	err = open(t, disk, testOptions()).Cursors(func(string, TopicPartition, Cursor) error {
		cursors++
		return nil
	})
	if err != nil || cursors != 40 {
		t.Errorf("%d cursors, %v", cursors, err)
	}
}
