package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/producer"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// recoveryCheckpointBytes is from how many examined bytes on recovery ends with a checkpoint, so that another restart
// doesn't examine them again.
const recoveryCheckpointBytes = 4 << 20

// open recovers the log and makes it ready, or refuses it for good. A log that was closed or deleted before its turn came stays
// so: its directory may be another's.
func (l *Log) open() error {
	l.set.slots <- struct{}{} // before writing, as when logs are closed
	defer func() { <-l.set.slots }()
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.isClosed() {
		return ErrClosed
	}
	err := l.recover()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("recover %s: %w", l.part, err)
	l.mu.Lock()
	l.mu.phase, l.mu.refusal = refused, err
	segments := l.mu.segments
	l.mu.segments = nil
	l.mu.Unlock()
	for _, s := range segments {
		s.Close()
	}
	l.set.metrics.recovered.WithLabelValues("refused").Inc()
	l.set.logger.Error("partition is refused", zap.Stringer("partition", l.part), zap.String("directory", l.dir), zap.Error(err))
	return err
}

// startEmpty makes a log without files ready, unless it has been closed meanwhile.
func (l *Log) startEmpty() {
	start := l.set.options.LogStart(l.part)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.phase == closed {
		return
	}
	l.mu.offsets = Offsets{Start: start, End: start, HighWatermark: start, LastStable: start}
	l.mu.phase = ready
}

// recovery is what recover knows while it goes.
type recovery struct {
	log      *Log
	bases    []int64 // of the segments, ascending
	side     []string
	snapshot *snapshot // nil if there is none that can be used as proof
	trusted  bool      // whether what the snapshot covers need not be examined
	start    int64
	end      int64
	base     int64 // of the segment being examined
	from     int64 // offset from which batches are replayed
	outcome  segment.Outcome
	examined int64
	found    string // the worst that was found
}

// recover brings the partition's files and the log's state to agree, by the recovery table in docs/storage-format.md. The
// caller holds writing.
func (l *Log) recover() error {
	names, err := l.set.list(l.dir)
	if err != nil {
		return err
	}
	r := &recovery{log: l, found: "clean"}
	r.sort(names)
	missing, err := findMissing(l.set.fs, l.dir, l.set.options.LogStart(l.part), r.bases, r.side)
	if err != nil {
		return err
	}
	ours, err := r.checkID(len(r.bases)+len(missing) > 0)
	if err != nil {
		return err
	}
	if !ours {
		l.startEmpty()
		return nil
	}
	if err = r.finishSwaps(names); err != nil {
		return err
	}
	if err = r.replaceMissing(); err != nil {
		return err
	}
	if len(r.bases) == 0 {
		if err = r.removeSides(nil); err == nil {
			err = r.nothing()
		}
		return err
	}
	if err = r.loadSides(); err != nil {
		return err
	}
	if err = r.loadSegments(); err != nil {
		return err
	}
	r.finish()
	return nil
}

// sort takes the directory's names apart.
func (r *recovery) sort(names []string) {
	for _, name := range names {
		base, suffix, ok := segment.ParseFileName(name)
		switch {
		case ok && suffix == segment.SuffixData:
			r.bases = append(r.bases, base)
		case ok && (suffix == segment.SuffixIndex || suffix == segment.SuffixTxnIndex), strings.HasSuffix(name, segment.TempSuffix):
			r.side = append(r.side, name)
		}
	}
	slices.Sort(r.bases)
}

// replaceMissing puts empty data files in the place of those that are missing though the index speaks of batches in them. So they
// are segments like others, all of whose batches are damaged, at the next start too.
func (r *recovery) replaceMissing() error {
	l := r.log
	missing, err := findMissing(l.set.fs, l.dir, l.set.options.LogStart(l.part), r.bases, r.side)
	if err != nil || len(missing) == 0 {
		return err
	}
	for _, base := range missing {
		l.set.logger.Error("data file is missing, though its index speaks of acknowledged batches; an empty one stands in for it",
			zap.Stringer("partition", l.part), zap.String("file", segment.FileName(base, segment.SuffixData)))
	}
	r.bases, err = standIn(l.set.fs, l.dir, r.bases, missing)
	return err
}

// findMissing lists the bases of the segments that have an index which speaks of batches from the log start on, and no data file.
func findMissing(files vfs.FS, dir string, start int64, bases []int64, names []string) ([]int64, error) {
	var missing []int64
	for _, name := range names {
		base, suffix, ok := segment.ParseFileName(name)
		if !ok || suffix != segment.SuffixIndex || slices.Contains(bases, base) {
			continue
		}
		next, found, err := segment.Lost(files, dir, base)
		if err != nil {
			return nil, err
		}
		if found && next > start {
			missing = append(missing, base)
		}
	}
	return missing, nil
}

// standIn makes empty data files for the segments that miss theirs, and returns the bases of all.
func standIn(files vfs.FS, dir string, bases, missing []int64) ([]int64, error) {
	for _, base := range missing {
		if err := writeSynced(files.Create, filepath.Join(dir, segment.FileName(base, segment.SuffixData)), nil); err != nil {
			return nil, err
		}
	}
	all := slices.Concat(bases, missing)
	slices.Sort(all)
	return all, files.SyncDir(dir)
}

// finishSwaps completes compactions that were interrupted, and looks at the directory again if there were any.
func (r *recovery) finishSwaps(names []string) error {
	found, err := r.log.finishSwaps(names)
	if err != nil || !found {
		return err
	}
	if names, err = r.log.set.list(r.log.dir); err == nil {
		r.bases, r.side = nil, nil
		r.sort(names)
	}
	return err
}

// checkID compares the id file with the topic. A directory of another topic is moved aside, and is not ours. One whose id
// can't be read is refused if there are segments, unless the snapshot says that it is ours.
func (r *recovery) checkID(segments bool) (ours bool, err error) {
	l := r.log
	id, err := readID(l.set.fs, l.dir)
	switch {
	case err == nil && id == l.part.ID:
		return true, nil
	case err == nil:
		l.set.logger.Warn("directory belongs to another topic and is moved aside",
			zap.String("directory", l.dir), zap.Stringer("topic_id", id))
		r.side, r.bases = nil, nil
		return false, l.set.moveAside(id, l.dir)
	case errors.Is(err, fs.ErrNotExist) && !segments:
		return true, nil
	case !errors.Is(err, errSideFile) && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if s, snapshotErr := l.readSnapshot(); snapshotErr == nil && s != nil && s.id == l.part.ID {
		return true, replaceFile(l.set.fs, filepath.Join(l.dir, idName), encodeID(l.part.ID))
	}
	return false, &CorruptionError{Partition: l.part, Segment: idName, Kind: "topic id doesn't verify; `kbroker storage repair` writes it again"}
}

// nothing makes a log without segments ready. If a snapshot says that there were some, their offsets are not given out
// again, and reading them is an error.
func (r *recovery) nothing() error {
	l := r.log
	if err := r.loadSnapshot(); err != nil {
		return err
	}
	l.mu.producers = nil
	l.startEmpty()
	start, end := int64(0), int64(0)
	if s := r.snapshot; s != nil {
		start, end = s.start, s.end
	}
	l.mu.Lock()
	o := &l.mu.offsets
	o.Start = max(o.Start, start)
	o.End = max(o.Start, end)
	o.HighWatermark, o.LastStable = o.End, o.End
	missing := o.Start < o.End
	l.mu.Unlock()
	if missing {
		r.worse("damaged")
		l.set.metrics.damaged.Inc()
		l.set.logger.Error("all segments are missing", zap.Stringer("partition", l.part), zap.Int64("log_end", end))
	}
	l.set.metrics.recovered.WithLabelValues(r.found).Inc()
	return nil
}

// loadSides reads snapshot, epochs and aborted transactions. What is missing or bad withdraws trust, so that it is made
// anew from the batches.
func (r *recovery) loadSides() error {
	if err := r.loadSnapshot(); err != nil {
		return err
	}
	l := r.log
	r.start = l.set.options.LogStart(l.part)
	if r.snapshot != nil {
		r.start = max(r.start, r.snapshot.start)
	}
	if err := r.loadEpochs(); err != nil {
		return err
	}
	if r.trusted {
		if err := r.loadAborted(); err != nil {
			return err
		}
	}
	if !r.trusted {
		l.mu.producers, l.mu.epochs, l.mu.aborted = nil, epochs{dirty: true}, aborted{}
		return r.removeSides(func(suffix string) bool { return suffix == segment.SuffixTxnIndex })
	}
	r.from = r.snapshot.end
	return nil
}

func (r *recovery) loadSnapshot() error {
	l := r.log
	s, err := l.readSnapshot()
	if errors.Is(err, errSideFile) {
		l.set.logger.Warn("snapshot is discarded; everything is examined", zap.Stringer("partition", l.part), zap.Error(err))
		return nil
	}
	if err != nil || s == nil || s.id != l.part.ID {
		return err
	}
	r.snapshot = s
	if len(s.producers) > 0 {
		l.mu.producers, err = producer.Decode(s.producers, l.config.Load().ProducerExpiration.Milliseconds())
		if errors.Is(err, producer.ErrVersion) {
			return fmt.Errorf("%s: %w", snapshotName, err)
		}
	}
	r.trusted = err == nil && slices.Contains(r.bases, s.base)
	return nil
}

func (r *recovery) loadEpochs() error {
	l := r.log
	b, err := readFile(l.set.fs, filepath.Join(l.dir, epochsName))
	var list []epochStart
	if err == nil {
		list, err = decodeEpochs(b)
	}
	if errors.Is(err, errSideFile) || errors.Is(err, fs.ErrNotExist) {
		r.trusted = false
		return nil
	}
	l.mu.epochs.list = list
	return err
}

// loadAborted checks the .txnindex files that the snapshot lists, and reads the last segment's.
func (r *recovery) loadAborted() error {
	l := r.log
	for base, count := range r.snapshot.aborted {
		if base < r.bases[0] {
			continue
		}
		b, err := readFile(l.set.fs, l.txnName(base))
		var list []abortedTxn
		if err == nil {
			list, err = decodeAborted(base, b)
		}
		if errors.Is(err, errSideFile) || errors.Is(err, fs.ErrNotExist) || (err == nil && len(list) < count) {
			r.trusted = false
			return nil
		}
		if err != nil {
			return err
		}
		if base == r.snapshot.base {
			l.mu.aborted.base, l.mu.aborted.list = base, list[:count:count]
			continue
		}
		if l.mu.aborted.files == nil {
			l.mu.aborted.files = map[int64]int{}
		}
		l.mu.aborted.files[base] = count
	}
	return nil
}

// removeSides removes temporary files, side files without their data file, and those with a suffix that is unwanted.
func (r *recovery) removeSides(unwanted func(suffix string) bool) error {
	for _, name := range r.side {
		base, suffix, ok := segment.ParseFileName(name)
		temporary := strings.HasSuffix(name, segment.TempSuffix)
		if ok && !temporary && slices.Contains(r.bases, base) && (unwanted == nil || !unwanted(suffix)) {
			continue
		}
		err := r.log.set.fs.Remove(filepath.Join(r.log.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// loadSegments opens the segments in order, and repairs what may be repaired.
func (r *recovery) loadSegments() error {
	if err := r.removeSides(nil); err != nil {
		return err
	}
	r.dropBelowStart()
	for i, base := range r.bases {
		next := int64(-1)
		if i+1 < len(r.bases) {
			next = r.bases[i+1]
		}
		s, err := r.loadSegment(base, next)
		if err != nil {
			return err
		}
		r.log.mu.segments = append(r.log.mu.segments, s)
		r.end = s.Next()
	}
	return nil
}

// dropBelowStart removes segments that lie wholly below the log start: a trim was interrupted.
func (r *recovery) dropBelowStart() {
	n := 0
	for n+1 < len(r.bases) && r.bases[n+1] <= r.start {
		n++
	}
	for _, base := range r.bases[:n] {
		var names []string
		for _, suffix := range []string{segment.SuffixData, segment.SuffixIndex, segment.SuffixTxnIndex} {
			names = append(names, filepath.Join(r.log.dir, segment.FileName(base, suffix)))
		}
		r.log.set.remove(&removal{part: r.log.part, names: names})
		r.log.mu.aborted.forget(base)
	}
	r.bases = r.bases[n:]
}

// loadSegment opens one segment; next is the base of the one that follows, or -1.
func (r *recovery) loadSegment(base, next int64) (*segment.Segment, error) {
	l := r.log
	if next >= 0 && r.trusted && base < r.snapshot.base {
		s, ok, err := segment.LoadSealed(l.segmentOptions(), base, next)
		if err != nil || ok {
			return s, err
		}
	}
	r.base = base
	s, out, err := segment.Load(l.segmentOptions(), base, r.evidence(base, next))
	if err != nil {
		return nil, err
	}
	r.examined += out.Examined
	for _, d := range out.Damage {
		r.worse("damaged")
		l.reportDamage(s, d)
	}
	if next >= 0 {
		return s, r.afterSealed(s, out)
	}
	r.outcome = out
	return s, nil
}

// evidence collects what is known of a segment.
func (r *recovery) evidence(base, next int64) segment.Evidence {
	l := r.log
	config := l.config.Load()
	ev := segment.Evidence{
		Sealed: next >= 0, Next: next,
		MinEpoch: max(l.mu.epochs.at(max(r.from, base)-1), 0), MaxEpoch: l.leaderEpoch(),
		MayHaveGaps: config.Compact, CutUnproven: config.CutUnproven,
		NowMs: clock.UnixMilli(l.set.clock), Visit: r.visit,
	}
	s := r.snapshot
	if s == nil || base > s.base {
		return ev
	}
	if base == s.base {
		ev.ProvenSize, ev.ProvenNext = s.size, s.end
		if r.trusted {
			ev.Trusted = segment.Trusted{Size: s.size, Next: s.end, Entries: s.entries}
		}
	} else if next < 0 {
		ev.Sealed, ev.Next = true, s.base // the snapshot's segment followed, and is missing
	}
	return ev
}

// visit replays a batch that was found sound.
func (r *recovery) visit(b batch.Batch, _, _ int64) {
	l := r.log
	if b.BaseOffset() < r.from {
		return
	}
	if l.mu.epochs.note(b.LeaderEpoch(), b.BaseOffset()) {
		l.mu.epochs.dirty = true
	}
	if b.ProducerID() < 0 {
		return
	}
	if done, ok := l.producers(l.config.Load()).Replay(b); ok && done.Aborted {
		l.mu.aborted.add(r.base, done)
	}
}

// afterSealed writes what is to be written of a segment with a successor. If that fails, the log is served all the same.
func (r *recovery) afterSealed(s *segment.Segment, out segment.Outcome) error {
	l := r.log
	if err := s.Repair(l.segmentOptions(), out, nil); err != nil {
		l.set.logger.Warn("index could not be mended", zap.Stringer("partition", l.part), zap.Error(err))
	}
	return l.saveAborted()
}

// finish judges the last segment and makes the log ready.
func (r *recovery) finish() {
	l := r.log
	s := l.mu.active()
	err := r.settleLast(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		_ = l.fail("recovery", err)
	}
	l.mu.offsets = Offsets{Start: r.start, End: r.end}
	l.mu.epochs.cut(r.end)
	l.mu.epochs.trim(r.start)
	l.mu.endPos, l.mu.tail = l.mu.active().Size(), &tail{}
	if l.mu.producers != nil {
		l.mu.producers.SetExpiration(l.config.Load().ProducerExpiration.Milliseconds()) // it may have changed meanwhile
		l.mu.producers.Expire(clock.UnixMilli(l.set.clock))
	}
	if s = l.mu.active(); s.Size() > 0 {
		l.mu.filled = time.UnixMilli(s.CreatedMs())
	}
	l.advance(r.end, l.mu.endPos)
	l.mu.phase = ready
	if r.trusted {
		l.snapshotEnd, l.snapshotStart = r.snapshot.end, r.snapshot.start
	}
	if r.examined >= recoveryCheckpointBytes && l.mu.failure == nil {
		l.checkpointSoon()
	}
	r.report()
}

// settleLast repairs the last segment and opens it for writing; if it is damaged, or missing in part, a new one is begun
// where the acknowledged offsets end. An error means that the log takes no writes.
func (r *recovery) settleLast(s *segment.Segment) error {
	l, out := r.log, r.outcome
	if out.Undecided != nil {
		r.worse("undecided")
		d := *out.Undecided
		return &CorruptionError{
			Partition: l.part, Segment: s.DataName(), Position: d.From,
			Kind: "bytes that may have been acknowledged don't verify (" + d.Kind + "); `kbroker storage repair` decides",
		}
	}
	if out.Torn {
		r.worse("torn")
		l.set.logger.Warn("a write that was never acknowledged is cut off and kept aside",
			zap.Stringer("partition", l.part), zap.String("segment", s.DataName()), zap.Int64("position", out.Size),
			zap.Int64("bytes", out.FileSize-out.Size))
	}
	keep := func(f io.ReaderAt, from, to int64) error { return r.keepTorn(s, f, from, to) }
	if err := s.Repair(l.segmentOptions(), out, keep); err != nil {
		return err
	}
	end := max(r.end, r.start)
	if r.snapshot != nil {
		end = max(end, r.snapshot.end)
	}
	if r.end < end && r.start < end {
		r.worse("damaged")
		s.Lose(segment.Damage{From: s.Size(), To: s.Size(), First: r.end, Next: end, Kind: "batches are missing"})
		l.reportDamage(s, segment.Damage{From: s.Size(), To: s.Size(), First: r.end, Next: end, Kind: "batches are missing"})
	}
	if len(s.Damages()) == 0 && end == r.end {
		if err := r.syncNames(s); err != nil {
			return err
		}
		return s.Activate()
	}
	r.end = end
	if err := l.saveAborted(); err != nil {
		return err
	}
	fresh, err := segment.Create(l.segmentOptions(), end, clock.UnixMilli(l.set.clock))
	if err != nil {
		return err
	}
	l.mu.segments = append(l.mu.segments, fresh)
	return nil
}

// syncNames makes the names of the last segment's files durable, which a process that was killed may have left undone, and
// without which no sync of what they hold lasts. A checkpoint of this very segment with nothing behind it is from later.
func (r *recovery) syncNames(s *segment.Segment) error {
	if r.trusted && r.snapshot.base == s.Base && r.examined == 0 {
		return nil
	}
	return r.log.set.fs.SyncDir(r.log.dir)
}

// keepTorn copies bytes that are about to be cut off to a file beside the segment, unless they are all zero.
func (r *recovery) keepTorn(s *segment.Segment, f io.ReaderAt, from, to int64) error {
	l := r.log
	name := filepath.Join(l.dir, fmt.Sprintf("%020d%s%d", s.Base, tornInfix, from))
	return copyTorn(l.set.fs, name, io.NewSectionReader(f, from, to-from))
}

// worse notes what was found, for the metrics, if nothing worse was before.
func (r *recovery) worse(found string) {
	ranks := []string{"clean", "torn", "damaged", "undecided"}
	if slices.Index(ranks, found) > slices.Index(ranks, r.found) {
		r.found = found
	}
}

func (r *recovery) report() {
	l := r.log
	if r.found == "clean" && r.examined > 0 {
		r.found = "examined"
	}
	l.set.metrics.recovered.WithLabelValues(r.found).Inc()
	l.set.metrics.recoveredBytes.Add(float64(r.examined))
	if first := l.mu.segments[0].Base; r.start < first {
		l.set.metrics.damaged.Inc()
		l.set.logger.Error("acknowledged batches are missing before the first segment", zap.Stringer("partition", l.part),
			zap.Int64("from", r.start), zap.Int64("to", first))
	}
	l.set.logger.Debug("partition recovered", zap.Stringer("partition", l.part), zap.String("found", r.found),
		zap.Int64("examined_bytes", r.examined), zap.Int64("log_end", r.end))
}

// reportDamage logs and counts a damaged range.
func (l *Log) reportDamage(s *segment.Segment, d segment.Damage) {
	l.set.metrics.damaged.Inc()
	l.set.logger.Error("acknowledged batches are damaged; they are kept, and the rest is served",
		zap.Stringer("partition", l.part), zap.String("segment", s.DataName()),
		zap.Int64("first_offset", d.First), zap.Int64("next_offset", d.Next),
		zap.Int64("from_byte", d.From), zap.Int64("to_byte", d.To), zap.String("kind", d.Kind))
}
