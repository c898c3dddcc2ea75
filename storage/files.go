package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// Names in a data directory and in a partition's.
const (
	topicsName   = "topics"
	deletedName  = "deleted"
	idName       = "id"
	epochsName   = "epochs"
	snapshotName = "snapshot"
	tornInfix    = ".torn-"

	dirPerm fs.FileMode = 0o750
)

// Side files of a partition share their first 8 bytes and their last 4:
//
//	0   4  magic
//	4   2  version
//	6   2  flags, 0
//	8   -  what the file is about
//	-   4  CRC-32C of everything before
const (
	sideHeaderSize   = 8
	sideChecksumSize = 4
	sideVersion      = 1
	// maxSideFileBytes bounds what is read of a side file.
	maxSideFileBytes = 256 << 20
)

// errSideFile is returned for a side file that is cut, has another magic, or doesn't verify.
var errSideFile = errors.New("file doesn't verify")

// encodeSide makes a side file of a magic and a body.
func encodeSide(magic string, body []byte) []byte {
	b := make([]byte, 0, sideHeaderSize+len(body)+sideChecksumSize)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint16(b, sideVersion)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = append(b, body...)
	return binary.BigEndian.AppendUint32(b, batch.Checksum(b))
}

// decodeSide checks a side file and returns its body. Errors: errSideFile; *segment.VersionError.
func decodeSide(name, magic string, b []byte) ([]byte, error) {
	if len(b) < sideHeaderSize+sideChecksumSize || string(b[:4]) != magic {
		return nil, fmt.Errorf("%s: %w", name, errSideFile)
	}
	end := len(b) - sideChecksumSize
	if batch.Checksum(b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return nil, fmt.Errorf("%s: %w: checksum", name, errSideFile)
	}
	version, flags := binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
	if version != sideVersion || flags != 0 {
		return nil, &segment.VersionError{File: name, Version: version, Flags: flags}
	}
	return b[sideHeaderSize:end], nil
}

// The id file: which topic a partition's directory belongs to. 28 bytes: side header with magic KBID, topic id (16), CRC.
const idMagic = "KBID"

func encodeID(id TopicID) []byte { return encodeSide(idMagic, id[:]) }

func decodeID(b []byte) (TopicID, error) {
	body, err := decodeSide(idName, idMagic, b)
	if err != nil {
		return TopicID{}, err
	}
	if len(body) != len(TopicID{}) {
		return TopicID{}, fmt.Errorf("%s: %w: length", idName, errSideFile)
	}
	return TopicID(body), nil
}

// readID reads the id file of a partition's directory.
func readID(files vfs.FS, dir string) (TopicID, error) {
	b, err := readFile(files, filepath.Join(dir, idName))
	if err != nil {
		return TopicID{}, err
	}
	return decodeID(b)
}

// readFile reads a side file as a whole.
func readFile(files vfs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := readAll(f, name)
	return b, errors.Join(err, f.Close())
}

func readAll(f vfs.File, name string) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxSideFileBytes {
		return nil, fmt.Errorf("%s: %w: %d bytes long", filepath.Base(name), errSideFile, size)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// replaceFile puts a file with the given content in place in one step: whatever happens, there is the old one or the new
// one. It is durable when the call returns.
func replaceFile(files vfs.FS, name string, content []byte) error {
	temp := name + segment.TempSuffix
	if err := writeSynced(files.Create, temp, content); err != nil {
		return err
	}
	if err := files.Rename(temp, name); err != nil {
		return err
	}
	return files.SyncDir(filepath.Dir(name))
}

// writeSynced makes a file with the given content, durable but for its name.
func writeSynced(create func(name string) (vfs.File, error), name string, content []byte) error {
	f, err := create(name)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(content, 0); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// copyTorn keeps what r holds in a new file, synced, unless it is all zeros.
func copyTorn(files vfs.FS, name string, r io.ReadSeeker) error {
	buf := make([]byte, 64<<10)
	if zero, err := allZero(r, buf); err != nil || zero {
		return err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	f, err := files.Create(name)
	if err != nil {
		return err
	}
	if _, err = io.CopyBuffer(onlyWriter{f}, r, buf); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return files.SyncDir(filepath.Dir(name))
}

// onlyWriter hides other methods, so that io.CopyBuffer uses the buffer.
type onlyWriter struct{ io.Writer }

func allZero(r io.Reader, buf []byte) (bool, error) {
	for {
		n, err := r.Read(buf)
		for _, b := range buf[:n] {
			if b != 0 {
				return false, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}
