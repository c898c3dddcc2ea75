package segment

import (
	"fmt"
	"io"
	"slices"

	"github.com/kbroker/kbroker/protocol/batch"
)

// readAheadBytes is how much Batches reads at a time, unless a run is larger.
const readAheadBytes = 1 << 20

// Batches calls visit with each batch of a sealed segment, whole, in order, valid until visit returns. Every run is checked,
// on the very bytes that are handed out, against the batches' checksums and against its index entry, whatever was verified
// before: what is copied must not hide that it has rotted. pace, if not nil, is called before so many bytes are read. An
// error of visit or pace ends it. Other errors: *DamagedError; ErrIndex, after which Rebuild tells what is wrong;
// ErrFileClosed; of the disk.
func (s *Segment) Batches(pace func(bytes int) error, visit func(b batch.Batch) error) error {
	s.mu.Lock()
	size, entries := s.size, s.entries
	damage := slices.Clone(s.damage)
	s.mu.Unlock()
	if len(damage) > 0 {
		return &DamagedError{Damage: damage[0]}
	}
	f, err := s.data.Acquire()
	if err != nil {
		return err
	}
	defer s.data.Release()
	index, err := s.readIndexFile()
	if err != nil {
		return err
	}
	defer index.close()
	r := &runReader{file: f, end: size, gaps: s.header.Generation > 0, pace: pace}
	pos := int64(0)
	for number := range entries {
		run, err := index.buffered(number, entries)
		if err != nil {
			return err
		}
		if run.Position != pos {
			return fmt.Errorf("%w: run at byte %d, after one that ends at %d", ErrIndex, run.Position, pos)
		}
		if err = r.run(run, visit); err != nil {
			return err
		}
		pos = run.End()
	}
	if pos != size {
		return fmt.Errorf("%w: none covers byte %d", ErrIndex, pos)
	}
	return nil
}

// buffered is entry for a caller that reads one after another, the first one first.
func (r *indexReader) buffered(number, entries uint32) (Run, error) {
	const held = walkBufferBytes / EntrySize
	at := number % held
	if at == 0 {
		n := min(held, entries-number)
		if err := r.read((*r.buf)[:n*EntrySize], number); err != nil {
			return Run{}, err
		}
	}
	return r.s.decodeRun((*r.buf)[at*EntrySize:(at+1)*EntrySize], number)
}

// runReader reads runs one after another.
type runReader struct {
	file io.ReaderAt
	end  int64 // of the data
	gaps bool
	pace func(bytes int) error

	buf []byte
	pos int64 // of buf[0] in the file
}

// window returns the bytes of a run.
func (r *runReader) window(run Run) ([]byte, error) {
	if from := run.Position - r.pos; from >= 0 && run.End() <= r.pos+int64(len(r.buf)) {
		return r.buf[from : from+run.Size], nil
	}
	if run.End() > r.end {
		return nil, fmt.Errorf("%w: run ends at byte %d, the data at %d", ErrIndex, run.End(), r.end)
	}
	n := int(min(max(run.Size, readAheadBytes), r.end-run.Position))
	if r.pace != nil {
		if err := r.pace(n); err != nil {
			return nil, err
		}
	}
	r.buf, r.pos = slices.Grow(r.buf[:0], n)[:n], run.Position
	if err := readFull(r.file, r.buf, run.Position); err != nil {
		r.buf = r.buf[:0]
		return nil, suspect(shortAsBad(err, run.Position))
	}
	return r.buf[:run.Size], nil
}

// run checks a run and hands out its batches.
func (r *runReader) run(run Run, visit func(b batch.Batch) error) error {
	b, err := r.window(run)
	if err != nil {
		return err
	}
	if err = checkRun(run, b, r.gaps); err != nil {
		return suspect(err)
	}
	for len(b) > 0 {
		first, rest, err := batch.Next(b, 0)
		if err != nil {
			return err
		}
		if err = visit(first); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// checkRun checks that bytes are what an index entry says of them.
func checkRun(run Run, b []byte, gaps bool) error {
	c := chain{next: run.First, gaps: gaps}
	sum := uint32(0)
	for pos := run.Position; len(b) > 0; {
		first, rest, err := batch.Next(b, 0)
		if err == nil {
			err = first.VerifyChecksum()
		}
		if err != nil {
			return &BadBatch{Position: pos, Kind: "batch", Err: err}
		}
		if first.LastOffsetDelta() < 0 || first.BaseOffset() < 0 {
			return &BadBatch{Position: pos, Kind: "batch offsets"}
		}
		if err = c.follow(first, pos); err != nil {
			return err
		}
		sum = batch.UpdateChecksum(sum, first[:batch.HeaderSize])
		pos += int64(len(first))
		b = rest
	}
	if c.next != run.Last+1 || sum != run.HeadersCRC {
		return &BadBatch{Position: run.Position, Kind: "batch headers of a run"}
	}
	return nil
}
