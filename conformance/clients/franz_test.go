package clients

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func franz() library {
	return library{
		name:    "franz-go",
		codecs:  []string{"default", "none", "gzip", "snappy", "lz4", "zstd"},
		produce: franzProduce,
		consume: franzConsume,
		join:    franzJoin,
	}
}

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(),
	"zstd": kgo.ZstdCompression(),
}

func franzClient(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(broker))...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// makeTopic makes a topic with several partitions.
func makeTopic(t *testing.T, topic string, partitions int32) {
	t.Helper()
	makeTopicAt(t, broker, topic, partitions)
}

func makeTopicAt(t *testing.T, addr, topic string, partitions int32) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, 1
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(context.Background(), c)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("create topic: %v, %+v", err, resp)
	}
}

func franzProduce(t *testing.T, topic, codec string, values []string) {
	t.Helper()
	opts := []kgo.Opt{kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(20)}
	if c, ok := franzCodecs[codec]; ok {
		opts = append(opts, kgo.ProducerBatchCompression(c))
	}
	c := franzClient(t, opts...)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: topic, Value: []byte(v)}
	}
	if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

func franzConsume(t *testing.T, topic string, n int) []string {
	t.Helper()
	c := franzClient(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var out []string
	for len(out) < n {
		fs := c.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("consume: %v after %d", err, len(out))
		}
		fs.EachRecord(func(r *kgo.Record) { out = append(out, string(r.Value)) })
	}
	return out
}

type franzMember struct {
	c     *kgo.Client
	owned atomic.Int64
}

func franzJoin(t *testing.T, group, topic string) member {
	t.Helper()
	m := &franzMember{}
	m.c = franzClient(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { m.owned.Add(int64(len(ps[topic]))) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { m.owned.Add(-int64(len(ps[topic]))) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { m.owned.Add(-int64(len(ps[topic]))) }),
	)
	return m
}

func (m *franzMember) poll(*testing.T) []string {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	var out []string
	m.c.PollFetches(ctx).EachRecord(func(r *kgo.Record) { out = append(out, string(r.Value)) })
	return out
}

func (m *franzMember) assigned() int { return int(m.owned.Load()) }

func (m *franzMember) commit(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := m.c.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func (m *franzMember) leave(*testing.T) { m.c.Close() }
