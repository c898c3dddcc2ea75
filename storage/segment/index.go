package segment

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/kbroker/kbroker/protocol/batch"
)

// blockEntries is how many index entries are read at a time: a page.
const blockEntries = 128

// ErrIndex is returned when an index entry that is needed doesn't verify. The data may be sound: Rebuild tells.
var ErrIndex = errors.New("index entry doesn't verify")

// view is what a reader needs of a segment's state, taken at one moment.
type view struct {
	size, next int64
	entries    uint32
	pending    []Run
}

// look takes a view. The pending runs are copied, for the last of them may grow.
func (s *Segment) look(offsetHint int64) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := view{size: s.size, next: s.next, entries: s.entries}
	if n := len(s.pending); n > 0 && offsetHint >= s.pending[0].First {
		i := sort.Search(n, func(i int) bool { return s.pending[i].First > offsetHint })
		v.pending = []Run{s.pending[i-1]}
	}
	return v
}

// readEntry reads one entry.
func (s *Segment) readEntry(f io.ReaderAt, number uint32) (Run, error) {
	var b [EntrySize]byte
	runs, err := s.readEntries(f, number, nil, b[:])
	if err != nil {
		return Run{}, err
	}
	return runs[0], nil
}

// readEntries reads as many entries from number on as buf has room for, and appends them to dst.
func (s *Segment) readEntries(f io.ReaderAt, number uint32, dst []Run, buf []byte) ([]Run, error) {
	if err := readFull(f, buf, entryPosition(number)); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return dst, fmt.Errorf("%w: number %d is missing", ErrIndex, number)
		}
		return dst, err
	}
	for i := 0; i+EntrySize <= len(buf); i += EntrySize {
		e, ok := DecodeEntry(buf[i:], s.header, number)
		r := e.run(s.Base)
		if !ok || !r.sane() {
			return dst, fmt.Errorf("%w: number %d", ErrIndex, number)
		}
		dst = append(dst, r)
		number++
	}
	return dst, nil
}

// sane checks what must hold for any run, whatever the data.
func (r Run) sane() bool {
	return r.Size >= batch.HeaderSize && r.Last >= r.First && r.End() <= MaxSize
}

// searchEntries finds the first of n entries for which after is true; after must be false for a while and then true. It
// returns n if there is none, and the run of that entry or, if there is none, the zero one.
func (s *Segment) searchEntries(f io.ReaderAt, n uint32, after func(Run) bool) (uint32, error) {
	low, high := uint32(0), n // the answer lies in [low, high]
	for high-low > blockEntries {
		mid := low + (high-low)/2
		r, err := s.readEntry(f, mid)
		if err != nil {
			return 0, err
		}
		if after(r) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	if low == high {
		return low, nil
	}
	var b [blockEntries * EntrySize]byte
	var space [blockEntries]Run
	runs, err := s.readEntries(f, low, space[:0], b[:int(high-low)*EntrySize])
	if err != nil {
		return 0, err
	}
	return low + uint32(sort.Search(len(runs), func(i int) bool { return after(runs[i]) })), nil
}

// runWith finds the run that holds an offset, or the last one before it. It returns false if there is none.
func (s *Segment) runWith(v view, offset int64) (r Run, number uint32, found bool, err error) {
	if len(v.pending) > 0 {
		return v.pending[0], v.entries, true, nil
	}
	if v.entries == 0 {
		return Run{}, 0, false, nil
	}
	index := s.index.Load()
	f, err := index.Acquire()
	if err != nil {
		return Run{}, 0, false, err
	}
	defer index.Release()
	number, err = s.searchEntries(f, v.entries, func(r Run) bool { return r.First > offset })
	if err != nil {
		return Run{}, 0, false, err
	}
	if number == 0 {
		return Run{}, 0, false, nil
	}
	r, err = s.readEntry(f, number-1)
	return r, number - 1, err == nil, err
}
