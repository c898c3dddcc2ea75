package storage

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/kbroker/kbroker/storage/segment"
)

const (
	// readAttempts is how often a read starts anew when an index was rebuilt meanwhile.
	readAttempts = 4
	// staleAttempts is how often it does when segments were removed or replaced meanwhile.
	staleAttempts = 100
)

// view is what a reader sees of a log at one moment.
type view struct {
	Offsets
	segments []*segment.Segment
	swaps    uint64
	limit    int64 // the offset up to which the reader may see
	seenPos  int64 // position of the high watermark in the last segment
}

// see takes a view. The caller holds mu.
func (l *Log) see(i Isolation) view {
	v := view{Offsets: l.mu.offsets, segments: l.mu.segments, swaps: l.mu.swaps, limit: l.mu.offsets.HighWatermark, seenPos: l.mu.seenPos}
	if i == ReadCommitted {
		v.limit = v.LastStable
	}
	return v
}

// view takes a view of a log that answers calls.
func (l *Log) view(i Isolation) (view, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.mu.usable(); err != nil {
		return view{}, err
	}
	return l.see(i), nil
}

// Read finds whole batches from the one that contains offset. At the end of what may be read it returns no records and no
// error. Errors: ErrOffsetOutOfRange with the offsets in the result, ErrDamaged as a *CorruptionError, ErrNotReady,
// ErrClosed, or of the disk.
func (l *Log) Read(offset int64, o ReadOptions) (ReadResult, error) {
	for attempt := 1; ; attempt++ {
		r, s, err := l.read(offset, o)
		if err == nil || !l.again(s, err, attempt) {
			return r, err
		}
	}
}

// again says whether an operation that failed, for the so manieth time, is worth repeating: its segment was removed or
// replaced meanwhile, or its index has just been rebuilt.
func (l *Log) again(s *segment.Segment, err error, attempt int) bool {
	switch {
	case segment.IsClosed(err):
		return attempt < staleAttempts
	case errors.Is(err, errSwapped):
		l.settled()
		return attempt < staleAttempts
	case errors.Is(err, segment.ErrIndex):
		return attempt < readAttempts && l.rebuild(s) == nil
	default:
		return false
	}
}

// read is one attempt. The segment comes with an error that concerns it.
func (l *Log) read(offset int64, o ReadOptions) (ReadResult, *segment.Segment, error) {
	l.mu.Lock()
	if err := l.mu.usable(); err != nil {
		l.mu.Unlock()
		return ReadResult{}, nil, err
	}
	v := l.see(o.Isolation)
	var loc segment.Location
	var near bool
	if l.mu.tail != nil && offset < v.End {
		loc, near = l.mu.tail.find(offset, v.End, l.mu.endPos)
	}
	l.mu.Unlock()
	r := ReadResult{Offsets: v.Offsets}
	if offset < v.Start || offset > v.End {
		return r, nil, fmt.Errorf("%s: %w: %d is not between %d and %d", l.part, ErrOffsetOutOfRange, offset, v.Start, v.End)
	}
	if offset >= v.limit || (o.MaxBytes <= 0 && !o.WholeFirst) {
		return r, nil, nil
	}
	index := len(v.segments) - 1
	if !near {
		var found bool
		var err error
		if loc, index, found, err = l.find(&v, offset); err != nil || !found {
			return r, segmentAt(v.segments, index), err
		}
	}
	s := v.segments[index]
	err := l.readAt(&r, &v, s, loc, o)
	return r, s, err
}

func segmentAt(segments []*segment.Segment, i int) *segment.Segment {
	if i < 0 || i >= len(segments) {
		return nil
	}
	return segments[i]
}

// readAt reads from the batch at loc on.
func (l *Log) readAt(r *ReadResult, v *view, s *segment.Segment, loc segment.Location, o ReadOptions) error {
	if loc.First >= v.limit || (loc.Size > o.MaxBytes && !o.WholeFirst) {
		return nil
	}
	limit, err := v.position(s)
	if err != nil {
		return l.corruption(s, err)
	}
	records, err := s.Read(loc, o.MaxBytes, limit)
	if err != nil {
		return l.corruption(s, err)
	}
	if o.Isolation == ReadCommitted {
		if err = l.listAborted(r, v, s, loc.First, records.End()); err != nil {
			records.Release()
			return err
		}
	}
	r.Records = records
	l.set.metrics.read(records.Size())
	return nil
}

// listAborted completes a result whose records begin at an offset and end at a position of a segment.
func (l *Log) listAborted(r *ReadResult, v *view, s *segment.Segment, first, end int64) error {
	r.Aborted = []AbortedTransaction{}
	next := min(v.limit, s.Next())
	n := l.abortedFrom(s.Base)
	if n > manyAborted {
		after, err := s.OffsetAfter(end)
		if err != nil {
			return l.corruption(s, err)
		}
		next = min(next, after)
	}
	var err error
	if n > 0 {
		r.Aborted, err = l.abortedIn(s.Base, first, next)
	}
	if swapped := l.sameSegments(v); swapped != nil {
		return swapped // files come and go meanwhile, so an error says nothing
	}
	return err
}

// find looks for the batch that holds an offset, or the next one where compaction left a gap, below the view's end. index
// is the segment it is in, also with an error.
func (l *Log) find(v *view, offset int64) (loc segment.Location, index int, found bool, err error) {
	index = sort.Search(len(v.segments), func(i int) bool { return v.segments[i].Base > offset }) - 1
	if index < 0 {
		return loc, index, false, l.missing(v)
	}
	for ; index < len(v.segments); index++ {
		s := v.segments[index]
		loc, found, err = s.Find(offset)
		if err != nil {
			return loc, index, false, l.corruption(s, err)
		}
		if found {
			return loc, index, true, nil
		}
	}
	return loc, index, false, nil
}

// missing is the error for offsets below the first segment though not below the log start.
func (l *Log) missing(v *view) error {
	if len(v.segments) == 0 {
		return &CorruptionError{Partition: l.part, Segment: segment.FileName(v.Start, segment.SuffixData), Kind: "segment is missing"}
	}
	return &CorruptionError{
		Partition: l.part, Segment: segment.FileName(v.Start, segment.SuffixData),
		Kind: fmt.Sprintf("segment is missing: the first one is %s", v.segments[0].DataName()),
	}
}

// position is up to where in a segment the reader may see.
func (v *view) position(s *segment.Segment) (int64, error) {
	last := s == v.segments[len(v.segments)-1]
	switch {
	case last && v.limit == v.HighWatermark:
		return v.seenPos, nil
	case !last && v.limit >= s.Next():
		return s.Size(), nil
	}
	loc, found, err := s.Find(v.limit)
	var damaged *segment.DamagedError
	if errors.As(err, &damaged) { // the last stable offset lies in it, and what is before it is sound
		loc, found, err = segment.Location{Position: damaged.From}, true, nil
	}
	if err != nil {
		return 0, err
	}
	if !found || (last && loc.Position > v.seenPos) {
		if last {
			return v.seenPos, nil
		}
		return s.Size(), nil
	}
	return loc.Position, nil
}

// rebuild has a segment's index written anew after something in it, or in the data, didn't verify. What is damaged is
// known, logged and counted afterwards. Appends wait only if it is the last segment.
func (l *Log) rebuild(s *segment.Segment) error { return l.rebuildSince(s, s.Rebuilds()) }

// rebuildSince is rebuild for who has seen so many of them: many readers find the same thing wrong, and one has it mended.
func (l *Log) rebuildSince(s *segment.Segment, seen uint32) error {
	l.structure.Lock()
	defer l.structure.Unlock()
	l.mu.Lock()
	last := l.mu.active() == s
	l.mu.Unlock()
	if last {
		l.writing.Lock()
		defer l.writing.Unlock()
		l.pauseSyncs()
		defer l.resumeSyncs()
	}
	l.mu.Lock()
	err := l.mu.usable()
	gone := !slices.Contains(l.mu.segments, s)
	l.mu.Unlock()
	if err != nil || gone || s.Rebuilds() != seen {
		return err // with another segment in its place, or none, there is nothing to mend
	}
	before := len(s.Damages())
	if err = s.Rebuild(l.segmentOptions(), l.config.Load().Compact); err != nil {
		return err
	}
	l.set.metrics.rebuilds.Inc()
	for i, d := range s.Damages() {
		if i >= before {
			l.reportDamage(s, d)
		}
	}
	return nil
}
