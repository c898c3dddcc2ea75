package kbroker

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// TestTheDataDirectoryLastsThoughItsMakingWasCutShort: by a power cut or the end of the process, before each operation; the next
// start makes it for good.
func TestTheDataDirectoryLastsThoughItsMakingWasCutShort(t *testing.T) {
	t.Parallel()
	for at := int64(0); ; at++ {
		complete := false
		for seed := range uint64(8) {
			d := simdisk.New(seed)
			var left atomic.Int64
			left.Store(at)
			d.OnOp(func(op simdisk.Op) error {
				if op.Kind.Changes() && left.Add(-1) < 0 {
					return simdisk.ErrPowerCut
				}
				return nil
			})
			complete = makeDataDir(d, "a/b/data") == nil
			d.OnOp(nil)
			rng := rand.New(rand.NewPCG(seed, uint64(at)))
			if seed%2 == 0 {
				d = d.Kill()
			} else {
				d = d.Crash(rng)
			}
			if err := makeDataDir(d, "a/b/data"); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Crash(rng).Stat("a/b/data"); err != nil {
				t.Fatal(fmt.Errorf("ended before operation %d: %w", at, err))
			}
		}
		if complete {
			return
		}
	}
}
