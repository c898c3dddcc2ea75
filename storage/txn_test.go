package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
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
	a, err := x.l.Append(b, AppendOptions{TransactionVerified: true})
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

// An open transaction whose first batch has rotted holds readers back there, not before.
func TestReadCommittedServesWhatLiesBeforeADamagedTransaction(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	l := w.open()
	var want []batch.Batch
	for i := range 3 {
		want = append(want, put(t, l, makeBatch(t, i, 1, startTime.UnixMilli())))
	}
	pos := int64(0)
	for _, b := range want {
		pos += int64(len(b))
	}
	(&txn{t: t, l: l, id: 1}).send(1)
	put(t, l, makeBatch(t, 9, 1, startTime.UnixMilli()))
	w.close()
	must(t, d.FlipBit(filepath.Join(testDir, "00000000000000000000.log"), 8*(pos+70)))
	l = w.open()
	if o := l.Offsets(); o.LastStable != 3 {
		t.Fatalf("%+v", o)
	}
	for _, b := range want {
		r, err := l.Read(b.BaseOffset(), ReadOptions{Isolation: ReadCommitted, MaxBytes: 1, WholeFirst: true})
		if err != nil || r.Records == nil {
			t.Fatalf("offset %d: %v", b.BaseOffset(), err)
		}
		r.Records.Release()
	}
}

// Each read lists the transactions of its own records, however many there are, and finds them in memory after the first time.
func TestAbortedTransactionsOfManyAreListedWhereTheyAre(t *testing.T) {
	t.Parallel()
	w, d := simWorld(t)
	w.config.SegmentBytes, w.config.Sync = 30_000, SyncNone
	l := w.open()
	x := &txn{t: t, l: l, id: 1}
	var want []AbortedTransaction
	for range 1000 {
		b := x.send(1)
		x.end(false)
		want = append(want, AbortedTransaction{ProducerID: 1, FirstOffset: b.BaseOffset()})
	}
	for range 2 {
		for again := range 2 {
			for offset := int64(0); offset < 2000; offset += 22 {
				r, err := l.Read(offset, ReadOptions{Isolation: ReadCommitted, MaxBytes: 4000, WholeFirst: true})
				if err != nil {
					t.Fatal(err)
				}
				bytes, err := r.Records.AppendTo(nil)
				r.Records.Release()
				must(t, err)
				end := offset
				for b, rest, err := batch.Next(bytes, 0); err == nil; b, rest, err = batch.Next(rest, 0) {
					end = b.NextOffset()
				}
				from, to := offset/2, (end+1)/2
				if int64(len(r.Aborted)) < to-from || int64(len(r.Aborted)) > to-from+120 || !slices.Equal(r.Aborted[:to-from], want[from:to]) {
					t.Fatalf("offsets %d to %d: %d listed, first %v, want %v", offset, end, len(r.Aborted), r.Aborted[0], want[from:to])
				}
			}
			if again == 0 {
				d.OnOp(func(op simdisk.Op) error {
					if op.Kind == simdisk.Open && strings.HasSuffix(op.Name, segment.SuffixTxnIndex) {
						t.Errorf("%s is read again", op.Name)
					}
					return nil
				})
			}
		}
		d.OnOp(nil)
		set := w.set
		w.close()
		if n := len(set.aborted.mu.lists); n != 0 || set.aborted.mu.kept != 0 {
			t.Errorf("%d lists with %d transactions are kept of a log that is closed", n, set.aborted.mu.kept)
		}
		l = w.open()
	}
}

func TestAbortedTransactionsKeptInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	var c abortedCache
	l := &Log{}
	l.mu.phase = ready
	list := make([]abortedTxn, maxAbortedKept/3)
	for base := range int64(20) {
		c.put(abortedKey{log: l, base: base % 7}, list)
		if got, ok := c.get(abortedKey{log: l, base: base % 7}); !ok || len(got) != len(list) {
			t.Fatal("not kept")
		}
		if n := len(c.mu.lists); n > 3 || c.mu.kept != n*len(list) {
			t.Fatalf("%d lists, %d transactions", n, c.mu.kept)
		}
	}
	c.put(abortedKey{log: l}, make([]abortedTxn, maxAbortedKept+1))
	c.forget(l)
	if len(c.mu.lists) != 0 || c.mu.kept != 0 {
		t.Errorf("%d lists, %d transactions", len(c.mu.lists), c.mu.kept)
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
