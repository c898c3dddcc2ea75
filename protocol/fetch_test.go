package protocol

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// memoryRange is a file range that lies in memory.
type memoryRange []byte

func (m memoryRange) Size() int64 { return int64(len(m)) }

func (m memoryRange) SendTo(w io.Writer) (int64, error) {
	n, err := w.Write(m)
	return int64(n), err
}

// wire is all bytes of an answer.
func wire(t *testing.T, r Response) []byte {
	t.Helper()
	var out bytes.Buffer
	out.Write(r.Frame)
	for _, p := range r.Parts {
		if p.File == nil {
			out.Write(p.Bytes)
			continue
		}
		if _, err := p.File.SendTo(&out); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// source says how a partition's records are given to the encoder.
type source uint8

const (
	asBytes source = iota
	asFile
	mixed
)

func (s source) records(b []byte, i int) FetchRecords {
	if s == asFile || s == mixed && i%2 == 0 {
		return FetchRecords{File: memoryRange(b)}
	}
	return FetchRecords{Bytes: b}
}

func fill(n int, seed byte) []byte {
	return bytes.Repeat([]byte{seed, seed + 1, seed + 2}, n/3+1)[:n]
}

func fetchPartition(i int, records []byte) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition = int32(i)
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = int64(i)*7, int64(i)*5, int64(i)*3
	p.PreferredReadReplica = -1
	p.RecordBatches = records
	switch i % 4 {
	case 1:
		p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	case 2:
		for j := range 130 {
			a := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			a.ProducerID, a.FirstOffset = int64(j), int64(j)*11
			p.AbortedTransactions = append(p.AbortedTransactions, a)
		}
	case 3:
		p.ErrorCode = int16(OffsetOutOfRange)
	}
	if i&1 != 0 {
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 3, 1<<40
	}
	if i&2 != 0 {
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 1, 200
	}
	if i&4 != 0 {
		p.SnapshotID.EndOffset, p.SnapshotID.Epoch = 99, 4
	}
	return p
}

func fetchAnswer(topics, partitions, brokers int, sizes ...int) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.ThrottleMillis, resp.ErrorCode, resp.SessionID = 5, 70, 1234567
	for t := range topics {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = fmt.Sprintf("topic-%d", t)
		topic.TopicID = [16]byte{byte(t), 15: 9}
		for p := range partitions {
			size := sizes[(t+p)%len(sizes)]
			topic.Partitions = append(topic.Partitions, fetchPartition(t*partitions+p, fill(size, byte(p))))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	for b := range brokers {
		broker := kmsg.NewFetchResponseBroker()
		broker.NodeID, broker.Host, broker.Port = int32(b), fmt.Sprintf("host-%d.example.com", b), 9092
		if b%2 == 0 {
			rack := "rack"
			broker.Rack = &rack
		}
		resp.Brokers = append(resp.Brokers, broker)
	}
	return resp
}

func TestEncodeFetchEqualsKmsg(t *testing.T) {
	t.Parallel()
	shapes := map[string]*kmsg.FetchResponse{
		"no topics":       fetchAnswer(0, 0, 0, 0),
		"no partitions":   fetchAnswer(2, 0, 0, 0),
		"one partition":   fetchAnswer(1, 1, 0, 1000),
		"no records":      fetchAnswer(1, 9, 0, 0),
		"small records":   fetchAnswer(3, 8, 1, 1, 126, 127, 128, 0),
		"large records":   fetchAnswer(2, 3, 3, inlineBytes+1, 70_000, 0),
		"at the edge":     fetchAnswer(1, 3, 0, inlineBytes-1, inlineBytes, inlineBytes+1),
		"many of all":     fetchAnswer(30, 5, 20, 0, 0, 3, 0, 20_000, 0, 300),
		"endpoints alone": fetchAnswer(0, 0, 130, 0),
	}
	for name, resp := range shapes {
		for version := int16(4); version <= 18; version++ {
			for _, s := range []source{asBytes, asFile, mixed} {
				resp.Version = version
				body := resp.AppendTo(nil)
				i := 0
				got := EncodeFetch(request(KeyFetch, version), resp, func(topic, partition int) FetchRecords {
					i++
					return s.records(resp.Topics[topic].Partitions[partition].RecordBatches, i)
				})
				if want := framed(-559038737, version >= 12, body); !bytes.Equal(wire(t, got), want) {
					t.Errorf("%s, version %d, source %d: bytes differ", name, version, s)
				}
				got.Release()
			}
		}
	}
}

func TestEncodeFetchSendsAbsentRecordsAsEmpty(t *testing.T) {
	t.Parallel()
	resp := fetchAnswer(1, 1, 0, 0)
	for version := int16(4); version <= 18; version++ {
		resp.Version = version
		resp.Topics[0].Partitions[0].RecordBatches = []byte{}
		want := framed(-559038737, version >= 12, resp.AppendTo(nil))
		got := EncodeFetch(request(KeyFetch, version), resp, func(int, int) FetchRecords { return FetchRecords{} })
		if !bytes.Equal(wire(t, got), want) {
			t.Errorf("version %d: bytes differ", version)
		}
		if len(got.Parts) != 0 {
			t.Errorf("version %d: %d parts for nothing", version, len(got.Parts))
		}
		got.Release()
	}
}

func TestEncodeFetchDoesNotCopyLargeRecords(t *testing.T) {
	t.Parallel()
	resp := fetchAnswer(1, 2, 0, 100_000)
	resp.Version = 12
	records := resp.Topics[0].Partitions[0].RecordBatches
	got := EncodeFetch(request(KeyFetch, 12), resp, func(_, p int) FetchRecords {
		if p == 0 {
			return FetchRecords{Bytes: records}
		}
		return FetchRecords{File: memoryRange(records)}
	})
	defer got.Release()
	if len(got.Frame) > 200 || len(got.Parts) != 4 {
		t.Fatalf("frame of %d bytes, %d parts", len(got.Frame), len(got.Parts))
	}
	if &got.Parts[0].Bytes[0] != &records[0] || got.Parts[2].File == nil {
		t.Error("records were copied")
	}
}

// hugeRange claims a size and has no bytes.
type hugeRange int64

func (h hugeRange) Size() int64 { return int64(h) }

func (h hugeRange) SendTo(io.Writer) (int64, error) { return 0, nil }

func TestEncodeFetchClosesOnMoreThanAFrameHolds(t *testing.T) {
	t.Parallel()
	resp := fetchAnswer(1, 3, 0, 0)
	resp.Version = 12
	got := EncodeFetch(request(KeyFetch, 12), resp, func(int, int) FetchRecords { return FetchRecords{File: hugeRange(1 << 30)} })
	if !got.Close || got.Frame != nil || got.Reason == nil {
		t.Errorf("%+v, want the connection closed", got)
	}
}

func BenchmarkEncodeFetch(b *testing.B) {
	resp := fetchAnswer(1, 10, 0, 100_000)
	resp.Version = 13
	r := request(KeyFetch, 13)
	b.ReportAllocs()
	for b.Loop() {
		answer := EncodeFetch(r, resp, func(_, p int) FetchRecords {
			return FetchRecords{File: memoryRange(resp.Topics[0].Partitions[p].RecordBatches)}
		})
		answer.Release()
	}
}
