package storage

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// testMetric is a counter's value.
func testMetric(tb testing.TB, c prometheus.Counter) float64 {
	tb.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// offsetForTime finds what OffsetForTime should, by looking at every record that is there.
func (k *keeper) offsetForTime(ms int64) (int64, bool) {
	for _, b := range readEverything(k.tb, k.log, k.log.Offsets().Start) {
		if b.IsControl() {
			if b.NumRecords() > 0 && b.MaxTimestamp() >= ms {
				return b.BaseOffset(), true
			}
			continue
		}
		for _, r := range k.records(b) {
			if r.timestamp >= ms {
				return r.offset, true
			}
		}
	}
	return 0, false
}

func (k *keeper) checkTimes() {
	k.tb.Helper()
	now := k.world.clock.Now().UnixMilli()
	newest := int64(-1)
	for range 40 {
		ms := now - k.rng.Int64N(60_000) + 2000
		o, found, err := k.log.OffsetForTime(ms, ReadUncommitted)
		if err != nil {
			k.tb.Fatal(err)
		}
		if want, there := k.offsetForTime(ms); found != there || (found && o.Offset != want) {
			k.tb.Fatalf("first record from %d on: %d %v, want %d %v", ms, o.Offset, found, want, there)
		}
	}
	for _, b := range readEverything(k.tb, k.log, k.log.Offsets().Start) {
		if b.NumRecords() > 0 {
			newest = max(newest, b.MaxTimestamp())
		}
	}
	o, found, err := k.log.MaxTimestamp(ReadUncommitted)
	if err != nil || found != (newest >= 0) || (found && o.Timestamp != newest) {
		k.tb.Fatalf("newest record: %+v %v %v, want %d", o, found, err, newest)
	}
}

func TestOffsetsByTimeAreRightAfterCompaction(t *testing.T) {
	t.Parallel()
	for seed := range seeds(60) {
		k := newKeeper(t, uint64(seed)+5000)
		for range 3 {
			for range 40 {
				k.write()
				k.world.clock.Advance(time.Duration(k.rng.IntN(500)) * time.Millisecond)
			}
			if err := k.compact(); err != nil {
				t.Fatal(err)
			}
			k.guard(seed, k.checkTimes)
		}
		k.guard(seed, func() {
			k.reopen(k.disk.Kill())
			k.checkTimes()
		})
		k.world.close()
	}
}
