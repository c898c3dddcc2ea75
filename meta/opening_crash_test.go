package meta

import (
	"testing"

	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// A power cut decides for each name that wasn't durable by itself whether it is there: many outcomes of each cut are played.
func TestNoOutcomeOfAPowerCutWhileOpeningLosesTheStore(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	s := open(t, disk, testOptions())
	mustCreate(t, s, "a")
	mustClose(t, s)
	s = open(t, disk, testOptions()) // from here on the topic lies in a table
	want := dump(t, s)
	disk = disk.Kill()
	outcomes := uint64(40)
	if testing.Short() || raceEnabled {
		outcomes = 6
	}
	for cut := 0; ; cut++ {
		attempt := disk.Snapshot()
		cutPower(attempt, cut)
		s, err := Open(attempt, testDir, testOptions())
		if err == nil {
			_ = s.Close()
			return
		}
		for outcome := range outcomes {
			left := attempt.Crash(seeded(outcome))
			s, err := Open(left, testDir, testOptions())
			if err != nil {
				t.Fatalf("cut before operation %d, outcome %d: %v", cut, outcome, err)
			}
			if got := dump(t, s); got != want {
				t.Fatalf("cut before operation %d, outcome %d: found\n%s\nwant\n%s", cut, outcome, got, want)
			}
			_ = s.Close()
		}
	}
}

// Pebble tries without an end, and without a pause where there is no table to make, to write down what it found in its logs.
func TestOpeningEndsWhateverOperationFails(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	s := open(t, disk, testOptions())
	mustCreate(t, s, "a")
	disk = disk.Kill()
	for _, changes := range []bool{false, true} {
		before := disk
		if changes { // a second opening finds logs with nothing new in them
			again := disk.Snapshot()
			cutPower(again, 30)
			if s, err := Open(again, testDir, testOptions()); err == nil {
				_ = s.Close()
			}
			before = again.Kill()
		}
		for cut := 0; ; cut++ {
			attempt := before.Snapshot()
			cutPower(attempt, cut)
			o := testOptions()
			s, err := Open(attempt, testDir, o)
			if err == nil {
				_ = s.Close()
				break
			}
		}
	}
}
