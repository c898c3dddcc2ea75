package storage

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// swapName is the name of the .swap file in a partition's directory, "" if there is none.
func swapName(t *testing.T, d vfs.FS) string {
	t.Helper()
	names, err := d.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, suffix, ok := segment.ParseFileName(name); ok && suffix == swapSuffix {
			return name
		}
	}
	return ""
}

// cutInCompaction is a world whose power was cut in a compaction, before a changing operation while there is an announcement;
// done is true if there are no more of them.
func cutInCompaction(t *testing.T, seed uint64, at int) (k *keeper, done bool) {
	t.Helper()
	k = newKeeper(t, seed)
	for range 60 {
		k.write()
	}
	k.world.clock.Advance(10 * time.Second)
	var left atomic.Int64
	left.Store(int64(at))
	var announced atomic.Bool
	k.disk.OnOp(func(op simdisk.Op) error {
		if announced.Load() && op.Kind.Changes() && left.Add(-1) < 0 {
			return simdisk.ErrPowerCut
		}
		if strings.Contains(op.Name, swapSuffix) && (op.Kind == simdisk.Rename || op.Kind == simdisk.Remove) {
			announced.Store(op.Kind == simdisk.Rename)
		}
		return nil
	})
	err := k.compact()
	k.disk.OnOp(nil)
	return k, err == nil
}

// Whatever of a replacement had been done when the power went, its announcement can be lost too: the partition is refused until
// repair, which loses nothing.
func TestRepairFinishesAReplacementWhoseAnnouncementHasRotted(t *testing.T) {
	t.Parallel()
	rotted := 0
	for seed := range uint64(max(seeds(6), 1)) {
		for at := 0; ; at++ {
			k, done := cutInCompaction(t, seed, at)
			if done {
				k.world.close()
				break
			}
			crashed := k.disk.Crash(k.rng)
			name := swapName(t, crashed)
			if name == "" {
				k.world.close()
				continue
			}
			rotted++
			if err := crashed.FlipBit(filepath.Join(testDir, name), 8*20); err != nil {
				t.Fatal(err)
			}
			k.guard(int(seed), func() { checkRottenSwap(t, k, crashed, name) })
			k.world.close()
		}
	}
	if rotted < 5 {
		t.Errorf("only %d announcements have rotted", rotted)
	}
}

func checkRottenSwap(t *testing.T, k *keeper, d *simdisk.Disk, name string) {
	t.Helper()
	k.world.close()
	k.disk, k.world.fs = d, d
	if _, err := k.world.tryOpen(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "storage repair") {
		t.Fatalf("opened: %v", err)
	}
	k.world.close()
	found, err := Verify(d, "data")
	if err != nil || found.Sound() || !strings.Contains(found.String(), name+": keeps the partition from being opened") {
		t.Fatalf("%v %v", err, found)
	}
	said, err := Repair(d, "data", RepairOptions{})
	if err != nil || len(said) == 0 || swapName(t, d) == "" {
		t.Fatal(said, err)
	}
	if _, err = Repair(d, "data", RepairOptions{Apply: true}); err != nil {
		t.Fatal(err)
	}
	if r, verifyErr := Verify(d, "data"); verifyErr != nil || !r.Sound() || swapName(t, d) != "" {
		t.Fatalf("after %v: %v", said, r)
	}
	if b, readErr := readFile(d, filepath.Join("data", removedName, "orders", "0", name)); readErr != nil || len(b) == 0 {
		t.Fatalf("the announcement isn't kept: %v", readErr)
	}
	k.world.epoch++
	k.log = k.world.open()
	if err = k.log.Err(); err != nil {
		t.Fatal(err)
	}
	k.check()
	if err = k.compact(); err != nil {
		t.Fatal(err)
	}
	k.check()
}

func TestRepairKeepsTheOldSegmentsIfTheNewOnesHaveRottedToo(t *testing.T) {
	t.Parallel()
	for at := 0; ; at++ {
		k, done := cutInCompaction(t, 3, at)
		if done {
			t.Fatal("the power was never cut between the announcement and the first file in place")
		}
		d := k.disk.Kill()
		name := swapName(t, d)
		temp := filepath.Join(testDir, strings.TrimSuffix(name, swapSuffix)+segment.SuffixData+segment.CleanSuffix)
		info, err := d.Stat(temp)
		if name == "" || err != nil || info.Size() < 200 {
			k.world.close()
			continue
		}
		for _, path := range []string{temp, filepath.Join(testDir, name)} {
			if err = d.FlipBit(path, 8*20); err != nil {
				t.Fatal(err)
			}
		}
		k.guard(3, func() { checkRottenSwap(t, k, d, name) })
		k.world.close()
		return
	}
}

// A file that the disk doesn't give back keeps its partition from being opened, and no other from being verified and repaired.
func TestADiskThatFailsForOnePartitionDoesNotEndVerifyAndRepair(t *testing.T) {
	t.Parallel()
	d, all := fullDisk(t)
	w := newWreck(t, d, all)
	w.flip(logName(0), 70)
	other := filepath.Join("data", topicsName, "a", "0")
	if err := d.MkdirAll(filepath.Join(other, segment.FileName(0, segment.SuffixTxnIndex)), dirPerm); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		idName: encodeID(TopicID{1, 2, 3}), logName(0): nil, segment.FileName(0, swapSuffix): exampleSwap().encode(),
	} {
		if err := replaceFile(d, filepath.Join(other, name), content); err != nil {
			t.Fatal(err)
		}
	}
	d.OnOp(func(op simdisk.Op) error {
		if (op.Kind == simdisk.Open || op.Kind == simdisk.Read) && strings.HasPrefix(op.Name, other) {
			return syscall.EIO
		}
		return nil
	})
	r, err := Verify(d, "data")
	if !errors.Is(err, syscall.EIO) || r == nil || r.Sound() {
		t.Fatal(err, r)
	}
	text := r.String()
	if !strings.Contains(text, "topics/orders/0/"+logName(0)+": byte ") || !strings.Contains(text, "topics/a/0: can't be examined: ") {
		t.Error(text)
	}
	actions, err := Repair(d, "data", RepairOptions{Apply: true})
	if !errors.Is(err, syscall.EIO) || len(actions) != 2 || actions[0].Does != "" || actions[1].Does == "" {
		t.Error(actions, err)
	}
	problems := 0
	err = Dump(d, "data", DumpOptions{Partition: -1}, func(i DumpItem) error {
		if p, ok := i.(DumpProblem); ok && strings.HasPrefix(p.Directory, "topics/a") {
			problems++
		}
		return nil
	})
	if !errors.Is(err, syscall.EIO) || problems == 0 {
		t.Error(problems, err)
	}
	d.OnOp(nil)
	if r, err = Verify(d, "data"); err != nil || strings.Contains(r.String(), "topics/orders") {
		t.Error(err, r)
	}
}

func TestASwapFileThatCanNotBeReadIsMovedAway(t *testing.T) {
	t.Parallel()
	d, all := fullDisk(t)
	w := newWreck(t, d, all)
	name := segment.FileName(0, swapSuffix)
	if err := d.MkdirAll(filepath.Join(testDir, name), dirPerm); err != nil {
		t.Fatal(err)
	}
	if _, err := reopenRefused(w); err == nil {
		t.Fatal("opened")
	}
	if r := w.verify(); r.Sound() || !strings.Contains(r.String(), name+": keeps the partition from being opened") {
		t.Fatal(r)
	}
	w.mend()
	if gone := w.serve(); gone != 0 {
		t.Errorf("%d batches are gone", gone)
	}
	if _, err := d.Stat(filepath.Join("data", removedName, "orders", "0", name)); errors.Is(err, fs.ErrNotExist) {
		t.Error("it isn't kept")
	}
}

func reopenRefused(w *wreck) (*Log, error) {
	w.t.Helper()
	world := newWorld(w.t, w.d, "data")
	l, err := world.tryOpen()
	if closeErr := world.set.Close(context.Background()); closeErr != nil {
		w.t.Error(closeErr)
	}
	world.set = nil
	return l, err
}
