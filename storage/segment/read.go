package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/kbroker/kbroker/protocol/batch"
)

const (
	// walkBufferBytes is how much is read at a time to go from header to header: about an index interval.
	walkBufferBytes = 4096 + batch.HeaderSize
	// maxVerifyBytes bounds what one Read verifies, so that a large read of cold data answers in time.
	maxVerifyBytes = 4 << 20
)

// DamagedError is returned when the offset asked for lies in a damaged range.
type DamagedError struct{ Damage }

// Error names the range.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("offsets %d to %d, bytes %d to %d: %s", e.First, e.Next-1, e.From, e.To, e.Kind)
}

// Location is where a batch lies, and what its header says.
type Location struct {
	Position, Size int64
	First, Last    int64 // offsets
	MaxTimestamp   int64
	LeaderEpoch    int32
}

func locate(h batch.Batch, pos, size int64) Location {
	return Location{
		Position: pos, Size: size, First: h.BaseOffset(), Last: h.LastOffset(),
		MaxTimestamp: batchTime(h), LeaderEpoch: h.LeaderEpoch(),
	}
}

// Find returns the batch that holds an offset or, where compaction left a gap, the next one. found is false if the segment
// ends before. Errors: *DamagedError; ErrIndex, after which Rebuild helps; of the disk.
func (s *Segment) Find(offset int64) (loc Location, found bool, err error) {
	if err = s.damagedAt(offset); err != nil {
		return Location{}, false, err
	}
	v := s.look(offset)
	run, ok, err := s.runWith(v, offset)
	if err != nil {
		return Location{}, false, err
	}
	from := int64(0)
	if ok {
		from = run.Position
	}
	err = s.walk(from, 1, func(h batch.Batch, pos, size int64) bool {
		found = h.LastOffset() >= offset
		if found {
			loc = locate(h, pos, size)
		}
		return !found
	})
	return loc, found && err == nil, err
}

// FindTime returns the first batch that has a record at or above an offset and a maximum timestamp of at least ms, in ms.
// Damaged ranges are passed over. Errors are as for Find.
func (s *Segment) FindTime(ms, offset int64) (loc Location, found bool, err error) {
	from, found, err := s.positionOfTime(ms)
	if err != nil || !found {
		return Location{}, false, err
	}
	found = false
	err = s.walk(from, maxVerifyBytes, func(h batch.Batch, pos, size int64) bool {
		found = batchTime(h) >= ms && h.LastOffset() >= offset
		if found {
			loc = locate(h, pos, size)
		}
		return !found
	})
	return loc, found && err == nil, err
}

// MaxTime returns the first batch with the largest timestamp among those with offsets from first up to, not including,
// next. found is false if there is none with a timestamp.
func (s *Segment) MaxTime(first, next int64) (loc Location, found bool, err error) {
	from := int64(0)
	if first <= s.Base && next >= s.Next() {
		if from, found, err = s.positionOfTime(s.MaxTimestamp()); err != nil || !found {
			return Location{}, false, err
		}
		found = false
	}
	err = s.walk(from, maxVerifyBytes, func(h batch.Batch, pos, size int64) bool {
		if h.BaseOffset() >= next {
			return false
		}
		if h.LastOffset() >= first && batchTime(h) >= 0 && (!found || batchTime(h) > loc.MaxTimestamp) {
			loc, found = locate(h, pos, size), true
		}
		return true
	})
	return loc, found && err == nil, err
}

// positionOfTime returns the position of the first run at whose end the running maximum is at least ms.
func (s *Segment) positionOfTime(ms int64) (pos int64, found bool, err error) {
	s.mu.Lock()
	entries := s.entries
	for _, r := range s.pending {
		if r.MaxTimestamp >= ms {
			pos, found = r.Position, true
			break
		}
	}
	s.mu.Unlock()
	if entries == 0 {
		return pos, found, nil
	}
	index, err := s.readIndexFile()
	if err != nil {
		return 0, false, err
	}
	defer index.close()
	number, err := index.search(entries, func(r Run) bool { return r.MaxTimestamp >= ms })
	if err != nil || number == entries {
		return pos, found, err
	}
	r, err := index.entry(number)
	return r.Position, err == nil, err
}

// walk calls visit with the header of each batch from the run at position from on, having verified it, until visit returns
// false or the segment ends. Damaged ranges are passed over. ahead is how many bytes to verify at a time, at least a run.
func (s *Segment) walk(from, ahead int64, visit func(h batch.Batch, pos, size int64) bool) error {
	f, err := s.data.Acquire()
	if err != nil {
		return err
	}
	defer s.data.Release()
	buf := s.files.walkBuffer()
	defer s.files.putWalkBuffer(buf)
	sc := newScanner(f, *buf, walkBufferBytes)
	for pos, end := from, s.Size(); pos < end; {
		if to := s.damageEnd(pos); to > pos {
			pos = to
			continue
		}
		sound, err := s.verify(f, pos, min(pos+ahead, end))
		if err != nil {
			return err
		}
		for sound = min(sound, end); pos < sound; {
			h, size, err := sc.header(pos, sound)
			if err != nil {
				return suspect(err)
			}
			if !visit(h, pos, size) {
				return nil
			}
			pos += size
		}
	}
	return nil
}

// suspect turns what a batch's check found into ErrIndex: whether the data or the index is wrong is for Rebuild to say.
func suspect(err error) error {
	if isBad(err) {
		return fmt.Errorf("%w: %w", ErrIndex, err)
	}
	return err
}

// verify makes sure that the bytes from pos up to at least target, both within the batches, are sound, and returns up to
// where they are.
func (s *Segment) verify(f io.ReaderAt, pos, target int64) (int64, error) {
	s.mu.Lock()
	sound, entries := s.trusted(pos), s.entries
	s.mu.Unlock()
	if sound >= target {
		return sound, nil
	}
	index, err := s.readIndexFile()
	if err != nil {
		return 0, err
	}
	defer index.close()
	number, err := index.search(entries, func(r Run) bool { return r.End() > sound })
	if err != nil {
		return 0, err
	}
	buf := s.files.scanBuffer()
	defer s.files.putScanBuffer(buf)
	sc := newScanner(f, *buf, int(min(max(target-sound, walkBufferBytes), scanBufferBytes)))
	entriesFrom := entryScan{r: index, number: number, n: entries}
	for sound < target {
		r, ok, err := entriesFrom.next()
		switch {
		case err != nil:
			return s.partly(pos, sound, err)
		case !ok:
			return s.partly(pos, sound, fmt.Errorf("%w: none covers byte %d", ErrIndex, sound))
		case r.Position > sound: // damaged bytes lie before it, or the index can't be right
			return s.partly(pos, sound, fmt.Errorf("%w: run at byte %d, after one that ends at %d", ErrIndex, r.Position, sound))
		}
		if err := sc.run(r, s.header.Generation > 0, nil); err != nil {
			return s.partly(pos, sound, suspect(err))
		}
		sound = r.End()
		s.mu.Lock()
		s.trust(r.Position, sound)
		s.mu.Unlock()
	}
	return sound, nil
}

// partly returns what was verified before an error, if anything was: the error comes back with the next read.
func (s *Segment) partly(pos, sound int64, err error) (int64, error) {
	if sound > pos {
		return sound, nil
	}
	return 0, err
}

// run checks that the bytes of a run are what its entry says. visit, if any, gets each batch once the whole run has been
// found sound; it sees the header, and control batches whole.
func (s *scanner) run(r Run, gaps bool, visit func(b batch.Batch, pos, size int64)) error {
	c := chain{next: r.First, gaps: gaps}
	sum := uint32(0)
	s.seen.reset()
	for pos := r.Position; pos < r.End(); {
		b, size, err := s.batch(pos, r.End())
		if err != nil {
			return err
		}
		if err := c.follow(b, pos); err != nil {
			return err
		}
		sum = batch.UpdateChecksum(sum, b[:batch.HeaderSize])
		if visit != nil {
			s.seen.add(b, pos, size)
		}
		pos += size
	}
	if c.next != r.Last+1 || sum != r.HeadersCRC {
		return &BadBatch{Position: r.Position, Kind: "batch headers of a run"}
	}
	s.seen.each(visit)
	return nil
}

// seen keeps what a visitor needs of the batches of a run until it has been found sound: the header, or all of a control
// batch, which is small. Its memory is used again for the next run.
type seen struct {
	bytes   []byte
	batches []seenBatch
}

type seenBatch struct {
	length    int // in bytes
	pos, size int64
}

func (s *seen) reset() { s.bytes, s.batches = s.bytes[:0], s.batches[:0] }

func (s *seen) add(b batch.Batch, pos, size int64) {
	n := batch.HeaderSize
	if b.IsControl() {
		n = len(b)
	}
	s.bytes = append(s.bytes, b[:n]...)
	s.batches = append(s.batches, seenBatch{length: n, pos: pos, size: size})
}

func (s *seen) each(visit func(b batch.Batch, pos, size int64)) {
	rest := s.bytes
	for _, b := range s.batches {
		visit(batch.Batch(rest[:b.length:b.length]), b.pos, b.size)
		rest = rest[b.length:]
	}
}

// chain checks that batches follow each other.
type chain struct {
	next int64
	gaps bool // compaction may have left out offsets
}

func (c *chain) follow(b batch.Batch, pos int64) error {
	base := b.BaseOffset()
	if base < c.next || (base > c.next && !c.gaps) {
		return &BadBatch{Position: pos, Kind: fmt.Sprintf("base offset %d where %d was due", base, c.next)}
	}
	c.next = b.NextOffset()
	return nil
}

// Read makes a range that starts with the batch at loc. It is at most maxBytes long, but holds the first batch whole, and
// ends before position limit, before the next damaged range, and before what doesn't verify. A range may end inside a batch.
func (s *Segment) Read(loc Location, maxBytes, limit int64) (*Range, error) {
	end := min(limit, s.damageAfter(loc))
	end = min(end, loc.Position+max(maxBytes, loc.Size))
	f, err := s.data.Acquire()
	if err != nil {
		return nil, err
	}
	sound, err := s.verify(f, loc.Position, min(end, loc.Position+max(maxVerifyBytes, loc.Size)))
	if err != nil {
		s.data.Release()
		return nil, err
	}
	return &Range{file: s.data, open: f, pos: loc.Position, size: min(end, sound) - loc.Position}, nil
}

// OffsetAfter is an offset that no batch reaches which begins before a position; the offset after the run that holds the byte before
// it. Errors are as for Find.
func (s *Segment) OffsetAfter(pos int64) (int64, error) {
	s.mu.Lock()
	next, entries := s.next, s.entries
	for _, r := range s.pending {
		if r.Position < pos {
			next = r.Last + 1
		}
		if r.End() >= pos {
			break
		}
	}
	inIndex := len(s.pending) == 0 || s.pending[0].Position >= pos
	s.mu.Unlock()
	if !inIndex || entries == 0 {
		return next, nil
	}
	index, err := s.readIndexFile()
	if err != nil {
		return 0, err
	}
	defer index.close()
	number, err := index.search(entries, func(r Run) bool { return r.End() >= pos })
	if err != nil || number == entries {
		return next, err
	}
	r, err := index.entry(number)
	return r.Last + 1, err
}

// ReadBatch reads a whole verified batch into memory.
func (s *Segment) ReadBatch(loc Location) (batch.Batch, error) {
	r, err := s.Read(loc, 0, loc.Position+loc.Size)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	b, err := r.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != loc.Size {
		return nil, fmt.Errorf("read batch at %d: %w", loc.First, io.ErrUnexpectedEOF)
	}
	return b, nil
}

// damagedAt returns a *DamagedError if an offset lies in a damaged range.
func (s *Segment) damagedAt(offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.damage {
		if offset >= d.First && offset < d.Next {
			return &DamagedError{Damage: d}
		}
	}
	return nil
}

// damageEnd returns the end of the damaged range that holds a position, or the position.
func (s *Segment) damageEnd(pos int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.damage {
		if pos >= d.From && pos < d.To {
			return d.To
		}
	}
	return pos
}

// damageAfter returns where the first damaged range after a batch begins, or MaxSize.
func (s *Segment) damageAfter(loc Location) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := int64(MaxSize)
	for _, d := range s.damage {
		if d.First > loc.First {
			from = min(from, d.From)
		}
	}
	return from
}

// IsClosed says whether err is about a file that was closed because its segment is gone: look again.
func IsClosed(err error) bool { return errors.Is(err, ErrFileClosed) }
