package segment

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs"
)

// blockEntries is how many index entries are read at a time: a page.
const blockEntries = 128

// ErrIndex is returned when an index entry that is needed doesn't verify. The data may be sound: Rebuild tells.
var ErrIndex = errors.New("index entry doesn't verify")

// view is what a reader needs of a segment's state, taken at one moment.
type view struct {
	size, next int64
	entries    uint32
	pending    Run // the run that holds the offset asked for, or the last before it, if it has no entry yet
	isPending  bool
}

// look takes a view for an offset.
func (s *Segment) look(offset int64) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := view{size: s.size, next: s.next, entries: s.entries}
	if n := len(s.pending); n > 0 && offset >= s.pending[0].First {
		i := sort.Search(n, func(i int) bool { return s.pending[i].First > offset })
		v.pending, v.isPending = s.pending[i-1], true
	}
	return v
}

// indexReader reads entries of a segment's index file. It is used by one goroutine at a time.
type indexReader struct {
	s    *Segment
	file *File
	open vfs.File
	buf  *[]byte
}

// readIndexFile makes a reader, which is to be closed.
func (s *Segment) readIndexFile() (*indexReader, error) {
	file := s.index.Load()
	open, err := file.Acquire()
	if err != nil {
		return nil, err
	}
	return &indexReader{s: s, file: file, open: open, buf: s.files.walkBuffer()}, nil
}

func (r *indexReader) close() {
	r.s.files.putWalkBuffer(r.buf)
	r.file.Release()
}

// entry reads the entry with a number.
func (r *indexReader) entry(number uint32) (Run, error) {
	b := (*r.buf)[:EntrySize]
	if err := r.read(b, number); err != nil {
		return Run{}, err
	}
	return r.s.decodeRunWith(b, number, r.scratch())
}

// scratch is the end of the buffer, which entries don't reach.
func (r *indexReader) scratch() []byte { return (*r.buf)[blockEntries*EntrySize:] }

func (r *indexReader) read(b []byte, number uint32) error {
	err := readFull(r.open, b, entryPosition(number))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: number %d is missing", ErrIndex, number)
	}
	return err
}

// decodeRun reads an entry's bytes.
func (s *Segment) decodeRun(b []byte, number uint32) (Run, error) {
	return s.decodeRunWith(b, number, make([]byte, seedSize))
}

// decodeRunWith is decodeRun with seedSize bytes to work in.
func (s *Segment) decodeRunWith(b []byte, number uint32, scratch []byte) (Run, error) {
	e, ok := decodeEntry(b, s.header, number, scratch)
	r := e.run(s.Base)
	if !ok || !r.sane() {
		return Run{}, fmt.Errorf("%w: number %d", ErrIndex, number)
	}
	return r, nil
}

// sane checks what must hold for any run, whatever the data.
func (r Run) sane() bool {
	return r.Size >= batch.HeaderSize && r.Last >= r.First && r.End() <= MaxSize
}

// entryScan reads entries in order, a block at a time, from a number on, up to n. Nothing else may use its reader meanwhile.
type entryScan struct {
	r         *indexReader
	number, n uint32
	block     []byte // not yet decoded
}

func (e *entryScan) next() (run Run, ok bool, err error) {
	if e.number >= e.n {
		return Run{}, false, nil
	}
	if len(e.block) == 0 {
		e.block = (*e.r.buf)[:min(blockEntries, int(e.n-e.number))*EntrySize]
		if err = e.r.read(e.block, e.number); err != nil {
			return Run{}, false, err
		}
	}
	run, err = e.r.s.decodeRunWith(e.block, e.number, e.r.scratch())
	e.block = e.block[EntrySize:]
	e.number++
	return run, err == nil, err
}

// search finds the first of n entries for which after is true; after must be false for a while and then true. It returns n
// if there is none.
func (r *indexReader) search(n uint32, after func(Run) bool) (uint32, error) {
	low, high := uint32(0), n // the answer lies in [low, high]
	for high-low > blockEntries {
		mid := low + (high-low)/2
		run, err := r.entry(mid)
		if err != nil {
			return 0, err
		}
		if after(run) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	if low == high {
		return low, nil
	}
	block := (*r.buf)[:int(high-low)*EntrySize]
	if err := r.read(block, low); err != nil {
		return 0, err
	}
	var bad error
	i := sort.Search(int(high-low), func(i int) bool {
		run, err := r.s.decodeRunWith(block[i*EntrySize:], low+uint32(i), r.scratch())
		if err != nil {
			bad = err
			return true
		}
		return after(run)
	})
	return low + uint32(i), bad
}

// runWith finds the run that holds an offset, or the last one before it. It returns false if there is none.
func (s *Segment) runWith(v view, offset int64) (r Run, found bool, err error) {
	if v.isPending {
		return v.pending, true, nil
	}
	if v.entries == 0 {
		return Run{}, false, nil
	}
	index, err := s.readIndexFile()
	if err != nil {
		return Run{}, false, err
	}
	defer index.close()
	number, err := index.search(v.entries, func(r Run) bool { return r.First > offset })
	if err != nil || number == 0 {
		return Run{}, false, err
	}
	r, err = index.entry(number - 1)
	return r, err == nil, err
}
