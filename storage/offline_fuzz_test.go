package storage

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// offlineFiles are the files of a partition that the offline commands read, one of each kind.
func offlineFiles() []string {
	return []string{
		logName(0), indexName(0), segment.FileName(0, segment.SuffixTxnIndex), snapshotName, epochsName,
		segment.FileName(0, swapSuffix), idName,
	}
}

// offlineDisk is a stopped log of two segments with an aborted transaction, and all kinds of files.
func offlineDisk(f *testing.F) *simdisk.Disk {
	f.Helper()
	w, d := simWorld(f)
	w.config.SegmentBytes = 700
	l := w.open()
	for i := range 3 {
		put(f, l, keyed(f, startTime, "value", "a", "b", strings.Repeat("c", i)))
	}
	abortedAt(f, l, l.Offsets().End)
	put(f, l, makeBatch(f, 1, 12, startTime.UnixMilli()))
	w.close()
	if _, err := d.Stat(filepath.Join(testDir, segment.FileName(0, segment.SuffixTxnIndex))); err != nil {
		f.Fatal(err)
	}
	return d
}

// FuzzOfflineCommands: whatever a file of a partition holds, verify, dump and repair come to an end without a panic, and what has
// been repaired is sound, unless it was said that something is left as it is.
func FuzzOfflineCommands(f *testing.F) {
	disk := offlineDisk(f)
	for kind, name := range offlineFiles() {
		content, err := readFile(disk, filepath.Join(testDir, name))
		if err != nil {
			content = exampleSwap().encode() // there is none at rest
		}
		for _, seed := range [][]byte{content, content[:len(content)/2], append(content[:len(content):len(content)], content...), nil} {
			f.Add(uint8(kind), false, seed)
		}
		if magic := string(content[:4]); magic[:2] == "KB" {
			f.Add(uint8(kind), true, content[4:len(content)-sideChecksumSize])
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, sealed bool, content []byte) {
		names := offlineFiles()
		name := names[int(kind)%len(names)]
		if magic := magicOf(name); sealed && magic != "" {
			body := append(append([]byte(magic), content...), 0, 0, 0, 0)
			content = resealed(body)
		}
		d := disk.Snapshot()
		if err := d.Remove(filepath.Join(testDir, name)); err != nil && name != segment.FileName(0, swapSuffix) {
			t.Fatal(err)
		}
		if err := writeSynced(d.Create, filepath.Join(testDir, name), content); err != nil {
			t.Fatal(err)
		}
		offline(t, d)
	})
}

// magicOf is what a side file with the common frame begins with.
func magicOf(name string) string {
	switch filepath.Ext(name) {
	case segment.SuffixTxnIndex:
		return txnMagic
	case swapSuffix:
		return swapMagic
	}
	return map[string]string{snapshotName: snapshotMagic, epochsName: epochsMagic, idName: idMagic}[name]
}

func offline(t *testing.T, d *simdisk.Disk) {
	t.Helper()
	o := DumpOptions{Partition: -1, Records: true, Index: true}
	if err := Dump(d, "data", o, func(i DumpItem) error {
		_ = i.String()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(d, "data"); err != nil {
		t.Fatal(err)
	}
	known := VerifyOptions{Known: func(string, int32) (TopicID, bool) { return TopicID{1, 2, 3}, true }}
	actions, err := Repair(d, "data", RepairOptions{VerifyOptions: known, Apply: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range actions {
		if a.Does == "" {
			return
		}
	}
	r, err := VerifyWith(d, "data", known)
	if err != nil && !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	if !r.Sound() {
		t.Fatalf("after %v: %v", actions, r)
	}
}
