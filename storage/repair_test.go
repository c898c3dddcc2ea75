package storage

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// wreck is a disk to be damaged and repaired, with the batches on it and the log starts that are known.
type wreck struct {
	t      *testing.T
	d      *simdisk.Disk
	all    []batch.Batch
	starts map[Partition]int64
	id     TopicID
}

func newWreck(t *testing.T, d *simdisk.Disk, all []batch.Batch) *wreck {
	t.Helper()
	return &wreck{t: t, d: d, all: all, starts: map[Partition]int64{}, id: TopicID{1, 2, 3}}
}

// fullDisk is a stopped log of three segments.
func fullDisk(t *testing.T) (*simdisk.Disk, []batch.Batch) {
	t.Helper()
	w, d := simWorld(t)
	all := library(t, w)
	w.close()
	return d, all
}

func (w *wreck) options(apply bool) RepairOptions {
	return RepairOptions{
		VerifyOptions: VerifyOptions{
			Known:    func(topic string, n int32) (TopicID, bool) { return w.id, topic == "orders" && n == 0 },
			LogStart: func(p Partition) int64 { return w.starts[p] },
		},
		SetLogStart: func(p Partition, start int64) error {
			w.starts[p] = start
			return nil
		},
		NowMs: startTime.UnixMilli(), Apply: apply,
	}
}

func (w *wreck) verify() *Report {
	w.t.Helper()
	r, err := VerifyWith(w.d, "data", w.options(false).VerifyOptions)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *wreck) repair(apply bool) []Action {
	w.t.Helper()
	actions, err := Repair(w.d, "data", w.options(apply))
	if err != nil {
		w.t.Fatal(err)
	}
	return actions
}

// files is every file of the data directory with its content.
func (w *wreck) files() map[string]string {
	w.t.Helper()
	found := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		names, err := w.d.List(dir)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, name := range names {
			path := filepath.Join(dir, name)
			if info, err := w.d.Stat(path); err == nil && info.IsDir() {
				walk(path)
				continue
			}
			b, err := readFile(w.d, path)
			if err != nil {
				w.t.Fatal(err)
			}
			found[path] = string(b)
		}
	}
	walk("data")
	return found
}

// mend repairs, after checking that only applying changes anything, and that it does what was said.
func (w *wreck) mend() []Action {
	w.t.Helper()
	before := w.files()
	said := w.repair(false)
	if !maps.Equal(before, w.files()) {
		w.t.Fatal("something changed though nothing was to be applied")
	}
	done := w.repair(true)
	if !reflect.DeepEqual(said, done) {
		w.t.Fatalf("said %v, did %v", said, done)
	}
	for _, a := range done {
		path := filepath.Join("data", a.Directory, a.File)
		if a.Kept != "" && before[path] != w.files()[filepath.Join("data", a.Kept)] {
			w.t.Fatalf("%s isn't kept as it was: %v", path, a)
		}
	}
	if r := w.verify(); !r.Sound() {
		w.t.Fatalf("not sound after %v: %v", done, r)
	}
	return done
}

// serve opens the log, reads everything, and appends. Every read returns the batch that holds the offset, or the next one
// there is. It returns how many batches are gone.
func (w *wreck) serve() (gone int) {
	w.t.Helper()
	world := newWorld(w.t, w.d, "data")
	world.starts, world.epoch = w.starts, 1
	world.config.SegmentBytes, world.config.IndexIntervalBytes = 700, 250
	l, err := world.tryOpen()
	if err == nil {
		err = l.Err()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	defer world.close()
	left := w.left(l, &gone)
	if got := readEverything(w.t, l, l.Offsets().Start); len(got) != len(left) {
		w.t.Fatalf("%d batches in a row, %d one by one", len(got), len(left))
	}
	b := put(w.t, l, makeBatch(w.t, 99, 2, 5000))
	if end := w.all[len(w.all)-1].NextOffset(); b.BaseOffset() < end {
		w.t.Fatalf("offset %d is given out again, the log went to %d", b.BaseOffset(), end)
	}
	if n, err := judge(l, append(left, b)); n > 0 || err != nil {
		w.t.Fatalf("%d damaged, %v", n, err)
	}
	return gone
}

// left is the batches that can still be read.
func (w *wreck) left(l *Log, gone *int) (left []batch.Batch) {
	w.t.Helper()
	for i, b := range w.all {
		offset := b.BaseOffset()
		if offset < l.Offsets().Start {
			*gone++
			continue
		}
		r, err := l.Read(offset, ReadOptions{MaxBytes: 1, WholeFirst: true})
		if err != nil {
			w.t.Fatalf("read at %d: %v", offset, err)
		}
		var got []byte
		if r.Records != nil {
			got, err = r.Records.AppendTo(nil)
			r.Records.Release()
		}
		if err == nil && bytes.Equal(got, b) {
			left = append(left, b)
			continue
		}
		*gone++
		ok := got == nil
		for _, later := range w.all[i+1:] {
			ok = ok || bytes.Equal(got, later)
		}
		if err != nil || !ok {
			w.t.Fatalf("read at %d: a batch that was not written: %v", offset, err)
		}
	}
	return left
}

func TestRepairMakesEveryFlippedByteSound(t *testing.T) {
	t.Parallel()
	stride := int64(3)
	if raceDetector || testing.Short() {
		stride = 37
	}
	for _, snapshot := range []bool{true, false} {
		t.Run(fmt.Sprintf("snapshot %v", snapshot), func(t *testing.T) {
			t.Parallel()
			d, all := fullDisk(t)
			if !snapshot {
				if err := d.Remove(filepath.Join(testDir, snapshotName)); err != nil {
					t.Fatal(err)
				}
			}
			for name, size := range partitionFiles2(t, d) {
				for at := int64(0); at < size; at += stride {
					w := newWreck(t, d.Snapshot(), all)
					if err := w.d.FlipBit(filepath.Join(testDir, name), at*8+at%8); err != nil {
						t.Fatal(err)
					}
					repairFlipped(w, name, fmt.Sprintf("%s byte %d", name, at))
				}
			}
		})
	}
}

func repairFlipped(w *wreck, name, where string) {
	w.t.Helper()
	data := strings.HasSuffix(name, segment.SuffixData)
	found := w.verify()
	if named := strings.Contains(found.String(), name); !named {
		w.t.Fatalf("%s isn't named: %v", where, found)
	}
	if data == found.Sound() && name != idName {
		w.t.Fatalf("%s: sound %v: %v", where, found.Sound(), found)
	}
	w.mend()
	gone := w.serve()
	if gone > 1 || (gone > 0 && !data) {
		w.t.Fatalf("%s: %d batches are gone", where, gone)
	}
	if r := w.verify(); !r.Sound() {
		w.t.Fatalf("%s: not sound once served: %v", where, r)
	}
}

// change is a way to damage a partition of three segments, based at 0, 9 and 18.
type change struct {
	name  string
	files []string // named by verify
	gone  int      // batches
	wreck func(w *wreck)
}

func (w *wreck) remove(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if err := w.d.Remove(filepath.Join(testDir, name)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *wreck) flip(name string, at int64) {
	w.t.Helper()
	size := int64(len(contentOf(w.t, w.d, name)))
	if err := w.d.FlipBit(filepath.Join(testDir, name), (at+size)%size*8); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wreck) cut(name string, bytes int) {
	w.t.Helper()
	b := contentOf(w.t, w.d, name)
	rewrite(w.t, w.d, name, b[:len(b)-bytes])
}

func logName(base int64) string   { return segment.FileName(base, segment.SuffixData) }
func indexName(base int64) string { return segment.FileName(base, segment.SuffixIndex) }

func TestRepairDecidesWhatRecoveryLeavesOpen(t *testing.T) {
	t.Parallel()
	disk, all := fullDisk(t)
	var bases []int64
	for name := range partitionFiles2(t, disk) {
		if base, suffix, ok := segment.ParseFileName(name); ok && suffix == segment.SuffixData {
			bases = append(bases, base)
		}
	}
	first, middle, last := int64(0), max(min(bases[0], bases[1]), min(max(bases[0], bases[1]), bases[2])), max(bases[0], bases[1], bases[2])
	in := func(from, to int64) (n int) {
		for _, b := range all {
			if b.BaseOffset() >= from && b.BaseOffset() < to {
				n++
			}
		}
		return n
	}
	for _, c := range []change{
		{"sealed segment shorter", []string{logName(middle)}, 1, func(w *wreck) { w.cut(logName(middle), 5) }},
		{"last segment shorter", []string{logName(last)}, 1, func(w *wreck) { w.cut(logName(last), 5) }},
		{"first segment missing", []string{logName(first)}, in(first, middle), func(w *wreck) { w.remove(logName(first)) }},
		{"middle segment missing", []string{logName(middle)}, in(middle, last), func(w *wreck) { w.remove(logName(middle)) }},
		{"last segment missing", []string{logName(last)}, in(last, 1000), func(w *wreck) { w.remove(logName(last)) }},
		{"all segments missing", []string{logName(first), logName(last)}, len(all), func(w *wreck) {
			w.remove(logName(first), logName(middle), logName(last))
		}},
		{"last data file missing, and no snapshot", []string{logName(last)}, in(last, 1000), func(w *wreck) {
			w.remove(snapshotName, logName(last))
		}},
		{"all data files missing, and no snapshot", []string{logName(first)}, len(all), func(w *wreck) {
			w.remove(snapshotName, logName(first), logName(middle), logName(last))
		}},
		{"last segment empty", []string{logName(last)}, in(last, 1000), func(w *wreck) { rewrite(w.t, w.d, logName(last), nil) }},
		{"index slot and its bytes bad", []string{logName(last)}, 1, func(w *wreck) {
			w.remove(snapshotName)
			w.flip(logName(last), -1)
			w.flip(indexName(last), -1)
		}},
		{"index slot bad and its bytes gone", []string{logName(last)}, 1, func(w *wreck) {
			w.remove(snapshotName)
			w.cut(logName(last), 3)
			w.flip(indexName(last), -1)
		}},
		{"index of the last segment missing, a byte in the middle bad", []string{logName(last)}, 1, func(w *wreck) {
			w.remove(snapshotName, indexName(last))
			w.flip(logName(last), 70)
		}},
		{"index of a sealed segment missing, two bytes bad", []string{logName(middle)}, 2, func(w *wreck) {
			w.remove(indexName(middle))
			w.flip(logName(middle), 70)
			w.flip(logName(middle), -1)
		}},
		{"id bad and no snapshot", []string{idName}, 0, func(w *wreck) {
			w.remove(snapshotName)
			w.flip(idName, 9)
		}},
		{"id missing and no snapshot", []string{idName}, 0, func(w *wreck) { w.remove(snapshotName, idName) }},
		{".swap bad", []string{".swap"}, 0, func(w *wreck) { rewrite(w.t, w.d, segment.FileName(middle, swapSuffix), []byte("KBSWx")) }},
		{"two segments damaged", []string{logName(first), logName(last)}, 2, func(w *wreck) {
			w.flip(logName(first), 65)
			w.flip(logName(last), 65)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWreck(t, disk.Snapshot(), all)
			c.wreck(w)
			found := w.verify()
			for _, f := range c.files {
				if found.Sound() || !strings.Contains(found.String(), f+": ") {
					t.Fatalf("%s isn't named: %v", f, found)
				}
			}
			w.mend()
			if gone := w.serve(); gone != c.gone {
				t.Errorf("%d batches are gone, want %d", gone, c.gone)
			}
			if again := w.repair(true); len(again) > 0 || !w.verify().Sound() {
				t.Errorf("there is more to be done: %v %v", again, w.verify())
			}
		})
	}
}

func TestRepairKeepsWhatIsNotTheBrokers(t *testing.T) {
	t.Parallel()
	d, all := fullDisk(t)
	w := newWreck(t, d, all)
	rewrite(t, d, "notes.txt", []byte("mine"))
	stray := filepath.Join("data", topicsName, "gone", "0")
	if err := d.MkdirAll(stray, dirPerm); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(d, filepath.Join(stray, idName), encodeID(TopicID{7})); err != nil {
		t.Fatal(err)
	}
	w.mend()
	if n := w.serve(); n != 0 {
		t.Errorf("%d batches are gone", n)
	}
	files := w.files()
	for name, want := range map[string]string{
		"data/removed/orders/0/notes.txt": "mine",
		"data/removed/gone/0/id":          string(encodeID(TopicID{7})),
	} {
		if files[name] != want {
			t.Errorf("%s is %q", name, files[name])
		}
	}
}

func TestRepairLeavesFilesOfALaterVersionAlone(t *testing.T) {
	t.Parallel()
	d, all := fullDisk(t)
	w := newWreck(t, d, all)
	b := encodeEpochs(nil)
	b[5] = 9
	rewrite(t, d, epochsName, resealed(b))
	if w.verify().Sound() {
		t.Fatal("not noticed")
	}
	before := w.files()
	actions := w.repair(true)
	if len(actions) != 1 || actions[0].Does != "" || !maps.Equal(before, w.files()) {
		t.Errorf("did %v", actions)
	}
}

// resealed makes the checksum of a side file anew.
func resealed(b []byte) []byte {
	body := b[:len(b)-sideChecksumSize]
	sum := batch.Checksum(body)
	return append(body[:len(body):len(body)], byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
}

func TestRepairCanBeRepeatedAfterACrash(t *testing.T) {
	t.Parallel()
	disk, all := fullDisk(t)
	for n := 0; ; n++ {
		w := newWreck(t, disk.Snapshot(), all)
		w.flip(logName(0), 70)
		var last string
		for name := range partitionFiles2(t, w.d) {
			if strings.HasSuffix(name, segment.SuffixData) {
				last = max(last, name)
			}
		}
		w.flip(last, 70)
		var left atomic.Int64
		left.Store(int64(n))
		w.d.OnOp(func(op simdisk.Op) error {
			if op.Kind.Changes() && left.Add(-1) < 0 {
				return simdisk.ErrPowerCut
			}
			return nil
		})
		_, err := Repair(w.d, "data", w.options(true))
		w.d.OnOp(nil)
		w.d = w.d.Crash(rand.New(rand.NewPCG(uint64(n), 1)))
		w.repair(true)
		if r := w.verify(); !r.Sound() {
			t.Fatalf("cut at operation %d: %v", n, r)
		}
		if gone := w.serve(); gone != 2 {
			t.Fatalf("cut at operation %d: %d batches are gone", n, gone)
		}
		if err == nil {
			return
		}
	}
}

func TestARepairedSegmentIsStillToBeCompacted(t *testing.T) {
	t.Parallel()
	d, all := fullDisk(t)
	w := newWreck(t, d, all)
	w.flip(logName(0), 70)
	w.mend()
	_, l := reopen(t, d)
	if s := l.mu.segments[0]; !isDirty(s) || s.Generation() == 0 {
		t.Errorf("generation %#x", s.Generation())
	}
}

func TestVerifyChangesNothing(t *testing.T) {
	t.Parallel()
	d, all := fullDisk(t)
	w := newWreck(t, d, all)
	w.flip(logName(0), 70)
	d.OnOp(func(op simdisk.Op) error {
		if op.Kind.Changes() {
			t.Errorf("%v", op)
		}
		return nil
	})
	if w.verify().Sound() {
		t.Error("nothing was found")
	}
	if _, err := Verify(vfs.Overlay(d), "data"); err != nil {
		t.Error(err)
	}
}
