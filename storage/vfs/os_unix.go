//go:build unix && !linux

package vfs

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// syncData is a full sync where fdatasync is missing or, as on macOS, doesn't reach the platter.
func (f *osFile) syncData() error { return f.Sync() }

// sendFile leaves the work to the copying path.
func (f *osFile) sendFile(syscall.Conn, int64, int64) (sent int64, handled bool, err error) {
	return 0, false, nil
}

func diskUsage(name string) (Usage, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(name, &s); err != nil {
		return Usage{}, err
	}
	unit := uint64(s.Bsize)
	return Usage{TotalBytes: uint64(s.Blocks) * unit, AvailableBytes: uint64(max(s.Bavail, 0)) * unit}, nil
}
