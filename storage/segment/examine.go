package segment

import (
	"io"

	"github.com/kbroker/kbroker/protocol/batch"
)

// Evidence is what is known of a segment before its bytes are looked at.
type Evidence struct {
	// Sealed says that the segment has a successor, so that all its bytes are proven. Next is the successor's base offset.
	Sealed bool
	Next   int64
	// ProvenSize and ProvenNext say that a checkpoint claims so many bytes, ending before that offset.
	ProvenSize, ProvenNext int64
	// Trusted says that the bytes up to Trusted.Size were verified or written before the checkpoint and need not be read
	// again; Trusted.Entries is how many index entries cover them.
	Trusted Trusted
	// MinEpoch and MaxEpoch bound the leader epochs of unproven batches.
	MinEpoch, MaxEpoch int32
	// MayHaveGaps says that the segment may have been compacted, should its index be lost.
	MayHaveGaps bool
	// CutUnproven allows bad bytes to be cut though there is no index to say what was acknowledged.
	CutUnproven bool
	// NowMs is the creation time of an index that has to be made anew.
	NowMs int64
	// Visit, if any, gets every sound batch in order: its header, and control batches whole. It must not keep the bytes.
	Visit func(b batch.Batch, pos, size int64)
}

// Trusted is a prefix of a segment that a checkpoint vouches for.
type Trusted struct {
	Size    int64
	Next    int64
	Entries uint32
}

// Outcome is what an examination concluded. Nothing has been changed on disk.
type Outcome struct {
	Size         int64 // bytes up to the end of the last batch
	Next         int64 // offset after it; above what the bytes hold if acknowledged bytes are missing
	FileSize     int64
	MaxTimestamp int64
	FirstTime    int64 // maximum timestamp of the first batch, if FirstKnown
	FirstKnown   bool
	Examined     int64 // bytes read
	Accepted     int   // unproven batches taken in
	acceptedFrom int64 // position of the first of them
	Damage       []Damage
	// Torn says that the bytes from Size on are remains of a write that was never acknowledged.
	Torn bool
	// Undecided, if not nil, is a range of bad bytes of which it can't be said whether they were acknowledged. BadSlots is
	// then how many index entries that are bad may speak of it.
	Undecided *Damage
	BadSlots  int

	runs     []Run // that the index should hold from Trusted.Entries on
	inFile   int   // how many of the first of them are in the file as they are
	rewrite  bool  // the index file must be written anew
	verified []span
}

// WithoutIndex is the outcome without what the index should hold, which takes by far the most memory. It is for reports: Repair
// needs all of it.
func (o Outcome) WithoutIndex() Outcome {
	o.runs, o.verified = nil, nil
	return o
}

// slot is what lies in an index file at the place of an entry.
type slot struct {
	run Run
	ok  bool
}

// examiner walks over a segment's bytes and index entries together. The recovery table of docs/storage-format.md is what it
// implements.
type examiner struct {
	Outcome
	base  int64
	ev    Evidence
	scan  *scanner
	gaps  bool
	pos   int64
	epoch int32
	bad   int // slots since the last sound entry that hold none
	fresh int // batches accepted since the last sound entry
	grows bool
}

// examine concludes what a segment holds. indexed says that the index file's header verified; gaps that it was compacted.
// It returns only errors of the disk.
func examine(file io.ReaderAt, fileSize int64, buf []byte, base int64, indexed, gaps bool, slots []slot, interval int64,
	ev Evidence,
) (Outcome, error) {
	x := &examiner{base: base, ev: ev, gaps: gaps, epoch: ev.MinEpoch, pos: ev.Trusted.Size}
	x.scan = newScanner(file, buf, scanBufferBytes)
	x.FileSize, x.Next = fileSize, max(ev.Trusted.Next, base)
	x.MaxTimestamp, x.FirstTime = batch.NoTimestamp, batch.NoTimestamp
	x.rewrite = !indexed
	x.runs = make([]Run, 0, len(slots))
	for _, s := range slots {
		x.slot(s, interval)
	}
	x.proven(interval)
	if !ev.Sealed {
		if err := x.unproven(indexed, interval); err != nil {
			return Outcome{}, err
		}
	}
	x.Size = min(x.pos, fileSize)
	x.Examined = max(x.Size-ev.Trusted.Size, 0)
	if x.bad > 0 {
		x.rewrite = true
	}
	return x.Outcome, nil
}

// slot takes the next index entry into account.
func (x *examiner) slot(s slot, interval int64) {
	if !s.ok || !x.fits(s.run) {
		x.bad++
		return
	}
	r := s.run
	mended := x.bad > 0
	if !x.approach(r, interval) {
		x.bad++
		return
	}
	if err := x.scan.run(r, x.gaps, x.visit); err != nil {
		if x.contradicts(r) {
			x.bad++
			return
		}
		x.damageRun(r)
	} else {
		x.verified = addSpan(x.verified, span{r.Position, r.End()})
	}
	x.keep(r, mended)
}

// fits says whether a run can come next at all.
func (x *examiner) fits(r Run) bool {
	if r.Position < x.pos || r.First < x.Next {
		return false
	}
	return !x.ev.Sealed || r.Last < x.ev.Next
}

// approach goes over the bytes before a run, which it proves. Batches that verify get a new entry; where they don't, all
// up to the run is damaged. It returns false if sound batches refute the entry: one of them lies across the place where
// the run should begin, or has an offset that should come after it.
func (x *examiner) approach(r Run, interval int64) bool {
	for x.pos < r.Position {
		b, size, err := x.next(x.FileSize)
		if err != nil {
			x.lose(r.Position, r.First, err)
			return true
		}
		if x.pos+size > r.Position || b.LastOffset() >= r.First {
			return false
		}
		x.accept(b, size, interval)
	}
	if x.Next < r.First && !x.gaps {
		if _, _, err := x.next(x.FileSize); err == nil {
			return false
		}
		x.lose(r.Position, r.First, nil)
	}
	return true
}

// next reads the batch at the present position, which must be sound and have the offset due.
func (x *examiner) next(end int64) (batch.Batch, int64, error) {
	b, size, err := x.scan.batch(x.pos, max(end, x.pos))
	if err != nil {
		return nil, 0, err
	}
	c := chain{next: x.Next, gaps: x.gaps}
	return b, size, c.follow(b, x.pos)
}

// contradicts says whether sound batches refute the entry of a run: each verifies and follows the one before, but they
// begin or end elsewhere than it says.
func (x *examiner) contradicts(r Run) bool {
	c := chain{next: x.Next, gaps: x.gaps}
	pos := r.Position
	for pos < r.End() {
		b, size, err := x.scan.batch(pos, x.FileSize)
		if err != nil || c.follow(b, pos) != nil {
			return false
		}
		if pos == r.Position && b.BaseOffset() != r.First {
			return true
		}
		pos += size
	}
	return pos != r.End() || c.next != r.Last+1
}

// keep notes that an entry is right and goes on after its run.
func (x *examiner) keep(r Run, mended bool) {
	if mended || len(x.runs) != x.inFile {
		x.rewrite = true
	}
	x.runs = append(x.runs, r)
	if !x.rewrite {
		x.inFile++
	}
	x.MaxTimestamp = max(x.MaxTimestamp, r.MaxTimestamp)
	x.pos, x.Next = r.End(), r.Last+1
	x.bad, x.fresh, x.grows = 0, 0, false
}

// visit passes a sound batch on.
func (x *examiner) visit(b batch.Batch, pos, size int64) {
	if pos == 0 {
		x.FirstTime, x.FirstKnown = batchTime(b), true
	}
	x.epoch = max(x.epoch, b.LeaderEpoch())
	if x.ev.Visit != nil {
		x.ev.Visit(b, pos, size)
	}
}

// reach goes over proven bytes that no entry follows, up to a position at which an offset is due.
func (x *examiner) reach(to, next, interval int64) {
	for x.pos < to {
		b, size, err := x.next(min(to, x.FileSize))
		if err == nil && b.LastOffset() >= next {
			err = &BadBatch{Position: x.pos, Kind: "offset beyond the next proven one"}
		}
		if err != nil {
			x.lose(to, next, err)
			return
		}
		x.accept(b, size, interval)
	}
	if x.Next < next && !x.gaps {
		x.lose(to, next, nil)
	}
}

// lose notes that everything from here to a position and offset is damaged. It need not hold any bytes.
func (x *examiner) lose(to, next int64, err error) {
	d := Damage{From: x.pos, To: to, First: x.Next, Next: next, Kind: "batches are missing"}
	if err != nil {
		d.Kind = err.Error()
	}
	x.damaged(d)
	x.pos, x.Next = to, next
	x.grows = false
}

// damaged notes a range. All that lies behind the end of the file is one, however many entries speak of it.
func (x *examiner) damaged(d Damage) {
	if n := len(x.Damage); n > 0 {
		last := &x.Damage[n-1]
		if last.From >= x.FileSize && last.To == d.From && last.Next == d.First {
			last.To, last.Next = d.To, d.Next
			return
		}
	}
	x.Damage = append(x.Damage, d)
}

// damageRun finds what of a run that doesn't verify is still sound: the batches before the first bad one. If each is
// sound on its own, the checksum over their headers isn't, and all of the run is damaged.
func (x *examiner) damageRun(r Run) {
	c := chain{next: r.First, gaps: x.gaps}
	pos := r.Position
	var bad error
	x.scan.seen.reset()
	for pos < r.End() {
		b, size, err := x.scan.batch(pos, min(r.End(), max(x.FileSize, pos)))
		if err == nil {
			err = c.follow(b, pos)
		}
		if err != nil {
			bad = err
			break
		}
		x.scan.seen.add(b, pos, size)
		pos += size
	}
	if bad == nil {
		x.damaged(Damage{
			From: r.Position, To: r.End(), First: r.First, Next: r.Last + 1, Kind: "batch headers of a run",
		})
		return
	}
	x.scan.seen.each(x.visit)
	x.verified = addSpan(x.verified, span{r.Position, pos})
	x.damaged(Damage{From: pos, To: r.End(), First: c.next, Next: r.Last + 1, Kind: bad.Error()})
}

// accept takes a sound batch in that no entry covers yet.
func (x *examiner) accept(b batch.Batch, size, interval int64) {
	x.MaxTimestamp = max(x.MaxTimestamp, batchTime(b))
	if n := len(x.runs); !x.grows || x.runs[n-1].Size+size > interval {
		x.runs = append(x.runs, Run{})
		x.grows = true
	}
	x.runs[len(x.runs)-1].extend(b, x.pos, size, x.MaxTimestamp)
	x.verified = addSpan(x.verified, span{x.pos, x.pos + size})
	x.visit(b, x.pos, size)
	x.pos += size
	x.Next = b.NextOffset()
	x.fresh++
}

// proven goes over the bytes that a successor or a checkpoint proves beyond the last entry.
func (x *examiner) proven(interval int64) {
	switch {
	case x.ev.Sealed:
		x.reach(max(x.FileSize, x.pos), x.ev.Next, interval)
	case x.ev.ProvenSize > x.pos || x.ev.ProvenNext > x.Next:
		x.reach(max(x.ev.ProvenSize, x.pos), max(x.ev.ProvenNext, x.Next), interval)
	}
}

// unproven takes in the batches that nothing proves, as long as they are what comes next, and judges what ends them.
func (x *examiner) unproven(indexed bool, interval int64) error {
	var bad error
	x.acceptedFrom = x.pos
	for x.pos < x.FileSize && bad == nil {
		b, size, err := x.scan.batch(x.pos, x.FileSize)
		if err == nil {
			c := chain{next: x.Next}
			err = c.follow(b, x.pos)
		}
		switch {
		case err != nil && !isBad(err):
			return err
		case err != nil:
			bad = err
		case b.LeaderEpoch() < x.epoch || b.LeaderEpoch() > x.ev.MaxEpoch:
			bad = &BadBatch{Position: x.pos, Kind: "leader epoch"}
		default:
			x.accept(b, size, interval)
			x.Accepted++
		}
	}
	undecided := x.fresh < x.bad || (bad != nil && !indexed && !x.ev.CutUnproven)
	switch {
	case undecided:
		kind := "acknowledged bytes are missing"
		if bad != nil {
			kind = bad.Error()
		}
		x.Undecided = &Damage{From: x.pos, To: x.FileSize, First: x.Next, Next: x.Next + 1, Kind: kind}
		x.BadSlots = x.bad
	case bad != nil:
		x.Torn = true
	}
	return nil
}
