package storage

import (
	"fmt"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
)

// maxRecordsBytes bounds what the records of one batch may decompress to when a record in it is looked for by time.
const maxRecordsBytes = 256 << 20

// OffsetForTime finds the first record at or above the log start whose timestamp is at least ms, in ms, below what the
// isolation lets see. Records in damaged ranges are not found.
func (l *Log) OffsetForTime(ms int64, i Isolation) (o TimestampOffset, found bool, err error) {
	err = l.search(i, func(v *view, s *segment.Segment) (bool, error) {
		if s.MaxTimestamp() < ms {
			return false, nil
		}
		o, found, err = l.timeIn(v, s, ms)
		return found, err
	})
	return o, found, err
}

// timeIn looks for the first record of a segment whose timestamp is at least ms.
func (l *Log) timeIn(v *view, s *segment.Segment, ms int64) (TimestampOffset, bool, error) {
	for from := v.Start; ; {
		loc, found, err := s.FindTime(ms, from)
		if err != nil || !found || loc.First >= v.limit {
			return TimestampOffset{}, false, err
		}
		o, ok, err := l.recordIn(s, loc, v, func(timestamp int64) bool { return timestamp >= ms })
		if err != nil || ok {
			return o, ok, err
		}
		from = loc.Last + 1
	}
}

// MaxTimestamp finds the first record with the largest timestamp among those that the isolation lets see.
func (l *Log) MaxTimestamp(i Isolation) (o TimestampOffset, found bool, err error) {
	for attempt := 1; ; attempt++ {
		var v view
		if v, err = l.view(i); err != nil {
			return TimestampOffset{}, false, err
		}
		var s *segment.Segment
		if o, s, found, err = l.maxIn(&v); err == nil {
			return o, found, nil
		}
		if !l.again(s, err, attempt) {
			return TimestampOffset{}, false, l.corruption(s, err)
		}
	}
}

// maxIn is one attempt. The segment comes with an error.
func (l *Log) maxIn(v *view) (o TimestampOffset, s *segment.Segment, found bool, err error) {
	var best segment.Location
	var home *segment.Segment
	for _, s = range v.segments {
		if s.Next() <= v.Start || s.Base >= v.limit || (home != nil && s.MaxTimestamp() <= best.MaxTimestamp) {
			continue
		}
		loc, ok, maxErr := s.MaxTime(v.Start, v.limit)
		if maxErr != nil {
			return o, s, false, maxErr
		}
		if ok && (home == nil || loc.MaxTimestamp > best.MaxTimestamp) {
			best, home = loc, s
		}
	}
	if home == nil {
		return o, nil, false, nil
	}
	o, found, err = l.recordIn(home, best, v, func(timestamp int64) bool { return timestamp >= best.MaxTimestamp })
	return o, home, found, err
}

// search calls visit for each segment that holds something to see, in order, until it says that it is done. If segments
// are removed or an index is rebuilt meanwhile, it starts anew.
func (l *Log) search(i Isolation, visit func(v *view, s *segment.Segment) (bool, error)) error {
	for attempt := 1; ; attempt++ {
		v, err := l.view(i)
		if err != nil {
			return err
		}
		var last *segment.Segment
		for _, s := range v.segments {
			last = s
			if s.Next() <= v.Start || s.Base >= v.limit {
				continue
			}
			var done bool
			if done, err = visit(&v, s); err != nil || done {
				break
			}
		}
		if err == nil {
			return nil
		}
		if !l.again(last, err, attempt) {
			return l.corruption(last, err)
		}
	}
}

// recordIn finds the first record of a batch, within the view, whose timestamp is wanted. All records of a batch with the
// broker's time of append have the batch's maximum timestamp.
func (l *Log) recordIn(s *segment.Segment, loc segment.Location, v *view, wanted func(int64) bool) (TimestampOffset, bool, error) {
	b, err := s.ReadBatch(loc)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	payload, err := batch.Decompress(b.Codec(), b.Payload(), maxRecordsBytes)
	if err != nil {
		return TimestampOffset{}, false, fmt.Errorf("records of the batch at %d: %w", loc.First, err)
	}
	it := batch.Iterate(payload, b.NumRecords())
	for it.Next() {
		r := it.Record()
		offset, timestamp := loc.First+int64(r.OffsetDelta), b.BaseTimestamp()+r.TimestampDelta
		if b.IsAppendTime() {
			timestamp = b.MaxTimestamp()
		}
		if offset >= v.Start && offset < v.limit && wanted(timestamp) {
			return TimestampOffset{Offset: offset, Timestamp: timestamp, LeaderEpoch: b.LeaderEpoch()}, true, nil
		}
	}
	if err = it.Err(); err != nil {
		return TimestampOffset{}, false, fmt.Errorf("records of the batch at %d: %w", loc.First, err)
	}
	return TimestampOffset{}, false, nil
}
