package conformance

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func initProducer(t *testing.T) int64 {
	t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp := ask[*kmsg.InitProducerIDResponse](dial(t), req, 4)
	if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || resp.ProducerID < 0 {
		t.Fatalf("InitProducerId: %+v", resp)
	}
	return resp.ProducerID
}

func TestBaseOffsetIsTheFirstRecords(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	for i, want := range []int64{0, 3, 6} {
		if got := mustProduce(t, c, topic, plain("a", "b", "c")); got != want {
			t.Fatalf("batch %d: base offset %d, want %d", i, got, want)
		}
	}
}

func TestRequestForSeveralPartitionsIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 8)
	for version := int16(3); version <= 12; version++ {
		req := produceRequest(topic, 0, -1, plain("x").bytes())
		for p := range int32(7) {
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Partition, rp.Records = p+1, plain("x").bytes()
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, rp)
		}
		resp := ask[*kmsg.ProduceResponse](dial(t), req, version)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 8 {
			t.Fatalf("v%d: %+v", version, resp)
		}
		for _, p := range resp.Topics[0].Partitions {
			if p.ErrorCode != 0 {
				t.Fatalf("v%d partition %d: error %d", version, p.Partition, p.ErrorCode)
			}
		}
	}
}

// Stored bytes are the producer's; only base offset and leader epoch, outside the checksum, are the broker's.
func TestBatchesComeBackAsSent(t *testing.T) {
	t.Parallel()
	for _, codec := range []int{none, gz, snap, lz, zst} {
		t.Run(fmt.Sprint(codec), func(t *testing.T) {
			t.Parallel()
			topic := name(t, "t")
			createTopic(t, topic, 1)
			c := dial(t)
			b := plain("first", "second", strings.Repeat("third", 100))
			b.codec = codec
			sent := b.bytes()
			mustProduce(t, c, topic, b)
			got := fetch(t, c, topic, 0).RecordBatches
			if len(got) != len(sent) {
				t.Fatalf("%d bytes came back, %d were sent", len(got), len(sent))
			}
			requireBytes(t, "length", got[8:12], sent[8:12])
			requireBytes(t, "everything from magic on", got[16:], sent[16:])
		})
	}
}

func TestRecordsSurviveTheRoundTrip(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	sent := []record{
		{ts: 0, key: []byte("k"), value: nil},
		{ts: 0, key: nil, value: []byte{}},
		{ts: 5, key: []byte{}, value: bytes.Repeat([]byte{7}, 100000)},
	}
	mustProduce(t, c, topic, batch{records: sent})
	got := fetchAll(t, c, topic, 0)
	if len(got) != len(sent) {
		t.Fatalf("got %d records", len(got))
	}
	for i, r := range got {
		if r.ts != sent[i].ts || (r.key == nil) != (sent[i].key == nil) || (r.value == nil) != (sent[i].value == nil) ||
			!bytes.Equal(r.key, sent[i].key) || !bytes.Equal(r.value, sent[i].value) {
			t.Errorf("record %d: key %q (null: %v), null value %v, time %d", i, r.key, r.key == nil, r.value == nil, r.ts)
		}
	}
}

func TestBadBatchesAreRefused(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	ieee := func(b []byte) { binary.BigEndian.PutUint32(b[17:], crc32.ChecksumIEEE(b[21:])) }
	for _, c := range []struct {
		name   string
		tamper func([]byte)
		code   int16
	}{
		{"wrong checksum", func(b []byte) { b[17] ^= 1 }, 2},
		{"IEEE checksum", ieee, 2},
		{"flipped bit in a record", func(b []byte) { b[len(b)-3] ^= 4 }, 2},
		{"old magic", func(b []byte) { b[16] = 1 }, 87},
		{"unknown magic", func(b []byte) { b[16] = 3 }, 2},
		{"count too large", func(b []byte) { b[60] = 9; seal(b) }, 87},
		{"last offset delta too large", func(b []byte) { b[26] = 9; seal(b) }, 87},
		{"base offset", func(b []byte) { b[7] = 5 }, 87},
		{"control batch", func(b []byte) { b[22] |= 0x20; seal(b) }, 87},
		{"unknown codec", func(b []byte) { b[22] |= 5; seal(b) }, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := plain("one", "two")
			b.tamper = c.tamper
			if p := produce(t, dial(t), topic, b); p.ErrorCode != c.code {
				t.Fatalf("error %d, want %d", p.ErrorCode, c.code)
			}
		})
	}
	if got := fetchAll(t, dial(t), topic, 0); len(got) != 0 {
		t.Fatalf("refused batches left %d records", len(got))
	}
}

func TestMaxMessageBytesIsEnforced(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1, "max.message.bytes", "5000")
	c := dial(t)
	if p := produce(t, c, topic, plain(strings.Repeat("x", 10000))); p.ErrorCode != 10 {
		t.Fatalf("error %d, want 10", p.ErrorCode)
	}
	mustProduce(t, c, topic, plain(strings.Repeat("x", 4000)))
}

func TestCompactedTopicTakesNoNullKeys(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1, "cleanup.policy", "compact")
	c := dial(t)
	p := produce(t, c, topic, batch{records: []record{{ts: 1, key: []byte("k"), value: []byte("v")}, {ts: 1, value: []byte("v")}}})
	if p.ErrorCode != 87 || len(p.ErrorRecords) != 1 || p.ErrorRecords[0].RelativeOffset != 1 || p.ErrorMessage == nil {
		t.Fatalf("got %+v", p)
	}
	mustProduce(t, c, topic, batch{records: []record{{ts: 1, key: []byte("k"), value: nil}}})
}

// Some clients leave the maximum timestamp of a batch unset.
func TestMaxTimestampIsComputedFromTheRecords(t *testing.T) {
	t.Parallel()
	for _, codec := range []int{none, gz} {
		topic := name(t, "t")
		createTopic(t, topic, 1)
		c := dial(t)
		unset := int64(-1)
		b := batch{codec: codec, maxTS: &unset, records: []record{{ts: 100, value: []byte("a")}, {ts: 300, value: []byte("b")}, {ts: 200, value: []byte("c")}}}
		mustProduce(t, c, topic, b)
		if got := batches(t, fetch(t, c, topic, 0).RecordBatches)[0].MaxTimestamp; got != 300 {
			t.Errorf("codec %d: maximum timestamp %d, want 300", codec, got)
		}
		if got := listOffset(t, topic, 250, 0); got.Offset != 1 || got.Timestamp != 300 {
			t.Errorf("codec %d: offset for time 250 is %d at %d", codec, got.Offset, got.Timestamp)
		}
	}
}

func TestRecompressedBatchSaysItsCodec(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]int16{"uncompressed": none, "gzip": gz, "snappy": snap, "lz4": lz, "zstd": zst} {
		for _, codec := range []int{none, gz, snap, lz, zst} {
			topic := name(t, "t")
			createTopic(t, topic, 1, "compression.type", target)
			c := dial(t)
			b := plain("one", "two", strings.Repeat("three", 200))
			b.codec = codec
			mustProduce(t, c, topic, b)
			p := fetch(t, c, topic, 0)
			rb := batches(t, p.RecordBatches)[0]
			if rb.Attributes&7 != want {
				t.Errorf("codec %d on a %s topic comes back as codec %d", codec, target, rb.Attributes&7)
			}
			if target == "snappy" && codec != snap {
				continue // framed for Java, which the decoder of this suite doesn't read
			}
			if got := values(records(t, p.RecordBatches)); len(got) != 3 || got[0] != "one" {
				t.Errorf("codec %d on a %s topic: records %q", codec, target, got)
			}
		}
	}
}

func TestIdempotentProducersAreCheckedBySequence(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	pid := initProducer(t)
	if other := initProducer(t); other == pid {
		t.Fatal("two producers got one id")
	}
	send := func(epoch int16, seq int32, n int) kmsg.ProduceResponseTopicPartition {
		return produce(t, c, topic, batch{producer: &producer{pid, epoch, seq}, records: plain(make([]string, n)...).records})
	}
	for _, s := range []struct {
		name  string
		epoch int16
		seq   int32
		n     int
		code  int16
		base  int64
	}{
		{"first", 0, 0, 2, 0, 0},
		{"next", 0, 2, 1, 0, 2},
		{"duplicate of the first", 0, 0, 2, 0, 0},
		{"duplicate of the second", 0, 2, 1, 0, 2},
		{"gap", 0, 5, 1, 45, -1},
		{"overlap", 0, 1, 2, 45, -1},
		{"next again", 0, 3, 1, 0, 3},
		{"new epoch not from 0", 1, 4, 1, 45, -1},
		{"new epoch", 1, 0, 1, 0, 4},
		{"old epoch", 0, 4, 1, 47, -1},
	} {
		if p := send(s.epoch, s.seq, s.n); p.ErrorCode != s.code || p.BaseOffset != s.base {
			t.Fatalf("%s: error %d, base offset %d; want %d, %d", s.name, p.ErrorCode, p.BaseOffset, s.code, s.base)
		}
	}
	if got := len(fetchAll(t, c, topic, 0)); got != 5 {
		t.Fatalf("%d records are in the log, want 5", got)
	}
}

func TestRecordsAreReadableOnceAcknowledged(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	writer, reader := dial(t), dial(t)
	for i := range 50 {
		off := mustProduce(t, writer, topic, plain(fmt.Sprint(i)))
		p := fetch(t, reader, topic, off)
		if got := values(records(t, p.RecordBatches)); len(got) == 0 || got[0] != fmt.Sprint(i) {
			t.Fatalf("record %d: got %q", i, got)
		}
		if p.HighWatermark != off+1 {
			t.Fatalf("high watermark %d after offset %d", p.HighWatermark, off)
		}
	}
}

// A batch that decompresses to far more than it is must not cost the broker its memory.
func TestDecompressionBombIsBounded(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1, "max.decompressed.message.bytes", "1000000")
	big := batch{records: []record{{ts: 1, value: make([]byte, 200<<20)}}}
	payload := compressed(zst, big.payload(1))
	b := plain("x")
	b.codec = zst
	bytes := b.bytes()
	bytes = append(bytes[:61], payload...)
	binary.BigEndian.PutUint32(bytes[8:], uint32(len(bytes)-12))
	seal(bytes)
	resp := ask[*kmsg.ProduceResponse](dial(t), produceRequest(topic, 0, -1, bytes), 9)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code == 0 {
		t.Fatal("a batch beyond max.decompressed.message.bytes was taken")
	}
	if got := fetchAll(t, dial(t), topic, 0); len(got) != 0 {
		t.Fatalf("it left %d records", len(got))
	}
}
