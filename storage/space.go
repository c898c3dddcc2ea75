package storage

import (
	"fmt"
	"sync/atomic"

	"github.com/kbroker/kbroker/storage/vfs"
)

const (
	// spaceLook is how many bytes are written at most until the filesystem is asked again.
	spaceLook = 1 << 20
	// spaceShare bounds what is kept free on a small filesystem: one part of so many.
	spaceShare = 8
)

// space keeps the last part of a filesystem free of records: without it, deleting a topic, moving a log start and settings that
// shorten retention, all of which is written down before it is done, would fail just when they could make room. Concurrent
// calls are allowed.
type space struct {
	fs   vfs.FS
	dir  string
	keep int64        // bytes; 0 keeps nothing
	left atomic.Int64 // bytes that may be written before the filesystem is asked again
}

// take says whether so many bytes may be written. The error is an ErrNoSpace. Where the filesystem doesn't say how much is free the
// write itself shows.
func (s *space) take(n int) error {
	if s.keep <= 0 || s.left.Add(-int64(n)) >= 0 {
		return nil
	}
	usage, err := s.fs.DiskUsage(s.dir)
	if err != nil || usage.TotalBytes == 0 {
		return nil //nolint:nilerr // as above
	}
	keep := min(uint64(s.keep), usage.TotalBytes/spaceShare)
	if usage.AvailableBytes < keep+uint64(n) {
		s.left.Store(0)
		return fmt.Errorf("%w: %d bytes are left on the filesystem of %s, %d of which are kept for metadata",
			ErrNoSpace, usage.AvailableBytes, s.dir, keep)
	}
	s.left.Store(int64(min(usage.AvailableBytes-keep-uint64(n), spaceLook)))
	return nil
}
