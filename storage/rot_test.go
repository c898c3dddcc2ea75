package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// simWorld is a world on a simulated disk.
func simWorld(tb testing.TB) (*world, *simdisk.Disk) {
	tb.Helper()
	d := simdisk.New(1)
	if err := d.MkdirAll("data", 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := d.SyncDir("."); err != nil {
		tb.Fatal(err)
	}
	return newWorld(tb, d, "data"), d
}

// library fills a log with batches over three segments, and returns them.
func library(tb testing.TB, w *world) []batch.Batch {
	tb.Helper()
	w.config.SegmentBytes, w.config.IndexIntervalBytes = 700, 250
	l := w.open()
	var all []batch.Batch
	for i := range 14 {
		all = append(all, put(tb, l, makeBatch(tb, i, 1+i%3, 1000+int64(i))))
	}
	if l.Segments() != 3 {
		tb.Fatalf("%d segments", l.Segments())
	}
	return all
}

// judge reads every batch by its offsets: each must come back as it was written, or be damaged. It returns how many are
// damaged.
func judge(l *Log, want []batch.Batch) (damaged int, err error) {
	for _, b := range want {
		for offset := b.BaseOffset(); offset < b.NextOffset(); offset++ {
			r, err := l.Read(offset, ReadOptions{MaxBytes: 1, WholeFirst: true})
			var c *CorruptionError
			if errors.As(err, &c) && errors.Is(err, ErrDamaged) && c.Segment != "" {
				damaged++
				break
			}
			if err != nil || r.Records == nil {
				return 0, fmt.Errorf("read at %d: %w, records %v", offset, err, r.Records)
			}
			got, err := r.Records.AppendTo(nil)
			r.Records.Release()
			if err != nil || !bytes.Equal(got, b) {
				return 0, fmt.Errorf("read at %d: a batch that was not written: %w", offset, err)
			}
		}
	}
	return damaged, nil
}

// files lists a partition's files with their lengths.
func partitionFiles(tb testing.TB, w *world) map[string]int64 {
	tb.Helper()
	dir := filepath.Join(w.dir, topicsName, w.part.Topic, "0")
	names, err := w.fs.List(dir)
	if err != nil {
		tb.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, name := range names {
		info, err := w.fs.Stat(filepath.Join(dir, name))
		if err != nil {
			tb.Fatal(err)
		}
		sizes[name] = info.Size()
	}
	return sizes
}

func TestAFlippedBitNeverYieldsAnotherRecordOrASilentGap(t *testing.T) {
	t.Parallel()
	stride := int64(1)
	if raceDetector || testing.Short() {
		stride = 13
	}
	for _, stop := range []string{"clean", "killed", "without snapshot"} {
		t.Run(stop, func(t *testing.T) {
			t.Parallel()
			w, d := simWorld(t)
			want := library(t, w)
			switch stop {
			case "clean":
				w.close()
			case "without snapshot":
				w.close()
				if err := d.Remove(filepath.Join("data", topicsName, "orders", "0", snapshotName)); err != nil {
					t.Fatal(err)
				}
			default:
				d = d.Kill()
				w.closeMayFail = true
			}
			for name, size := range partitionFiles2(t, d) {
				for at := int64(0); at < size; at += stride {
					flipAndJudge(t, d.Snapshot(), name, at, want)
				}
			}
		})
	}
}

func partitionFiles2(tb testing.TB, d *simdisk.Disk) map[string]int64 {
	tb.Helper()
	return partitionFiles(tb, newWorld(tb, d, "data"))
}

// flipAndJudge inverts a bit of one byte of one file, opens the log and reads everything, then appends.
func flipAndJudge(t *testing.T, d *simdisk.Disk, name string, at int64, want []batch.Batch) {
	t.Helper()
	path := filepath.Join("data", topicsName, "orders", "0", name)
	if err := d.FlipBit(path, at*8+at%8); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, d, "data")
	w.epoch = 1
	w.config.SegmentBytes, w.config.IndexIntervalBytes = 700, 250
	l, err := w.tryOpen()
	defer w.close()
	if err != nil {
		var version *segment.VersionError
		var c *CorruptionError
		if !errors.As(err, &version) && !errors.As(err, &c) {
			t.Fatalf("%s byte %d: %v", name, at, err)
		}
		return // refused, with the file named
	}
	damaged, err := judge(l, want)
	if err != nil {
		t.Fatalf("%s byte %d: %v", name, at, err)
	}
	data := strings.HasSuffix(name, segment.SuffixData)
	switch {
	case !data && damaged > 0:
		t.Fatalf("%s byte %d: %d batches damaged though their bytes are sound", name, at, damaged)
	case data && (damaged == 0 || damaged > 4):
		t.Fatalf("%s byte %d: %d batches damaged", name, at, damaged)
	}
	appendAfter(t, l, want, fmt.Sprintf("%s byte %d", name, at))
}

// appendAfter appends a batch, which must follow all that was acknowledged.
func appendAfter(t *testing.T, l *Log, want []batch.Batch, where string) {
	t.Helper()
	if err := l.Err(); err != nil {
		if !errors.Is(err, ErrReadOnly) {
			t.Fatalf("%s: %v", where, err)
		}
		return
	}
	b := put(t, l, makeBatch(t, 99, 2, 5000))
	if b.BaseOffset() != want[len(want)-1].NextOffset() {
		t.Fatalf("%s: appended at %d", where, b.BaseOffset())
	}
	if _, err := judge(l, []batch.Batch{b}); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
}

func TestRotBeforeACrashIsDamageNotATornWrite(t *testing.T) {
	t.Parallel()
	var undecided, damaged int
	for seed := range seeds(1000) {
		v := newVoyage(t, uint64(seed))
		v.world.config.Sync = SyncEveryWrite
		v.log = v.world.open()
		v.sail(40)
		_, _ = v.log.Trim(0)
		v.world.clock.Advance(indexSyncInterval) // the index entries are durable
		acked := v.acked
		var want []batch.Batch
		for _, w := range v.oracle {
			if w.bytes.NextOffset() <= acked && w.bytes.BaseOffset() >= v.start {
				want = append(want, w.bytes)
			}
		}
		if len(want) == 0 {
			continue
		}
		v.append() // perhaps torn
		disk := v.disk.Crash(v.rng)
		rotOne(t, disk, v.rng, want)
		v.world.close()
		v.world.fs, v.world.epoch = disk, v.world.epoch+1
		l := v.world.open()
		if errors.Is(l.Err(), ErrReadOnly) {
			undecided++
		}
		if end := l.Offsets().End; end < acked && l.Err() == nil {
			t.Fatalf("seed %d: log end %d, though %d was acknowledged", seed, end, acked)
		}
		n, err := judge(l, want)
		if err != nil && l.Err() == nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if n == 0 && err == nil {
			t.Fatalf("seed %d: the rot was not noticed", seed)
		}
		damaged += n
		v.world.close()
	}
	t.Logf("%d batches damaged, %d logs left for repair", damaged, undecided)
}

// rotOne inverts a bit of one of the batches on the disk.
func rotOne(t *testing.T, d *simdisk.Disk, rng *rand.Rand, want []batch.Batch) {
	t.Helper()
	b := want[rng.IntN(len(want))]
	for name, size := range partitionFiles2(t, d) {
		if !strings.HasSuffix(name, segment.SuffixData) {
			continue
		}
		path := filepath.Join("data", topicsName, "orders", "0", name)
		content, err := readFile(d, path)
		if err != nil || int64(len(content)) != size {
			t.Fatal(err)
		}
		if at := bytes.Index(content, b); at >= 0 {
			if err := d.FlipBit(path, int64(at*8+rng.IntN(len(b)*8))); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("batch is not on the disk")
}
