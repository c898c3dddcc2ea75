package segment

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/kbroker/kbroker/storage/vfs"
)

// Lost reads the index of a segment whose data file is missing: an entry says that its run had been acknowledged. It returns
// the offset after the last run; found is false if no entry verifies, as in the index that comes first when a segment is made.
// The error is of the disk, or *VersionError.
func Lost(files vfs.FS, dir string, base int64) (next int64, found bool, err error) {
	name := FileName(base, SuffixIndex)
	f, err := files.Open(filepath.Join(dir, name))
	if err != nil {
		return 0, false, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	b := make([]byte, HeaderSize)
	if err = readFull(f, b, 0); errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	h, err := DecodeHeader(b, MagicIndex, name, base)
	if errors.Is(err, ErrHeader) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	b = b[:EntrySize]
	for number := uint32(0); ; number++ {
		err = readFull(f, b, entryPosition(number))
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return next, found, nil
		}
		if err != nil {
			return 0, false, err
		}
		if e, ok := DecodeEntry(b, h, number); ok {
			next, found = max(next, e.run(base).Last+1), true
		}
	}
}
