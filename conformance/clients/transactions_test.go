package clients

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// teller is a transactional producer of some library.
type teller interface {
	// transact sends values and, if group isn't empty, that the group has reached offset in partition 0 of the topic, all in
	// one transaction.
	transact(t *testing.T, topic string, values []string, group string, offset int64, commit bool)
	// fenced says whether a transaction is refused, as another producer with the same id has begun.
	fenced(t *testing.T, topic string) bool
	close()
}

func tellers() map[string]func(t *testing.T, id string) teller {
	return map[string]func(t *testing.T, id string) teller{"librdkafka": newConfluentTeller, "sarama": newSaramaTeller}
}

func TestTransactionsOfOtherLibraries(t *testing.T) {
	for name, begin := range tellers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic, group, id := fresh("txn"), fresh("txn-group"), fresh("txn-id")
			makeTopic(t, topic, 1)
			p := begin(t, id)
			defer p.close()
			var want []string
			for i := range 6 {
				values := numbered(fresh("v"), 5)
				commit := i%3 != 1
				if commit {
					want = append(want, values...)
				}
				p.transact(t, topic, values, group, int64(10*i), commit)
			}
			if got := readCommitted(t, topic, len(want)); !slices.Equal(got, want) {
				t.Errorf("read %v, want %v", got, want)
			}
			if got := committedOffset(t, group, topic); got != 50 {
				t.Errorf("offset %d, want 50", got)
			}
			next := begin(t, id)
			defer next.close()
			more := numbered("next", 3)
			next.transact(t, topic, more, "", 0, true)
			if !p.fenced(t, topic) {
				t.Error("the producer that was replaced goes on")
			}
			want = append(want, more...)
			if got := readCommitted(t, topic, len(want)); !slices.Equal(got, want) {
				t.Errorf("read %v, want %v", got, want)
			}
		})
	}
}

// readCommitted reads the committed values of partition 0 from its beginning.
func readCommitted(t *testing.T, topic string, n int) []string {
	t.Helper()
	c := franzClient(t, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var got []string
	for len(got) < n {
		fs := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("read %d of %d values", len(got), n)
		}
		fs.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	return got
}

// committedOffset is the group's offset in partition 0, once no transaction is about to change it.
func committedOffset(t *testing.T, group, topic string) int64 {
	t.Helper()
	c := franzClient(t)
	defer c.Close()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = group, true
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{0}}}
	req.Groups = []kmsg.OffsetFetchRequestGroup{g}
	offset := int64(-1)
	await(t, limit, "stable offsets", func() bool {
		a, err := req.RequestWith(t.Context(), c)
		if err != nil || len(a.Groups) != 1 || len(a.Groups[0].Topics) != 1 {
			return false
		}
		p := a.Groups[0].Topics[0].Partitions[0]
		offset = p.Offset
		return p.ErrorCode == 0
	})
	return offset
}

// confluentTeller is librdkafka's.
type confluentTeller struct{ p *kafka.Producer }

func newConfluentTeller(t *testing.T, id string) teller {
	t.Helper()
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": broker, "transactional.id": id})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err = p.InitTransactions(ctx); err != nil {
		t.Fatalf("init: %v", err)
	}
	return &confluentTeller{p}
}

func (p *confluentTeller) send(topic string, values []string) error {
	if err := p.p.BeginTransaction(); err != nil {
		return err
	}
	for _, v := range values {
		m := kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: 0}, Value: []byte(v)}
		if err := p.p.Produce(&m, make(chan kafka.Event, 1)); err != nil {
			return err
		}
	}
	return nil
}

func (p *confluentTeller) transact(t *testing.T, topic string, values []string, group string, offset int64, commit bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := p.send(topic, values); err != nil {
		t.Fatal(err)
	}
	if group != "" {
		c := confluentConsumer(t, group)
		defer shut(t, c)
		of, err := c.GetConsumerGroupMetadata()
		if err != nil {
			t.Fatal(err)
		}
		at := []kafka.TopicPartition{{Topic: &topic, Partition: 0, Offset: kafka.Offset(offset)}}
		if err = p.p.SendOffsetsToTransaction(ctx, at, of); err != nil {
			t.Fatalf("offsets: %v", err)
		}
	}
	end := p.p.AbortTransaction
	if commit {
		end = p.p.CommitTransaction
	}
	if err := end(ctx); err != nil {
		t.Fatalf("end: %v", err)
	}
}

func (p *confluentTeller) fenced(t *testing.T, topic string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	err := p.send(topic, []string{"zombie"})
	if err == nil {
		err = p.p.CommitTransaction(ctx)
	}
	var k kafka.Error
	return errors.As(err, &k) && (k.IsFatal() || k.Code() == kafka.ErrFenced)
}

func (p *confluentTeller) close() { p.p.Close() }

// saramaTeller is Sarama's.
type saramaTeller struct{ p sarama.SyncProducer }

func newSaramaTeller(t *testing.T, id string) teller {
	t.Helper()
	config := sarama.NewConfig()
	config.Producer.Transaction.ID = id
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.Retry.Backoff = 10 * time.Millisecond
	config.Net.MaxOpenRequests = 1
	p, err := sarama.NewSyncProducer([]string{broker}, config)
	if err != nil {
		t.Fatal(err)
	}
	return &saramaTeller{p}
}

func (p *saramaTeller) send(topic string, values []string) error {
	if err := p.p.BeginTxn(); err != nil {
		return err
	}
	for _, v := range values {
		if _, _, err := p.p.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(v)}); err != nil {
			return err
		}
	}
	return nil
}

func (p *saramaTeller) transact(t *testing.T, topic string, values []string, group string, offset int64, commit bool) {
	t.Helper()
	if err := p.send(topic, values); err != nil {
		t.Fatal(err)
	}
	if group != "" {
		at := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: offset, LeaderEpoch: -1}}}
		if err := p.p.AddOffsetsToTxn(at, group); err != nil {
			t.Fatalf("offsets: %v", err)
		}
	}
	end := p.p.AbortTxn
	if commit {
		end = p.p.CommitTxn
	}
	if err := end(); err != nil {
		t.Fatalf("end: %v", err)
	}
}

func (p *saramaTeller) fenced(t *testing.T, topic string) bool {
	t.Helper()
	err := p.send(topic, []string{"zombie"})
	if err == nil {
		err = p.p.CommitTxn()
	}
	return err != nil && p.p.TxnStatus()&(sarama.ProducerTxnFlagFatalError|sarama.ProducerTxnFlagInError) != 0
}

func (p *saramaTeller) close() { _ = p.p.Close() }
