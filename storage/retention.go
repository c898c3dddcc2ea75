package storage

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/storage/segment"
)

// retain removes the segments that are over the log's limits, oldest first: by size as long as what is left is no smaller
// than the limit, by age if the newest record of the segment is too old. If that is all of them, the last one is ended
// first, so that the log goes on, empty.
func (l *Log) retain(now time.Time) error {
	config := l.config.Load()
	l.mu.Lock()
	usable := l.mu.phase == ready && l.mu.failure == nil
	segments, offsets := l.mu.segments, l.mu.offsets
	l.mu.Unlock()
	if !usable || !config.Delete || len(segments) == 0 {
		return nil
	}
	n := overSize(segments, config.RetentionBytes)
	n += tooOld(segments[n:], now, config.RetentionAge)
	if n == 0 {
		return nil
	}
	before := offsets.End
	switch last := segments[len(segments)-1]; {
	case n < len(segments):
		before = segments[n].Base
	case last.Size() == 0 || offsets.HighWatermark < offsets.End:
		before = last.Base // what isn't acknowledged yet is too young
		n--
	default:
		if err := l.rollIf(func(s *segment.Segment) bool { return s == last && s.Next() == offsets.End }); err != nil {
			return fmt.Errorf("%s: retention: %w", l.part, err)
		}
	}
	if before <= offsets.Start || before > l.Offsets().HighWatermark {
		return nil
	}
	if _, err := l.Trim(before); err != nil {
		return err
	}
	l.set.upkeep.expired.Add(float64(n))
	l.set.logger.Debug("retention", zap.Stringer("partition", l.part), zap.Int("segments", n), zap.Int64("log_start", before))
	return nil
}

// overSize is how many of the oldest segments may go so that the log isn't smaller than the limit.
func overSize(segments []*segment.Segment, limit int64) int {
	if limit < 0 {
		return 0
	}
	excess := -limit
	for _, s := range segments {
		excess += s.Size()
	}
	n := 0
	for n < len(segments) && segments[n].Size() <= excess {
		excess -= segments[n].Size()
		n++
	}
	return n
}

// tooOld is how many of the oldest segments have only records older than a limit.
func tooOld(segments []*segment.Segment, now time.Time, limit time.Duration) int {
	if limit < 0 {
		return 0
	}
	n := 0
	for n < len(segments) && now.Sub(lastChange(segments, n)) > limit {
		n++
	}
	return n
}

// lastChange is the time of a segment's newest record or, if none has one, when the segment was ended, which is when the next
// one was made.
func lastChange(segments []*segment.Segment, i int) time.Time {
	s := segments[i]
	if ms := s.MaxTimestamp(); ms >= 0 {
		return time.UnixMilli(ms)
	}
	if i+1 < len(segments) {
		return time.UnixMilli(segments[i+1].CreatedMs())
	}
	return time.UnixMilli(s.CreatedMs())
}

// rollIf ends the last segment if it isn't empty and a condition, asked while nothing is appended, holds.
func (l *Log) rollIf(condition func(last *segment.Segment) bool) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	err := l.mu.usable()
	if err == nil {
		err = l.mu.failure
	}
	s := l.mu.active()
	l.mu.Unlock()
	if err != nil || s == nil || s.Size() == 0 || !condition(s) {
		return err
	}
	if _, err = l.roll(); err != nil {
		return l.writeError("roll", err)
	}
	return nil
}

// rollIdle ends the last segment if it has been there for longer than segment.ms, though nothing is appended that would
// notice. due is when to look again; zero if there is nothing to wait for.
func (l *Log) rollIdle(now time.Time) (due time.Time, err error) {
	config := l.config.Load()
	l.mu.Lock()
	s, filled := l.mu.active(), l.mu.filled
	l.mu.Unlock()
	if s == nil || filled.IsZero() {
		return time.Time{}, nil
	}
	age := config.rollAge(l.part, s.Base)
	if age <= 0 {
		return time.Time{}, nil
	}
	if due = filled.Add(age); now.Before(due) {
		return due, nil
	}
	return time.Time{}, l.rollIf(func(last *segment.Segment) bool { return last == s })
}
