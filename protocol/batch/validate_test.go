package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

const now = int64(1_800_000_000_000)

// defaults are the rules of a topic with Kafka's defaults.
func defaults() Rules {
	return Rules{
		Topic: "orders", Partition: 3, Version: 9,
		MaxBatchBytes: 1_048_588, MaxDecompressedBytes: 1 << 20,
		NowMs: now, BeforeMaxMs: math.MaxInt64, AfterMaxMs: 3_600_000,
	}
}

// draft is what a test's batch is made of; edit changes the finished header, after which the checksum is right again.
type draft struct {
	meta    Meta
	records []rec
	edit    func(Batch)
	raw     func([]byte) []byte // changes the bytes after all else
	payload []byte              // in place of the records
}

func (d draft) bytes(tb testing.TB) []byte {
	tb.Helper()
	if d.meta == (Meta{}) {
		d.meta = NoProducer()
	}
	if d.meta.BaseTimestamp == 0 {
		d.meta.BaseTimestamp = now - 1000
	}
	b := build(tb, d.meta, d.records...)
	if d.payload != nil {
		b = append(b[:HeaderSize:HeaderSize], d.payload...)
		binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-LengthOverhead))
	}
	if d.edit != nil {
		d.edit(b)
	}
	b.resetChecksum()
	if d.raw != nil {
		return d.raw(b)
	}
	return b
}

func values1(values ...string) []rec {
	var records []rec
	for i, v := range values {
		records = append(records, rec{offsetDelta: int32(i), timestamp: now - 1000 + int64(i), value: []byte(v)})
	}
	return records
}

func with(codec Codec) Meta {
	m := NoProducer()
	m.Codec, m.Level = codec, codec.DefaultLevel()
	return m
}

func put32(at int, v int32) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
}

func setAttributes(bits uint16) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint16(b[posAttributes:], b.Attributes()|bits) }
}

func rawAt(at int, v ...byte) func([]byte) []byte {
	return func(b []byte) []byte {
		copy(b[at:], v)
		return b
	}
}

func legacy(magic byte) func([]byte) []byte {
	return func([]byte) []byte {
		b := make([]byte, 40)
		binary.BigEndian.PutUint32(b[posLength:], 28)
		b[posMagic] = magic
		return b
	}
}

// The outcomes that Apache Kafka 4.4.0 was recorded to have.
func TestValidateRefusesWhatKafkaRefuses(t *testing.T) {
	t.Parallel()
	one := values1("v")
	two := values1("v", "v")
	broken := func(codec Codec, records []rec) []byte {
		payload, err := Compress(nil, codec, codec.DefaultLevel(), build(t, plain(), records...).Payload())
		if err != nil {
			t.Fatal(err)
		}
		return payload
	}
	pid := NoProducer()
	pid.ProducerID, pid.ProducerEpoch = 7, 0
	transactional := pid
	transactional.Transactional, transactional.BaseSequence = true, 0
	noEpoch := pid
	noEpoch.ProducerEpoch, noEpoch.BaseSequence = -1, 0
	rules := func(change func(*Rules)) *Rules {
		r := defaults()
		change(&r)
		return &r
	}
	tests := []struct {
		name    string
		draft   draft
		rules   *Rules
		kind    Kind
		reached bool
		message string
	}{
		{"bad checksum", draft{records: one, raw: rawAt(posCRC, 1, 2, 3, 4)}, nil, KindCorrupt, false, ""},
		{"magic 0", draft{raw: legacy(0), records: one}, nil, KindInvalidRecord, false, ""},
		{"magic 1", draft{raw: legacy(1), records: one}, nil, KindInvalidRecord, false, ""},
		{"magic 0 in the new layout", draft{records: one, raw: rawAt(posMagic, 0)}, nil, KindInvalidRecord, false, ""},
		{"magic 3", draft{records: one, raw: rawAt(posMagic, 3)}, nil, KindCorrupt, false, ""},
		{"a second batch of magic 3", draft{records: one, raw: func(b []byte) []byte { return append(b, rawAt(posMagic, 3)(bytes.Clone(b))...) }}, nil, KindCorrupt, false, ""},
		{"length beyond an int", draft{records: one, raw: rawAt(posLength, 127, 255, 255, 255)}, nil, KindUnreadable, false, ""},
		{"producer id without an epoch, compressed anew", draft{meta: noEpoch, records: one}, rules(func(r *Rules) {
			r.Compression = Compression{Fixed: true, Codec: CodecGzip, Level: -1}
		}), KindUnreadable, true, ""},
		{"transactional without a producer id, compressed anew", draft{records: one, edit: setAttributes(attrTransactional)}, rules(func(r *Rules) {
			r.TransactionalID, r.Compression = true, Compression{Fixed: true, Codec: CodecGzip, Level: -1}
		}), KindUnreadable, true, ""},
		{"magic -1", draft{records: one, raw: rawAt(posMagic, 255)}, nil, KindCorrupt, false, ""},
		{"count too high", draft{records: two, edit: put32(posNumRecords, 3)}, nil, KindInvalidRecord, true, ""},
		{"count 0", draft{records: one, edit: put32(posNumRecords, 0)}, nil, KindInvalidRecord, true, ""},
		{"count negative", draft{records: one, edit: put32(posNumRecords, -1)}, nil, KindInvalidRecord, true, ""},
		{"last offset delta too high", draft{records: two, edit: put32(posLastOffsetDelta, 5)}, nil, KindInvalidRecord, true, ""},
		{"last offset delta negative", draft{records: one, edit: put32(posLastOffsetDelta, -1)}, nil, KindInvalidRecord, true, ""},
		{"count and last offset delta too high", draft{records: two, edit: func(b Batch) {
			put32(posNumRecords, 3)(b)
			put32(posLastOffsetDelta, 2)(b)
		}}, nil, KindInvalidRecord, true, ""},
		{"count and last offset delta too low", draft{records: two, edit: func(b Batch) {
			put32(posNumRecords, 1)(b)
			put32(posLastOffsetDelta, 0)(b)
		}}, nil, KindInvalidRecord, true, ""},
		{"base offset", draft{records: one, edit: func(b Batch) { b.SetBaseOffset(100) }}, nil, KindInvalidRecord, true, ""},
		{"two batches", draft{records: one, raw: func(b []byte) []byte { return append(b, b...) }}, nil, KindInvalidRecord, false, ""},
		{"no bytes", draft{records: one, raw: func([]byte) []byte { return nil }}, nil, KindInvalidRecord, false, ""},
		{"four bytes", draft{records: one, raw: func([]byte) []byte { return []byte{0, 1, 2, 3} }}, nil, KindInvalidRecord, false, ""},
		{"zeros", draft{records: one, raw: func([]byte) []byte { return make([]byte, 61) }}, nil, KindCorrupt, false, ""},
		{"length too high", draft{records: one, raw: rawAt(posLength, 0, 0, 1, 0xf4)}, nil, KindInvalidRecord, false, ""},
		{"length 52", draft{records: one, raw: rawAt(posLength, 0, 0, 0, 52)}, nil, KindCorrupt, false, ""},
		{"length below a header's", draft{records: one, raw: func(b []byte) []byte { return rawAt(posLength, 0, 0, 0, 30)(b[:42:42]) }}, nil, KindCorrupt, false, ""},
		{"length -1", draft{records: one, raw: rawAt(posLength, 255, 255, 255, 255)}, nil, KindCorrupt, false, ""},
		{"cut", draft{records: one, raw: func(b []byte) []byte { return b[:len(b)-3] }}, nil, KindInvalidRecord, false, ""},
		{"more than a header of zeros behind", draft{records: one, raw: func(b []byte) []byte { return append(b, make([]byte, 17)...) }}, nil, KindCorrupt, false, ""},
		{"control batch", draft{records: one, edit: setAttributes(attrControl)}, nil, KindInvalidRecord, true, ""},
		{"codec 5", draft{records: one, edit: setAttributes(5)}, nil, KindUnreadable, true, ""},
		{"codec 7", draft{records: one, edit: setAttributes(7)}, nil, KindUnreadable, true, ""},
		{"bytes behind the records", draft{records: one, payload: append(build(t, NoProducer(), one...).Payload(), "junk"...)}, nil, KindInvalidRecord, true, ""},
		{"record longer than the batch", draft{records: one, payload: []byte("\xc8\x01\x00\x00\x00\x01\x06abc\x00")}, nil, KindInvalidRecord, true, ""},
		{"negative header count", draft{records: one, payload: []byte("\x0e\x00\x00\x00\x01\x02a\x01")}, nil, KindInvalidRecord, true, ""},
		{"null header key", draft{records: one, payload: []byte("\x14\x00\x00\x00\x01\x02a\x02\x01\x02x")}, nil, KindInvalidRecord, true, ""},
		{"gzip that isn't", draft{meta: with(CodecGzip), records: one, payload: []byte("not gzip at all")}, nil, KindUnreadable, true, ""},
		{"lz4 that isn't", draft{meta: with(CodecLZ4), records: one, payload: []byte("nope")}, nil, KindUnreadable, true, ""},
		{"gzip, count too high", draft{meta: with(CodecGzip), records: two, edit: func(b Batch) {
			put32(posNumRecords, 3)(b)
			put32(posLastOffsetDelta, 2)(b)
		}}, nil, KindInvalidRecord, true, ""},
		{"gzip, wrong offset deltas", draft{
			meta: with(CodecGzip), records: values1("a", "b", "c"),
			payload: broken(CodecGzip, []rec{{value: []byte("a")}, {offsetDelta: 5, value: []byte("b")}, {offsetDelta: 2, value: []byte("c")}}),
		}, nil, KindUnreadable, true, ""},
		{"more than max.message.bytes", draft{records: []rec{{value: make([]byte, 300)}}}, rules(func(r *Rules) { r.MaxBatchBytes = 200 }), KindTooLarge, false, ""},
		{"more than max.message.bytes, bad checksum", draft{records: []rec{{value: make([]byte, 300)}}, raw: rawAt(posCRC, 1)}, rules(func(r *Rules) { r.MaxBatchBytes = 200 }), KindTooLarge, false, ""},
		{"bomb", draft{meta: with(CodecZstd), records: []rec{{timestamp: now, value: make([]byte, 1<<21)}}}, nil, KindTooLarge, false, ""},
		{"zstd in version 6", draft{meta: with(CodecZstd), records: one}, rules(func(r *Rules) { r.Version = 6 }), KindUnsupportedCompression, false, ""},
		{"transactional without an id", draft{meta: transactional, records: one}, nil, KindTransactionalID, false, ""},
		{"producer id with sequence -1", draft{meta: pid, records: one}, nil, KindInvalidRecord, true, ""},
		{"larger when compressed anew", draft{meta: with(CodecGzip), records: []rec{{timestamp: now, value: make([]byte, 3000)}}}, rules(func(r *Rules) {
			r.MaxBatchBytes = 1000
			r.Compression = Compression{Fixed: true, Codec: CodecNone}
		}), KindTooLarge, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := defaults()
			if tt.rules != nil {
				r = *tt.rules
			}
			_, err := Validate(tt.draft.bytes(t), &r)
			var fault *ValidationError
			if !errors.As(err, &fault) {
				t.Fatalf("got %v", err)
			}
			if fault.Kind != tt.kind || fault.LogReached != tt.reached || fault.Message != tt.message || len(fault.RecordErrors) != 0 {
				t.Errorf("got %+v; want kind %d, reached %v, message %q", fault, tt.kind, tt.reached, tt.message)
			}
			if !strings.HasPrefix(fault.Error(), "invalid batch: ") || len(fault.Error()) < 20 {
				t.Errorf("message for the log: %q", fault.Error())
			}
		})
	}
}

func TestValidateNamesTheRecordsItRefuses(t *testing.T) {
	t.Parallel()
	old, late := now-100_000, now+100_000
	tight := defaults()
	tight.BeforeMaxMs, tight.AfterMaxMs = 50_000, 60_000
	compact := defaults()
	compact.Compact = true
	both := tight
	both.Compact = true
	appendTime := defaults()
	appendTime.AppendTime = true
	outOf := func(ts int64, delta int) string {
		return fmt.Sprintf("Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]", ts, delta, now-50_000, now+60_000)
	}
	const noKey = "Compacted topic cannot accept message without key in topic partition orders-3"
	isAppendTime := func(name string, delta, key int) string {
		return fmt.Sprintf("Invalid timestamp type in message %s(offset=%d, timestamp=%d, key=%d bytes, value=1 bytes). "+
			"Producer should not set timestamp type to LogAppendTime.", name, delta, now, key)
	}
	bit := func(codec Codec) Meta {
		m := with(codec)
		m.AppendTime, m.MaxTimestamp = true, now
		return m
	}
	tests := []struct {
		name  string
		rules Rules
		draft draft
		kind  Kind
		want  []RecordError
	}{
		{"too old and too new", tight, draft{records: []rec{{timestamp: old}, {timestamp: now, offsetDelta: 1}, {timestamp: late, offsetDelta: 2}}}, KindInvalidTimestamp, []RecordError{{0, outOf(old, 0)}, {2, outOf(late, 2)}}},
		{"too old in gzip", tight, draft{meta: with(CodecGzip), records: []rec{{timestamp: old}}}, KindInvalidTimestamp, []RecordError{{0, outOf(old, 0)}}},
		{"no keys", compact, draft{records: []rec{{timestamp: now, key: []byte{}}, {timestamp: now, offsetDelta: 1}, {timestamp: now, offsetDelta: 2}}}, KindInvalidRecord, []RecordError{{1, noKey}, {2, noKey}}},
		{"no keys in snappy", compact, draft{meta: with(CodecSnappy), records: values1("v")}, KindInvalidRecord, []RecordError{{0, noKey}}},
		{"no key counts before a bad time", both, draft{records: []rec{{timestamp: old}, {timestamp: old, offsetDelta: 1, key: []byte("k")}, {timestamp: now, offsetDelta: 2}}}, KindInvalidTimestamp, []RecordError{{0, noKey}, {1, outOf(old, 1)}, {2, noKey}}},
		{"append time from the client", appendTime, draft{meta: bit(CodecNone), records: values1("a")}, KindInvalidTimestamp, []RecordError{{0, isAppendTime("DefaultRecord", 0, 0)}}},
		{"append time from the client in gzip", appendTime, draft{meta: bit(CodecGzip), records: values1("a", "b")}, KindInvalidTimestamp, []RecordError{{0, isAppendTime("PartialDefaultRecord", 0, -1)}, {1, isAppendTime("PartialDefaultRecord", 1, -1)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Validate(tt.draft.bytes(t), &tt.rules)
			var fault *ValidationError
			if !errors.As(err, &fault) {
				t.Fatalf("got %v", err)
			}
			if fault.Kind != tt.kind || !fault.LogReached || !slices.Equal(fault.RecordErrors, tt.want) {
				t.Errorf("got %+v; want kind %d, %q", fault, tt.kind, tt.want)
			}
			message := "One or more records have been rejected due to invalid timestamp"
			if tt.kind == KindInvalidRecord {
				message = fmt.Sprintf("One or more records have been rejected due to %d record errors in total, and only showing the first three errors at most: [RecordError(batchIndex=%d, message='%s')",
					len(tt.want), tt.want[0].Index, tt.want[0].Message)
			}
			if !strings.HasPrefix(fault.Message, message) {
				t.Errorf("message %q", fault.Message)
			}
		})
	}
}

func TestValidateShowsThreeRecordErrorsAndKeepsABoundedNumber(t *testing.T) {
	t.Parallel()
	rules := defaults()
	rules.Compact = true
	var records []rec
	for i := range maxRecordErrors + 5 {
		records = append(records, rec{offsetDelta: int32(i), timestamp: now})
	}
	_, err := Validate(draft{records: records}.bytes(t), &rules)
	var fault *ValidationError
	if !errors.As(err, &fault) {
		t.Fatalf("got %v", err)
	}
	if n := strings.Count(fault.Message, "RecordError("); n != 3 || !strings.Contains(fault.Message, fmt.Sprintf(" %d record errors ", maxRecordErrors+5)) {
		t.Errorf("%d errors shown: %q", n, fault.Message)
	}
	if len(fault.RecordErrors) != maxRecordErrors {
		t.Errorf("%d errors kept", len(fault.RecordErrors))
	}
}

func TestValidateTakesWhatKafkaTakes(t *testing.T) {
	t.Parallel()
	pid := NoProducer()
	pid.ProducerID, pid.ProducerEpoch, pid.BaseSequence = 7, 0, 0
	transactional := pid
	transactional.Transactional = true
	tests := []struct {
		name   string
		draft  draft
		change func(*Rules)
		check  func(Batch) bool
	}{
		{"wrong offset deltas", draft{records: values1("v", "v", "v"), payload: build(t, with(CodecNone), rec{}, rec{offsetDelta: 5}, rec{offsetDelta: 2}).Payload()}, nil, nil},
		{"offset deltas from 1", draft{records: values1("v"), payload: build(t, with(CodecNone), rec{offsetDelta: 1}).Payload()}, nil, nil},
		{"two bytes behind", draft{records: values1("v"), raw: func(b []byte) []byte { return append(b, 0, 1) }}, nil, nil},
		{"sixteen bytes behind that could be a header", draft{records: values1("v"), raw: func(b []byte) []byte { return append(b, b[:16]...) }}, nil, nil},
		{"delete horizon", draft{records: values1("v"), edit: setAttributes(attrDeleteHorizon)}, nil, Batch.HasDeleteHorizon},
		{"unused attribute", draft{records: values1("v"), edit: setAttributes(256)}, nil, func(b Batch) bool { return b.Attributes() == 256 }},
		{"record attributes", draft{records: values1("v"), payload: []byte("\x0e\x03\x00\x00\x01\x02a\x00")}, nil, nil},
		{"leader epoch", draft{records: values1("v"), edit: func(b Batch) { b.SetLeaderEpoch(7) }}, nil, nil},
		{"no timestamp", draft{meta: Meta{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, BaseTimestamp: -1}, records: []rec{{timestamp: -1}}}, func(r *Rules) { r.BeforeMaxMs = 10 }, func(b Batch) bool { return b.MaxTimestamp() == -1 }},
		{"max timestamp left out", draft{records: values1("a", "b"), edit: func(b Batch) { binary.BigEndian.PutUint64(b[posMaxTimestamp:], math.MaxUint64) }}, nil, func(b Batch) bool { return b.MaxTimestamp() == now-999 }},
		{"append time bit", draft{records: values1("a"), edit: setAttributes(attrAppendTime)}, nil, func(b Batch) bool { return !b.IsAppendTime() && b.MaxTimestamp() == now-1000 }},
		{"append time bit, lz4", draft{meta: with(CodecLZ4), records: values1("a"), edit: setAttributes(attrAppendTime)}, nil, func(b Batch) bool { return !b.IsAppendTime() && b.Codec() == CodecLZ4 }},
		{"tombstone on a compacted topic", draft{records: []rec{{timestamp: now, key: []byte("k")}, {timestamp: now, offsetDelta: 1, key: []byte{}}}}, func(r *Rules) { r.Compact = true }, nil},
		{"very old", draft{records: []rec{{timestamp: 0}}}, nil, func(b Batch) bool { return b.MaxTimestamp() == 0 }},
		{"exactly max.message.bytes", draft{records: values1("v")}, func(r *Rules) { r.MaxBatchBytes = HeaderSize + 8 + 1 }, nil},
		{"idempotent", draft{meta: pid, records: values1("v")}, nil, nil},
		{"transactional", draft{meta: transactional, records: values1("v")}, func(r *Rules) { r.TransactionalID = true }, Batch.IsTransactional},
		{"zstd in version 7", draft{meta: with(CodecZstd), records: values1("v")}, func(r *Rules) { r.Version = 7 }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rules := defaults()
			if tt.change != nil {
				tt.change(&rules)
			}
			in := tt.draft.bytes(t)
			got, err := Validate(in, &rules)
			if err != nil {
				t.Fatal(err)
			}
			if err = got.Batch.VerifyChecksum(); err != nil {
				t.Error(err)
			}
			if tt.check != nil && !tt.check(got.Batch) {
				t.Errorf("header is %x", got.Batch[:HeaderSize])
			}
			if got.Recompressed || &got.Batch[0] != &in[0] || got.MaxTimestamp != got.Batch.MaxTimestamp() {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestValidateLeavesTheBytesOfASoundBatchAlone(t *testing.T) {
	t.Parallel()
	rules := defaults()
	rules.NowMs, rules.TransactionalID = 1796016693493, true
	for _, want := range batches(t, golden(t, "plain.log")) {
		in := Batch(bytes.Clone(want))
		in.SetBaseOffset(0)
		got, err := Validate(in, &rules)
		if err != nil {
			t.Fatal(err)
		}
		got.Batch.SetBaseOffset(want.BaseOffset())
		if !bytes.Equal(got.Batch, want) {
			t.Errorf("%x, want %x", got.Batch, want)
		}
	}
}

func TestValidateStampsAppendTime(t *testing.T) {
	t.Parallel()
	rules := defaults()
	rules.AppendTime = true
	for _, codec := range codecs {
		in := draft{meta: with(codec), records: []rec{{timestamp: 5}, {timestamp: now * 2, offsetDelta: 1}}}.bytes(t)
		payload := bytes.Clone(Batch(in).Payload())
		got, err := Validate(in, &rules)
		if err != nil {
			t.Fatalf("%s: %v", codec, err)
		}
		b := got.Batch
		if !b.IsAppendTime() || b.MaxTimestamp() != now || got.MaxTimestamp != now || b.BaseTimestamp() != now-1000 || b.VerifyChecksum() != nil {
			t.Errorf("%s: header %x", codec, b[:HeaderSize])
		}
		if !bytes.Equal(b.Payload(), payload) {
			t.Errorf("%s: the records changed", codec)
		}
	}
}

func TestValidateCompressesAnewFromTheFirstRecordsTimestamp(t *testing.T) {
	t.Parallel()
	rules := defaults()
	rules.Compression = Compression{Fixed: true, Codec: CodecGzip, Level: DefaultGzipLevel}
	for name, c := range map[string]struct {
		edit func(Batch)
		want []int64 // the base, then those of the records
	}{
		"base below the first record": {nil, []int64{now - 500, now - 500, now - 400}},
		"append time bit":             {setAttributes(attrAppendTime), []int64{now - 400, now - 400, now - 400}},
	} {
		in := draft{records: []rec{{timestamp: now - 500}, {timestamp: now - 400, offsetDelta: 1}}, edit: c.edit}.bytes(t)
		res, err := Validate(in, &rules)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		records, err := res.Batch.Records(1000)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := []int64{res.Batch.BaseTimestamp()}
		for records.Next() {
			got = append(got, res.Batch.BaseTimestamp()+records.Record().TimestampDelta)
		}
		records.Release()
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: timestamps %d, want %d", name, got, c.want)
		}
	}
}

func TestValidateClearsUnknownAttributesWhereItWritesTheHeader(t *testing.T) {
	t.Parallel()
	appendTime := defaults()
	appendTime.AppendTime = true
	plainRules := defaults()
	maxLeftOut := func(b Batch) {
		setAttributes(0x4000 | attrDeleteHorizon)(b)
		binary.BigEndian.PutUint64(b[posMaxTimestamp:], math.MaxUint64)
	}
	for name, c := range map[string]struct {
		rules *Rules
		edit  func(Batch)
		want  uint16
	}{
		"append time":            {&appendTime, setAttributes(0x4000 | attrDeleteHorizon), attrAppendTime | attrDeleteHorizon},
		"max timestamp left out": {&plainRules, maxLeftOut, attrDeleteHorizon},
		"nothing to write":       {&plainRules, setAttributes(0x4000), 0x4000},
	} {
		res, err := Validate(draft{records: values1("v"), edit: c.edit}.bytes(t), c.rules)
		if err != nil || res.Batch.Attributes() != c.want {
			t.Errorf("%s: attributes %#x, want %#x (%v)", name, res.Batch.Attributes(), c.want, err)
		}
	}
}

func TestValidateCompressesAnew(t *testing.T) {
	t.Parallel()
	for _, from := range codecs {
		for _, to := range codecs {
			for _, appendTime := range []bool{false, true} {
				rules := defaults()
				rules.AppendTime = appendTime
				rules.Compression = Compression{Fixed: true, Codec: to, Level: to.DefaultLevel()}
				m := with(from)
				m.ProducerID, m.ProducerEpoch, m.BaseSequence = 7, 1, 9
				in := draft{meta: m, records: values1("q8w", "e5")}.bytes(t)
				got, err := Validate(in, &rules)
				if err != nil {
					t.Fatalf("%s to %s: %v", from, to, err)
				}
				b := got.Batch
				if b.Codec() != to || got.Recompressed != (from != to) || b.VerifyChecksum() != nil || b.IsAppendTime() != appendTime {
					t.Errorf("%s to %s: %+v, header %x", from, to, got.Recompressed, b[:HeaderSize])
				}
				if b.ProducerID() != 7 || b.ProducerEpoch() != 1 || b.BaseSequence() != 9 || b.LastOffsetDelta() != 1 || b.NumRecords() != 2 {
					t.Errorf("%s to %s: header %x", from, to, b[:HeaderSize])
				}
				if v := values(t, b); !slices.Equal(v, []string{"=q8w", "=e5"}) {
					t.Errorf("%s to %s: %q", from, to, v)
				}
			}
		}
	}
}

func TestValidateGivesRecompressedRecordsTheirOffsets(t *testing.T) {
	t.Parallel()
	rules := defaults()
	rules.Compression = Compression{Fixed: true, Codec: CodecZstd, Level: DefaultZstdLevel}
	in := draft{
		records: values1("a", "b"),
		payload: build(t, with(CodecNone), rec{offsetDelta: 4, value: []byte("a")}, rec{offsetDelta: 1, value: []byte("b")}).Payload(),
	}.bytes(t)
	got, err := Validate(in, &rules)
	if err != nil {
		t.Fatal(err)
	}
	records, err := got.Batch.Records(1000)
	if err != nil {
		t.Fatal(err)
	}
	defer records.Release()
	for i := int32(0); records.Next(); i++ {
		if d := records.Record().OffsetDelta; d != i {
			t.Errorf("record %d has offset delta %d", i, d)
		}
	}
}

func TestValidateAllocatesNothingForAPlainBatch(t *testing.T) {
	rules := defaults()
	in := draft{records: values1("a", "b", "c")}.bytes(t)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Validate(in, &rules); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLeadingSaysWhetherTheFirstBatchIsTransactional(t *testing.T) {
	t.Parallel()
	sound := draft{records: values1("v")}.bytes(t)
	transactional := draft{records: values1("v"), edit: setAttributes(attrTransactional)}.bytes(t)
	for name, c := range map[string]struct {
		in      []byte
		want    bool
		message string // "" for no error
	}{
		"plain":                      {sound, false, ""},
		"transactional":              {transactional, true, ""},
		"transactional behind plain": {append(bytes.Clone(sound), transactional...), false, ""},
		"cut":                        {transactional[:len(transactional)-1], false, ""},
		"nothing":                    {nil, false, ""},
		"magic 1":                    {legacy(1)(bytes.Clone(sound)), false, ""},
		"magic 3":                    {rawAt(posMagic, 3)(bytes.Clone(transactional)), false, "Invalid magic found in record: 3"},
		"magic -1":                   {rawAt(posMagic, 255)(bytes.Clone(sound)), false, "Invalid magic found in record: -1"},
		"zeros":                      {make([]byte, 61), false, "Record size 0 is less than the minimum record overhead (14)"},
	} {
		got, err := Leading(c.in)
		message := ""
		if fault := (*ValidationError)(nil); errors.As(err, &fault) {
			message = fault.Message
		}
		if got != c.want || message != c.message {
			t.Errorf("%s: %v, %q", name, got, message)
		}
	}
}

// Any bytes are validated without a panic; what is valid is one batch, sound, and valid again.
func FuzzValidate(f *testing.F) {
	for i, codec := range codecs {
		f.Add(draft{meta: with(codec), records: values1("seed", "of", "records")}.bytes(f), uint8(i))
	}
	f.Add(draft{records: values1("v"), edit: setAttributes(attrAppendTime)}.bytes(f), uint8(0x20))
	f.Add(golden(f, "plain.log"), uint8(0))
	f.Fuzz(func(t *testing.T, in []byte, flags uint8) {
		if len(in) >= HeaderSize && flags&0x80 == 0 { // let the fuzzer get behind the checksum
			if size, err := Size(in, len(in)); err == nil {
				Batch(in[:size]).resetChecksum()
			}
		}
		rules := defaults()
		rules.MaxBatchBytes, rules.MaxDecompressedBytes, rules.TransactionalID = 1<<16, 1<<16, true
		rules.Compact, rules.AppendTime = flags&0x10 != 0, flags&0x20 != 0
		rules.Compression = Compression{Fixed: flags&0x40 != 0, Codec: Codec(flags & 7 % 5)}
		got, err := Validate(in, &rules)
		if err != nil {
			var fault *ValidationError
			if !errors.As(err, &fault) || fault.Kind == 0 {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if err = got.Batch.VerifyChecksum(); err != nil {
			t.Fatal(err)
		}
		records, err := got.Batch.Records(1 << 16)
		if err != nil {
			t.Fatal(err)
		}
		defer records.Release()
		n := int32(0)
		for records.Next() {
			n++
		}
		if records.Err() != nil || n != got.Batch.LastOffsetDelta()+1 {
			t.Fatalf("%d records, last offset delta %d, %v", n, got.Batch.LastOffsetDelta(), records.Err())
		}
	})
}

func benchmarkBatch(tb testing.TB, records, size int) Batch {
	tb.Helper()
	builder := NewBuilder(plain())
	value := bytes.Repeat([]byte("v"), size)
	for range records {
		builder.Append(1000, nil, value)
	}
	out, err := builder.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func BenchmarkValidate(b *testing.B) {
	for _, size := range []int{100, 1024} {
		for _, codec := range []Codec{CodecNone, CodecLZ4} {
			b.Run(fmt.Sprintf("%dB/%s", size, codec), func(b *testing.B) {
				m := plain()
				m.Codec, m.Level = codec, codec.DefaultLevel()
				builder := NewBuilder(m)
				value := bytes.Repeat([]byte("some value "), size/11+1)[:size]
				for range 1000 {
					builder.Append(1000, nil, value)
				}
				in, err := builder.Build()
				if err != nil {
					b.Fatal(err)
				}
				rules := defaults()
				rules.MaxBatchBytes, rules.MaxDecompressedBytes = 4<<20, 4<<20
				b.SetBytes(int64(builder.SizeBytes()))
				b.ReportAllocs()
				for b.Loop() {
					if _, err = Validate(in, &rules); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkIterate(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			in := benchmarkBatch(b, 1000, size)
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				it := Iterate(in.Payload(), in.NumRecords())
				for it.Next() {
					_ = it.Record().OffsetDelta
				}
				if it.Err() != nil {
					b.Fatal(it.Err())
				}
			}
		})
	}
}

func BenchmarkChecksum(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			in := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				_ = Checksum(in)
			}
		})
	}
}
