package producer

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
)

// sent is a batch as a producer sends it: n records from a sequence on.
type sent struct {
	id    int64
	epoch int16
	seq   int32
	n     int
	txn   bool
	ts    int64
}

func (s sent) batch(tb testing.TB) batch.Batch {
	tb.Helper()
	m := batch.NoProducer()
	m.ProducerID, m.ProducerEpoch, m.BaseSequence, m.Transactional, m.BaseTimestamp = s.id, s.epoch, s.seq, s.txn, s.ts
	b := batch.NewBuilder(m)
	for range max(s.n, 1) {
		b.Append(s.ts, nil, []byte("v"))
	}
	out, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func marker(id int64, epoch int16, commit bool, coordinator int32, ts int64) batch.Batch {
	return batch.ControlBatch(id, epoch, batch.Marker{Commit: commit, CoordinatorEpoch: coordinator}, ts)
}

// log appends batches one after the other, as a partition does.
type log struct {
	t     testing.TB
	state *State
	end   int64
}

func newLog(tb testing.TB) *log {
	tb.Helper()
	return &log{t: tb, state: New(1000)}
}

// produce checks a batch and appends it if it may be.
func (l *log) produce(s sent, o Options) (*Entry, error) {
	l.t.Helper()
	b := s.batch(l.t)
	dup, err := l.state.Check(b, o)
	if err == nil && dup == nil {
		l.append(b)
	}
	return dup, err
}

func (l *log) append(b batch.Batch) (Completed, bool) {
	done, ok := l.state.Append(b, l.end)
	l.end += int64(b.LastOffsetDelta()) + 1
	return done, ok
}

func (l *log) must(s sent, o Options) {
	l.t.Helper()
	if dup, err := l.produce(s, o); err != nil || dup != nil {
		l.t.Fatalf("%+v: duplicate of %+v, %v", s, dup, err)
	}
}

// step is a batch and what becomes of it: dup >= 0 is the base offset it duplicates.
type step struct {
	sent sent
	err  error
	dup  int64
}

// The recorded outcomes of Apache Kafka 4.4.0.
func TestSequencesOfIdempotentProducers(t *testing.T) {
	t.Parallel()
	s := func(epoch int16, seq int32, n int) sent { return sent{id: 9, epoch: epoch, seq: seq, n: n} }
	tests := map[string][]step{
		"duplicates get their first offset": {
			{s(0, 0, 2), nil, -1}, {s(0, 2, 1), nil, -1}, {s(0, 0, 2), nil, 0}, {s(0, 2, 1), nil, 2}, {s(0, 3, 1), nil, -1},
		},
		"the fifth last is known, the sixth last isn't": {
			{s(0, 0, 1), nil, -1},
			{s(0, 1, 1), nil, -1},
			{s(0, 2, 1), nil, -1},
			{s(0, 3, 1), nil, -1},
			{s(0, 4, 1), nil, -1},
			{s(0, 5, 1), nil, -1},
			{s(0, 1, 1), nil, 1},
			{s(0, 0, 1), ErrOutOfOrderSequence, -1},
		},
		"overlaps are no duplicates": {
			{s(0, 0, 3), nil, -1},
			{s(0, 0, 2), ErrOutOfOrderSequence, -1},
			{s(0, 1, 2), ErrOutOfOrderSequence, -1},
			{s(0, 2, 2), ErrOutOfOrderSequence, -1},
			{s(0, 3, 1), nil, -1},
		},
		"gap":                             {{s(0, 0, 1), nil, -1}, {s(0, 5, 1), ErrOutOfOrderSequence, -1}, {s(0, 1, 1), nil, -1}},
		"an unknown producer at any":      {{s(0, 7, 1), nil, -1}, {s(0, 8, 1), nil, -1}, {s(0, 0, 1), ErrOutOfOrderSequence, -1}},
		"old epoch":                       {{s(1, 0, 1), nil, -1}, {s(0, 1, 1), ErrProducerEpoch, -1}, {s(0, 0, 1), ErrProducerEpoch, -1}},
		"new epoch":                       {{s(0, 0, 1), nil, -1}, {s(1, 1, 1), ErrOutOfOrderSequence, -1}, {s(1, 0, 1), nil, -1}, {s(1, 1, 1), nil, -1}},
		"old epoch's duplicates":          {{s(0, 0, 1), nil, -1}, {s(1, 0, 1), nil, -1}, {s(0, 0, 1), ErrProducerEpoch, -1}, {s(1, 0, 1), nil, 1}},
		"wrap":                            {{s(0, math.MaxInt32-1, 1), nil, -1}, {s(0, math.MaxInt32, 1), nil, -1}, {s(0, 0, 1), nil, -1}, {s(0, 1, 1), nil, -1}, {s(0, math.MaxInt32, 1), nil, 1}},
		"wrap within a batch":             {{s(0, math.MaxInt32-1, 4), nil, -1}, {s(0, 2, 1), nil, -1}, {s(0, math.MaxInt32-1, 4), nil, 0}},
		"no epoch takes any sequence":     {{s(-1, 0, 1), nil, -1}, {s(-1, 9, 1), nil, -1}, {s(0, 5, 1), nil, -1}, {s(0, 6, 1), nil, -1}},
		"an epoch below none":             {{s(-5, 0, 1), ErrProducerEpoch, -1}, {s(0, 0, 1), nil, -1}, {s(-5, 1, 1), ErrProducerEpoch, -1}},
		"a plain batch is never compared": {{sent{id: -1, epoch: -1, seq: -1}, nil, -1}, {sent{id: -1, epoch: -1, seq: -1}, nil, -1}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLog(t)
			for i, step := range steps {
				dup, err := l.produce(step.sent, Options{})
				if !errors.Is(err, step.err) || (step.err == nil) != (err == nil) {
					t.Fatalf("step %d: %v, want %v", i, err, step.err)
				}
				got := int64(-1)
				if dup != nil {
					got = dup.BaseOffset
				}
				if got != step.dup {
					t.Fatalf("step %d: duplicate of %d, want %d", i, got, step.dup)
				}
			}
		})
	}
}

func TestDuplicateSaysWhatWasStored(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	l.must(sent{id: 1, seq: 0, n: 3, ts: 50}, Options{})
	l.must(sent{id: 1, seq: 3, n: 2, ts: 60}, Options{})
	dup, err := l.produce(sent{id: 1, seq: 3, n: 2, ts: 60}, Options{})
	if err != nil || dup == nil {
		t.Fatalf("%v, %v", dup, err)
	}
	if want := (Entry{FirstSequence: 3, LastSequence: 4, BaseOffset: 3, LastOffset: 4, MaxTimestamp: 60}); *dup != want {
		t.Errorf("%+v, want %+v", *dup, want)
	}
	dup.BaseOffset = 99 // it is a copy
	if again, _ := l.produce(sent{id: 1, seq: 3, n: 2, ts: 60}, Options{}); again.BaseOffset != 3 {
		t.Errorf("the window was changed through a duplicate: %+v", again)
	}
}

func TestCheckChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	l.must(sent{id: 1, seq: 0, txn: true}, Options{TransactionVerified: true})
	before := l.state.Encode(nil)
	for _, b := range []batch.Batch{
		sent{id: 1, seq: 1, txn: true}.batch(t), sent{id: 2, seq: 0}.batch(t), sent{id: 1, seq: 7}.batch(t),
		marker(1, 0, true, 0, 5), marker(3, 0, true, 0, 5),
	} {
		_, _ = l.state.Check(b, Options{TransactionVerified: true})
	}
	if after := l.state.Encode(nil); !reflect.DeepEqual(before, after) {
		t.Errorf("%x became %x", before, after)
	}
}

func TestTransactionsOpenAndEnd(t *testing.T) {
	t.Parallel()
	verified := Options{TransactionVerified: true}
	l := newLog(t)
	if _, err := l.produce(sent{id: 1, seq: 0, txn: true}, Options{}); !errors.Is(err, ErrTransactionNotOpen) {
		t.Errorf("unverified: %v", err)
	}
	l.must(sent{id: 1, seq: 0, n: 2, txn: true}, verified) // 0-1
	l.must(sent{id: 1, seq: 2, txn: true}, Options{})      // 2: open, so not verified again
	l.must(sent{id: 2, seq: 0}, Options{})                 // 3
	l.must(sent{id: 3, seq: 0, txn: true}, verified)       // 4
	if _, err := l.produce(sent{id: 1, seq: 3}, Options{}); !errors.Is(err, ErrTransactionOpen) {
		t.Errorf("plain batch in a transaction: %v", err)
	}
	if dup, err := l.produce(sent{id: 1, seq: 2, txn: true}, Options{}); err != nil || dup == nil || dup.BaseOffset != 2 {
		t.Errorf("duplicate in a transaction: %+v, %v", dup, err)
	}
	if o, ok := l.state.FirstUnstable(5); !ok || o != 0 {
		t.Errorf("first unstable offset %d, %v", o, ok)
	}
	done, ok := l.append(marker(1, 0, false, 7, 100)) // 5
	if want := (Completed{ProducerID: 1, FirstOffset: 0, LastOffset: 5, Aborted: true, LastStable: 4}); !ok || done != want {
		t.Errorf("%+v, want %+v", done, want)
	}
	if o, unstable := l.state.FirstUnstable(5); !unstable || o != 0 {
		t.Errorf("while the marker isn't durable: first unstable offset %d, %v", o, unstable)
	}
	if o, unstable := l.state.FirstUnstable(6); !unstable || o != 4 {
		t.Errorf("first unstable offset %d, %v", o, unstable)
	}
	if done, ok = l.append(marker(3, 0, true, 7, 100)); !ok || done.Aborted || done.LastStable != 7 { // 6
		t.Errorf("%+v, %v", done, ok)
	}
	if o, unstable := l.state.FirstUnstable(7); unstable {
		t.Errorf("first unstable offset %d", o)
	}
	if _, ok = l.append(marker(1, 0, true, 7, 100)); ok {
		t.Error("a marker without a transaction ended one")
	}
	if _, err := l.produce(sent{id: 1, seq: 3, txn: true}, Options{}); !errors.Is(err, ErrTransactionNotOpen) {
		t.Errorf("after the marker: %v", err)
	}
	l.must(sent{id: 1, seq: 3, txn: true}, verified) // the epoch's sequence goes on
}

func TestMarkersOfANewEpochShutOutTheOldOne(t *testing.T) {
	t.Parallel()
	verified := Options{TransactionVerified: true, TransactionV2: true}
	l := newLog(t)
	l.must(sent{id: 1, epoch: 0, seq: 0, n: 2, txn: true}, verified)
	if _, ok := l.append(marker(1, 1, true, 0, 100)); !ok {
		t.Error("the marker of the raised epoch ended nothing")
	}
	for seq := range int32(3) {
		if dup, err := l.produce(sent{id: 1, epoch: 0, seq: seq, n: 2, txn: true}, verified); !errors.Is(err, ErrProducerEpoch) || dup != nil {
			t.Errorf("old epoch, sequence %d: %+v, %v", seq, dup, err)
		}
	}
	if _, err := l.produce(sent{id: 1, epoch: 1, seq: 2, txn: true}, verified); !errors.Is(err, ErrOutOfOrderSequence) {
		t.Errorf("new epoch at sequence 2: %v", err)
	}
	if _, err := l.state.Check(marker(1, 0, true, 0, 100), Options{}); !errors.Is(err, ErrProducerEpoch) {
		t.Errorf("marker of the old epoch: %v", err)
	}
	l.must(sent{id: 1, epoch: 1, seq: 0, txn: true}, verified)
}

func TestMarkersOfAnOldCoordinatorAreRefused(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	l.append(marker(1, 0, true, 5, 100))
	if _, err := l.state.Check(marker(1, 0, true, 4, 100), Options{}); !errors.Is(err, ErrCoordinatorEpoch) {
		t.Errorf("coordinator epoch 4 after 5: %v", err)
	}
	if _, err := l.state.Check(marker(1, 0, true, 5, 100), Options{}); err != nil {
		t.Errorf("coordinator epoch 5 after 5: %v", err)
	}
}

func TestUnknownTransactionalProducersStartAtZeroInV2(t *testing.T) {
	t.Parallel()
	tests := []struct {
		seq     int32
		txn, v2 bool
		want    error
	}{
		{3, true, true, ErrOutOfOrderSequence},
		{0, true, true, nil},
		{3, true, false, nil},
		{3, false, true, nil},
	}
	for _, tt := range tests {
		l := newLog(t)
		_, err := l.produce(sent{id: 1, seq: tt.seq, txn: tt.txn}, Options{TransactionVerified: true, TransactionV2: tt.v2})
		if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestReplayTakesWhatTheLogHolds(t *testing.T) {
	t.Parallel()
	s := New(1000)
	at := func(offset int64, b batch.Batch) batch.Batch {
		b.SetBaseOffset(offset)
		return b
	}
	// Compaction took sequences 0 to 9, retention the beginning of producer 2's transaction.
	for _, b := range []batch.Batch{
		at(20, sent{id: 1, seq: 10, n: 2, ts: 5}.batch(t)), at(40, sent{id: 1, seq: 30, ts: 6}.batch(t)),
		at(41, marker(2, 3, true, 1, 7)),
		at(50, sent{id: 1, epoch: 2, seq: 4, txn: true, ts: 8}.batch(t)),
		at(60, sent{id: -1, epoch: -1, seq: -1}.batch(t)),
	} {
		if _, ok := s.Replay(b); ok {
			t.Errorf("batch at %d ended a transaction", b.BaseOffset())
		}
	}
	want := []Producer{
		{ProducerID: 1, Epoch: 2, CoordinatorEpoch: None, LastSequence: 4, LastTimestamp: 8, TxnStartOffset: 50},
		{ProducerID: 2, Epoch: 3, CoordinatorEpoch: 1, LastSequence: None, LastTimestamp: 7, TxnStartOffset: None},
	}
	if got := s.Producers(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if o, ok := s.FirstUnstable(100); !ok || o != 50 {
		t.Errorf("first unstable offset %d, %v", o, ok)
	}
}

func TestReplayIgnoresOtherControlBatches(t *testing.T) {
	t.Parallel()
	m := batch.NoProducer()
	m.ProducerID, m.ProducerEpoch, m.Control = 1, 0, true
	builder := batch.NewBuilder(m)
	builder.Append(5, []byte{0, 0, 0, 2}, nil) // a leader change
	b, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := New(1000)
	if _, ok := s.Replay(b); ok || s.Len() != 0 {
		t.Errorf("%d producers", s.Len())
	}
}

func TestExpireForgetsSilentProducers(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	l.must(sent{id: 1, seq: 0, ts: 1000}, Options{})
	l.must(sent{id: 2, seq: 0, ts: 1001}, Options{})
	l.must(sent{id: 3, seq: 0, ts: 1, txn: true}, Options{TransactionVerified: true})
	if n := l.state.Expire(1999); n != 0 {
		t.Errorf("%d forgotten too early", n)
	}
	if n := l.state.Expire(2000); n != 1 || l.state.Len() != 2 {
		t.Errorf("%d forgotten, %d left", n, l.state.Len())
	}
	l.must(sent{id: 1, seq: 77, ts: 2000}, Options{})
	l.append(marker(3, 0, true, 0, 2500))
	l.state.SetExpiration(-1)
	if n := l.state.Expire(math.MaxInt64); n != 0 {
		t.Errorf("%d forgotten although none may be", n)
	}
	l.state.SetExpiration(1)
	if n := l.state.Expire(1 << 40); n != 3 || l.state.Len() != 0 {
		t.Errorf("%d forgotten, %d left", n, l.state.Len())
	}
}

func TestAppendAllocatesNothingForAKnownProducer(t *testing.T) {
	l := newLog(t)
	b := sent{id: 1, seq: 0, epoch: -1}.batch(t) // without an epoch any sequence is taken
	l.append(b)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := l.state.Check(b, Options{}); err != nil {
			t.Fatal(err)
		}
		l.append(b)
	}); n > 1 { // the duplicate
		t.Errorf("%v allocations", n)
	}
}
