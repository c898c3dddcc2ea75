package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kbroker/kbroker/protocol/batch"
)

// Sizes in bytes.
const (
	// HeaderSize is the length of the header of an index file.
	HeaderSize = 32
	// EntrySize is the length of an index entry.
	EntrySize = 32
	// MaxSize bounds a data file: positions are 32 bits in the index.
	MaxSize = 1<<32 - 1
	// MaxRelativeOffset bounds how far an offset may lie above the segment's base.
	MaxRelativeOffset = 1<<31 - 1
)

// FormatVersion is the version in the header of every side file.
const FormatVersion = 1

// Magic is the first four bytes of a side file, one value for each kind.
type Magic string

// The kinds of side files.
const (
	MagicIndex    Magic = "KBIX"
	MagicTxnIndex Magic = "KBTX"
)

// Suffixes of file names.
const (
	SuffixData     = ".log"
	SuffixIndex    = ".index"
	SuffixTxnIndex = ".txnindex"
)

// ErrHeader is returned when the header of a side file is cut, has another magic or base offset, or a wrong checksum.
var ErrHeader = errors.New("header doesn't verify")

// VersionError is returned when a file's header verifies but its version or flags are not known. Nothing is guessed then.
type VersionError struct {
	File    string
	Version uint16
	Flags   uint16
}

// Error names the file and what was found.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: format version %d with flags %#04x is not known; this build reads version %d",
		e.File, e.Version, e.Flags, FormatVersion)
}

// FileName is the name of a segment's file: the base offset in 20 digits and a suffix.
func FileName(base int64, suffix string) string { return fmt.Sprintf("%020d%s", base, suffix) }

// ParseFileName takes a file name apart. ok is false if it isn't one of a segment.
func ParseFileName(name string) (base int64, suffix string, ok bool) {
	digits, ext, found := strings.Cut(name, ".")
	if !found || len(digits) != 20 || digits[0] > '9' || digits[0] < '0' {
		return 0, "", false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || base < 0 {
		return 0, "", false
	}
	return base, "." + ext, true
}

// Header is the first 32 bytes of an index file:
//
//	0   4  magic
//	4   2  version
//	6   2  flags, 0
//	8   8  base offset
//	16  8  creation time, ms since the Unix epoch, for information
//	24  4  CRC-32C of bytes 0-23 and 28-31
//	28  4  generation
type Header struct {
	Base       int64
	CreatedMs  int64
	Generation uint32
}

// Append adds the encoded header to dst.
func (h Header) Append(dst []byte, m Magic) []byte {
	var b [HeaderSize]byte
	copy(b[:4], m)
	binary.BigEndian.PutUint16(b[4:], FormatVersion)
	binary.BigEndian.PutUint64(b[8:], uint64(h.Base))
	binary.BigEndian.PutUint64(b[16:], uint64(h.CreatedMs))
	binary.BigEndian.PutUint32(b[28:], h.Generation)
	binary.BigEndian.PutUint32(b[24:], headerChecksum(b[:]))
	return append(dst, b[:]...)
}

// DecodeHeader reads the header of the file called name, which belongs to the segment at base. It returns ErrHeader or a
// *VersionError.
func DecodeHeader(b []byte, m Magic, name string, base int64) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("%s: %w: %d bytes", name, ErrHeader, len(b))
	}
	if string(b[:4]) != string(m) || headerChecksum(b) != binary.BigEndian.Uint32(b[24:]) {
		return Header{}, fmt.Errorf("%s: %w", name, ErrHeader)
	}
	version, flags := binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
	if version != FormatVersion || flags != 0 {
		return Header{}, &VersionError{File: name, Version: version, Flags: flags}
	}
	h := Header{
		Base:       int64(binary.BigEndian.Uint64(b[8:])),
		CreatedMs:  int64(binary.BigEndian.Uint64(b[16:])),
		Generation: binary.BigEndian.Uint32(b[28:]),
	}
	if h.Base != base {
		return Header{}, fmt.Errorf("%s: %w: base offset %d", name, ErrHeader, h.Base)
	}
	return h, nil
}

func headerChecksum(b []byte) uint32 {
	return batch.UpdateChecksum(batch.Checksum(b[:24]), b[28:HeaderSize])
}

// Entry is one index entry, 32 bytes:
//
//	0   4  offset of the run's first batch, relative to the segment's base
//	4   4  position of the run in the data file
//	8   4  size of the run in bytes
//	12  4  last offset of the run, relative to its first
//	16  8  largest timestamp of all batches of the segment up to the end of the run, ms; -1 if none has one
//	24  4  CRC-32C over the 61 byte headers of the run's batches
//	28  4  CRC-32C over base offset (8), generation (4), the entry's number (4) and bytes 0-27
type Entry struct {
	RelativeOffset uint32
	Position       uint32
	Size           uint32
	LastDelta      uint32
	MaxTimestamp   int64
	HeadersCRC     uint32
}

// seedSize is the length of what ties an entry's checksum to its place.
const seedSize = 16

// Append adds the encoded entry with a number, counted from 0, to dst.
func (e Entry) Append(dst []byte, h Header, number uint32) []byte {
	n := len(dst)
	var b [seedSize + EntrySize]byte
	dst = append(dst, b[:]...) // the seed lies before the entry for as long as the checksum is made: no allocation
	putSeed(dst[n:], h, number)
	e.put(dst[n+seedSize:])
	binary.BigEndian.PutUint32(dst[n+seedSize+28:], batch.Checksum(dst[n:n+seedSize+28]))
	copy(dst[n:], dst[n+seedSize:])
	return dst[:n+EntrySize]
}

func (e Entry) put(b []byte) {
	binary.BigEndian.PutUint32(b[0:], e.RelativeOffset)
	binary.BigEndian.PutUint32(b[4:], e.Position)
	binary.BigEndian.PutUint32(b[8:], e.Size)
	binary.BigEndian.PutUint32(b[12:], e.LastDelta)
	binary.BigEndian.PutUint64(b[16:], uint64(e.MaxTimestamp))
	binary.BigEndian.PutUint32(b[24:], e.HeadersCRC)
}

// DecodeEntry reads the entry with a number. ok is false if it doesn't verify.
func DecodeEntry(b []byte, h Header, number uint32) (e Entry, ok bool) {
	return decodeEntry(b, h, number, make([]byte, seedSize))
}

// decodeEntry is DecodeEntry with seedSize bytes to work in.
func decodeEntry(b []byte, h Header, number uint32, scratch []byte) (e Entry, ok bool) {
	if len(b) < EntrySize {
		return Entry{}, false
	}
	putSeed(scratch, h, number)
	sum := batch.UpdateChecksum(batch.Checksum(scratch[:seedSize]), b[:28])
	if sum != binary.BigEndian.Uint32(b[28:]) {
		return Entry{}, false
	}
	return Entry{
		RelativeOffset: binary.BigEndian.Uint32(b[0:]),
		Position:       binary.BigEndian.Uint32(b[4:]),
		Size:           binary.BigEndian.Uint32(b[8:]),
		LastDelta:      binary.BigEndian.Uint32(b[12:]),
		MaxTimestamp:   int64(binary.BigEndian.Uint64(b[16:])),
		HeadersCRC:     binary.BigEndian.Uint32(b[24:]),
	}, true
}

// putSeed writes what ties an entry to its place, so that a copy of a good entry elsewhere is a bad one.
func putSeed(b []byte, h Header, number uint32) {
	binary.BigEndian.PutUint64(b[0:], uint64(h.Base))
	binary.BigEndian.PutUint32(b[8:], h.Generation)
	binary.BigEndian.PutUint32(b[12:], number)
}

// Run is the batches an index entry covers, in absolute terms.
type Run struct {
	First        int64 // base offset of the first batch
	Last         int64 // last offset of the last batch
	Position     int64
	Size         int64
	MaxTimestamp int64 // running maximum of the segment, ms
	HeadersCRC   uint32
}

// End is the position after the run.
func (r Run) End() int64 { return r.Position + r.Size }

// entry turns the run into an index entry of the segment at base.
func (r Run) entry(base int64) Entry {
	return Entry{
		RelativeOffset: uint32(r.First - base), Position: uint32(r.Position), Size: uint32(r.Size),
		LastDelta: uint32(r.Last - r.First), MaxTimestamp: r.MaxTimestamp, HeadersCRC: r.HeadersCRC,
	}
}

// run turns an index entry of the segment at base into a run.
func (e Entry) run(base int64) Run {
	first := base + int64(e.RelativeOffset)
	return Run{
		First: first, Last: first + int64(e.LastDelta), Position: int64(e.Position), Size: int64(e.Size),
		MaxTimestamp: e.MaxTimestamp, HeadersCRC: e.HeadersCRC,
	}
}

// extend adds a batch, whose header is given, to the run, and reports the new running maximum.
func (r *Run) extend(b batch.Batch, pos, size, maxTimestamp int64) {
	if r.Size == 0 {
		*r = Run{First: b.BaseOffset(), Position: pos}
	}
	r.Last = b.LastOffset()
	r.Size += size
	r.MaxTimestamp = maxTimestamp
	r.HeadersCRC = batch.UpdateChecksum(r.HeadersCRC, b[:batch.HeaderSize])
}
