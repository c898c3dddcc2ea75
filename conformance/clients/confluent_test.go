package clients

import (
	"errors"
	"testing"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// confluent is librdkafka through its Go binding.
func confluent() library {
	return library{
		name:    "librdkafka",
		codecs:  []string{"default", "none", "gzip", "snappy", "lz4", "zstd"},
		produce: confluentProduce,
		consume: confluentConsume,
		join:    confluentJoin,
	}
}

func confluentProduce(t *testing.T, topic, codec string, values []string) {
	t.Helper()
	config := kafka.ConfigMap{"bootstrap.servers": broker}
	if codec != "default" {
		config["compression.type"] = codec
	}
	p, err := kafka.NewProducer(&config)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	reports := make(chan kafka.Event, len(values))
	for _, v := range values {
		msg := kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: kafka.PartitionAny}, Value: []byte(v)}
		if err := p.Produce(&msg, reports); err != nil {
			t.Fatalf("produce: %v", err)
		}
	}
	for range values {
		if m, ok := (<-reports).(*kafka.Message); !ok || m.TopicPartition.Error != nil {
			t.Fatalf("delivery: %v", m)
		}
	}
}

func confluentConsumer(t *testing.T, group string) *kafka.Consumer {
	t.Helper()
	c, err := kafka.NewConsumer(&kafka.ConfigMap{
		"bootstrap.servers": broker, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": false,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func confluentConsume(t *testing.T, topic string, n int) []string {
	t.Helper()
	c := confluentConsumer(t, fresh("unused"))
	defer shut(t, c)
	if err := c.Assign([]kafka.TopicPartition{{Topic: &topic, Partition: 0, Offset: kafka.OffsetBeginning}}); err != nil {
		t.Fatal(err)
	}
	var out []string
	for len(out) < n {
		m, err := c.ReadMessage(limit)
		if err != nil {
			t.Fatalf("consume: %v after %d", err, len(out))
		}
		out = append(out, string(m.Value))
	}
	return out
}

type confluentMember struct{ c *kafka.Consumer }

func confluentJoin(t *testing.T, group, topic string) member {
	t.Helper()
	m := confluentMember{confluentConsumer(t, group)}
	if err := m.c.SubscribeTopics([]string{topic}, nil); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m confluentMember) poll(t *testing.T) []string {
	t.Helper()
	var out []string
	for range 50 {
		switch e := m.c.Poll(50).(type) {
		case *kafka.Message:
			out = append(out, string(e.Value))
		case kafka.Error:
			if e.IsFatal() {
				t.Fatalf("poll: %v", e)
			}
		case nil:
			return out
		}
	}
	return out
}

func (m confluentMember) assigned() int {
	ps, err := m.c.Assignment()
	if err != nil {
		return 0
	}
	return len(ps)
}

func (m confluentMember) commit(t *testing.T) {
	t.Helper()
	_, err := m.c.Commit()
	var ke kafka.Error
	if err != nil && !(errors.As(err, &ke) && ke.Code() == kafka.ErrNoOffset) {
		t.Fatalf("commit: %v", err)
	}
}

func (m confluentMember) leave(t *testing.T) {
	t.Helper()
	if err := m.c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
