package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs"
)

// Piece is a range of bytes in which batch follows batch, each of them sound.
type Piece struct {
	From, To    int64 // positions
	First, Next int64 // offsets
	Batches     int
}

// knownAttributes are the attribute bits that have a meaning.
const knownAttributes = 0x7f

// Salvage looks for sound batches in a damaged range of the segment. exact says that the range's end, its position and the
// offset there, is proven; else neither is used.
//
// The checksum of a batch doesn't cover its offset, so one that verifies is taken only with a witness: another one beside
// it whose offset continues it or, if that one is bad, whose header says so; or the proven end of the range. Errors are of
// the disk.
func (s *Segment) Salvage(d Damage, exact bool) ([]Piece, error) {
	f, err := s.data.Acquire()
	if err != nil {
		return nil, err
	}
	defer s.data.Release()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	buf := s.files.scanBuffer()
	defer s.files.putScanBuffer(buf)
	end, limit := min(d.To, size), d.Next
	if !exact {
		limit = s.Base + MaxRelativeOffset
	}
	c := &scrap{scan: newScanner(f, *buf, scanBufferBytes), end: end, limit: limit}
	var pieces []Piece
	first := d.First
	for pos := d.From; pos < end; {
		p, due, err := c.piece(pos, first)
		if err != nil || p.Batches == 0 {
			return pieces, err
		}
		pos = p.To
		if p.Batches > 1 || p.First == due || (exact && p.To == d.To && p.Next == d.Next) {
			pieces = append(pieces, p)
			first = p.Next
		}
	}
	return pieces, nil
}

// scrap is bytes among which sound batches are looked for.
type scrap struct {
	scan  *scanner
	end   int64 // position
	limit int64 // no offset reaches it
}

// piece finds the next sound batches from a position on; no offset lies below first. due is the offset that a bad batch
// right before them says comes next, or -1. Without any, the piece has no batches.
func (c *scrap) piece(pos, first int64) (p Piece, due int64, err error) {
	pos, due, err = c.seek(pos, first)
	if err != nil || pos == c.end {
		return p, due, err
	}
	p = Piece{From: pos, To: pos, Next: first}
	for {
		h, err := c.sound(p.To, p.Next)
		switch {
		case err != nil:
			return p, due, err
		case h.size == 0, p.Batches > 0 && h.first != p.Next:
			return p, due, nil
		case p.Batches == 0:
			p.First = h.first
		}
		p.To += h.size
		p.Next = h.next
		p.Batches++
	}
}

// claim is what a header says of its batch; size is 0 if there is none.
type claim struct{ size, first, next int64 }

// seek finds the first position from pos on at which a sound batch begins, the end if there is none. A batch that is bad
// but says how long it is, and is right about that, is passed over as a whole: what a record holds may look like a batch.
// Then due is the offset after it, by what it says, else -1.
func (c *scrap) seek(pos, first int64) (at, due int64, err error) {
	for ; pos+batch.HeaderSize <= c.end; pos++ {
		h, err := c.sound(pos, first)
		if err != nil || h.size > 0 {
			return pos, -1, err
		}
		if h, err = c.plausible(pos, first); err != nil {
			return pos, -1, err
		}
		if h.size == 0 {
			continue
		}
		if pos+h.size == c.end {
			break
		}
		follows, err := c.sound(pos+h.size, first)
		if err != nil || follows.size > 0 {
			return pos + h.size, h.next, err
		}
	}
	return c.end, -1, nil
}

// plausible is what the header at a position says, if it is one of a batch.
func (c *scrap) plausible(pos, first int64) (claim, error) {
	b, size, err := c.scan.header(pos, c.end)
	if err != nil && !isBad(err) {
		return claim{}, err
	}
	switch {
	case b == nil, b.BaseOffset() < first || b.LastOffset() >= c.limit,
		b.Attributes()&^knownAttributes != 0,
		b.NumRecords() < 0 || int64(b.NumRecords()) > int64(b.LastOffsetDelta())+1,
		b.LeaderEpoch() < 0:
		return claim{}, nil
	}
	return claim{size: size, first: b.BaseOffset(), next: b.NextOffset()}, nil
}

// sound is plausible for a batch that verifies.
func (c *scrap) sound(pos, first int64) (claim, error) {
	h, err := c.plausible(pos, first)
	if err != nil || h.size == 0 {
		return claim{}, err
	}
	_, _, err = c.scan.batch(pos, c.end)
	if isBad(err) {
		return claim{}, nil
	}
	return h, err
}

// CopyTo appends the batches of a range, which must be sound, to w. epoch, if not nil, tells the leader epoch of the batch
// at an offset, which its checksum doesn't cover; a negative one leaves what there is.
func (s *Segment) CopyTo(w *Writer, p Piece, epoch func(offset int64) int32) error {
	f, err := s.data.Acquire()
	if err != nil {
		return err
	}
	defer s.data.Release()
	return scanBatches(f, p.From, p.To, func(b batch.Batch, _ int64) error {
		if epoch != nil {
			if e := epoch(b.BaseOffset()); e >= 0 {
				b.SetLeaderEpoch(e)
			}
		}
		return w.Append(b)
	})
}

// scanBatches calls visit with each batch of a range, whole and verified. What isn't a batch is a *BadBatch.
func scanBatches(f io.ReaderAt, pos, end int64, visit func(b batch.Batch, pos int64) error) error {
	var buf []byte
	for pos < end {
		size, err := sizeAt(f, pos, end)
		if err != nil {
			return err
		}
		if int64(cap(buf)) < size {
			buf = make([]byte, size)
		}
		b := batch.Batch(buf[:size])
		if err = readFull(f, b, pos); err != nil {
			return shortAsBad(err, pos)
		}
		if err = b.VerifyChecksum(); err != nil {
			return &BadBatch{Position: pos, Kind: "batch checksum", Err: err}
		}
		if err = visit(b, pos); err != nil {
			return err
		}
		pos += size
	}
	return nil
}

// sizeAt is the size of the batch at a position, which must end by end.
func sizeAt(f io.ReaderAt, pos, end int64) (int64, error) {
	header := make([]byte, min(batch.HeaderSize, end-pos))
	if err := readFull(f, header, pos); err != nil {
		return 0, shortAsBad(err, pos)
	}
	size, err := batch.Size(header, 0)
	if err == nil && int64(size) > end-pos {
		err = fmt.Errorf("%w: %d of %d bytes", batch.ErrShort, end-pos, size)
	}
	if err != nil {
		return 0, &BadBatch{Position: pos, Kind: "batch", Err: err}
	}
	return int64(size), nil
}

// Scan reads a data file on its own, whoever wrote it: batch gets each sound batch, whole, valid until it returns, and bad
// each range that holds none, with the reason. An error of either ends it; other errors are of the disk.
func Scan(f vfs.File, visit func(b batch.Batch, pos int64) error, bad func(from, to int64, why error) error) error {
	end, err := f.Size()
	if err != nil {
		return err
	}
	c := &scrap{scan: newScanner(f, make([]byte, scanBufferBytes), scanBufferBytes), end: end, limit: 1<<63 - 1}
	for pos := int64(0); pos < end; {
		var broken *BadBatch
		err = scanBatches(f, pos, end, visit)
		if !errors.As(err, &broken) {
			return err
		}
		if pos, _, err = c.seek(broken.Position, 0); err == nil {
			err = bad(broken.Position, pos, broken)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Entries calls visit with each slot of an index file, in order: ok is false for one that doesn't verify. It returns the
// header, or ErrHeader or a *VersionError, or an error of the disk.
func Entries(f vfs.File, name string, base int64, visit func(number uint32, r Run, ok bool) error) (Header, error) {
	size, err := f.Size()
	if err != nil {
		return Header{}, err
	}
	b := make([]byte, min(HeaderSize, size))
	if err = readFull(f, b, 0); err != nil {
		return Header{}, err
	}
	h, err := DecodeHeader(b, MagicIndex, name, base)
	if err != nil {
		return Header{}, err
	}
	var slot [EntrySize]byte
	for number := uint32(0); entryPosition(number) < size; number++ {
		b := slot[:min(EntrySize, size-entryPosition(number))]
		if err = readFull(f, b, entryPosition(number)); err != nil {
			return h, err
		}
		e, ok := DecodeEntry(b, h, number)
		r := e.run(base)
		if err = visit(number, r, ok && r.sane()); err != nil {
			return h, err
		}
	}
	return h, nil
}
