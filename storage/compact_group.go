package storage

import (
	"path/filepath"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/cleaner"
	"github.com/kbroker/kbroker/storage/segment"
)

// maxCleanSegment bounds a new segment: recompression may make batches larger than they were.
const maxCleanSegment = 1<<31 - 1

// rewriter writes what stays of a group of neighbouring segments.
type rewriter struct {
	pass  *pass
	group []*segment.Segment
	bases []int64 // of the files made so far

	out        *segment.Writer
	outAborted []abortedTxn // of the segment being written
	generation uint32
	tail       bool // whether what is being written is the part that the next pass is for
	replacement
}

// rewrite replaces a group of segments by what stays of them. A clean segment by itself is replaced only if that gains
// something, or must be so that nothing deleted comes back.
func (p *pass) rewrite(group []*segment.Segment) error {
	if len(group) == 1 && !isDirty(group[0]) {
		worth, err := p.measure(group[0])
		if err != nil || !worth {
			return err
		}
	}
	r := &rewriter{pass: p, group: group}
	err := r.write()
	if err == nil {
		r.old = group
		err = p.log.swapSegments(&r.replacement)
	}
	if err != nil {
		r.abort()
		return err
	}
	p.log.set.upkeep.replaced.Add(float64(len(group)))
	return nil
}

// measure says whether a clean segment is worth writing anew. If not, the filter has gone past it.
func (p *pass) measure(s *segment.Segment) (bool, error) {
	txns := p.filter.Txns.Clone()
	before := p.filter.Stats
	err := p.read(s, func(b batch.Batch) error {
		_, err := p.filter.Batch(b)
		return err
	})
	if err != nil {
		return false, err
	}
	after := &p.filter.Stats
	gain := (after.Bytes - before.Bytes) - (after.KeptBytes - before.KeptBytes)
	if float64(gain) < minGain*float64(s.Size()) && after.Superseded == before.Superseded {
		return false, nil
	}
	p.filter.Txns, p.filter.Stats = txns, before
	return true, nil
}

// write writes the new segments, durable but for their names.
func (r *rewriter) write() error {
	for _, s := range r.group {
		if !isDirty(s) {
			r.generation = max(r.generation, s.Generation())
		}
	}
	r.generation++
	if err := r.begin(r.group[0].Base); err != nil {
		return err
	}
	for _, s := range r.group {
		if err := r.pass.read(s, r.batch); err != nil {
			return err
		}
	}
	return r.end()
}

// batch writes what stays of one batch.
func (r *rewriter) batch(b batch.Batch) error {
	if b.BaseOffset() >= r.pass.end {
		return r.rest(b)
	}
	kept, err := r.pass.filter.Batch(b)
	if err != nil {
		return err
	}
	if kept.Batch == nil {
		return nil
	}
	if r.out.Size() > 0 && r.out.Size()+int64(len(kept.Batch)) > maxCleanSegment {
		if err = r.next(b.BaseOffset()); err != nil {
			return err
		}
	}
	if kept.Aborted != nil {
		r.note(*kept.Aborted)
	}
	return r.out.Append(kept.Batch)
}

func (r *rewriter) note(t cleaner.AbortedTxn) {
	r.outAborted = append(r.outAborted, abortedTxn{t.ProducerID, t.FirstOffset, t.LastOffset, t.LastStable})
}

// rest copies a batch that the next pass is for into a segment of its own, which is as dirty as before.
func (r *rewriter) rest(b batch.Batch) error {
	if !r.tail {
		r.tail = true
		r.generation = r.group[len(r.group)-1].Generation()
		if err := r.next(b.BaseOffset()); err != nil {
			return err
		}
	}
	if b.IsControl() {
		if _, aborted := r.pass.filter.Txns.Control(b); aborted != nil {
			r.note(*aborted)
		}
	} else {
		r.pass.filter.Txns.Data(b)
	}
	return r.out.Append(b)
}

// next ends a segment and begins another.
func (r *rewriter) next(base int64) error {
	if err := r.end(); err != nil {
		return err
	}
	return r.begin(base)
}

// begin makes the files of a new segment.
func (r *rewriter) begin(base int64) error {
	l := r.pass.log
	r.bases = append(r.bases, base)
	h := segment.Header{Base: base, CreatedMs: r.group[len(r.group)-1].CreatedMs(), Generation: r.generation}
	var err error
	r.out, err = segment.NewWriter(l.segmentOptions(), h, l.createClean, r.pass.pace)
	return err
}

// end makes a new segment's files durable. One without batches stays, for its name says where the offsets go on; a later
// pass merges it with its neighbours.
func (r *rewriter) end() error {
	out := r.out
	r.out = nil
	fresh, files, err := out.Finish()
	if err != nil {
		out.Abort()
		return err
	}
	r.fresh = append(r.fresh, fresh)
	r.files = append(r.files, files...)
	return r.endAborted(fresh.Base)
}

// endAborted writes the list of the aborted transactions whose markers are in a new segment.
func (r *rewriter) endAborted(base int64) error {
	list := r.outAborted
	r.outAborted = nil
	if len(list) == 0 {
		return nil
	}
	l := r.pass.log
	content := encodeAborted(base, list)
	file := segment.NewFile{Base: base, Suffix: segment.SuffixTxnIndex, Size: int64(len(content)), CRC: batch.Checksum(content)}
	if err := writeSynced(l.createClean, filepath.Join(l.dir, file.TempName()), content); err != nil {
		return err
	}
	r.files = append(r.files, file)
	if r.aborted == nil {
		r.aborted = map[int64]int{}
	}
	r.aborted[base] = len(list)
	return nil
}

// abort takes away what was written, unless it is in use.
func (r *rewriter) abort() {
	if r.spliced {
		return
	}
	if r.out != nil {
		r.out.Abort()
	}
	for _, s := range r.fresh {
		s.Close()
	}
	r.pass.log.removeClean(r.bases)
}
