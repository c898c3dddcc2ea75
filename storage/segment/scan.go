package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/kbroker/kbroker/protocol/batch"
)

// scanBufferBytes is how much a scan reads at a time: it fits the second-level cache, and is worth a system call.
const scanBufferBytes = 256 << 10

// BadBatch says why bytes at a position are no batch that belongs there. It is not an error of the disk.
type BadBatch struct {
	Position int64
	Kind     string
	Err      error // of the batch's own checks, or nil
}

// Error names the position and the kind.
func (e *BadBatch) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("byte %d: %s: %v", e.Position, e.Kind, e.Err)
	}
	return fmt.Sprintf("byte %d: %s", e.Position, e.Kind)
}

// Unwrap returns the batch's own error.
func (e *BadBatch) Unwrap() error { return e.Err }

// scanner reads batches one after another through a bounded buffer. It is used by one goroutine at a time.
type scanner struct {
	file io.ReaderAt
	buf  []byte // whole capacity
	pos  int64  // of buf[0] in the file
	have int    // bytes of buf that are filled
	ask  int    // how much to read at a time
	seen seen
}

// newScanner makes a scanner that reads ask bytes at a time into buf.
func newScanner(file io.ReaderAt, buf []byte, ask int) *scanner {
	return &scanner{file: file, buf: buf, ask: min(max(ask, batch.HeaderSize), len(buf))}
}

// window returns n bytes from pos on, n being at most len(buf), which stay valid until the next call. End is where the
// range that may be read ends.
func (s *scanner) window(pos int64, n int, end int64) ([]byte, error) {
	if pos >= s.pos && pos+int64(n) <= s.pos+int64(s.have) {
		from := int(pos - s.pos)
		return s.buf[from : from+n], nil
	}
	want := int(min(int64(max(n, s.ask)), end-pos))
	if want < n {
		return nil, io.ErrUnexpectedEOF
	}
	s.have = 0
	if err := readFull(s.file, s.buf[:want], pos); err != nil {
		return nil, err
	}
	s.pos, s.have = pos, want
	return s.buf[:n], nil
}

// header reads and checks the header at pos of a batch that must end by end. It returns a *BadBatch or an error of the
// disk. The batch returned is the header alone, valid until the next call.
func (s *scanner) header(pos, end int64) (batch.Batch, int64, error) {
	if end-pos < batch.HeaderSize {
		return nil, 0, &BadBatch{Position: pos, Kind: "cut header", Err: batch.ErrShort}
	}
	h, err := s.window(pos, batch.HeaderSize, end)
	if err != nil {
		return nil, 0, shortAsBad(err, pos)
	}
	size, err := batch.Size(h, 0)
	if err != nil {
		return nil, 0, &BadBatch{Position: pos, Kind: "batch header", Err: err}
	}
	b := batch.Batch(h)
	if b.LastOffsetDelta() < 0 || b.BaseOffset() < 0 {
		return nil, 0, &BadBatch{Position: pos, Kind: "batch offsets"}
	}
	if int64(size) > end-pos {
		return nil, 0, &BadBatch{Position: pos, Kind: "cut batch", Err: batch.ErrShort}
	}
	return b, int64(size), nil
}

// batch reads and checks the whole batch at pos, checksum included. The bytes returned are the header alone, unless the
// batch fits the buffer, in which case they are all of it.
func (s *scanner) batch(pos, end int64) (batch.Batch, int64, error) {
	h, size, err := s.header(pos, end)
	if err != nil {
		return nil, 0, err
	}
	if size > int64(len(s.buf)) {
		return s.large(h, pos, size)
	}
	b, err := s.window(pos, int(size), end)
	if err != nil {
		return nil, 0, shortAsBad(err, pos)
	}
	if err := batch.Batch(b).VerifyChecksum(); err != nil {
		return nil, 0, &BadBatch{Position: pos, Kind: "batch checksum", Err: err}
	}
	return b, size, nil
}

// large checks a batch that doesn't fit the buffer, piece by piece.
func (s *scanner) large(h batch.Batch, pos, size int64) (batch.Batch, int64, error) {
	header := batch.Batch(append([]byte(nil), h[:batch.HeaderSize]...))
	sum := uint32(0)
	for at := pos + crcStart; at < pos+size; {
		n := int(min(int64(len(s.buf)), pos+size-at))
		piece, err := s.window(at, n, pos+size)
		if err != nil {
			return nil, 0, shortAsBad(err, pos)
		}
		sum = batch.UpdateChecksum(sum, piece)
		at += int64(n)
	}
	if sum != header.CRC() {
		return nil, 0, &BadBatch{Position: pos, Kind: "batch checksum", Err: batch.ErrChecksum}
	}
	return header, size, nil
}

// crcStart is where the part of a batch begins that its checksum covers.
const crcStart = 21

// shortAsBad turns the end of the file into a cut batch; other errors are the disk's.
func shortAsBad(err error, pos int64) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return &BadBatch{Position: pos, Kind: "cut batch", Err: err}
	}
	return err
}

// isBad says whether err is about the bytes rather than about reading them.
func isBad(err error) bool {
	var bad *BadBatch
	return errors.As(err, &bad)
}
