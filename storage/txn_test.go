package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
)

// txn appends batches of a transactional producer to a log.
type txn struct {
	t        *testing.T
	l        *Log
	id       int64
	sequence int32
}

func (x *txn) send(n int) batch.Batch {
	x.t.Helper()
	b := batch.NewBuilder(batch.Meta{ProducerID: x.id, BaseSequence: x.sequence, Transactional: true})
	for i := range n {
		b.Append(startTime.UnixMilli(), nil, fmt.Appendf(nil, "%d of %d", i, x.id))
	}
	out, err := b.Build()
	if err != nil {
		x.t.Fatal(err)
	}
	x.sequence += int32(n)
	return x.append(out)
}

func (x *txn) end(commit bool) batch.Batch {
	x.t.Helper()
	return x.append(batch.ControlBatch(x.id, 0, batch.Marker{Commit: commit}, startTime.UnixMilli()))
}

func (x *txn) append(b batch.Batch) batch.Batch {
	x.t.Helper()
	a, err := x.l.Append(b, AppendOptions{TransactionVerified: true, Marker: b.IsControl()})
	if err == nil && a.Commit != nil {
		err = a.Commit.Wait(x.t.Context())
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return b
}

// committed reads with ReadCommitted from an offset and returns how many bytes came and which transactions are aborted.
func committed(t *testing.T, l *Log, offset int64) (int64, []AbortedTransaction) {
	t.Helper()
	r, err := l.Read(offset, ReadOptions{Isolation: ReadCommitted, MaxBytes: 1 << 20, WholeFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Records == nil {
		return 0, nil
	}
	defer r.Records.Release()
	return r.Records.Size(), r.Aborted
}

func TestReadCommittedStopsAtOpenTransactionsAndListsAbortedOnes(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	w.closeMayFail = true
	l := w.open()
	a, b := &txn{t: t, l: l, id: 1}, &txn{t: t, l: l, id: 2}
	plain := put(t, l, makeBatch(t, 0, 2, startTime.UnixMilli())) // 0-1
	first := a.send(2)                                            // 2-3
	other := b.send(1)                                            // 4
	if o := l.Offsets(); o.LastStable != 2 || o.HighWatermark != 5 {
		t.Fatalf("%+v", o)
	}
	if n, aborted := committed(t, l, 0); n != int64(len(plain)) || len(aborted) != 0 {
		t.Fatalf("%d bytes, %v", n, aborted)
	}
	abort := a.end(false) // 5
	if o := l.Offsets(); o.LastStable != 4 {
		t.Fatalf("%+v", o)
	}
	b.end(true) // 6
	want := []AbortedTransaction{{ProducerID: 1, FirstOffset: 2}}
	check := func(how string) {
		t.Helper()
		if o := l.Offsets(); o.LastStable != 7 {
			t.Fatalf("%s: %+v", how, o)
		}
		if n, aborted := committed(t, l, 0); n != int64(len(plain)+len(first)+len(other)+2*len(abort)) || !slices.Equal(aborted, want) {
			t.Fatalf("%s: %d bytes, %v", how, n, aborted)
		}
		if _, aborted := committed(t, l, 6); len(aborted) != 0 {
			t.Fatalf("%s: after the abort: %v", how, aborted)
		}
	}
	check("at once")
	w.close()
	l = w.open()
	check("after a clean stop")
	if err := d.Remove(filepath.Join(testDir, "00000000000000000000.txnindex")); err != nil {
		t.Fatal(err)
	}
	w.close()
	l = w.open()
	check("without the index of aborted transactions")
	d = d.Kill()
	w.close()
	if err := d.Remove(filepath.Join(testDir, snapshotName)); err != nil {
		t.Fatal(err)
	}
	w.fs = d
	l = w.open()
	check("without a snapshot")
}

func TestAbortedTransactionsOfEarlierSegmentsAreListed(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	w.config.SegmentBytes = 250
	l := w.open()
	x := &txn{t: t, l: l, id: 1}
	var want []AbortedTransaction
	for range 6 {
		b := x.send(1)
		x.end(false)
		want = append(want, AbortedTransaction{ProducerID: 1, FirstOffset: b.BaseOffset()})
	}
	if l.Segments() < 4 {
		t.Fatalf("%d segments", l.Segments())
	}
	for range 2 {
		for i, a := range want {
			if _, aborted := committed(t, l, a.FirstOffset); len(aborted) == 0 || aborted[0] != a {
				t.Fatalf("transaction %d: %v", i, aborted)
			}
		}
		w.close()
		l = w.open()
	}
}

func TestProducersOutOfOrderAreRefused(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	l := w.open()
	x := &txn{t: t, l: l, id: 1}
	b := batch.NewBuilder(batch.Meta{ProducerID: 1, Transactional: true})
	b.Append(1, nil, nil)
	unverified, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = l.Append(unverified, AppendOptions{}); !errors.Is(err, ErrTransactionNotOpen) {
		t.Errorf("without a transaction: %v", err)
	}
	x.send(1)
	b = batch.NewBuilder(batch.Meta{ProducerID: 1, BaseSequence: 1})
	b.Append(1, nil, nil)
	outside, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = l.Append(outside, AppendOptions{}); !errors.Is(err, ErrTransactionOpen) {
		t.Errorf("outside the open transaction: %v", err)
	}
	if o := l.Offsets(); o.End != 1 {
		t.Errorf("%+v", o)
	}
}
