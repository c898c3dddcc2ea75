package clients

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

func segmentio() library {
	return library{
		name:    "segmentio",
		codecs:  []string{"default", "gzip", "snappy", "lz4", "zstd"},
		produce: segmentioProduce,
		consume: segmentioConsume,
		join:    segmentioJoin,
	}
}

var segmentioCodecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

func segmentioProduce(t *testing.T, topic, codec string, values []string) {
	t.Helper()
	w := kafka.Writer{
		Addr: kafka.TCP(broker), Topic: topic, AllowAutoTopicCreation: true, Compression: segmentioCodecs[codec],
		RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond, Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int { return 0 }),
	}
	defer shut(t, &w)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	msgs := make([]kafka.Message, len(values))
	for i, v := range values {
		msgs[i] = kafka.Message{Value: []byte(v)}
	}
	err := w.WriteMessages(ctx, msgs...)
	for errors.Is(err, kafka.UnknownTopicOrPartition) && ctx.Err() == nil {
		// The first answer about a topic being made is this error, from Apache Kafka too; the library leaves trying again to
		// its user.
		err = w.WriteMessages(ctx, msgs...)
	}
	if err != nil {
		t.Fatalf("produce: %v", err)
	}
}

func segmentioConsume(t *testing.T, topic string, n int) []string {
	t.Helper()
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{broker}, Topic: topic, Partition: 0, MaxWait: 500 * time.Millisecond})
	defer shut(t, r)
	return segmentioRead(t, r, n)
}

func segmentioRead(t *testing.T, r *kafka.Reader, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var out []string
	for len(out) < n {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			t.Fatalf("consume: %v after %d", err, len(out))
		}
		out = append(out, string(m.Value))
	}
	return out
}

// segmentioMember drives the library's group primitives, which show assignments.
type segmentioMember struct {
	group   *kafka.ConsumerGroup
	cancel  context.CancelFunc
	done    chan struct{}
	owned   atomic.Int64
	read    chan kafka.Message
	gen     atomic.Pointer[kafka.Generation]
	pending map[int]int64
	topic   string
}

func segmentioJoin(t *testing.T, group, topic string) member {
	t.Helper()
	g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: []string{broker}, Topics: []string{topic}, StartOffset: kafka.FirstOffset,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &segmentioMember{
		group: g, cancel: cancel, done: make(chan struct{}), read: make(chan kafka.Message, 10000), pending: map[int]int64{}, topic: topic,
	}
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			gen, err := g.Next(ctx)
			if err != nil {
				continue
			}
			m.gen.Store(gen)
			m.owned.Store(int64(len(gen.Assignments[topic])))
			for _, a := range gen.Assignments[topic] {
				gen.Start(func(ctx context.Context) { m.readPartition(ctx, a) })
			}
		}
	}()
	return m
}

func (m *segmentioMember) readPartition(ctx context.Context, a kafka.PartitionAssignment) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{broker}, Topic: m.topic, Partition: a.ID, MaxWait: 100 * time.Millisecond})
	defer r.Close() //nolint:errcheck // it has read all that it is to
	if err := r.SetOffset(a.Offset); err != nil {
		return
	}
	for {
		msg, err := r.ReadMessage(ctx)
		if err != nil {
			return
		}
		m.read <- msg
	}
}

func (m *segmentioMember) poll(*testing.T) []string {
	var out []string
	for wait := time.After(50 * time.Millisecond); ; {
		select {
		case msg := <-m.read:
			m.pending[msg.Partition] = msg.Offset + 1
			out = append(out, string(msg.Value))
		case <-wait:
			return out
		}
	}
}

func (m *segmentioMember) assigned() int { return int(m.owned.Load()) }

func (m *segmentioMember) commit(t *testing.T) {
	t.Helper()
	if err := m.gen.Load().CommitOffsets(map[string]map[int]int64{m.topic: m.pending}); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func (m *segmentioMember) leave(t *testing.T) {
	t.Helper()
	m.cancel()
	if err := m.group.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	<-m.done
}
