package kbroker

import (
	"path/filepath"

	"github.com/kbroker/kbroker/storage/vfs"
)

// makeDataDir makes a directory, and makes durable the names of those on the way that weren't there: what is in it later is
// synced piece by piece, and would be lost with its name.
func makeDataDir(files vfs.FS, dir string) error {
	var missing []string
	for name := filepath.Clean(dir); ; name = filepath.Dir(name) {
		if _, err := files.Stat(name); err == nil || name == filepath.Dir(name) {
			break
		}
		missing = append(missing, name)
	}
	if err := files.MkdirAll(dir, dirPerm); err != nil {
		return err
	}
	for _, name := range missing {
		if err := files.SyncDir(filepath.Dir(name)); err != nil {
			return err
		}
	}
	return nil
}
