package storage

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// A segment that could not be begun may be there after a power cut. What was appended since must not lie in the one before, which
// would then seem to end where the other begins.
func TestARollThatFailedTakesNothingFromWhatIsAppendedNext(t *testing.T) {
	t.Parallel()
	for _, failing := range []simdisk.Kind{simdisk.SyncDir, simdisk.OpenReadWrite} {
		for seed := range uint64(20) {
			w, d := simWorld(t)
			w.closeMayFail = true
			w.config.SegmentBytes = 1300
			l := w.open()
			want := []batch.Batch{put(t, l, makeBatch(t, 0, 10, 1000))}
			dir := filepath.Join("data", topicsName, w.part.Topic, "0")
			began := false
			d.OnOp(func(op simdisk.Op) error {
				began = began || op.Kind == simdisk.Create && strings.HasSuffix(op.Name, segment.SuffixData)
				if began && op.Kind == failing && strings.HasPrefix(op.Name, dir) {
					return syscall.EIO
				}
				return nil
			})
			if _, err := l.Append(makeBatch(t, 1, 40, 1000), AppendOptions{}); err == nil {
				t.Fatal("the roll succeeded")
			}
			d.OnOp(nil)
			for i := range 3 {
				want = append(want, put(t, l, makeBatch(t, 2+i, 1, 1000)))
			}
			w.fs, w.epoch = d.Crash(rand.New(rand.NewPCG(seed, 1))), 1
			w.close()
			l = w.open()
			sameBatches(t, readEverything(t, l, 0), want)
			if b := put(t, l, makeBatch(t, 9, 1, 1000)); b.BaseOffset() != want[3].NextOffset() {
				t.Fatalf("offset %d after %d", b.BaseOffset(), want[3].LastOffset())
			}
		}
	}
}
