package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// unknownPerSlot is how many offsets are passed over for an index entry that is bad and whose bytes are gone: more than fit
// in what one entry covers.
const unknownPerSlot = 4096

// cut is what is to be done to a segment.
type cut struct {
	segment *segment.Segment
	keep    []kept
	wrong   []string
	lost    int64 // offsets that are given up
	next    int64 // the offset where it ends
}

// kept is a range that stays. What was found among damaged bytes gets its leader epoch from the history.
type kept struct {
	segment.Piece
	salvaged bool
}

// repairSegments takes out what is damaged.
func (r *repairer) repairSegments() error {
	end := r.end
	if r.snapshot != nil {
		end = max(end, r.snapshot.end)
	}
	if len(r.parts) == 0 {
		return r.emptied(end)
	}
	cuts := make([]*cut, len(r.parts))
	for i, p := range r.parts {
		var err error
		if cuts[i], err = r.plan(p); err != nil {
			return err
		}
	}
	last := cuts[len(cuts)-1]
	end = max(end, last.next)
	if known := r.parts[len(cuts)-1].outcome; known.Undecided == nil && last.next < end {
		last.note(offsetRange(last.next, end)+": missing", end-last.next)
	}
	// First of all the offset is fixed from which on new batches go: from here on it is as if the log had rolled.
	if len(last.wrong) > 0 && end > last.segment.Base {
		if err := r.begin(end); err != nil {
			return err
		}
	}
	for _, c := range cuts {
		if len(c.wrong) == 0 {
			continue
		}
		if err := r.apply(c); err != nil {
			return err
		}
	}
	return nil
}

// emptied begins a log anew, all of whose segments are gone, at the offset it had come to.
func (r *repairer) emptied(end int64) error {
	if len(r.bases) > 0 || r.snapshot == nil || end <= r.start {
		return nil
	}
	a := Action{
		File: snapshotName, Wrong: "all segments are missing, " + offsetRange(r.start, end), Lost: end - r.start,
		Does: fmt.Sprintf("the log begins anew at %d", end),
	}
	if err := r.begin(end); err != nil {
		return err
	}
	r.act(a)
	return r.moveStart(end)
}

// repairStart moves the log start over what is missing before the first segment.
func (r *repairer) repairStart() error {
	if r.options.LogStart == nil || len(r.bases) == 0 || r.start >= r.bases[0] {
		return nil
	}
	a := Action{
		File:  segment.FileName(r.bases[0], segment.SuffixData),
		Wrong: offsetRange(r.start, r.bases[0]) + " before it: missing",
	}
	if r.options.SetLogStart != nil {
		a.Does, a.Lost = fmt.Sprintf("the log starts at %d", r.bases[0]), r.bases[0]-r.start
	}
	r.act(a)
	return r.moveStart(r.bases[0])
}

func (r *repairer) moveStart(start int64) error {
	if r.options.SetLogStart == nil || !r.options.Apply {
		return nil
	}
	return r.options.SetLogStart(r.part, start)
}

// begin makes the empty segment that takes new batches.
func (r *repairer) begin(end int64) error {
	s, err := segment.Create(r.segmentOptions(segment.NewFiles(r.fs, 2)), end, r.options.NowMs)
	if err != nil {
		return err
	}
	s.Close()
	return nil
}

func (c *cut) note(wrong string, lost int64) {
	c.wrong = append(c.wrong, wrong)
	c.lost += lost
}

// plan decides what of a segment stays.
func (r *repairer) plan(p examined) (*cut, error) {
	c := &cut{segment: p.segment, next: p.outcome.Next}
	damage := slices.Clone(p.outcome.Damage)
	slices.SortStableFunc(damage, func(a, b segment.Damage) int { return int(min(max(a.From-b.From, -1), 1)) })
	pos := int64(0)
	for _, d := range damage {
		c.sound(pos, d.From)
		pieces, err := p.segment.Salvage(d, true)
		if err != nil {
			return nil, err
		}
		c.note(fmt.Sprintf("%s, byte %d: %s", offsetRange(d.First, d.Next), d.From, reason(d)), d.Next-d.First-c.save(pieces))
		pos = d.To
	}
	c.sound(pos, p.outcome.Size)
	if p.outcome.Undecided != nil {
		return c, c.decide(p.outcome)
	}
	return c, nil
}

// sound keeps a range that verified.
func (c *cut) sound(from, to int64) {
	if from < to {
		c.keep = append(c.keep, kept{Piece: segment.Piece{From: from, To: to}})
	}
}

// save keeps what was found among damaged bytes, and says how many offsets that has.
func (c *cut) save(pieces []segment.Piece) (offsets int64) {
	for _, p := range pieces {
		c.keep = append(c.keep, kept{Piece: p, salvaged: true})
		offsets += p.Next - p.First
	}
	return offsets
}

// decide takes the bytes of which it isn't known whether they were acknowledged for lost, but for the sound batches among
// them. Their offsets, as many as there may have been, are passed over.
func (c *cut) decide(out segment.Outcome) error {
	d := *out.Undecided
	pieces, err := c.segment.Salvage(d, false)
	if err != nil {
		return err
	}
	c.next = d.First
	rest := out.FileSize - d.From
	for _, p := range pieces {
		c.next, rest = p.Next, out.FileSize-p.To
	}
	if rest > 0 || len(pieces) == 0 {
		c.next += rest + unknownPerSlot*int64(out.BadSlots)
	}
	wrong := fmt.Sprintf("offsets from %d on, byte %d, may have been acknowledged: %s", d.First, d.From, reason(d))
	c.note(wrong, c.next-d.First-c.save(pieces))
	return nil
}

// apply puts a segment without the bad bytes in place of the one there is.
func (r *repairer) apply(c *cut) error {
	base := c.segment.Base
	a := Action{File: c.segment.DataName(), Wrong: strings.Join(c.wrong, "; "), Lost: c.lost}
	saved := 0
	for _, k := range c.keep {
		saved += k.Batches
	}
	a.Does = "the bad bytes are taken out"
	if saved > 0 {
		a.Does += fmt.Sprintf(", %d sound batches among them stay", saved)
	}
	var err error
	if a.Kept, err = r.copyAway(a.File); err != nil {
		return err
	}
	if _, err = r.copyAway(segment.FileName(base, segment.SuffixIndex)); err != nil {
		return err
	}
	if r.options.Apply {
		if err = r.rewrite(c); err != nil {
			return err
		}
	}
	r.act(a)
	return nil
}

// rewrite writes a segment anew, with a higher generation, by which offsets may be missing. One that compaction has not
// been over must not look as if it had.
func (r *repairer) rewrite(c *cut) error {
	h := segment.Header{Base: c.segment.Base, CreatedMs: r.options.NowMs, Generation: c.segment.Generation() + 1}
	if c.segment.Generation() == 0 {
		h.Generation = segment.UnknownGeneration
	}
	w, err := segment.NewWriter(r.segmentOptions(segment.NewFiles(r.fs, 2)), h, r.fs.Create, nil)
	if err != nil {
		return err
	}
	epoch := r.epochs()
	for _, k := range c.keep {
		at := epoch
		if !k.salvaged {
			at = nil
		}
		if err = c.segment.CopyTo(w, k.Piece, at); err != nil {
			w.Abort()
			return err
		}
	}
	s, files, err := w.Finish()
	if err != nil {
		w.Abort()
		return err
	}
	s.Close()
	txn, err := r.copyTxnIndex(c.segment.Base)
	if err != nil {
		return err
	}
	swap := &swap{id: r.part.ID, replaced: []int64{c.segment.Base}, files: append(files, txn...)}
	if err = r.fs.SyncDir(r.dir); err == nil {
		err = replaceFile(r.fs, filepath.Join(r.dir, swap.name()), swap.encode())
	}
	if err == nil {
		err = bareLog(r.fs, r.dir, r.part).finishSwap(swap.name())
	}
	return err
}

// epochs tells the leader epoch of a batch by the history, if there is one.
func (r *repairer) epochs() func(offset int64) int32 {
	list, err := r.readEpochs()
	if err != nil {
		return nil
	}
	return (&epochs{list: list}).at
}

// copyTxnIndex makes the index of aborted transactions, which stays as it is, one of the new files.
func (r *repairer) copyTxnIndex(base int64) ([]segment.NewFile, error) {
	list, err := r.readAborted(base)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errSideFile) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	content := encodeAborted(base, list)
	f := segment.NewFile{Base: base, Suffix: segment.SuffixTxnIndex, Size: int64(len(content)), CRC: batch.Checksum(content)}
	return []segment.NewFile{f}, replaceFile(r.fs, filepath.Join(r.dir, f.TempName()), content)
}

// free finds a name below removed/ that isn't taken, relative to the data directory, and makes the directory for it.
func (r *repairer) free(name string) (string, error) {
	dir := filepath.Join(removedName, strings.TrimPrefix(r.name, topicsName+string(filepath.Separator)))
	if name == "" { // the directory itself
		dir, name = filepath.Dir(dir), filepath.Base(dir)
	}
	if err := makeDirs(r.fs, r.root, dir); err != nil {
		return "", err
	}
	for n := 0; ; n++ {
		candidate := filepath.Join(dir, name)
		if n > 0 {
			candidate += fmt.Sprintf(".%d", n)
		}
		if _, err := r.fs.Stat(filepath.Join(r.root, candidate)); errors.Is(err, fs.ErrNotExist) {
			return candidate, nil
		} else if err != nil {
			return "", err
		}
	}
}

// makeDirs makes a directory below root, and its name and those above durable.
func makeDirs(files vfs.FS, root, dir string) error {
	if err := files.MkdirAll(filepath.Join(root, dir), dirPerm); err != nil {
		return err
	}
	for d := filepath.Dir(filepath.Join(root, dir)); ; d = filepath.Dir(d) {
		if err := files.SyncDir(d); err != nil || d == filepath.Clean(root) {
			return err
		}
	}
}

// move renames something of the partition to a name relative to the data directory, durably.
func (r *repairer) move(from, to string) error {
	if err := r.fs.Rename(from, filepath.Join(r.root, to)); err != nil {
		return err
	}
	if err := r.fs.SyncDir(filepath.Dir(filepath.Join(r.root, to))); err != nil {
		return err
	}
	return r.fs.SyncDir(filepath.Dir(from))
}

// takeAway moves a file of the partition to removed/.
func (r *repairer) takeAway(name string) (keptAs string, err error) {
	if keptAs, err = r.free(name); err != nil {
		return "", err
	}
	return keptAs, r.move(filepath.Join(r.dir, name), keptAs)
}

// copyAway gives a file of the partition that is about to be replaced a second name in removed/; "" if there is none.
func (r *repairer) copyAway(name string) (keptAs string, err error) {
	if _, err = r.fs.Stat(filepath.Join(r.dir, name)); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if keptAs, err = r.free(name); err != nil {
		return "", err
	}
	if err = r.fs.Link(filepath.Join(r.dir, name), filepath.Join(r.root, keptAs)); err != nil {
		return "", err
	}
	return keptAs, r.fs.SyncDir(filepath.Dir(filepath.Join(r.root, keptAs)))
}
