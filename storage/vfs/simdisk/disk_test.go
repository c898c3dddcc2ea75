package simdisk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kbroker/kbroker/storage/vfs"
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, d *Disk, name string) vfs.File {
	t.Helper()
	f, err := d.Create(name)
	ok(t, err)
	return f
}

func write(t *testing.T, f vfs.File, off int64, s string) {
	t.Helper()
	_, err := f.WriteAt([]byte(s), off)
	ok(t, err)
}

// read returns what a file holds, or "-" if there is none.
func read(t *testing.T, d *Disk, name string) string {
	t.Helper()
	f, err := d.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	ok(t, err)
	b, err := io.ReadAll(f)
	ok(t, err)
	return string(b)
}

// outcomes collects what a file holds after many crashes of copies of a disk.
func outcomes(t *testing.T, d *Disk, crashes int, names ...string) map[string]int {
	t.Helper()
	found := make(map[string]int)
	for seed := range crashes {
		after := d.Snapshot().Crash(rng(uint64(seed)))
		var held []string
		for _, name := range names {
			held = append(held, read(t, after, name))
		}
		found[strings.Join(held, "|")]++
	}
	return found
}

func wantOutcomes(t *testing.T, found map[string]int, want ...string) {
	t.Helper()
	for _, w := range want {
		if found[w] == 0 {
			t.Errorf("%q never happened", w)
		}
	}
	for f := range found {
		if !slices.Contains(want, f) {
			t.Errorf("%q happened %d times", f, found[f])
		}
	}
}

func TestSyncedBytesSurviveAndOthersInAnyPart(t *testing.T) {
	t.Parallel()
	d := New(1)
	f := create(t, d, "a")
	write(t, f, 0, "S")
	ok(t, f.Sync())
	ok(t, d.SyncDir("."))
	write(t, f, 1, "xy")
	wantOutcomes(t, outcomes(t, d, 300, "a"), "S", "Sx", "Sxy", "S\x00\x00", "S\x00y")
}

func TestUnsyncedOverwriteLeavesOldOrNewBytes(t *testing.T) {
	t.Parallel()
	d := New(1)
	f := create(t, d, "a")
	write(t, f, 0, "AB")
	ok(t, f.Sync())
	ok(t, d.SyncDir("."))
	write(t, f, 0, "xy")
	wantOutcomes(t, outcomes(t, d, 300, "a"), "AB", "xB", "Ay", "xy")
}

func TestUnsyncedWritesSurviveInAnyOrder(t *testing.T) {
	t.Parallel()
	d := New(1)
	f := create(t, d, "a")
	ok(t, d.SyncDir("."))
	write(t, f, 0, "1")
	write(t, f, 1, "2")
	wantOutcomes(t, outcomes(t, d, 300, "a"), "", "1", "12", "\x00", "\x002", "1\x00", "\x00\x00")
}

func TestSectorsOfAWriteSurviveEachForItself(t *testing.T) {
	t.Parallel()
	d := New(1)
	f := create(t, d, "a")
	ok(t, d.SyncDir("."))
	write(t, f, 0, strings.Repeat("x", 3*sectorBytes))
	found := outcomes(t, d, 300, "a")
	x, zero := strings.Repeat("x", sectorBytes), strings.Repeat("\x00", sectorBytes)
	for _, want := range []string{x + zero + x, zero + x + zero, zero + zero + x} {
		if found[want] == 0 {
			t.Error("a combination of sectors never happened")
		}
	}
}

func TestUnsyncedTruncationMayBeLost(t *testing.T) {
	t.Parallel()
	d := New(1)
	f := create(t, d, "a")
	write(t, f, 0, "abcd")
	ok(t, f.Sync())
	ok(t, d.SyncDir("."))
	ok(t, f.Truncate(2))
	wantOutcomes(t, outcomes(t, d, 200, "a"), "abcd", "ab")
	write(t, f, 2, "Z")
	wantOutcomes(t, outcomes(t, d, 300, "a"), "abcd", "ab", "abZ", "ab\x00")
	ok(t, f.SyncData())
	wantOutcomes(t, outcomes(t, d, 100, "a"), "abZ")
}

func TestNamesAreDurableOnceTheDirectoryIsSynced(t *testing.T) {
	t.Parallel()
	d := New(1)
	f := create(t, d, "a")
	write(t, f, 0, "x")
	ok(t, f.Sync())
	wantOutcomes(t, outcomes(t, d, 100, "a"), "-", "x")
	ok(t, d.SyncDir("."))
	wantOutcomes(t, outcomes(t, d, 100, "a"), "x")
	ok(t, d.Remove("a"))
	wantOutcomes(t, outcomes(t, d, 100, "a"), "-", "x")
	ok(t, d.SyncDir("."))
	wantOutcomes(t, outcomes(t, d, 100, "a"), "-")
}

func TestRenameIsAtomic(t *testing.T) {
	t.Parallel()
	d := New(1)
	ok(t, d.MkdirAll("dir", 0o750))
	for name, text := range map[string]string{"new": "N", "old": "O"} {
		f := create(t, d, "dir/"+name)
		write(t, f, 0, text)
		ok(t, f.Sync())
	}
	ok(t, d.SyncDir("."))
	ok(t, d.SyncDir("dir"))
	ok(t, d.Rename("dir/new", "dir/old"))
	wantOutcomes(t, outcomes(t, d, 100, "dir/new", "dir/old"), "N|O", "-|N")
	ok(t, d.Rename("dir/old", "dir/third"))
	wantOutcomes(t, outcomes(t, d, 100, "dir/new", "dir/old", "dir/third"), "N|O|-", "-|N|-", "-|-|N")
	ok(t, d.SyncDir("dir"))
	wantOutcomes(t, outcomes(t, d, 100, "dir/third"), "N")
}

func TestMovedDirectoryIsInOnePlace(t *testing.T) {
	t.Parallel()
	d := New(1)
	ok(t, d.MkdirAll("topics/t", 0o750))
	ok(t, d.MkdirAll("deleted", 0o750))
	f := create(t, d, "topics/t/a")
	write(t, f, 0, "x")
	ok(t, f.Sync())
	for _, dir := range []string{".", "topics", "topics/t"} {
		ok(t, d.SyncDir(dir))
	}
	ok(t, d.Rename("topics/t", "deleted/t"))
	wantOutcomes(t, outcomes(t, d, 100, "topics/t/a", "deleted/t/a"), "x|-", "-|x")
	ok(t, d.SyncDir("deleted"))
	wantOutcomes(t, outcomes(t, d, 100, "topics/t/a", "deleted/t/a"), "-|x")
}

func TestLaterNameNeedsTheEarlierOperation(t *testing.T) {
	t.Parallel()
	d := New(1)
	f := create(t, d, "a")
	write(t, f, 0, "1")
	ok(t, f.Sync())
	ok(t, d.SyncDir("."))
	ok(t, d.Rename("a", "b"))
	g := create(t, d, "a")
	write(t, g, 0, "2")
	ok(t, g.Sync())
	wantOutcomes(t, outcomes(t, d, 200, "a", "b"), "1|-", "-|1", "2|1")
}

func TestSyncedFileInAnUnsyncedDirectoryMayVanish(t *testing.T) {
	t.Parallel()
	d := New(1)
	ok(t, d.MkdirAll("dir", 0o750))
	f := create(t, d, "dir/a")
	write(t, f, 0, "x")
	ok(t, f.Sync())
	ok(t, d.SyncDir("dir"))
	wantOutcomes(t, outcomes(t, d, 100, "dir/a"), "-", "x")
}

func TestCrashIsTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	play := func(seed uint64) string {
		d := New(1)
		var held []string
		for i := range 20 {
			f := create(t, d, fmt.Sprint("f", i))
			write(t, f, 0, strings.Repeat(fmt.Sprint(i), 1000))
		}
		after := d.Crash(rng(seed))
		names, err := after.List("/")
		ok(t, err)
		for _, name := range names {
			held = append(held, name, read(t, after, name))
		}
		return strings.Join(held, "|")
	}
	for seed := range uint64(20) {
		if first, second := play(seed), play(seed); first != second {
			t.Fatalf("seed %d plays differently", seed)
		}
	}
}

func TestKillKeepsEverythingUnsynced(t *testing.T) {
	t.Parallel()
	d := New(1)
	f := create(t, d, "a")
	write(t, f, 0, "x")
	next := d.Kill()
	if got := read(t, next, "a"); got != "x" {
		t.Errorf("after a kill: %q", got)
	}
	wantOutcomes(t, outcomes(t, next, 300, "a"), "-", "", "x", "\x00")
}

func TestOldHandlesAreDead(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Disk) *Disk{
		"kill": (*Disk).Kill, "crash": func(d *Disk) *Disk { return d.Crash(rng(1)) },
	} {
		d := New(1)
		f := create(t, d, "a")
		lock, err := d.Lock("LOCK")
		ok(t, err)
		next := end(d)
		_, err = d.Create("b")
		errs := []error{err, f.Sync(), f.Truncate(1), f.Close(), d.SyncDir("."), d.Remove("a"), d.MkdirAll("x", 0)}
		_, err = f.WriteAt([]byte("x"), 0)
		errs = append(errs, err)
		_, err = f.ReadAt(make([]byte, 1), 0)
		errs = append(errs, err)
		for i, err := range errs {
			if !errors.Is(err, ErrPowerCut) {
				t.Errorf("%s: operation %d: %v", name, i, err)
			}
		}
		if _, err = next.Lock("LOCK"); err != nil {
			t.Errorf("%s: lock: %v", name, err)
		}
		ok(t, lock.Close())
		if _, err = next.Lock("LOCK"); !errors.Is(err, vfs.ErrLocked) {
			t.Errorf("%s: the old lock's end released the new one: %v", name, err)
		}
	}
}

func TestFailedSyncLosesWhatItShouldHaveSaved(t *testing.T) {
	t.Parallel()
	lost := 0
	for seed := range uint64(50) {
		d := New(seed)
		f := create(t, d, "a")
		ok(t, d.SyncDir("."))
		write(t, f, 0, "x")
		d.OnOp(func(op Op) error {
			if op.Kind == Sync {
				return syscall.EIO
			}
			return nil
		})
		if err := f.Sync(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("sync: %v", err)
		}
		d.OnOp(nil)
		ok(t, f.Sync())
		if got := read(t, d, "a"); got != "x" {
			t.Fatalf("before the crash: %q", got)
		}
		if got := read(t, d.Crash(rng(seed)), "a"); got == "\x00" {
			lost++
		}
	}
	if lost == 0 {
		t.Error("no failed sync lost anything")
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	d := New(1)
	f := create(t, d, "a")
	var fault error
	d.OnOp(func(op Op) error {
		if op.Name == "a" && op.Kind != Read {
			return fault
		}
		return nil
	})
	fault = syscall.EIO
	if n, err := f.WriteAt([]byte("abc"), 0); n != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("failed write: %d, %v", n, err)
	}
	fault = &ShortWrite{Bytes: 2, Err: syscall.ENOSPC}
	if n, err := f.WriteAt([]byte("abc"), 0); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("short write: %d, %v", n, err)
	}
	fault = nil
	if got := read(t, d, "a"); got != "ab" {
		t.Errorf("after a short write: %q", got)
	}
	fault = ErrPowerCut
	if err := f.Sync(); !errors.Is(err, ErrPowerCut) {
		t.Errorf("power cut: %v", err)
	}
	fault = nil
	if err := f.Sync(); !errors.Is(err, ErrPowerCut) {
		t.Errorf("the power came back: %v", err)
	}
}

func TestHookSeesOperationsAndMayPanic(t *testing.T) {
	t.Parallel()
	d := New(1)
	var seen []string
	d.OnOp(func(op Op) error {
		seen = append(seen, fmt.Sprintf("%v %s %d %d", op.Kind, op.Name, op.Offset, op.Length))
		if op.Kind == Remove {
			panic("stop")
		}
		return nil
	})
	f := create(t, d, "a")
	write(t, f, 3, "xy")
	ok(t, f.Sync())
	func() {
		defer func() { _ = recover() }()
		_ = d.Remove("a")
	}()
	d.OnOp(nil)
	if got := read(t, d, "a"); got != "\x00\x00\x00xy" {
		t.Errorf("after the panic: %q", got)
	}
	want := "create a 0 0,write a 3 2,sync a 0 0,remove a 0 0"
	if got := strings.Join(seen, ","); got != want {
		t.Errorf("saw %s", got)
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	d := New(1)
	d.SetCapacity(10)
	f := create(t, d, "a")
	write(t, f, 0, "12345678")
	counts := make(map[int]bool)
	for range 20 {
		n, err := f.WriteAt([]byte("abcd"), 8)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("beyond the capacity: %v", err)
		}
		counts[n] = true
		ok(t, f.Truncate(8))
	}
	if !counts[0] || !counts[2] {
		t.Errorf("reported %v of the 2 bytes that landed", counts)
	}
	write(t, f, 0, "overwrite"[:8])
	if u, err := d.DiskUsage("."); err != nil || u.AvailableBytes != 2 || u.TotalBytes != 10 {
		t.Errorf("%+v, %v", u, err)
	}
	ok(t, d.Remove("a"))
	g := create(t, d, "b")
	write(t, g, 0, "1234567890")
}

func TestRot(t *testing.T) {
	t.Parallel()
	d := New(1)
	f := create(t, d, "a")
	write(t, f, 0, "abc")
	ok(t, f.Sync())
	ok(t, d.SyncDir("."))
	before := d.Snapshot()
	ok(t, d.FlipBit("a", 8))
	ok(t, d.Overwrite("a", 2, []byte("Z")))
	if err := d.FlipBit("a", 24); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("beyond the end: %v", err)
	}
	if got := read(t, d, "a"); got != "acZ" {
		t.Errorf("now %q", got)
	}
	if got := read(t, d.Crash(rng(1)), "a"); got != "acZ" {
		t.Errorf("on the disk %q", got)
	}
	if got := read(t, before, "a"); got != "abc" {
		t.Errorf("the copy rotted too: %q", got)
	}
}

func TestSnapshotsGoTheirOwnWays(t *testing.T) {
	t.Parallel()
	d := New(1)
	f := create(t, d, "a")
	write(t, f, 0, strings.Repeat("x", 10_000))
	ok(t, f.Sync())
	write(t, f, 0, "1")
	s := d.Snapshot()
	write(t, f, 1, "2")
	g, err := s.OpenReadWrite("a")
	ok(t, err)
	write(t, g, 1, "3")
	if a, b := read(t, d, "a")[:3], read(t, s, "a")[:3]; a != "12x" || b != "13x" {
		t.Errorf("%q and %q", a, b)
	}
	if err = d.Remove("a"); err != nil || read(t, s, "a") == "-" {
		t.Errorf("removed on both, %v", err)
	}
}

// A disk that is only ever synced wholly is, after a crash, the disk that it was.
func TestRandomWorkMatchesAPlainModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r, d := rng(seed), New(seed)
		model := make(map[string][]byte)
		for range 40 {
			name := fmt.Sprint("f", r.IntN(3))
			f, err := d.OpenReadWrite(name)
			ok(t, err)
			switch r.IntN(4) {
			case 0:
				size := r.IntN(9000)
				ok(t, f.Truncate(int64(size)))
				model[name] = append(model[name], make([]byte, 9000)...)[:size]
			case 1:
				ok(t, d.Remove(name))
				delete(model, name)
			default:
				off, b := r.IntN(9000), make([]byte, r.IntN(5000))
				for i := range b {
					b[i] = byte(r.Uint32())
				}
				write(t, f, int64(off), string(b))
				if end := off + len(b); len(b) > 0 && end > len(model[name]) {
					model[name] = append(model[name], make([]byte, end-len(model[name]))...)
				}
				if model[name] == nil {
					model[name] = []byte{}
				}
				copy(model[name][min(off, len(model[name])):], b)
			}
			if r.IntN(8) == 0 {
				d = syncAll(t, d).Crash(r)
			}
		}
		names, err := d.List(".")
		ok(t, err)
		if len(names) != len(model) {
			t.Fatalf("seed %d: files %v, want %d", seed, names, len(model))
		}
		for _, name := range names {
			if got := read(t, d, name); !bytes.Equal([]byte(got), model[name]) {
				t.Fatalf("seed %d: %s differs", seed, name)
			}
		}
	}
}

func syncAll(t *testing.T, d *Disk) *Disk {
	t.Helper()
	names, err := d.List(".")
	ok(t, err)
	for _, name := range names {
		f, err := d.Open(name)
		ok(t, err)
		ok(t, f.Sync())
	}
	ok(t, d.SyncDir("."))
	return d
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	d := New(1)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("f", i%4)
			for n := range 50 {
				f, err := d.OpenReadWrite(name)
				if err != nil {
					return
				}
				_, _ = f.WriteAt([]byte("some bytes"), int64(n*10))
				_, _ = f.ReadAt(make([]byte, 20), 0)
				_ = f.Sync()
				_ = d.SyncDir(".")
				_ = f.Close()
			}
		})
	}
	for seed := range uint64(10) {
		_ = d.Snapshot().Crash(rng(seed))
	}
	wg.Wait()
	if got := read(t, d.Crash(rng(1)), "f0"); len(got) != 500 {
		t.Errorf("%d bytes", len(got))
	}
}

func BenchmarkCrash(b *testing.B) {
	d := New(1)
	for i := range 10 {
		f, err := d.Create(fmt.Sprint("f", i))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = f.Write(make([]byte, 1<<20))
		_ = f.Sync()
		_, _ = f.Write(make([]byte, 1000))
	}
	_ = d.SyncDir(".")
	for seed := uint64(0); b.Loop(); seed++ {
		_ = d.Snapshot().Crash(rng(seed))
	}
}
