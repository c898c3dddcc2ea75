package kbroker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/kbroker/kbroker/storage/vfs"
)

// makeDataDir makes a directory, and makes durable the names of those on the way that weren't there: what is in it later is
// synced piece by piece, and would be lost with its name.
func makeDataDir(files vfs.FS, dir string) error {
	var missing []string
	there := filepath.Clean(dir)
	for ; there != filepath.Dir(there); there = filepath.Dir(there) {
		if _, err := files.Stat(there); err == nil {
			break
		}
		missing = append(missing, there)
	}
	// An empty one may be what a start left that was killed before its sync. One that is somebody else's need not be synced, and
	// perhaps can't be.
	if names, err := files.List(there); err == nil && len(names) == 0 {
		_ = files.SyncDir(filepath.Dir(there))
	}
	for _, name := range slices.Backward(missing) {
		if err := files.MkdirAll(name, dirPerm); err != nil {
			return err
		}
		if err := files.SyncDir(filepath.Dir(name)); err != nil {
			return err
		}
	}
	return nil
}

// explained is a step of a start whose errors of the disk say what can be done.
func (b *Broker) explained(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := step(ctx)
		if hint := diskHint(err); hint != "" {
			return fmt.Errorf("%w; %s", err, hint)
		}
		return err
	}
}

// diskHint says what can be done about an error that has to do with the disk; "" if it isn't known.
func diskHint(err error) string {
	switch {
	case errors.Is(err, syscall.EROFS):
		return "the filesystem is read-only: remount it for writing, or choose another directory with --data DIR"
	case errors.Is(err, fs.ErrPermission):
		return "make the user that runs the broker the owner of the data directory and of everything in it, " +
			"or choose another directory with --data DIR"
	case vfs.IsNoSpace(err):
		return "make room on the filesystem of the data directory"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "raise the limit on open files (ulimit -n)"
	case errors.Is(err, syscall.EIO):
		return "the disk fails: see the system's log"
	default:
		return ""
	}
}
