package storage

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/storage/segment"
)

// Trim moves the log start offset up to before, which must not lie above the high watermark; it never moves down. It is
// durable when the call returns, and only then visible. Segments wholly below it are removed, after Config.FileDeleteDelay;
// who reads them finishes undisturbed. It returns the new start.
func (l *Log) Trim(before int64) (start int64, err error) {
	l.structure.Lock()
	defer l.structure.Unlock()
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	err = l.mu.usable()
	offsets := l.mu.offsets
	l.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case before < 0 || before > offsets.HighWatermark:
		return offsets.Start, fmt.Errorf("%s: trim: %w: %d is above %d", l.part, ErrOffsetOutOfRange, before, offsets.HighWatermark)
	case before <= offsets.Start:
		return offsets.Start, nil
	}
	if err = l.set.options.SetLogStart(l.part, before); err != nil {
		return offsets.Start, fmt.Errorf("%s: trim: %w", l.part, err)
	}
	gone := l.moveStart(before)
	l.wake()
	l.removeSegments(gone)
	return before, nil
}

// moveStart makes a durable log start visible and returns the segments that lie below it. The checkpoint that follows knows the
// start too, should the metadata store be put back from an older copy.
func (l *Log) moveStart(start int64) []*segment.Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.offsets.Start = start
	l.mu.offsets.LastStable = max(l.mu.offsets.LastStable, start)
	l.mu.epochs.trim(start)
	n := below(l.mu.segments, start)
	gone := l.mu.segments[:n:n]
	l.mu.segments = l.mu.segments[n:]
	for _, s := range gone {
		l.mu.aborted.forget(s.Base)
	}
	l.checkpointSoon()
	return gone
}

// below is how many segments lie wholly below an offset. The last one never counts.
func below(segments []*segment.Segment, start int64) int {
	n := 0
	for n+1 < len(segments) && segments[n+1].Base <= start {
		n++
	}
	return n
}

// removeSegments closes segments that are no longer part of the log, and removes their files when the delay is over. What a
// crash leaves of them lies below the log start and is removed by recovery.
func (l *Log) removeSegments(gone []*segment.Segment) {
	if len(gone) == 0 {
		return
	}
	var names []string
	for _, s := range gone {
		s.Close()
		names = append(names, s.Names()...)
	}
	l.set.removeLater(l.part, names, l.config.Load().FileDeleteDelay)
	l.set.logger.Debug("segments removed", zap.Stringer("partition", l.part), zap.Int("segments", len(gone)))
}
