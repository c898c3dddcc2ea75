package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// errSwapped is returned when segments were replaced while one was read, so that what was read of the log's aborted
// transactions may not be about the same bytes.
var errSwapped = errors.New("segments were replaced meanwhile")

// errStale is returned when the segments that were to be replaced are no longer what they were.
var errStale = errors.New("segments to be replaced have changed")

// errGone is returned when segments that were to be replaced have been removed.
var errGone = errors.New("segments to be replaced have been removed")

// replacement is new segments, written and durable under temporary names, and those they replace.
type replacement struct {
	old     []*segment.Segment
	fresh   []*segment.Segment
	files   []segment.NewFile
	aborted map[int64]int // entries of the new .txnindex files that aren't in place yet, by base
	spliced bool          // whether readers have got the new ones
}

// swapSegments puts new segments into the place of old ones, on disk and in memory. No append waits for it; who reads the
// old ones goes on, or starts again with the new ones.
func (l *Log) swapSegments(r *replacement) error {
	l.structure.Lock()
	defer l.structure.Unlock()
	s := &swap{id: l.part.ID, files: r.files}
	for _, old := range r.old {
		s.replaced = append(s.replaced, old.Base)
	}
	if err := l.replaceable(r); err != nil {
		return err
	}
	if err := l.announce(s); err != nil {
		return err
	}
	l.splice(r, s)
	err := l.settleSwap(r, s)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.swaps++ // also with an error: the new segments can be read, whatever their files are called
	if err != nil {
		l.mu.aborted.unnamed = r.aborted
		return l.fail("put compacted segments in place", err)
	}
	return nil
}

// replaceable says whether the old segments are still all there, in a row, and sound. The caller holds structure, so that it
// stays so.
func (l *Log) replaceable(r *replacement) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.mu.usable(); err != nil {
		return err
	}
	if l.mu.failure != nil {
		return l.mu.failure
	}
	from := l.position(r.old[0])
	if from < 0 || from+len(r.old) >= len(l.mu.segments) {
		return fmt.Errorf("%s: %w", l.part, errGone)
	}
	for i, s := range r.old {
		if l.mu.segments[from+i] != s || len(s.Damages()) > 0 {
			return fmt.Errorf("%s: %w", l.part, errStale)
		}
	}
	a := &l.mu.aborted
	if a.base >= r.old[0].Base && a.base < l.mu.segments[from+len(r.old)].Base && a.saved != len(a.list) {
		return fmt.Errorf("%s: %w", l.part, errStale) // the side file lags behind
	}
	return nil
}

// position is the place of a segment in the list, or -1. The caller holds mu.
func (l *Log) position(s *segment.Segment) int {
	for i, o := range l.mu.segments {
		if o == s {
			return i
		}
	}
	return -1
}

// announce makes the .swap file durable: from here on the replacement will be finished, if need be by recovery. If the last
// step fails it can't be known which it is, and the log takes no more writes.
func (l *Log) announce(s *swap) error {
	files := l.set.fs
	name := filepath.Join(l.dir, s.name())
	temp := name + segment.CleanSuffix
	err := writeSynced(files.Create, temp, s.encode())
	if err == nil {
		err = files.SyncDir(l.dir) // the new files' names come first
	}
	if err == nil {
		err = files.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("announce replacement: %w", err), removeIfThere(files, temp))
	}
	if err = files.SyncDir(l.dir); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.fail("announce compacted segments", err)
	}
	return nil
}

// splice puts the new segments into the list. They still have their temporary names.
func (l *Log) splice(r *replacement, s *swap) {
	l.mu.Lock()
	at := l.position(r.old[0])
	segments := make([]*segment.Segment, 0, len(l.mu.segments)-len(r.old)+len(r.fresh))
	segments = append(segments, l.mu.segments[:at]...)
	segments = append(segments, r.fresh...)
	l.mu.segments = append(segments, l.mu.segments[at+len(r.old):]...)
	l.mu.swaps++
	r.spliced = true
	a := &l.mu.aborted
	for _, base := range s.replaced {
		a.forget(base)
	}
	for base, n := range r.aborted {
		if a.files == nil {
			a.files = map[int64]int{}
		}
		a.files[base] = n
	}
	l.mu.Unlock()
	for _, old := range r.old {
		old.Close()
	}
}

// settleSwap gives the new files their names, removes what they replace, and takes the .swap file away.
func (l *Log) settleSwap(r *replacement, s *swap) error {
	files := l.set.fs
	for _, fresh := range r.fresh {
		if err := fresh.Settle(l.segmentOptions()); err != nil {
			return err
		}
	}
	for base := range r.aborted {
		if err := files.Rename(l.txnName(base)+segment.CleanSuffix, l.txnName(base)); err != nil {
			return err
		}
		delete(r.aborted, base)
	}
	if err := s.remove(files, l.dir); err != nil {
		return err
	}
	if err := files.SyncDir(l.dir); err != nil {
		return err
	}
	l.saving.Lock()
	defer l.saving.Unlock()
	if err := l.adjustSnapshot(s); err != nil {
		return err
	}
	return files.Remove(filepath.Join(l.dir, s.name()))
}

// sameSegments returns errSwapped if segments were replaced since a view was taken, or are being replaced.
func (l *Log) sameSegments(v *view) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.swaps != v.swaps || v.swaps%2 != 0 {
		return fmt.Errorf("%s: %w", l.part, errSwapped)
	}
	return nil
}

// settled waits for the end of a replacement.
func (l *Log) settled() {
	l.structure.Lock()
	defer l.structure.Unlock()
}

// createClean makes a file for a segment to be, unless the directory is no longer the log's.
func (l *Log) createClean(name string) (vfs.File, error) {
	l.structure.Lock()
	defer l.structure.Unlock()
	l.mu.Lock()
	err := l.mu.usable()
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return l.set.fs.Create(name)
}

// removeClean removes what a compaction has written in vain.
func (l *Log) removeClean(bases []int64) {
	l.structure.Lock()
	defer l.structure.Unlock()
	l.mu.Lock()
	err := errors.Join(l.mu.usable(), l.mu.failure)
	l.mu.Unlock()
	if err != nil {
		return // recovery does it, also if they are wanted after all, or they go with the directory
	}
	for _, base := range bases {
		for _, suffix := range swapKinds() {
			err = errors.Join(err, removeIfThere(l.set.fs, filepath.Join(l.dir, segment.FileName(base, suffix)+segment.CleanSuffix)))
		}
	}
	if err != nil {
		l.set.logger.Warn("temporary files could not be removed; the next start tries again",
			zap.Stringer("partition", l.part), zap.Error(err))
	}
}

func removeIfThere(files vfs.FS, name string) error {
	if err := files.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
