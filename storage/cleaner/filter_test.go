package cleaner

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
)

// rec is a record in a test: "key=value", "key" alone for a tombstone, "=value" without a key.
type rec struct {
	delta     int32
	timestamp int64
	text      string
}

func build(t *testing.T, m batch.Meta, records ...rec) batch.Batch {
	t.Helper()
	b := batch.NewBuilder(m)
	for _, r := range records {
		key, value, hasValue := strings.Cut(r.text, "=")
		var k, v []byte
		if key != "" {
			k = []byte(key)
		}
		if hasValue {
			v = []byte(value)
		}
		b.AppendAt(r.delta, r.timestamp, k, v, batch.Header{Key: []byte("h"), Value: []byte(r.text)})
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func texts(t *testing.T, b batch.Batch) []rec {
	t.Helper()
	if err := b.VerifyChecksum(); err != nil {
		t.Fatal(err)
	}
	rs, err := b.Records(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer rs.Release()
	var list []rec
	for rs.Next() {
		r := rs.Record()
		text := string(r.Key)
		if r.Value != nil {
			text += "=" + string(r.Value)
		}
		if h := r.AppendHeaders(nil); len(h) != 1 || string(h[0].Value) != text {
			t.Fatalf("headers %v of %q", h, text)
		}
		list = append(list, rec{r.OffsetDelta, b.BaseTimestamp() + r.TimestampDelta, text})
	}
	if rs.Err() != nil {
		t.Fatal(rs.Err())
	}
	return list
}

// options has a map of "key": offset, where a negative offset is that of a tombstone.
func options(t *testing.T, keys map[string]int64, aborted ...AbortedTxn) Options {
	t.Helper()
	m := NewMap(100, 1<<16, 0.9)
	for key, offset := range keys {
		tombstone := offset < 0
		if tombstone {
			offset = -offset
		}
		if err := m.Put([]byte(key), offset, tombstone); err != nil {
			t.Fatal(err)
		}
	}
	return Options{
		Keys: m, Txns: NewTransactions(aborted), Last: map[int64]LastBatch{}, NowMs: 10_000, DeleteRetentionMs: 500,
		MaxRecordsBytes: 1 << 20,
	}
}

func filtered(t *testing.T, o Options, b batch.Batch) (batch.Batch, *Filter) {
	t.Helper()
	f := NewFilter(o)
	before := bytes.Clone(b)
	kept, err := f.Batch(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, b) {
		t.Fatal("the batch itself was changed")
	}
	return bytes.Clone(kept.Batch), f
}

func meta(base int64) batch.Meta {
	m := batch.NoProducer()
	m.BaseOffset, m.BaseTimestamp, m.LeaderEpoch = base, 1000, 3
	return m
}

func TestBatchThatLosesNothingStaysAsItIs(t *testing.T) {
	t.Parallel()
	b := build(t, meta(100), rec{0, 1000, "a=1"}, rec{1, 1001, "b=2"}, rec{2, 1002, "=no key"})
	got, f := filtered(t, options(t, map[string]int64{"a": 100, "b": 50}), b)
	if !bytes.Equal(got, b) {
		t.Errorf("%x\nwant %x", got, b)
	}
	if f.KeptRecords != 3 || f.KeptBytes != int64(len(b)) || f.KeptBatches != 1 {
		t.Errorf("%+v", f.Stats)
	}
}

func TestSupersededRecordsGoAndTheRestKeepsItsPlace(t *testing.T) {
	t.Parallel()
	for codec := range batch.CodecZstd + 1 {
		m := meta(100)
		m.ProducerID, m.ProducerEpoch, m.BaseSequence, m.Codec = 7, 2, 40, codec
		m.Level = codec.DefaultLevel()
		b := build(t, m, rec{0, 1005, "a=1"}, rec{1, 1009, "b=2"}, rec{2, 1002, "a=3"}, rec{3, 1001, "=no key"}, rec{4, 1100, "c=4"})
		got, f := filtered(t, options(t, map[string]int64{"a": 102, "c": 200}), b)
		want := []rec{{1, 1009, "b=2"}, {2, 1002, "a=3"}, {3, 1001, "=no key"}}
		if list := texts(t, got); !slices.Equal(list, want) {
			t.Errorf("%s: %v", codec, list)
		}
		if got.BaseOffset() != 100 || got.LastOffset() != 104 || got.LeaderEpoch() != 3 || got.NumRecords() != 3 ||
			got.ProducerID() != 7 || got.ProducerEpoch() != 2 || got.BaseSequence() != 40 || got.LastSequence() != 44 ||
			got.Codec() != codec || got.HasDeleteHorizon() || got.MaxTimestamp() != 1009 || got.BaseTimestamp() != 1009 {
			t.Errorf("%s: header %x", codec, got[:batch.HeaderSize])
		}
		if f.Superseded != 0 {
			t.Error("no tombstone superseded anything")
		}
	}
}

func TestAppendTimeStays(t *testing.T) {
	t.Parallel()
	m := meta(0)
	m.AppendTime, m.MaxTimestamp = true, 5000
	got, _ := filtered(t, options(t, map[string]int64{"a": 9}), build(t, m, rec{0, 1000, "a=1"}, rec{1, 1001, "b=2"}))
	if !got.IsAppendTime() || got.MaxTimestamp() != 5000 || got.NumRecords() != 1 {
		t.Errorf("%x", got)
	}
	if list := texts(t, got); got.BaseTimestamp() != 5000 || list[0].timestamp != 5000 {
		t.Errorf("base %d, records %v", got.BaseTimestamp(), list)
	}
}

func TestTombstoneGetsAHorizonAndGoesWhenItHasPassed(t *testing.T) {
	t.Parallel()
	for _, codec := range []batch.Codec{batch.CodecNone, batch.CodecZstd} {
		m := meta(100)
		m.Codec = codec
		o := options(t, map[string]int64{"a": -100, "b": 101})
		first, f := filtered(t, o, build(t, m, rec{0, 1000, "a"}, rec{1, 1700, "b=2"}))
		if !first.HasDeleteHorizon() || first.BaseTimestamp() != 10_500 || first.MaxTimestamp() != 1700 {
			t.Errorf("horizon %d, max %d", first.BaseTimestamp(), first.MaxTimestamp())
		}
		want := []rec{{0, 1000, "a"}, {1, 1700, "b=2"}}
		if list := texts(t, first); !slices.Equal(list, want) || f.Superseded != 0 {
			t.Errorf("%v", list)
		}
		o.NowMs, o.DeleteRetentionMs = 10_499, 0
		if second, _ := filtered(t, o, first); !bytes.Equal(second, first) {
			t.Error("changed before the horizon")
		}
		o.NowMs = 10_500
		third, _ := filtered(t, o, first)
		if list := texts(t, third); !slices.Equal(list, want[1:]) {
			t.Errorf("%v", list)
		}
		if third.LastOffset() != 101 || third.NumRecords() != 1 {
			t.Errorf("%x", third)
		}
	}
}

func TestWhatATombstoneSupersedesIsCounted(t *testing.T) {
	t.Parallel()
	got, f := filtered(t, options(t, map[string]int64{"a": -200, "b": 200}), build(t, meta(100), rec{0, 1000, "a=1"}, rec{1, 1000, "b=1"}))
	if got != nil || f.Superseded != 1 {
		t.Errorf("%x, %d", got, f.Superseded)
	}
}

func TestLastBatchOfAProducerStaysEmpty(t *testing.T) {
	t.Parallel()
	m := meta(100)
	m.ProducerID, m.ProducerEpoch, m.BaseSequence, m.Codec, m.Transactional = 7, 2, 40, batch.CodecGzip, true
	b := build(t, m, rec{0, 1000, "a=1"}, rec{3, 1234, "a=2"})
	o := options(t, map[string]int64{"a": 200})
	o.Last[7] = LastBatch{LastOffset: 103, Epoch: 2}
	got, f := filtered(t, o, b)
	if len(got) != batch.HeaderSize || got.VerifyChecksum() != nil || f.KeptRecords != 0 {
		t.Fatalf("%x %+v", got, f.Stats)
	}
	if got.BaseOffset() != 100 || got.LastOffset() != 103 || got.LastSequence() != 43 || got.ProducerEpoch() != 2 || got.NumRecords() != 0 ||
		got.BaseTimestamp() != -1 || got.MaxTimestamp() != 1234 || got.Attributes() != 0x10 {
		t.Errorf("%x", got)
	}
	if again, _ := filtered(t, o, got); !bytes.Equal(again, got) {
		t.Errorf("an empty batch became %x", again)
	}
	o.Last[7] = LastBatch{LastOffset: 300, Epoch: 2}
	if later, _ := filtered(t, o, got); later != nil {
		t.Errorf("no longer the last one, but it stays: %x", later)
	}
	delete(o.Last, 7)
	if gone, _ := filtered(t, o, b); gone != nil {
		t.Error("the batch of a producer that nobody knows stays")
	}
}

func marker(id int64, base int64, commit bool) batch.Batch {
	b := batch.ControlBatch(id, 0, batch.Marker{Commit: commit}, 2000)
	b.SetBaseOffset(base)
	return b
}

func TestAbortedDataGoesAtOnceAndItsMarkerAfterTheHorizon(t *testing.T) {
	t.Parallel()
	m := meta(100)
	m.ProducerID, m.ProducerEpoch, m.BaseSequence, m.Transactional = 7, 0, 0, true
	txn := AbortedTxn{ProducerID: 7, FirstOffset: 100, LastOffset: 102, LastStable: 103}
	o := options(t, nil, txn)
	f := NewFilter(o)
	if kept, err := f.Batch(build(t, m, rec{0, 1000, "a=1"}, rec{1, 1000, "=x"})); err != nil || kept.Batch != nil {
		t.Fatal(kept, err)
	}
	abort := marker(7, 102, false)
	kept, err := f.Batch(abort)
	if err != nil || !bytes.Equal(kept.Batch, abort) || kept.Aborted == nil || *kept.Aborted != txn {
		t.Fatal(kept, err)
	}
	// The next pass sees no data, and the list of aborted transactions no longer needs this one.
	o = options(t, nil, txn)
	f = NewFilter(o)
	kept, err = f.Batch(abort)
	if err != nil || kept.Aborted != nil || !kept.Batch.HasDeleteHorizon() || kept.Batch.BaseTimestamp() != 10_500 || kept.Batch.MaxTimestamp() != 2000 {
		t.Fatalf("%+v %v", kept, err)
	}
	if got, err := batch.ParseMarker(kept.Batch); err != nil || got.Commit {
		t.Fatal(got, err)
	}
	waiting := bytes.Clone(kept.Batch)
	o = options(t, nil)
	if got, _ := filtered(t, o, waiting); !bytes.Equal(got, waiting) {
		t.Error("changed before the horizon")
	}
	o.NowMs = 10_500
	if got, _ := filtered(t, o, waiting); got != nil {
		t.Errorf("after the horizon: %x", got)
	}
	o.Last[7] = LastBatch{LastOffset: NoOffset, Epoch: 0}
	got, _ := filtered(t, o, waiting)
	if got == nil || got.NumRecords() != 0 || !got.IsControl() || !got.IsTransactional() {
		t.Errorf("the only trace of a producer: %x", got)
	}
	o = options(t, nil)
	if again, _ := filtered(t, o, got); again != nil {
		t.Errorf("an emptied marker stays: %x", again)
	}
}

func TestMarkerStaysWhileThereIsData(t *testing.T) {
	t.Parallel()
	m := meta(100)
	m.ProducerID, m.ProducerEpoch, m.BaseSequence, m.Transactional = 7, 0, 0, true
	o := options(t, map[string]int64{"a": 300})
	o.NowMs = 1 << 50
	f := NewFilter(o)
	for _, b := range []batch.Batch{build(t, m, rec{0, 1000, "a=1"}), marker(7, 101, true), marker(7, 102, true), marker(8, 103, true)} {
		kept, err := f.Batch(b)
		if err != nil {
			t.Fatal(err)
		}
		horizon := kept.Batch != nil && kept.Batch.HasDeleteHorizon()
		if want := b.BaseOffset() > 101; horizon != want {
			t.Errorf("marker at %d has a horizon: %v", b.BaseOffset(), horizon)
		}
	}
}

func TestTransactionsOfOneProducerAreToldApart(t *testing.T) {
	t.Parallel()
	m := meta(0)
	m.ProducerID, m.ProducerEpoch, m.Transactional = 7, 0, true
	at := func(base int64, key string) batch.Batch {
		m.BaseOffset, m.BaseSequence = base, int32(base)
		return build(t, m, rec{0, 1000, key + "=1"})
	}
	txns := NewTransactions([]AbortedTxn{{7, 4, 5, 6}, {7, 0, 1, 2}})
	o := options(t, nil)
	o.Txns = txns
	f := NewFilter(o)
	for _, c := range []struct {
		b    batch.Batch
		kept bool
	}{
		{at(0, "a"), false},
		{marker(7, 1, false), true},
		{at(2, "b"), true},
		{marker(7, 3, true), true},
		{at(4, "c"), false},
		{marker(7, 5, false), true},
		{at(6, "d"), true},
	} {
		kept, err := f.Batch(c.b)
		if err != nil || (kept.Batch != nil) != c.kept {
			t.Errorf("batch at %d: kept %v, %v", c.b.BaseOffset(), kept.Batch != nil, err)
		}
		if clone := f.Txns.Clone(); len(clone.coming) != len(f.Txns.coming) || len(clone.aborted) != len(f.Txns.aborted) {
			t.Error("a clone differs")
		}
	}
}

func TestNoteLeavesOutWhatWasAborted(t *testing.T) {
	t.Parallel()
	m := meta(0)
	m.ProducerID, m.ProducerEpoch, m.BaseSequence, m.Transactional = 7, 0, 0, true
	keys, txns := NewMap(10, 1<<10, 0.9), NewTransactions([]AbortedTxn{{7, 0, 2, 3}})
	for _, b := range []batch.Batch{
		build(t, m, rec{0, 1, "a=1"}), build(t, meta(1), rec{0, 1, "b"}, rec{1, 1, "=x"}), marker(7, 3, false), build(t, meta(4), rec{0, 1, "c=1"}),
	} {
		if err := Note(keys, txns, b, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]string{"a": "0 false false", "b": "1 true true", "c": "4 false true"} {
		offset, tombstone, found := keys.Get([]byte(key))
		if got := fmt.Sprint(offset, tombstone, found); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

func TestWhatCanNotBeReadStays(t *testing.T) {
	t.Parallel()
	m := meta(0)
	m.Codec = batch.CodecZstd
	b := build(t, m, rec{0, 1000, "a=" + strings.Repeat("x", 5000)})
	o := options(t, map[string]int64{"a": 9})
	o.MaxRecordsBytes = 4000
	got, f := filtered(t, o, b)
	if !bytes.Equal(got, b) || f.Unreadable != 1 || f.KeptRecords != 1 {
		t.Errorf("%+v", f.Stats)
	}
	if err := Note(o.Keys, o.Txns, b, 4000); err != nil {
		t.Error(err)
	}
}

// FuzzFilter: whatever a batch holds, the filter neither panics nor makes a batch that doesn't verify or has other offsets.
func FuzzFilter(f *testing.F) {
	b := batch.NewBuilder(batch.NoProducer())
	b.Append(1, []byte("a"), nil)
	b.Append(2, []byte("b"), []byte("1"))
	seed, err := b.Build()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(seed))
	f.Add([]byte(batch.ControlBatch(1, 0, batch.Marker{}, 5)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, _, err := batch.Next(raw, 0)
		if err != nil || b.LastOffsetDelta() < 0 || b.BaseOffset() < 0 {
			return
		}
		keys := NewMap(10, 1<<10, 0.9)
		if err = keys.Put([]byte("b"), 1<<62, true); err != nil {
			t.Fatal(err)
		}
		filter := NewFilter(Options{
			Keys: keys, Txns: NewTransactions(nil), Last: map[int64]LastBatch{1: {LastOffset: NoOffset}}, NowMs: 10, MaxRecordsBytes: 1 << 20,
		})
		_ = Note(keys, NewTransactions(nil), b, 1<<20)
		kept, err := filter.Batch(b)
		if err != nil || kept.Batch == nil || bytes.Equal(kept.Batch, b) {
			return
		}
		if err = kept.Batch.VerifyChecksum(); err != nil {
			t.Fatal(err)
		}
		if kept.Batch.BaseOffset() != b.BaseOffset() || kept.Batch.LastOffset() != b.LastOffset() || kept.Batch.NumRecords() > b.NumRecords() {
			t.Fatalf("%x became %x", b, kept.Batch)
		}
	})
}
