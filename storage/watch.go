package storage

import "slices"

type watch struct{ Waiter }

// Watch tells w whenever the log moves on, until stop is called; one call may still be under way when stop returns.
func (l *Log) Watch(w Waiter) (stop func()) {
	entry := &watch{w}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.waiters = append(l.mu.waiters, entry)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.Index(l.mu.waiters, entry); i >= 0 {
			l.mu.waiters = slices.Delete(l.mu.waiters, i, i+1)
		}
	}
}

// wake tells the waiters. No lock is held.
func (l *Log) wake() {
	var few [8]*watch
	l.mu.Lock()
	waiters := append(few[:0], l.mu.waiters...)
	l.mu.Unlock()
	for _, w := range waiters {
		w.Advance()
	}
}

// advance moves the high watermark to an offset and its position in the last segment, and with it the last stable offset.
// It says whether anything moved. The caller holds mu.
func (l *Log) advance(offset, pos int64) bool {
	before := l.mu.offsets
	if offset >= before.HighWatermark {
		l.mu.offsets.HighWatermark, l.mu.seenPos = offset, pos
	}
	stable := l.mu.offsets.HighWatermark
	if l.mu.producers != nil {
		if first, ok := l.mu.producers.FirstUnstable(stable); ok {
			stable = min(stable, first)
		}
	}
	l.mu.offsets.LastStable = max(stable, l.mu.offsets.Start)
	return l.mu.offsets.HighWatermark != before.HighWatermark || l.mu.offsets.LastStable != before.LastStable
}
