package storage

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/segment"
)

// room returns the segment that a batch goes to: a new one if there is none or the last one is full or old. The caller
// holds writing.
func (l *Log) room(b batch.Batch, config *Config) (*segment.Segment, error) {
	l.mu.Lock()
	s, end := l.mu.active(), l.mu.offsets.End
	l.mu.Unlock()
	if s == nil {
		return l.begin(end)
	}
	if !l.rolling && !l.full(s, b, config, end) {
		return s, nil
	}
	return l.roll()
}

// full says whether a batch must go to a new segment. A segment without batches never is. Age counts by the records' time,
// from the first batch on, as far as they have one.
func (l *Log) full(s *segment.Segment, b batch.Batch, config *Config, end int64) bool {
	size := s.Size()
	if size == 0 {
		return false
	}
	if size+int64(len(b)) > config.SegmentBytes || s.IndexBytes()+segment.EntrySize > config.IndexBytes {
		return true
	}
	if end+int64(b.LastOffsetDelta())-s.Base > segment.MaxRelativeOffset {
		return true
	}
	age := config.rollAge(l.part, s.Base)
	return age > 0 && l.age(s, b.MaxTimestamp()) > age
}

// age is how much later a record's time is than the segment's first; by the clock if the records have no time.
func (l *Log) age(s *segment.Segment, timestamp int64) time.Duration {
	first := s.FirstTimestamp()
	if first < 0 || timestamp < 0 {
		first, timestamp = s.CreatedMs(), clock.UnixMilli(l.set.clock)
	}
	return time.Duration(timestamp-first) * time.Millisecond
}

// roll ends the last segment and begins the next. Data, index and directory of the old one are durable before the new one
// exists: recovery relies on it. If the new one can't be begun, the next append tries again, however small it is: a power cut may
// bring back the files of the attempt, and with them the old one ends here. The caller holds writing.
func (l *Log) roll() (*segment.Segment, error) {
	l.pauseSyncs()
	defer l.resumeSyncs()
	if err := l.flush(); err != nil {
		return nil, err
	}
	if err := l.saveAborted(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	end := l.mu.offsets.End
	l.mu.Unlock()
	l.rolling = true
	s, err := segment.Create(l.segmentOptions(), end, clock.UnixMilli(l.set.clock))
	if err != nil {
		return nil, err
	}
	l.rolling = false
	l.mu.Lock()
	l.addSegment(s)
	l.checkpointSoon()
	l.mu.Unlock()
	l.set.metrics.rolls.Inc()
	l.sealed()
	return s, nil
}

// addSegment makes s the one that takes appends; everything before it is durable. The caller holds mu.
func (l *Log) addSegment(s *segment.Segment) {
	l.mu.segments = append(l.mu.segments[:len(l.mu.segments):len(l.mu.segments)], s)
	l.mu.endPos, l.mu.seenPos = 0, 0
	l.mu.filled = time.Time{}
	l.mu.tail = &tail{}
	l.advance(l.mu.offsets.End, 0)
}

// begin makes the partition's directory and its first segment. The caller holds writing.
func (l *Log) begin(end int64) (*segment.Segment, error) {
	if err := l.makeDir(); err != nil {
		return nil, err
	}
	s, err := segment.Create(l.segmentOptions(), end, clock.UnixMilli(l.set.clock))
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addSegment(s)
	return s, nil
}

// makeDir makes the partition's directory with its id file, and makes them durable. The id comes first: no segment is
// ever without.
func (l *Log) makeDir() error {
	l.set.layout.Lock()
	defer l.set.layout.Unlock()
	fs := l.set.fs
	if err := fs.MkdirAll(l.dir, dirPerm); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := replaceFile(fs, filepath.Join(l.dir, idName), encodeID(l.part.ID)); err != nil {
		return fmt.Errorf("write id: %w", err)
	}
	topic := filepath.Dir(l.dir)
	for _, dir := range []string{topic, l.set.topics, l.set.dir} {
		if err := fs.SyncDir(dir); err != nil {
			return fmt.Errorf("sync directory: %w", err)
		}
	}
	return nil
}
