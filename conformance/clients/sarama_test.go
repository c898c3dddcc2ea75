package clients

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

func saramaLibrary() library {
	return library{
		name:    "sarama",
		codecs:  []string{"default", "gzip", "snappy", "lz4", "zstd"},
		produce: saramaProduce,
		consume: saramaConsume,
		join:    saramaJoin,
	}
}

var saramaCodecs = map[string]sarama.CompressionCodec{
	"gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func saramaProduce(t *testing.T, topic, codec string, values []string) {
	t.Helper()
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Compression = saramaCodecs[codec]
	p, err := sarama.NewSyncProducer([]string{broker}, config)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, p)
	msgs := make([]*sarama.ProducerMessage, len(values))
	for i, v := range values {
		msgs[i] = &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(v)}
	}
	if err := p.SendMessages(msgs); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

func saramaConsume(t *testing.T, topic string, n int) []string {
	t.Helper()
	c, err := sarama.NewConsumer([]string{broker}, sarama.NewConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, c)
	pc, err := c.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, pc)
	var out []string
	for timeout := time.After(limit); len(out) < n; {
		select {
		case m := <-pc.Messages():
			out = append(out, string(m.Value))
		case <-timeout:
			t.Fatalf("consume: %d of %d", len(out), n)
		}
	}
	return out
}

type saramaMember struct {
	group  sarama.ConsumerGroup
	cancel context.CancelFunc
	done   chan struct{}
	owned  atomic.Int64
	mu     sync.Mutex
	read   []string
	sess   sarama.ConsumerGroupSession
}

func saramaJoin(t *testing.T, group, topic string) member {
	t.Helper()
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	g, err := sarama.NewConsumerGroup([]string{broker}, group, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &saramaMember{group: g, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{topic}, m); err != nil && ctx.Err() == nil {
				t.Errorf("consume: %v", err)
				return
			}
		}
	}()
	return m
}

func (m *saramaMember) Setup(s sarama.ConsumerGroupSession) error {
	n := 0
	for _, ps := range s.Claims() {
		n += len(ps)
	}
	m.owned.Store(int64(n))
	m.mu.Lock()
	m.sess = s
	m.mu.Unlock()
	return nil
}

func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error {
	m.owned.Store(0)
	return nil
}

func (m *saramaMember) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for msg := range claim.Messages() {
		m.mu.Lock()
		m.read = append(m.read, string(msg.Value))
		m.mu.Unlock()
		s.MarkMessage(msg, "")
	}
	return nil
}

func (m *saramaMember) poll(*testing.T) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.read
	m.read = nil
	return out
}

func (m *saramaMember) assigned() int { return int(m.owned.Load()) }

func (m *saramaMember) commit(*testing.T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sess.Commit()
}

func (m *saramaMember) leave(t *testing.T) {
	t.Helper()
	m.cancel()
	<-m.done
	if err := m.group.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
