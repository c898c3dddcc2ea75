package storage

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

const testDir = "data/topics/orders/0"

// shortLog is a log of a few batches in one segment, killed. Its index entries up to a number are on disk.
func shortLog(t *testing.T) (*simdisk.Disk, []batch.Batch) {
	t.Helper()
	w, d := simWorld(t)
	w.closeMayFail = true
	l := w.open()
	var all []batch.Batch
	for i := range 5 {
		all = append(all, put(t, l, makeBatch(t, i, 2, 1000)))
	}
	return d.Kill(), all
}

// rewrite puts a file in place as it is given.
func rewrite(t *testing.T, d *simdisk.Disk, name string, content []byte) {
	t.Helper()
	if err := replaceFile(d, filepath.Join(testDir, name), content); err != nil {
		t.Fatal(err)
	}
}

func contentOf(t *testing.T, d *simdisk.Disk, name string) []byte {
	t.Helper()
	b, err := readFile(d, filepath.Join(testDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// reopen opens the log on a disk after a crash.
func reopen(t *testing.T, d *simdisk.Disk) (*world, *Log) {
	t.Helper()
	w := newWorld(t, d, "data")
	w.epoch = 1
	w.closeMayFail = true
	return w, w.open()
}

func TestATailCutAnywhereLosesNothingThatWasMarked(t *testing.T) {
	t.Parallel()
	disk, all := shortLog(t)
	data := contentOf(t, disk, "00000000000000000000.log")
	index := contentOf(t, disk, "00000000000000000000.index")
	ends := []int{0}
	for _, b := range all {
		ends = append(ends, ends[len(ends)-1]+len(b))
	}
	for marked := range len(all) + 1 {
		for size := ends[marked]; size <= len(data); size++ {
			d := disk.Snapshot()
			rewrite(t, d, "00000000000000000000.log", data[:size])
			rewrite(t, d, "00000000000000000000.index", index[:segment.HeaderSize+marked*segment.EntrySize])
			whole := 0
			for whole < len(all) && ends[whole+1] <= size {
				whole++
			}
			w, l := reopen(t, d)
			where := fmt.Sprintf("%d marked, cut at %d", marked, size)
			sameBatches(t, readEverything(t, l, 0), all[:whole])
			if got := l.Offsets().End; got != int64(2*whole) || l.Err() != nil {
				t.Fatalf("%s: log end %d, want %d; %v", where, got, 2*whole, l.Err())
			}
			tornKept(t, d, size > ends[whole], ends[whole], data[ends[whole]:size], where)
			b := put(t, l, makeBatch(t, 77, 2, 1000))
			sameBatches(t, readEverything(t, l, 0), append(slices.Clone(all[:whole]), b))
			w.close()
		}
	}
}

// tornKept checks that what was cut off lies beside the segment.
func tornKept(t *testing.T, d *simdisk.Disk, want bool, at int, bytes []byte, where string) {
	t.Helper()
	names, err := d.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%020d%s%d", 0, tornInfix, at)
	if got := slices.Contains(names, name); got != want && strings.Trim(string(bytes), "\x00") != "" {
		t.Fatalf("%s: kept aside %v, want %v: %v", where, got, want, names)
	}
	if want && slices.Contains(names, name) && string(contentOf(t, d, name)) != string(bytes) {
		t.Fatalf("%s: other bytes were kept aside", where)
	}
}

func TestAFileTooShortForItsMarksIsDamageAndOffsetsAreNotReused(t *testing.T) {
	t.Parallel()
	disk, all := shortLog(t)
	data := contentOf(t, disk, "00000000000000000000.log")
	for size := range data {
		d := disk.Snapshot()
		rewrite(t, d, "00000000000000000000.log", data[:size])
		w, l := reopen(t, d)
		damaged, err := judge(l, all)
		if err != nil || damaged == 0 {
			t.Fatalf("cut at %d: %d damaged, %v", size, damaged, err)
		}
		appendAfter(t, l, all, fmt.Sprintf("cut at %d", size))
		w.close()
		if _, l = reopen(t, d); l.Offsets().End != 12 {
			t.Fatalf("cut at %d: log end %d after another restart", size, l.Offsets().End)
		}
	}
}

// fault is a disk to be damaged: the content of its data file and index, and the batches in it.
type fault struct {
	t           *testing.T
	d           *simdisk.Disk
	data, marks []byte
	all         []batch.Batch
}

func TestRecoveryTable(t *testing.T) {
	t.Parallel()
	const log, index = "00000000000000000000.log", "00000000000000000000.index"
	slot := func(b []byte, n int) []byte { return b[segment.HeaderSize+n*segment.EntrySize:][:segment.EntrySize] }
	cases := []struct {
		name     string
		change   func(f *fault)
		damaged  int  // batches that can't be read
		lost     int  // batches cut from the end
		readOnly bool // no writes until repair
	}{
		{name: "last entry missing, bytes sound", change: func(f *fault) {
			rewrite(f.t, f.d, index, f.marks[:len(f.marks)-segment.EntrySize])
		}},
		{name: "entry in the middle bad, bytes sound", change: func(f *fault) {
			clear(slot(f.marks, 2))
			rewrite(f.t, f.d, index, f.marks)
		}},
		{name: "last entry bad, bytes sound", change: func(f *fault) {
			clear(slot(f.marks, 4))
			rewrite(f.t, f.d, index, f.marks)
		}},
		{name: "last entry cut, bytes sound", change: func(f *fault) {
			rewrite(f.t, f.d, index, f.marks[:len(f.marks)-5])
		}},
		{name: "proven bytes bad", damaged: 1, change: func(f *fault) {
			f.data[len(f.all[0])+70] ^= 1
			rewrite(f.t, f.d, log, f.data)
		}},
		{
			name: "proven bytes of a bad entry bad, a good entry follows", damaged: 1,
			change: func(f *fault) {
				f.data[len(f.all[0])+70] ^= 1
				rewrite(f.t, f.d, log, f.data)
				clear(slot(f.marks, 1))
				rewrite(f.t, f.d, index, f.marks)
			},
		},
		{
			name: "last entry bad and its bytes too", readOnly: true, damaged: 0, lost: 1,
			change: func(f *fault) {
				f.data[len(f.data)-1] ^= 1
				rewrite(f.t, f.d, log, f.data)
				slot(f.marks, 4)[31] ^= 1
				rewrite(f.t, f.d, index, f.marks)
			},
		},
		{name: "unproven bytes bad", lost: 1, change: func(f *fault) {
			f.data[len(f.data)-1] ^= 1
			rewrite(f.t, f.d, log, f.data)
			rewrite(f.t, f.d, index, f.marks[:len(f.marks)-segment.EntrySize])
		}},
		{
			name: "unproven: zeros in the middle, a sound batch after", lost: 2,
			change: func(f *fault) {
				at := len(f.data) - len(f.all[4]) - len(f.all[3])
				clear(f.data[at : at+len(f.all[3])])
				rewrite(f.t, f.d, log, f.data)
				rewrite(f.t, f.d, index, f.marks[:len(f.marks)-2*segment.EntrySize])
			},
		},
		{name: "unproven: another base offset", lost: 1, change: func(f *fault) {
			batch.Batch(f.data[len(f.data)-len(f.all[4]):]).SetBaseOffset(9)
			rewrite(f.t, f.d, log, f.data)
			rewrite(f.t, f.d, index, f.marks[:len(f.marks)-segment.EntrySize])
		}},
		{name: "unproven: leader epoch to come", lost: 1, change: func(f *fault) {
			batch.Batch(f.data[len(f.data)-len(f.all[4]):]).SetLeaderEpoch(7)
			rewrite(f.t, f.d, log, f.data)
			rewrite(f.t, f.d, index, f.marks[:len(f.marks)-segment.EntrySize])
		}},
		{name: "unproven: leader epoch of before", lost: 1, change: func(f *fault) {
			for _, b := range f.all[:4] {
				b.SetLeaderEpoch(1)
			}
			rewrite(f.t, f.d, log, bytes.Join([][]byte{f.all[0], f.all[1], f.all[2], f.all[3], f.all[4]}, nil))
			rewrite(f.t, f.d, index, f.marks[:segment.HeaderSize])
		}},
		{name: "index missing, bytes sound", change: func(f *fault) {
			if err := f.d.Remove(filepath.Join(testDir, index)); err != nil {
				f.t.Fatal(err)
			}
		}},
		{
			name: "index header bad, bytes bad", readOnly: true, lost: 1,
			change: func(f *fault) {
				f.marks[3] ^= 1
				rewrite(f.t, f.d, index, f.marks)
				f.data[len(f.data)-1] ^= 1
				rewrite(f.t, f.d, log, f.data)
			},
		},
		{name: "index of another segment", change: func(f *fault) {
			h := segment.Header{Base: 0, Generation: 9}
			rewrite(f.t, f.d, index, append(h.Append(nil, segment.MagicIndex), f.marks[segment.HeaderSize:]...))
		}},
		{name: "entries that verify and lie", change: func(f *fault) {
			h, err := segment.DecodeHeader(f.marks, segment.MagicIndex, index, 0)
			if err != nil {
				f.t.Fatal(err)
			}
			out := h.Append(nil, segment.MagicIndex)
			for n := range 5 {
				e, _ := segment.DecodeEntry(slot(f.marks, n), h, uint32(n))
				e.RelativeOffset++
				e.Size--
				out = e.Append(out, h, uint32(n))
			}
			rewrite(f.t, f.d, index, out)
		}},
		{name: "epochs missing", change: func(f *fault) {
			_ = f.d.Remove(filepath.Join(testDir, epochsName))
		}},
		{name: "side files without data, temporary files", change: func(f *fault) {
			rewrite(f.t, f.d, "00000000000000000099.index", f.marks)
			rewrite(f.t, f.d, "snapshot.tmp", f.marks)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, all := shortLog(t)
			data, marks := contentOf(t, d, log), contentOf(t, d, index)
			c.change(&fault{t: t, d: d, data: data, marks: marks, all: all})
			_, l := reopen(t, d)
			if got := l.Err() != nil; got != c.readOnly {
				t.Fatalf("takes no writes: %v", l.Err())
			}
			damaged, err := judge(l, all[:len(all)-c.lost])
			if err != nil || damaged != c.damaged {
				t.Fatalf("%d damaged: %v", damaged, err)
			}
			if l.Segments() != 1+min(c.damaged, 1) {
				t.Fatalf("%d segments: one that is damaged takes no more", l.Segments())
			}
			appendAfter(t, l, all[:len(all)-c.lost], c.name)
			names, err := d.List(testDir)
			if err != nil || slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".tmp") || n == "00000000000000000099.index" }) {
				t.Fatalf("left behind: %v %v", names, err)
			}
		})
	}
}
