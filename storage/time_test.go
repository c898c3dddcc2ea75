package storage

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
)

// timedBatch is a batch with records at the given times.
func timedBatch(tb testing.TB, codec batch.Codec, times ...int64) batch.Batch {
	tb.Helper()
	m := batch.NoProducer()
	m.Codec = codec
	b := batch.NewBuilder(m)
	for _, ts := range times {
		b.Append(ts, nil, fmt.Appendf(nil, "at %d", ts))
	}
	out, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestOffsetForTimeFindsTheRecordInsideItsBatch(t *testing.T) {
	t.Parallel()
	w := osWorld(t)
	l := w.open()
	if _, found, err := l.OffsetForTime(0, ReadUncommitted); found || err != nil {
		t.Fatalf("in an empty log: %v %v", found, err)
	}
	if _, found, err := l.MaxTimestamp(ReadUncommitted); found || err != nil {
		t.Fatalf("in an empty log: %v %v", found, err)
	}
	put(t, l, timedBatch(t, batch.CodecNone, 10, 20, 15))
	put(t, l, timedBatch(t, batch.CodecGzip, 30, 40))
	put(t, l, timedBatch(t, batch.CodecNone, 25))
	for _, c := range []struct{ ask, offset, timestamp int64 }{
		{0, 0, 10}, {1, 0, 10}, {10, 0, 10}, {12, 1, 20}, {16, 1, 20}, {21, 3, 30}, {31, 4, 40}, {40, 4, 40}, {41, -1, 0},
	} {
		o, found, err := l.OffsetForTime(c.ask, ReadUncommitted)
		if err != nil || found != (c.offset >= 0) || (found && (o.Offset != c.offset || o.Timestamp != c.timestamp)) {
			t.Errorf("at %d: %+v %v %v, want offset %d", c.ask, o, found, err, c.offset)
		}
	}
	if o, found, err := l.MaxTimestamp(ReadUncommitted); err != nil || !found || o.Offset != 4 || o.Timestamp != 40 {
		t.Errorf("maximum: %+v %v %v", o, found, err)
	}
	if _, err := l.Trim(2); err != nil {
		t.Fatal(err)
	}
	if o, _, err := l.OffsetForTime(0, ReadUncommitted); err != nil || o.Offset != 2 || o.Timestamp != 15 {
		t.Errorf("after a trim: %+v %v", o, err)
	}
}

func TestOffsetForTimeWithTheBrokersTime(t *testing.T) {
	t.Parallel()
	w := osWorld(t)
	l := w.open()
	for i := range int64(3) {
		b := timedBatch(t, batch.CodecNone, 1, 2, 3)
		b.SetAppendTime(1000 + i)
		put(t, l, b)
	}
	if o, found, err := l.OffsetForTime(1001, ReadUncommitted); err != nil || !found || o.Offset != 3 || o.Timestamp != 1001 {
		t.Errorf("%+v %v %v", o, found, err)
	}
	if o, _, err := l.MaxTimestamp(ReadUncommitted); err != nil || o.Offset != 6 || o.Timestamp != 1002 {
		t.Errorf("%+v %v", o, err)
	}
}

func TestOffsetForTimeAgreesWithASearchThroughEverythingWhenClocksStepBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w, _ := simWorld(t)
		w.config.SegmentBytes, w.config.IndexIntervalBytes = 1500, int64(rng.IntN(400))
		w.config.SegmentAge = 0
		l := w.open()
		type record struct{ offset, ts int64 }
		var records []record
		now := int64(1000)
		for range 60 {
			var times []int64
			for range 1 + rng.IntN(4) {
				now += int64(rng.IntN(50)) - 15
				times = append(times, now)
				records = append(records, record{int64(len(records)), now})
			}
			put(t, l, timedBatch(t, batch.Codec(rng.IntN(5)), times...))
		}
		check := func(start int64) {
			for ask := int64(900); ask < 2400; ask += 13 {
				want := record{offset: -1}
				for _, r := range records {
					if r.offset >= start && r.ts >= ask {
						want = r
						break
					}
				}
				o, found, err := l.OffsetForTime(ask, ReadUncommitted)
				if err != nil || found != (want.offset >= 0) || (found && o.Offset != want.offset) {
					t.Fatalf("seed %d, from %d, time %d: %+v %v %v, want %+v", seed, start, ask, o, found, err, want)
				}
			}
			largest := records[start]
			for _, r := range records[start:] {
				if r.ts > largest.ts {
					largest = r
				}
			}
			if o, found, err := l.MaxTimestamp(ReadUncommitted); err != nil || !found || o.Offset != largest.offset {
				t.Fatalf("seed %d, from %d: maximum %+v %v %v, want %+v", seed, start, o, found, err, largest)
			}
		}
		check(0)
		w.close()
		l = w.open()
		check(0)
		w.close()
		for _, base := range bases(l) {
			must(t, w.fs.Remove(filepath.Join(testDir, segment.FileName(base, segment.SuffixIndex)))) // it is made anew
		}
		l = w.open()
		check(0)
		if _, err := l.Trim(37); err != nil {
			t.Fatal(err)
		}
		check(37)
	}
}

func TestSegmentsRollBySizeAgeAndIndex(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		change func(*Config)
		times  []int64 // of batches of one record
		want   int     // segments
	}{
		{name: "size", change: func(c *Config) { c.SegmentBytes = 200 }, times: []int64{1, 1, 1, 1, 1}, want: 3},
		{name: "age by the records", change: func(c *Config) { c.SegmentAge = time.Second }, times: []int64{1000, 1500, 2000, 2001, 3001, 3002}, want: 3},
		{name: "index", change: func(c *Config) { c.IndexBytes = 32 + 2*32 }, times: []int64{1, 1, 1, 1, 1}, want: 3},
		{name: "nothing", change: func(*Config) {}, times: []int64{1, 2, 3}, want: 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, _ := simWorld(t)
			c.change(&w.config)
			l := w.open()
			for _, ts := range c.times {
				put(t, l, timedBatch(t, batch.CodecNone, ts))
			}
			if l.Segments() != c.want {
				t.Fatalf("%d segments, want %d", l.Segments(), c.want)
			}
		})
	}
}

func TestSegmentsOfRecordsWithoutTimeRollByTheClock(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	w.config.SegmentAge = time.Minute
	l := w.open()
	put(t, l, timedBatch(t, batch.CodecNone, batch.NoTimestamp))
	w.clock.Advance(time.Minute)
	put(t, l, timedBatch(t, batch.CodecNone, batch.NoTimestamp))
	if l.Segments() != 1 {
		t.Fatalf("%d segments", l.Segments())
	}
	w.clock.Advance(time.Millisecond)
	put(t, l, timedBatch(t, batch.CodecNone, batch.NoTimestamp))
	if l.Segments() != 2 {
		t.Fatalf("%d segments", l.Segments())
	}
}

func TestJitterSpreadsTheRollsOfPartitions(t *testing.T) {
	t.Parallel()
	c := Config{SegmentAge: time.Hour, SegmentJitter: 10 * time.Minute}
	ages := map[time.Duration]bool{}
	for n := range int32(20) {
		age := c.rollAge(Partition{Number: n}, 0)
		if age > time.Hour || age <= 50*time.Minute {
			t.Fatalf("age %s", age)
		}
		ages[age] = true
	}
	if len(ages) < 15 {
		t.Fatalf("only %d different ages", len(ages))
	}
}
