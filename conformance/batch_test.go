package conformance

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Codecs of the record format.
const (
	none = iota
	gz
	snap
	lz
	zst
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is one record to send, or one that came back.
type record struct {
	offset     int64
	ts         int64
	key, value []byte // nil: null
}

// batch describes a record batch; the zero value of a field is what a plain producer sends.
type batch struct {
	codec    int
	producer *producer // nil: not idempotent
	attrs    int16
	maxTS    *int64 // overrides the maximum timestamp
	records  []record
	deltas   []int32 // overrides the offset deltas
	tamper   func([]byte)
}

// producer is who sent a batch, and the sequence number of its first record.
type producer struct {
	id    int64
	epoch int16
	seq   int32
}

// plain is a batch of values without keys at time 1000, 1001, ...
func plain(values ...string) batch {
	var b batch
	for i, v := range values {
		b.records = append(b.records, record{ts: int64(1000 + i), value: []byte(v)})
	}
	return b
}

// bytes encodes the batch, its checksum right unless tampered with.
func (b batch) bytes() []byte {
	rb := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: b.attrs | int16(b.codec), LastOffsetDelta: int32(len(b.records) - 1),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(b.records)),
	}
	if p := b.producer; p != nil {
		rb.ProducerID, rb.ProducerEpoch, rb.FirstSequence = p.id, p.epoch, p.seq
	}
	if len(b.records) > 0 {
		rb.FirstTimestamp = b.records[0].ts
	}
	for _, r := range b.records {
		rb.MaxTimestamp = max(rb.MaxTimestamp, r.ts)
	}
	if b.maxTS != nil {
		rb.MaxTimestamp = *b.maxTS
	}
	rb.Records = compressed(b.codec, b.payload(rb.FirstTimestamp))
	rb.Length = int32(49 + len(rb.Records))
	out := rb.AppendTo(nil)
	seal(out)
	if b.tamper != nil {
		b.tamper(out)
	}
	return out
}

// payload encodes the records before compression.
func (b batch) payload(first int64) []byte {
	var out []byte
	for i, r := range b.records {
		delta := int32(i)
		if b.deltas != nil {
			delta = b.deltas[i]
		}
		kr := kmsg.Record{TimestampDelta64: r.ts - first, OffsetDelta: delta, Key: r.key, Value: r.value}
		body := kr.AppendTo(nil)
		_, n := binary.Varint(body)
		kr.Length = int32(len(body) - n)
		out = kr.AppendTo(out)
	}
	return out
}

// seal makes the checksum right.
func seal(b []byte) { binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli)) }

func compressed(codec int, p []byte) []byte {
	var buf bytes.Buffer
	switch codec {
	case gz:
		w := gzip.NewWriter(&buf)
		_, _ = w.Write(p)
		_ = w.Close()
	case snap:
		return snappy.Encode(nil, p)
	case lz:
		w := lz4.NewWriter(&buf)
		_, _ = w.Write(p)
		_ = w.Close()
	case zst:
		w, _ := zstd.NewWriter(nil)
		return w.EncodeAll(p, nil)
	default:
		return p
	}
	return buf.Bytes()
}

func decompressed(t *testing.T, codec int, p []byte) []byte {
	t.Helper()
	var out []byte
	var err error
	switch codec {
	case gz:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(p)); err == nil {
			out, err = io.ReadAll(r)
		}
	case snap:
		out, err = snappy.Decode(nil, p)
	case lz:
		out, err = io.ReadAll(lz4.NewReader(bytes.NewReader(p)))
	case zst:
		var d *zstd.Decoder
		if d, err = zstd.NewReader(nil); err == nil {
			out, err = d.DecodeAll(p, nil)
			d.Close()
		}
	default:
		return p
	}
	if err != nil {
		t.Fatalf("decompress: %v", err)
	}
	return out
}

// batches cuts fetched bytes into batches, checking each one's checksum, and leaves out a cut last one.
func batches(t *testing.T, b []byte) []kmsg.RecordBatch {
	t.Helper()
	var out []kmsg.RecordBatch
	for len(b) >= 61 {
		size := int(int32(binary.BigEndian.Uint32(b[8:]))) + 12
		if size < 61 {
			t.Fatalf("fetched batch has length %d", size-12)
		}
		if size > len(b) {
			break
		}
		one := b[:size]
		b = b[size:]
		if sum := crc32.Checksum(one[21:], castagnoli); sum != binary.BigEndian.Uint32(one[17:]) {
			t.Fatal("fetched batch has a wrong checksum")
		}
		var rb kmsg.RecordBatch
		if err := rb.ReadFrom(one); err != nil {
			t.Fatalf("fetched batch: %v", err)
		}
		out = append(out, rb)
	}
	return out
}

// records decodes all records of fetched bytes.
func records(t *testing.T, b []byte) []record {
	t.Helper()
	var out []record
	for _, rb := range batches(t, b) {
		r := kbin.Reader{Src: decompressed(t, int(rb.Attributes&7), rb.Records)}
		for range rb.NumRecords {
			length := r.Varint()
			body := kbin.Reader{Src: r.Span(int(length))}
			body.Int8()
			ts, delta := body.Varlong(), body.Varint()
			rec := record{offset: rb.FirstOffset + int64(delta), ts: rb.FirstTimestamp + ts, key: body.VarintBytes(), value: body.VarintBytes()}
			if rb.Attributes&8 != 0 {
				rec.ts = rb.MaxTimestamp
			}
			out = append(out, rec)
		}
		if err := r.Complete(); err != nil {
			t.Fatalf("records: %v", err)
		}
	}
	return out
}

// values lists the values of records as strings.
func values(rs []record) []string {
	out := make([]string, 0, len(rs))
	for _, r := range rs {
		out = append(out, string(r.value))
	}
	return out
}

// produceRequest makes a request for one partition.
func produceRequest(topic string, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10000
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, records
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// produce sends a batch to partition 0 and returns the partition's answer.
func produce(t *testing.T, c *conn, topic string, b batch) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	resp := ask[*kmsg.ProduceResponse](c, produceRequest(topic, 0, -1, b.bytes()), 9)
	return resp.Topics[0].Partitions[0]
}

// mustProduce is produce that expects success; it returns the base offset.
func mustProduce(t *testing.T, c *conn, topic string, b batch) int64 {
	t.Helper()
	p := produce(t, c, topic, b)
	if p.ErrorCode != 0 {
		t.Fatalf("produce to %s: error %d", topic, p.ErrorCode)
	}
	return p.BaseOffset
}

// fetchRequest makes a sessionless request for one partition.
func fetchRequest(topic string, partition int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 500, 1, 50<<20, -1
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes, fp.CurrentLeaderEpoch = partition, offset, 10<<20, -1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.Partitions = topic, append(ft.Partitions, fp)
	req.Topics = append(req.Topics, ft)
	return req
}

// fetch reads partition 0 from an offset.
func fetch(t *testing.T, c *conn, topic string, offset int64) kmsg.FetchResponseTopicPartition {
	t.Helper()
	resp := ask[*kmsg.FetchResponse](c, fetchRequest(topic, 0, offset), 12)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 {
		t.Fatalf("fetch: error %d, %d topics", resp.ErrorCode, len(resp.Topics))
	}
	return resp.Topics[0].Partitions[0]
}

// fetchAll reads partition 0 from an offset up to the high watermark.
func fetchAll(t *testing.T, c *conn, topic string, offset int64) []record {
	t.Helper()
	var out []record
	for {
		p := fetch(t, c, topic, offset)
		if p.ErrorCode != 0 {
			t.Fatalf("fetch %s at %d: error %d", topic, offset, p.ErrorCode)
		}
		got := records(t, p.RecordBatches)
		for _, r := range got {
			if r.offset >= offset {
				out = append(out, r)
			}
		}
		if len(got) > 0 {
			offset = got[len(got)-1].offset + 1
		}
		if offset >= p.HighWatermark || len(got) == 0 {
			return out
		}
	}
}
