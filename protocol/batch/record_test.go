package batch

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

// rec is a record by hand; fields that are left out are 0, null or empty.
type rec struct {
	offsetDelta int32
	timestamp   int64
	key, value  []byte
	headers     []Header
}

func build(tb testing.TB, m Meta, records ...rec) Batch {
	tb.Helper()
	b := NewBuilder(m)
	for _, r := range records {
		b.AppendAt(r.offsetDelta, r.timestamp, r.key, r.value, r.headers...)
	}
	out, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

var someRecords = []rec{
	{timestamp: 1000, key: []byte("k"), value: []byte("v"), headers: []Header{{[]byte("h"), []byte("x")}, {[]byte{}, nil}}},
	{timestamp: 999, offsetDelta: 1, value: bytes.Repeat([]byte("v"), 300)},
	{timestamp: -1, offsetDelta: 2, key: []byte{}, value: []byte{}},
	{timestamp: math.MaxInt64, offsetDelta: math.MaxInt32, key: bytes.Repeat([]byte("k"), 70_000)},
}

func plain() Meta {
	m := NoProducer()
	m.BaseTimestamp = 1000
	return m
}

func TestRecordsComeBackAsBuilt(t *testing.T) {
	t.Parallel()
	for _, codec := range codecs {
		m := plain()
		m.Codec, m.Level = codec, codec.DefaultLevel()
		b := build(t, m, someRecords...)
		if err := b.VerifyChecksum(); err != nil {
			t.Fatal(err)
		}
		if b.NumRecords() != 4 || b.LastOffsetDelta() != math.MaxInt32 || b.MaxTimestamp() != math.MaxInt64 || b.Codec() != codec {
			t.Errorf("%s: %d records, last offset delta %d, max timestamp %d", b.Codec(), b.NumRecords(), b.LastOffsetDelta(), b.MaxTimestamp())
		}
		records, err := b.Records(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range someRecords {
			if !records.Next() {
				t.Fatalf("%s: record %d isn't there: %v", codec, i, records.Err())
			}
			r := records.Record()
			if r.OffsetDelta != want.offsetDelta || b.BaseTimestamp()+r.TimestampDelta != want.timestamp {
				t.Errorf("%s, record %d: offset delta %d, timestamp delta %d", codec, i, r.OffsetDelta, r.TimestampDelta)
			}
			if !same(r.Key, want.key) || !same(r.Value, want.value) {
				t.Errorf("%s, record %d: %d bytes of key, %d of value", codec, i, len(r.Key), len(r.Value))
			}
			headers := r.AppendHeaders(nil)
			if len(headers) != len(want.headers) {
				t.Fatalf("%s, record %d: %d headers", codec, i, len(headers))
			}
			for j, h := range headers {
				if !same(h.Key, want.headers[j].Key) || !same(h.Value, want.headers[j].Value) {
					t.Errorf("%s, record %d: header %d is %q=%q", codec, i, j, h.Key, h.Value)
				}
			}
		}
		if records.Next() || records.Err() != nil {
			t.Errorf("%s: after the last record: %v", codec, records.Err())
		}
		records.Release()
		records.Release()
	}
}

// same tells null from empty.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func TestIteratorRefusesEveryChangeOfShape(t *testing.T) {
	t.Parallel()
	payload := build(t, plain(), someRecords[:3]...).Payload()
	drain := func(p []byte, count int32) error {
		it := Iterate(p, count)
		for it.Next() {
			_ = it.Record().AppendHeaders(nil)
		}
		return it.Err()
	}
	if err := drain(payload, 3); err != nil {
		t.Fatal(err)
	}
	for n := range payload {
		if err := drain(payload[:n], 3); !errors.Is(err, ErrRecord) {
			t.Errorf("%d of %d bytes: %v", n, len(payload), err)
		}
	}
	for _, count := range []int32{-1, 0, 2, 4, math.MaxInt32, math.MinInt32} {
		if err := drain(payload, count); !errors.Is(err, ErrRecord) {
			t.Errorf("count %d: %v", count, err)
		}
	}
	if err := drain(append(bytes.Clone(payload), 0), 3); !errors.Is(err, ErrRecord) {
		t.Errorf("a byte behind: %v", err)
	}
	for name, record := range map[string]string{
		"negative length":            "\x01",
		"length beyond the end":      "\x20\x00\x00\x00\x01\x01\x00",
		"length of 6 bytes":          "\x8c\x80\x80\x80\x80\x00\x00\x00\x00\x01\x01\x00",
		"field beyond the record":    "\x0c\x00\x00\x00\x40\x01\x00",
		"record longer than fields":  "\x0e\x00\x00\x00\x01\x01\x00\x00",
		"record shorter than fields": "\x0a\x00\x00\x00\x01\x01\x00",
		"negative header count":      "\x0c\x00\x00\x00\x01\x01\x01",
		"null header key":            "\x10\x00\x00\x00\x01\x01\x02\x01\x01",
		"header count without any":   "\x0c\x00\x00\x00\x01\x01\x7e",
		"timestamp of 11 bytes":      "\x22\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00\x00\x01\x01\x00\x00",
	} {
		if err := drain([]byte(record), 1); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := drain([]byte("\x0c\x00\x00\x00\x01\x01\x00"), 1); err != nil {
		t.Errorf("the smallest record: %v", err)
	}
}

func TestIteratorSharesTheBatchAndAllocatesNothing(t *testing.T) {
	b := build(t, plain(), someRecords...)
	if n := testing.AllocsPerRun(100, func() {
		records, err := b.Records(0)
		if err != nil {
			t.Fatal(err)
		}
		for records.Next() {
			r := records.Record()
			if r.OffsetDelta == 0 && &r.Key[0] != &b[HeaderSize+5] {
				t.Error("key was copied")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBuilderKeepsABatchsBoundsWhateverRecordsAreLeft(t *testing.T) {
	t.Parallel()
	m := plain()
	m.BaseOffset, m.LeaderEpoch, m.ProducerID, m.ProducerEpoch, m.BaseSequence = 100, 3, 5, 1, 10
	m.Transactional, m.Codec, m.Level = true, CodecLZ4, DefaultLZ4Level
	full := build(t, m, someRecords[:3]...)
	records, err := full.Records(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer records.Release()
	left := NewBuilder(full.Meta())
	left.SetLastOffsetDelta(full.LastOffsetDelta())
	for records.Next() {
		if r := records.Record(); r.OffsetDelta == 1 {
			left.AppendRecord(r, full.BaseTimestamp()+r.TimestampDelta, full.BaseTimestamp(), r.OffsetDelta)
		}
	}
	b, err := left.Build()
	if err != nil {
		t.Fatal(err)
	}
	if b.BaseOffset() != 100 || b.LastOffset() != 102 || b.NumRecords() != 1 || b.LastSequence() != 12 || b.MaxTimestamp() != 999 {
		t.Errorf("offsets %d to %d, %d records, last sequence %d, max timestamp %d",
			b.BaseOffset(), b.LastOffset(), b.NumRecords(), b.LastSequence(), b.MaxTimestamp())
	}
	if !b.IsTransactional() || b.IsControl() || b.ProducerID() != 5 || b.ProducerEpoch() != 1 || b.LeaderEpoch() != 3 {
		t.Errorf("header %x", b[:HeaderSize])
	}

	left.Reset(full.Meta())
	left.SetLastOffsetDelta(full.LastOffsetDelta())
	if b, err = left.Build(); err != nil {
		t.Fatal(err)
	}
	if len(b) != HeaderSize || b.NumRecords() != 0 || b.LastOffset() != 102 || b.LastSequence() != 12 || b.VerifyChecksum() != nil {
		t.Errorf("empty batch of %d bytes: %x", len(b), b)
	}
	if b.Codec() != CodecNone {
		t.Errorf("empty batch with codec %s", b.Codec())
	}
}

func TestBuilderMovesTimestampsToADeleteHorizon(t *testing.T) {
	t.Parallel()
	old := build(t, plain(), someRecords[:2]...)
	m := old.Meta()
	m.HasDeleteHorizon, m.BaseTimestamp = true, 5000
	anew := NewBuilder(m)
	records, err := old.Records(0)
	if err != nil {
		t.Fatal(err)
	}
	for records.Next() {
		r := records.Record()
		anew.AppendRecord(r, old.BaseTimestamp()+r.TimestampDelta, old.BaseTimestamp(), r.OffsetDelta)
	}
	b, err := anew.Build()
	if err != nil {
		t.Fatal(err)
	}
	if !b.HasDeleteHorizon() || b.BaseTimestamp() != 5000 || b.MaxTimestamp() != 1000 {
		t.Errorf("base timestamp %d, max timestamp %d", b.BaseTimestamp(), b.MaxTimestamp())
	}
	if records, err = b.Records(0); err != nil {
		t.Fatal(err)
	}
	for i := 0; records.Next(); i++ {
		if got := b.BaseTimestamp() + records.Record().TimestampDelta; got != someRecords[i].timestamp {
			t.Errorf("record %d is of %d, was of %d", i, got, someRecords[i].timestamp)
		}
	}
}

func TestBuilderRefusesWhatIsNoBatch(t *testing.T) {
	t.Parallel()
	none, backwards, codec := NewBuilder(plain()), NewBuilder(plain()), plain()
	backwards.SetLastOffsetDelta(-1)
	codec.Codec = 5
	undefined := NewBuilder(codec)
	undefined.Append(1, nil, nil)
	for name, b := range map[string]*Builder{"no records": none, "negative last offset delta": backwards, "codec 5": undefined} {
		if _, err := b.Build(); !errors.Is(err, ErrBuild) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseMarkerRefusesOtherBatches(t *testing.T) {
	t.Parallel()
	control := plain()
	control.Control = true
	compressed := control
	compressed.Codec = CodecGzip
	key, value := []byte{0, 0, 0, 1}, make([]byte, 6)
	for name, b := range map[string]Batch{
		"data":          build(t, plain(), rec{key: key, value: value}),
		"compressed":    build(t, compressed, rec{key: key, value: value}),
		"short key":     build(t, control, rec{key: key[:3], value: value}),
		"short value":   build(t, control, rec{key: key, value: value[:5]}),
		"null":          build(t, control, rec{}),
		"leader change": build(t, control, rec{key: []byte{0, 0, 0, 2}, value: value}),
	} {
		if _, err := ParseMarker(b); !errors.Is(err, ErrMarker) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := Marker{Commit: true, CoordinatorEpoch: -7}
	if got, err := ParseMarker(ControlBatch(9, 3, m, 5)); err != nil || got != m {
		t.Errorf("%+v, %v", got, err)
	}
}

// Any bytes are walked over without a panic; what is walked over without an error builds the same bytes again.
func FuzzIterate(f *testing.F) {
	f.Add(build(f, plain(), someRecords[:3]...).Payload(), int32(3))
	f.Add([]byte("\x10\x00\x00\x00\x01\x01\x02\x01\x01"), int32(1))
	f.Fuzz(func(t *testing.T, payload []byte, count int32) {
		b := NewBuilder(plain())
		it := Iterate(payload, count)
		for it.Next() {
			r := it.Record()
			if int32(len(r.AppendHeaders(nil))) != r.NumHeaders {
				t.Fatalf("not %d headers in %x", r.NumHeaders, r.Headers)
			}
			b.AppendRecord(r, plain().BaseTimestamp+r.TimestampDelta, plain().BaseTimestamp, r.OffsetDelta)
		}
		if it.Err() == nil && !bytes.Equal(b.payload, payload) {
			t.Fatalf("%x became %x", payload, b.payload)
		}
	})
}

// Any bytes are cut into batches without a panic.
func FuzzNext(f *testing.F) {
	f.Add([]byte(build(f, plain(), someRecords[:2]...)), 0)
	f.Add(golden(f, "txn.log"), 1000)
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		for total := len(b); len(b) > 0; {
			first, rest, err := Next(b, limit)
			if err != nil {
				return
			}
			if len(first) < HeaderSize || limit > 0 && len(first) > limit || len(first)+len(rest) > total {
				t.Fatalf("batch of %d bytes, %d left", len(first), len(rest))
			}
			if _, err = ParseMarker(first); err == nil && !first.IsControl() {
				t.Fatal("marker in a data batch")
			}
			records, err := first.Records(1 << 16)
			if err == nil {
				for records.Next() {
					_ = records.Record()
				}
				records.Release()
			}
			_ = first.VerifyChecksum()
			b = rest
		}
	})
}
