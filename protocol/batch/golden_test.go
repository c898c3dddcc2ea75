package batch

import (
	"bytes"
	"embed"
	"encoding/hex"
	"strings"
	"testing"
)

//go:embed testdata/*.hex
var testdata embed.FS

// golden reads bytes that Apache Kafka 4.4.0 stored.
func golden(tb testing.TB, name string) []byte {
	tb.Helper()
	text, err := testdata.ReadFile("testdata/" + name + ".hex")
	if err != nil {
		tb.Fatal(err)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ""))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// batches cuts bytes into their batches.
func batches(tb testing.TB, b []byte) []Batch {
	tb.Helper()
	var all []Batch
	for len(b) > 0 {
		first, rest, err := Next(b, 0)
		if err != nil {
			tb.Fatal(err)
		}
		all, b = append(all, first), rest
	}
	return all
}

// values lists "key=value" of a batch's records.
func values(tb testing.TB, b Batch) []string {
	tb.Helper()
	records, err := b.Records(1 << 20)
	if err != nil {
		tb.Fatal(err)
	}
	defer records.Release()
	var all []string
	for records.Next() {
		r := records.Record()
		all = append(all, string(r.Key)+"="+string(r.Value))
	}
	if err = records.Err(); err != nil {
		tb.Fatal(err)
	}
	return all
}

func TestReadsWhatKafkaStored(t *testing.T) {
	t.Parallel()
	tests := map[string][]struct {
		offset int64
		codec  Codec
		crc    uint32
		values string
	}{
		"plain.log": {
			{0, CodecNone, 0x1f65bc2a, "key-1=value-1 key-2="},
			{2, CodecGzip, 0x31ff6f18, "=abcdefgh =ijklmnop"},
			{4, CodecSnappy, 0x2a15fbc6, "=snappy-1"},
			{5, CodecLZ4, 0xb6c853b9, "=lz4-1"},
			{6, CodecZstd, 0x61bbc194, "=zstd-1"},
			{7, CodecNone, 0x69c4f0b2, "=idempotent"},
		},
		"recompressed.log": {{0, CodecGzip, 0xac138318, ""}, {2, CodecGzip, 0x3f1d3d0e, ""}},
		"append.log":       {{0, CodecNone, 0x15f0afd4, ""}, {2, CodecGzip, 0xc81b745f, ""}},
		"txn.log":          {{0, CodecNone, 0x3d6c65f5, ""}, {1, CodecNone, 0x7a8e5e8a, ""}, {2, CodecNone, 0x00f5bb3f, ""}, {3, CodecNone, 0x0322b9e9, ""}},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := batches(t, golden(t, name))
			if len(got) != len(want) {
				t.Fatalf("%d batches, want %d", len(got), len(want))
			}
			for i, b := range got {
				if b.BaseOffset() != want[i].offset || b.Codec() != want[i].codec || b.CRC() != want[i].crc {
					t.Errorf("batch %d: offset %d, %s, crc %08x", i, b.BaseOffset(), b.Codec(), b.CRC())
				}
				if err := b.VerifyChecksum(); err != nil {
					t.Errorf("batch %d: %v", i, err)
				}
				if v := strings.Join(values(t, b), " "); want[i].values != "" && v != want[i].values {
					t.Errorf("batch %d holds %q, want %q", i, v, want[i].values)
				}
			}
		})
	}
}

func TestBuildsWhatKafkaStored(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain.log", "txn.log"} {
		for i, b := range batches(t, golden(t, name)) {
			if b.Codec() == CodecGzip || b.Codec() == CodecSnappy || b.Codec() == CodecZstd {
				continue // other encoders write other bytes
			}
			records, err := b.Records(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			asIs, anew := NewBuilder(b.Meta()), NewBuilder(b.Meta())
			for records.Next() {
				r := records.Record()
				asIs.AppendRecord(r, b.BaseTimestamp()+r.TimestampDelta, b.BaseTimestamp(), r.OffsetDelta)
				anew.AppendAt(r.OffsetDelta, b.BaseTimestamp()+r.TimestampDelta, r.Key, r.Value, r.AppendHeaders(nil)...)
			}
			for _, builder := range []*Builder{asIs, anew} {
				got, err := builder.Build()
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, b) {
					t.Errorf("%s, batch %d: built %x, want %x", name, i, got, b)
				}
			}
			records.Release()
		}
	}
}

func TestControlBatchIsWhatKafkaWrites(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"control-commit", "control-abort"} {
		want := Batch(golden(t, name))
		marker, err := ParseMarker(want)
		if err != nil {
			t.Fatal(err)
		}
		if marker.Commit != (name == "control-commit") || marker.CoordinatorEpoch != 0 {
			t.Errorf("%s: %+v", name, marker)
		}
		got := ControlBatch(want.ProducerID(), want.ProducerEpoch(), marker, want.MaxTimestamp())
		got.SetBaseOffset(want.BaseOffset())
		got.SetLeaderEpoch(want.LeaderEpoch())
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
	}
}

func TestSetAppendTimeIsWhatKafkaDoes(t *testing.T) {
	t.Parallel()
	for i, want := range batches(t, golden(t, "append.log")) {
		got := Batch(bytes.Clone(want))
		got[posAttributes+1] &^= attrAppendTime
		got.setMaxTimestamp(want.BaseTimestamp())
		got.SetAppendTime(want.MaxTimestamp())
		if !bytes.Equal(got, want) {
			t.Errorf("batch %d: %x, want %x", i, got, want)
		}
	}
}
