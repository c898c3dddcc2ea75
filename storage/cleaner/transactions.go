package cleaner

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kbroker/kbroker/protocol/batch"
)

// AbortedTxn is a transaction that was aborted.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64 // of the transaction's first batch
	LastOffset  int64 // of the marker
	LastStable  int64 // the last stable offset once the marker was written
}

// Transactions follows the transactions of a log through a pass, batch by batch in the order of the offsets: which data was
// aborted, and which markers still have data. It is used by one goroutine at a time.
type Transactions struct {
	coming  []AbortedTxn // not begun yet, by first offset
	aborted map[int64]*abortedTxn
	// committed has the producers of whose open transaction data was seen that isn't aborted.
	committed map[int64]struct{}
}

// abortedTxn is an aborted transaction that has begun.
type abortedTxn struct {
	AbortedTxn
	seen bool // whether data of it was there
}

// NewTransactions starts at the beginning of a log whose aborted transactions are given.
func NewTransactions(aborted []AbortedTxn) *Transactions {
	coming := slices.Clone(aborted)
	slices.SortFunc(coming, func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return &Transactions{coming: coming, aborted: map[int64]*abortedTxn{}, committed: map[int64]struct{}{}}
}

// Clone is a copy that goes its own way.
func (t *Transactions) Clone() *Transactions {
	c := &Transactions{coming: t.coming, aborted: make(map[int64]*abortedTxn, len(t.aborted)), committed: maps.Clone(t.committed)}
	for id, a := range t.aborted {
		same := *a
		c.aborted[id] = &same
	}
	return c
}

// begin takes the aborted transactions into account that begin at or below an offset.
func (t *Transactions) begin(offset int64) {
	for len(t.coming) > 0 && t.coming[0].FirstOffset <= offset {
		a := t.coming[0]
		t.coming = t.coming[1:]
		if t.aborted[a.ProducerID] == nil {
			t.aborted[a.ProducerID] = &abortedTxn{AbortedTxn: a}
		}
	}
}

// Data takes a batch of data into account and says whether it was aborted.
func (t *Transactions) Data(b batch.Batch) (aborted bool) {
	t.begin(b.LastOffset())
	if !b.IsTransactional() {
		return false
	}
	if a := t.aborted[b.ProducerID()]; a != nil {
		a.seen = true
		return true
	}
	t.committed[b.ProducerID()] = struct{}{}
	return false
}

// Control takes a control batch into account. idle says that it is a marker of a transaction of which no data was there, so
// that it may go once its delete horizon has passed. kept, if not nil, is the aborted transaction it ends, of which there
// was data.
func (t *Transactions) Control(b batch.Batch) (idle bool, kept *AbortedTxn) {
	t.begin(b.LastOffset())
	if b.NumRecords() == 0 {
		return true, nil // what is left of a marker that has gone
	}
	m, err := batch.ParseMarker(b)
	if err != nil {
		return false, nil // not ours to judge
	}
	id := b.ProducerID()
	if m.Commit {
		_, seen := t.committed[id]
		delete(t.committed, id)
		return !seen, nil
	}
	a := t.aborted[id]
	delete(t.aborted, id)
	if a != nil && a.seen {
		return false, &a.AbortedTxn
	}
	return true, nil
}
