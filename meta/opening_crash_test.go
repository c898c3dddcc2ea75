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
	want := dump(t, s)
	disk = disk.Kill()
	outcomes := uint64(24)
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
