package storage

import "testing"

// TestWhatIsRememberedOfAbortedTransactionsEndsWithAReplacement: the segment that takes the place of another has its name and others'
// markers.
func TestWhatIsRememberedOfAbortedTransactionsEndsWithAReplacement(t *testing.T) {
	t.Parallel()
	w := upkeepWorld(t, nil)
	w.config.Compact, w.config.Delete, w.config.MinCleanableRatio, w.config.SegmentBytes = true, false, 0, 200
	l := w.open()
	for id := range int64(2) {
		x := txn{t: t, l: l, id: 1 + id}
		x.send(1)
		x.end(false)
	}
	put(t, l, keyed(t, w.clock.Now(), "4", "b"))
	put(t, l, keyed(t, w.clock.Now(), "5", "c"))
	if _, aborted := committed(t, l, 0); len(aborted) != 1 {
		t.Fatal(aborted)
	}
	w.config.SegmentBytes = 10_000
	l.SetConfig(w.config)
	if err := compactNow(t, w, l); err != nil {
		t.Fatal(err)
	}
	if _, aborted := committed(t, l, 0); len(aborted) != 2 || l.mu.segments[0].Next() < 4 {
		t.Errorf("of two that are in the first segment now: %v", aborted)
	}
}

// TestATransactionThatEndsBehindAnotherIsListed: a marker behind the records doesn't mean that all that began in them have ended.
func TestATransactionThatEndsBehindAnotherIsListed(t *testing.T) {
	t.Parallel()
	list := []abortedTxn{
		{producerID: 1, firstOffset: 0, lastOffset: 10, lastStable: 1},
		{producerID: 2, firstOffset: 1, lastOffset: 11, lastStable: 12},
		{producerID: 3, firstOffset: 12, lastOffset: 13, lastStable: 14}, // not looked at
	}
	if found, ended := overlapping(nil, list, 0, 2); len(found) != 2 || !ended {
		t.Errorf("%v, %v", found, ended)
	}
}
