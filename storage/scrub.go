package storage

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/segment"
)

// scrub rereads all segments that have ended, at a bounded rate, so that rot is known before anyone needs the data.
func (m *maintenance) scrub() {
	began := m.set.clock.Now()
	found := 0
	m.set.Each(func(l *Log) bool {
		found += m.scrubLog(l)
		return m.ctx.Err() == nil
	})
	if m.ctx.Err() == nil {
		now := m.set.clock.Now()
		m.set.upkeep.scrubs.Inc()
		m.set.logger.Debug("all segments have been reread", zap.Duration("took", now.Sub(began)), zap.Int("rotten", found))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.scrubbing = false
	m.mu.scrubAt = time.Time{}
	if every := m.settings().ScrubInterval; every > 0 {
		m.mu.scrubAt = later(m.set.clock.Now(), every)
	}
	m.arm()
}

// scrubLog rereads a log and returns how many segments were found rotten that were thought sound.
func (m *maintenance) scrubLog(l *Log) (rotten int) {
	pace := func(bytes int) error {
		m.set.upkeep.scrubbed.Add(float64(bytes))
		return m.scrubber.pace(m.ctx, bytes, m.settings().ScrubBytesPerSecond)
	}
	v, err := l.view(ReadUncommitted)
	if err != nil {
		return 0 // not ready, or gone
	}
	for i := 0; i+1 < len(v.segments); i++ {
		s := v.segments[i]
		if len(s.Damages()) > 0 {
			continue // it is known
		}
		err := s.Batches(pace, func(batch.Batch) error { return nil })
		switch {
		case err == nil || segment.IsClosed(err):
		case m.ctx.Err() != nil:
			return rotten
		case errors.Is(err, segment.ErrIndex):
			err = errors.Join(err, l.rebuild(s)) // says what is damaged, if it isn't the index alone
			fallthrough
		default:
			rotten++
			m.set.upkeep.rot.Inc()
			m.set.logger.Error("a segment was found rotten", zap.Stringer("partition", l.part),
				zap.String("segment", s.DataName()), zap.Error(err))
		}
	}
	return rotten
}

// pacer bounds a rate. Concurrent calls are allowed.
type pacer struct {
	clock clock.Clock

	mu struct {
		sync.Mutex
		free time.Time // when what was let through so far has been paid for
	}
}

// pace waits until so many bytes may be read or written at a rate in bytes a second; <= 0 is no bound. It returns the
// context's error if that ends before.
func (p *pacer) pace(ctx context.Context, bytes int, rate float64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if rate <= 0 || rate >= math.MaxInt64 {
		return nil
	}
	now := p.clock.Now()
	p.mu.Lock()
	start := p.mu.free
	if start.Before(now) {
		start = now
	}
	p.mu.free = start.Add(time.Duration(min(float64(bytes)/rate*float64(time.Second), float64(time.Hour))))
	p.mu.Unlock()
	wait := start.Sub(now)
	if wait <= 0 {
		return nil
	}
	t := p.clock.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
