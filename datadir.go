package kbroker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

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
