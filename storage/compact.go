package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/cleaner"
	"github.com/kbroker/kbroker/storage/segment"
)

const (
	// compactionPause is the least time between two passes over the same log.
	compactionPause = time.Second
	// minGain is the part of a clean segment that must go for the segment to be written anew.
	minGain = 0.1
	// maxGroup bounds how many segments are merged into one.
	maxGroup = 1000
)

// compactionPlan is what could be compacted of a log now.
type compactionPlan struct {
	segments []*segment.Segment // from the log's first one on
	dirty    int                // how many of them are clean
	ratio    float64            // part of the bytes that is dirty
	due      bool               // whether it is to be done: the ratio, or the age of what is dirty, exceeds the limit
}

// isDirty says whether compaction has not been over a segment yet.
func isDirty(s *segment.Segment) bool {
	g := s.Generation()
	return g == 0 || g&segment.UnknownGeneration != 0
}

// planCompaction looks for what could be compacted. If nothing is due, next is when to look again because of the time that
// has passed; zero if only another roll can change anything.
func (l *Log) planCompaction(now time.Time) (p compactionPlan, next time.Time) {
	config := l.config.Load()
	l.mu.Lock()
	usable := l.mu.phase == ready && l.mu.failure == nil
	segments, stable := l.mu.segments, l.mu.offsets.LastStable
	l.mu.Unlock()
	if !config.Compact || !usable {
		return p, next
	}
	var total, dirtyBytes int64
	for i := 0; i+1 < len(segments); i++ {
		s := segments[i]
		if len(s.Damages()) > 0 || segments[i+1].Base > stable {
			break
		}
		if !isDirty(s) && dirtyBytes == 0 && len(p.segments) == p.dirty {
			p.dirty++
		} else {
			if wait := lagEnd(s, config).Sub(now); wait > 0 {
				next = now.Add(wait)
				break
			}
			dirtyBytes += s.Size()
		}
		total += s.Size()
		p.segments = append(p.segments, s)
	}
	if dirtyBytes == 0 {
		return compactionPlan{}, next
	}
	p.ratio = float64(dirtyBytes) / float64(total)
	p.due = p.ratio > config.MinCleanableRatio
	if p.due || config.MaxCompactionLag <= 0 || config.MaxCompactionLag == math.MaxInt64 {
		return p, next
	}
	latest := oldestTime(p.segments[p.dirty:]).Add(config.MaxCompactionLag)
	if p.due = !now.Before(latest); !p.due && (next.IsZero() || latest.Before(next)) {
		next = latest
	}
	return p, next
}

// lagEnd is from when on a dirty segment may be compacted.
func lagEnd(s *segment.Segment, config *Config) time.Time {
	if config.MinCompactionLag <= 0 {
		return time.Time{}
	}
	return newestTime(s).Add(config.MinCompactionLag)
}

// newestTime is the time of a segment's newest record or, if none has one, when the segment was made.
func newestTime(s *segment.Segment) time.Time {
	if ms := s.MaxTimestamp(); ms >= 0 {
		return time.UnixMilli(ms)
	}
	return time.UnixMilli(s.CreatedMs())
}

// oldestTime is the time of the oldest of the first batches of some segments.
func oldestTime(segments []*segment.Segment) time.Time {
	oldest := int64(math.MaxInt64)
	for _, s := range segments {
		first := s.FirstTimestamp()
		if first < 0 {
			first = s.CreatedMs()
		}
		oldest = min(oldest, first)
	}
	return time.UnixMilli(oldest)
}

// compactionLimits bounds what a pass may take.
type compactionLimits struct {
	MapBytes int64
	MapLoad  float64
	Pace     func(bytes int) error // called before so many bytes are read or written
}

// pass is one compaction of a log.
type pass struct {
	log    *Log
	ctx    context.Context //nolint:containedctx // a pass is one call
	plan   compactionPlan
	limits compactionLimits
	config *Config

	keys    *cleaner.Map
	end     int64 // offsets from here on are left for the next pass
	aborted []cleaner.AbortedTxn
	filter  *cleaner.Filter
}

// compact makes one pass. It returns errors of the disk, *CorruptionError, the context's, or that the log is closed; what
// was compacted until then stays so.
func (l *Log) compact(ctx context.Context, plan compactionPlan, limits compactionLimits) error {
	p := &pass{log: l, ctx: ctx, plan: plan, limits: limits, config: l.config.Load()}
	began := l.set.clock.Now()
	err := p.run()
	if err != nil {
		return fmt.Errorf("compact %s: %w", l.part, err)
	}
	stats := p.filter.Stats
	l.set.upkeep.compacted(&stats, l.set.clock.Now().Sub(began))
	l.set.logger.Debug("log compacted", zap.Stringer("partition", l.part), zap.Int64("up_to", p.end),
		zap.Int("keys", p.keys.Len()), zap.Int64("bytes_read", stats.Bytes), zap.Int64("bytes_kept", stats.KeptBytes),
		zap.Int64("records_read", stats.Records), zap.Int64("records_kept", stats.KeptRecords))
	return nil
}

func (p *pass) run() error {
	l := p.log
	var err error
	first, newest := p.plan.segments[0], p.plan.segments[len(p.plan.segments)-1]
	if p.aborted, err = l.allAborted(first.Base); err != nil {
		return err
	}
	dirty := p.plan.segments[p.plan.dirty:]
	p.keys = cleaner.NewMap(newest.Next()-dirty[0].Base, p.limits.MapBytes, p.limits.MapLoad)
	if err = p.note(dirty); err != nil {
		return err
	}
	last, err := l.lastBatches()
	if err != nil {
		return err
	}
	p.filter = cleaner.NewFilter(cleaner.Options{
		Keys: p.keys, Txns: cleaner.NewTransactions(p.aborted), Last: last,
		NowMs: l.set.clock.Now().UnixMilli(), DeleteRetentionMs: p.config.DeleteRetention.Milliseconds(),
		MaxRecordsBytes: maxRecordsBytes,
	})
	for _, group := range p.groups() {
		if err = p.rewrite(group); err != nil {
			return err
		}
	}
	return nil
}

// lastBatches is what each producer wrote last, and is durable: a batch before it may go, and a power cut must not take the
// last one too, or the producer would be forgotten.
func (l *Log) lastBatches() (map[int64]cleaner.LastBatch, error) {
	l.mu.Lock()
	if l.mu.producers == nil {
		l.mu.Unlock()
		return nil, nil
	}
	err := l.mu.usable()
	if err == nil {
		err = l.mu.failure
	}
	if err != nil {
		l.mu.Unlock()
		return nil, err
	}
	known := l.mu.producers.Last()
	g := l.join()
	l.mu.Unlock()
	<-g.done
	last := make(map[int64]cleaner.LastBatch, len(known))
	for id, p := range known {
		last[id] = cleaner.LastBatch{LastOffset: p.LastOffset, Epoch: p.Epoch}
	}
	return last, g.err
}

// allAborted lists the aborted transactions whose markers lie in a segment with the given base or a later one.
func (l *Log) allAborted(from int64) ([]cleaner.AbortedTxn, error) {
	l.mu.Lock()
	recent, bases := l.mu.aborted.list, l.mu.aborted.from(from)
	l.mu.Unlock()
	var all []cleaner.AbortedTxn
	add := func(list []abortedTxn) {
		for _, t := range list {
			all = append(all, cleaner.AbortedTxn{
				ProducerID: t.producerID, FirstOffset: t.firstOffset, LastOffset: t.lastOffset, LastStable: t.lastStable,
			})
		}
	}
	add(recent)
	for _, b := range bases {
		list, err := l.loadAborted(b)
		if err != nil {
			return nil, err
		}
		add(list)
	}
	return all, nil
}

// errRangeFull ends the reading of the dirty part.
var errRangeFull = errors.New("range is full")

// note reads the dirty segments and notes their keys, as far as they fit, which determines where the pass ends: after a whole
// segment, if one fits, else inside the first. A batch with more keys than fit at all is passed over: its records stay, and
// so does what they supersede.
func (p *pass) note(dirty []*segment.Segment) error {
	ended := func(t cleaner.AbortedTxn) bool { return t.LastOffset < dirty[0].Base }
	txns := cleaner.NewTransactions(slices.DeleteFunc(slices.Clone(p.aborted), ended))
	for i, s := range dirty {
		p.end = s.Base
		err := p.read(s, func(b batch.Batch) error {
			err := cleaner.Note(p.keys, txns, b, maxRecordsBytes)
			if errors.Is(err, cleaner.ErrFull) && (i > 0 || p.end > s.Base) {
				return errRangeFull
			}
			if err != nil && !errors.Is(err, cleaner.ErrFull) {
				return err
			}
			p.end = b.NextOffset()
			if err != nil {
				return errRangeFull
			}
			return nil
		})
		switch {
		case errors.Is(err, errRangeFull):
			if i > 0 {
				p.end = s.Base
			}
			p.plan.segments = p.plan.segments[:p.plan.dirty+max(i, 1)]
			return nil
		case err != nil:
			return err
		}
	}
	p.end = math.MaxInt64
	return nil
}

// read reads a segment batch by batch.
func (p *pass) read(s *segment.Segment, visit func(b batch.Batch) error) error {
	err := s.Batches(p.pace, visit)
	var damaged *segment.DamagedError
	if errors.Is(err, segment.ErrIndex) {
		if rebuilt := p.log.rebuild(s); rebuilt != nil {
			return rebuilt
		}
		return fmt.Errorf("%w: %w", errStale, err) // what is damaged is known now; else the next pass succeeds
	}
	if errors.As(err, &damaged) {
		return p.log.corruption(s, err)
	}
	return err
}

// pace waits for the rate and ends the pass if the log is closed or no longer to be compacted.
func (p *pass) pace(bytes int) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if err := p.log.Err(); err != nil {
		return err
	}
	if !p.log.config.Load().Compact {
		return context.Canceled
	}
	return p.limits.Pace(bytes)
}

// groups divides the segments into runs of neighbours that fit into one, by their sizes before.
func (p *pass) groups() [][]*segment.Segment {
	var groups [][]*segment.Segment
	var size, index int64
	for _, s := range p.plan.segments {
		n := len(groups) - 1
		fits := n >= 0 && len(groups[n]) < maxGroup && size+s.Size() <= p.config.SegmentBytes &&
			index+s.IndexBytes() <= p.config.IndexBytes && s.Next()-groups[n][0].Base <= segment.MaxRelativeOffset
		if !fits {
			groups = append(groups, nil)
			size, index, n = 0, 0, n+1
		}
		groups[n] = append(groups[n], s)
		size += s.Size()
		index += s.IndexBytes()
	}
	return groups
}
