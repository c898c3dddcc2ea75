package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// checkSwap decides about a replacement of segments whose .swap file can't be read. Its new files were durable before that file
// was there, and some may be in place, with some of the old ones gone. So both ways are tried, on a copy in memory: to finish
// it and, unless that is better, to leave what is in place as it is.
func (r *repairer) checkSwap(name string) error {
	b, err := readFile(r.fs, filepath.Join(r.dir, name))
	if err == nil {
		_, err = decodeSwap(name, b)
	}
	if err == nil || isVersion(err) {
		return nil
	}
	wrong := strings.TrimPrefix(err.Error(), name+": ")
	finished, err := r.tryUnswap(name, true)
	if err != nil {
		return err
	}
	left, err := r.tryUnswap(name, false)
	if err != nil {
		return err
	}
	return r.unswap(name, wrong, finished <= left)
}

// tryUnswap is how much damage there would be.
func (r *repairer) tryUnswap(name string, finish bool) (damage int, err error) {
	trial := &repairer{fs: vfs.Overlay(r.fs), root: r.root, options: r.options}
	trial.verifier = newVerifier(trial.fs, r.root, r.part.Topic, r.part.Number, r.options.VerifyOptions)
	if err = trial.unswap(name, "", finish); err == nil {
		err = trial.verifier.run()
	}
	for _, f := range trial.findings {
		if f.Damage {
			damage++
		}
	}
	return damage, err
}

// unswap moves the .swap file away once the new files are in place, or moved away too.
func (r *repairer) unswap(name, wrong string, finish bool) error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	for _, temp := range names {
		final, fresh := strings.CutSuffix(temp, segment.CleanSuffix)
		if !fresh || !ours(final) || strings.HasSuffix(final, swapSuffix) {
			continue
		}
		if finish {
			err = r.putInPlace(temp, final)
		} else {
			err = r.putAside(temp, "belongs to the compaction that "+name+" announced")
		}
		if err != nil {
			return err
		}
	}
	a := Action{File: name, Wrong: wrong, Does: "is moved away, and the segments stay as they are"}
	if finish {
		a.Does = "is moved away now that what it announces is finished"
		if err = r.takeSuperseded(); err != nil {
			return err
		}
	}
	if a.Kept, err = r.takeAway(name); err == nil {
		r.act(a)
	}
	return err
}

func (r *repairer) putInPlace(temp, final string) error {
	kept, err := r.copyAway(final)
	if err != nil {
		return err
	}
	r.act(Action{File: final, Wrong: "was to be replaced by " + temp, Does: "is replaced", Kept: kept})
	if err = r.fs.Rename(filepath.Join(r.dir, temp), filepath.Join(r.dir, final)); err != nil {
		return err
	}
	return r.fs.SyncDir(r.dir)
}

func (r *repairer) putAside(name, wrong string) error {
	kept, err := r.takeAway(name)
	if err == nil {
		r.act(Action{File: name, Wrong: wrong, Does: "is moved away", Kept: kept})
	}
	return err
}

// takeSuperseded moves the files of segments away that lie within what a rewritten segment before them covers.
func (r *repairer) takeSuperseded() error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	var bases []int64 // of what is left of segments
	for _, name := range names {
		if base, suffix, ok := segment.ParseFileName(name); ok && slices.Contains(swapKinds(), suffix) {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	reach := int64(0) // the end of the last rewritten segment
	for _, base := range slices.Compact(bases) {
		if base < reach {
			if err := r.takeSegment(base); err != nil {
				return err
			}
			continue
		}
		next, rewritten, err := r.extent(base)
		if err != nil {
			return err
		}
		if rewritten {
			reach = next
		}
	}
	return nil
}

func (r *repairer) takeSegment(base int64) error {
	for _, suffix := range swapKinds() {
		name := segment.FileName(base, suffix)
		if _, err := r.fs.Stat(filepath.Join(r.dir, name)); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := r.putAside(name, "was replaced by the segment before it"); err != nil {
			return err
		}
	}
	return nil
}

// extent is the offset after a segment's last record, by its index, and whether compaction has rewritten it.
func (r *repairer) extent(base int64) (next int64, rewritten bool, err error) {
	name := segment.FileName(base, segment.SuffixIndex)
	f, err := r.fs.Open(filepath.Join(r.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return base, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	next = base
	h, err := segment.Entries(f, name, base, func(_ uint32, run segment.Run, ok bool) error {
		if ok {
			next = max(next, run.Last+1)
		}
		return nil
	})
	if errors.Is(err, segment.ErrHeader) || isVersion(err) {
		return base, false, nil // judged later
	}
	if err != nil {
		return 0, false, fmt.Errorf("read %s: %w", name, err)
	}
	return next, h.Generation > 0 && h.Generation&segment.UnknownGeneration == 0, nil
}
