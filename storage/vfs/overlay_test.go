package vfs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/kbroker/kbroker/storage/vfs"
)

// What is done to an overlay shows in it and leaves what lies below as it was.
func TestAnOverlayChangesNothingBelow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	for name, text := range map[string]string{"kept": "k", "written": "before", "removed": "r", "renamed": "moved", "sub/a": "1", "sub/b": "2"} {
		ok(t, os.MkdirAll(filepath.Dir(path(name)), 0o750))
		ok(t, os.WriteFile(path(name), []byte(text), 0o600))
	}
	before := tree(t, dir)
	o := vfs.Overlay(vfs.OS())
	f, err := o.OpenReadWrite(path("written"))
	must(t, f, err)
	must(t, 0, second(f.WriteAt([]byte("AFTER!"), 3)))
	ok(t, f.Close())
	ok(t, o.Remove(path("removed")))
	ok(t, o.Rename(path("renamed"), path("there")))
	ok(t, o.Rename(path("sub"), path("other")))
	put(t, o, path("new"), "n")
	lock, err := o.Lock(path("LOCK"))
	must(t, lock, err)
	ok(t, lock.Close())

	expect(t, content(t, o, path("written")), "befAFTER!")
	expect(t, content(t, o, path("there")), "moved")
	expect(t, content(t, o, path("other", "b")), "2")
	expect(t, content(t, o, path("kept")), "k")
	for _, gone := range []string{"removed", "renamed", "sub", "sub/a"} {
		_, statErr := o.Stat(path(gone))
		is(t, statErr, fs.ErrNotExist)
	}
	names, err := o.List(dir)
	must(t, names, err)
	if got := filepath.Join(names...); got != "kept/new/other/there/written" {
		t.Errorf("the overlay lists %s", got)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("below it was\n%s\nand is\n%s", before, after)
	}
}

// tree is all files below a directory with their contents.
func tree(t *testing.T, dir string) string {
	t.Helper()
	text := ""
	ok(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name) //nolint:gosec // of the test's own making
		text += name + "=" + string(b) + "\n"
		return err
	}))
	return text
}
