package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// The snapshot file: what a checkpoint claims. Everything below End is durable, index entries included, and producers is
// the state of the producers at End. Side header with magic KBSN, then:
//
//	8   16  topic id
//	24  8   log end offset
//	32  8   log start offset
//	40  8   base offset of the last segment
//	48  8   its size in bytes at the log end
//	56  4   how many of its index entries cover that
//	60  4   its generation
//	64  4   number of .txnindex files; of each: base offset (8), number of entries (4)
//	-   4   length of the producers' state, then the state
//	-   4   CRC-32C
type snapshot struct {
	id         TopicID
	end        int64
	start      int64
	base       int64
	size       int64
	entries    uint32
	generation uint32
	aborted    map[int64]int
	producers  []byte

	swaps uint64 // when it was captured; not in the file
}

const (
	snapshotMagic     = "KBSN"
	snapshotFixedSize = 60 // after the side header, up to and with the number of files
	snapshotFileSize  = 12
)

func (s *snapshot) encode() []byte {
	body := make([]byte, 0, snapshotFixedSize+len(s.aborted)*snapshotFileSize+4+len(s.producers))
	body = append(body, s.id[:]...)
	body = binary.BigEndian.AppendUint64(body, uint64(s.end))
	body = binary.BigEndian.AppendUint64(body, uint64(s.start))
	body = binary.BigEndian.AppendUint64(body, uint64(s.base))
	body = binary.BigEndian.AppendUint64(body, uint64(s.size))
	body = binary.BigEndian.AppendUint32(body, s.entries)
	body = binary.BigEndian.AppendUint32(body, s.generation)
	body = binary.BigEndian.AppendUint32(body, uint32(len(s.aborted)))
	bases := make([]int64, 0, len(s.aborted))
	for base := range s.aborted {
		bases = append(bases, base)
	}
	slices.Sort(bases)
	for _, base := range bases {
		body = binary.BigEndian.AppendUint64(body, uint64(base))
		body = binary.BigEndian.AppendUint32(body, uint32(s.aborted[base]))
	}
	body = binary.BigEndian.AppendUint32(body, uint32(len(s.producers)))
	return encodeSide(snapshotMagic, append(body, s.producers...))
}

// readSnapshot reads the log's snapshot from the disk; nil if there is none. Errors: those of decodeSnapshot and of the disk.
func (l *Log) readSnapshot() (*snapshot, error) {
	b, err := readFile(l.set.fs, filepath.Join(l.dir, snapshotName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeSnapshot(b)
}

// decodeSnapshot reads a snapshot file. Errors: errSideFile; *segment.VersionError.
func decodeSnapshot(b []byte) (*snapshot, error) {
	body, err := decodeSide(snapshotName, snapshotMagic, b)
	if err != nil {
		return nil, err
	}
	bad := func(what string) error { return fmt.Errorf("%s: %w: %s", snapshotName, errSideFile, what) }
	if len(body) < snapshotFixedSize {
		return nil, bad("length")
	}
	s := &snapshot{
		id:         TopicID(body[:16]),
		end:        int64(binary.BigEndian.Uint64(body[16:])),
		start:      int64(binary.BigEndian.Uint64(body[24:])),
		base:       int64(binary.BigEndian.Uint64(body[32:])),
		size:       int64(binary.BigEndian.Uint64(body[40:])),
		entries:    binary.BigEndian.Uint32(body[48:]),
		generation: binary.BigEndian.Uint32(body[52:]),
	}
	count := int64(binary.BigEndian.Uint32(body[56:]))
	body = body[snapshotFixedSize:]
	if int64(len(body)) < count*snapshotFileSize+4 {
		return nil, bad("number of files")
	}
	for range count {
		if s.aborted == nil {
			s.aborted = map[int64]int{}
		}
		s.aborted[int64(binary.BigEndian.Uint64(body))] = int(binary.BigEndian.Uint32(body[8:]))
		body = body[snapshotFileSize:]
	}
	if int64(binary.BigEndian.Uint32(body)) != int64(len(body)-4) {
		return nil, bad("length of the producers' state")
	}
	s.producers = body[4:]
	if s.base < 0 || s.end < s.base || s.size < 0 || s.start < 0 {
		return nil, bad("offsets")
	}
	return s, nil
}
