package kbroker

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/batch"
)

const benchTopic = "bench"

// benchBroker is a broker with a topic of one partition.
func benchBroker(b *testing.B, mode string) *Broker {
	b.Helper()
	broker, err := Start(context.Background(), Options{DataDir: b.TempDir(), Sync: mode})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := broker.Close(); err != nil {
			b.Error(err)
		}
	})
	q := kmsg.NewPtrCreateTopicsRequest()
	q.Version, q.TimeoutMillis = 7, 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = benchTopic, 1, 1
	q.Topics = append(q.Topics, t)
	w := benchDial(b, broker)
	defer w.close()
	w.call(b, benchFrame(q))
	return broker
}

// wire is a connection that sends prepared frames; used by one goroutine.
type wire struct {
	net.Conn
	answer []byte
}

func benchDial(b *testing.B, broker *Broker) *wire {
	b.Helper()
	var d net.Dialer
	c, err := d.DialContext(context.Background(), "tcp", broker.Addr())
	if err != nil {
		b.Fatal(err)
	}
	return &wire{Conn: c, answer: make([]byte, 2<<20)}
}

func (w *wire) close() { _ = w.Conn.Close() }

// call sends a frame and returns the body of the answer, valid until the next call.
func (w *wire) call(b *testing.B, frame []byte) []byte {
	b.Helper()
	if _, err := w.Write(frame); err != nil {
		b.Error(err)
		return nil
	}
	if _, err := io.ReadFull(w, w.answer[:4]); err != nil {
		b.Error(err)
		return nil
	}
	answer := w.answer[:binary.BigEndian.Uint32(w.answer)]
	if _, err := io.ReadFull(w, answer); err != nil {
		b.Error(err)
		return nil
	}
	return answer[4:]
}

func benchFrame(q kmsg.Request) []byte { return kmsg.NewRequestFormatter().AppendRequest(nil, q, 1) }

// produceFrame asks for one batch of about size bytes to be appended, of records of 100 bytes.
func produceFrame(b *testing.B, size int) []byte {
	b.Helper()
	builder := batch.NewBuilder(batch.NoProducer())
	for builder.Count() == 0 || builder.SizeBytes() < size {
		builder.Append(1_700_000_000_000, nil, make([]byte, 100))
	}
	records, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.Acks, q.TimeoutMillis = 8, -1, 30_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = records
	q.Topics = append(q.Topics, kmsg.ProduceRequestTopic{
		Topic: benchTopic, Partitions: []kmsg.ProduceRequestTopicPartition{p},
	})
	return benchFrame(q)
}

// inTurn has connections do b.N calls in sum, one after another on each.
func inTurn(b *testing.B, broker *Broker, connections int, frame []byte, check func(answer []byte) error) {
	b.Helper()
	work := make(chan struct{}, connections)
	var wg sync.WaitGroup
	for range connections {
		w := benchDial(b, broker)
		wg.Go(func() {
			defer w.close()
			for range work {
				if err := check(w.call(b, frame)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	b.StopTimer()
}

// BenchmarkProduceOverTheWire is one Produce at a time on each connection, client and broker in one process.
func BenchmarkProduceOverTheWire(b *testing.B) {
	for _, mode := range []string{"every-write", "none"} {
		for _, size := range []int{100, 16 << 10, 1_000_000} {
			for _, connections := range []int{1, 16, 64} {
				b.Run(fmt.Sprintf("%s/%dB/%dx", mode, size, connections), func(b *testing.B) {
					frame := produceFrame(b, size)
					b.SetBytes(int64(len(frame)))
					inTurn(b, benchBroker(b, mode), connections, frame, producedSoundly)
				})
			}
		}
	}
}

func producedSoundly(answer []byte) error {
	a := kmsg.NewPtrProduceResponse()
	a.Version = 8
	if err := a.ReadFrom(answer); err != nil {
		return err
	}
	if code := a.Topics[0].Partitions[0].ErrorCode; code != 0 {
		return protocol.ErrorCode(code)
	}
	return nil
}

// BenchmarkFetchOverTheWire reads the same range again and again: one small batch, which comes by memory, or a MiB, which
// goes out by sendfile.
func BenchmarkFetchOverTheWire(b *testing.B) {
	broker := benchBroker(b, "none")
	fill := benchDial(b, broker)
	defer fill.close()
	frame := produceFrame(b, 16<<10)
	for range 80 {
		if err := producedSoundly(fill.call(b, frame)); err != nil {
			b.Fatal(err)
		}
	}
	for _, size := range []int32{1, 1 << 20} {
		for _, connections := range []int{1, 16} {
			b.Run(fmt.Sprintf("%dB/%dx", max(size, 16<<10), connections), func(b *testing.B) {
				q := kmsg.NewPtrFetchRequest()
				q.Version, q.ReplicaID, q.MaxBytes, q.SessionEpoch = 11, -1, size, -1
				p := kmsg.NewFetchRequestTopicPartition()
				p.PartitionMaxBytes = size
				q.Topics = append(q.Topics, kmsg.FetchRequestTopic{
					Topic: benchTopic, Partitions: []kmsg.FetchRequestTopicPartition{p},
				})
				b.SetBytes(int64(max(size, 16<<10)))
				inTurn(b, broker, connections, benchFrame(q), func(answer []byte) error {
					if len(answer) < int(size) {
						return io.ErrUnexpectedEOF
					}
					return nil
				})
			})
		}
	}
}

// BenchmarkCommitOverTheWire is one OffsetCommit of a partition at a time on each connection, without membership.
func BenchmarkCommitOverTheWire(b *testing.B) {
	for _, mode := range []string{"every-write", "none"} {
		for _, connections := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%dx", mode, connections), func(b *testing.B) {
				q := kmsg.NewPtrOffsetCommitRequest()
				q.Version, q.Group, q.Generation = 7, "bench", -1
				p := kmsg.NewOffsetCommitRequestTopicPartition()
				p.Offset = 1
				q.Topics = append(q.Topics, kmsg.OffsetCommitRequestTopic{
					Topic: benchTopic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p},
				})
				inTurn(b, benchBroker(b, mode), connections, benchFrame(q), committedSoundly)
			})
		}
	}
}

func committedSoundly(answer []byte) error {
	a := kmsg.NewPtrOffsetCommitResponse()
	a.Version = 7
	if err := a.ReadFrom(answer); err != nil {
		return err
	}
	if code := a.Topics[0].Partitions[0].ErrorCode; code != 0 {
		return protocol.ErrorCode(code)
	}
	return nil
}
