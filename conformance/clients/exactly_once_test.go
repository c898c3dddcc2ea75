package clients

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

// transactional is what one library does with transactions.
type transactional struct {
	name string
	// producer starts a transactional producer.
	producer func(t *testing.T, id string) transactionalProducer
	// transform starts a member that reads one topic and writes another in transactions; it fences what had its id before.
	transform func(t *testing.T, id, group, from, to string) transformer
	// readCommitted reads partition 0 of a topic with isolation.level read_committed, until the value last.
	readCommitted func(t *testing.T, topic, last string) []string
}

type transactionalProducer interface {
	// transact writes values and commits or aborts.
	transact(t *testing.T, topic string, values []string, commit bool)
	close()
}

type transformer interface {
	// step reads at least one record and writes and commits its transformation together with the offsets, or aborts both; it
	// returns what it has read.
	step(t *testing.T, commit bool) []string
	close(t *testing.T)
}

func transactionalLibraries() []transactional {
	return []transactional{
		{"franz-go", newFranzProducer, newFranzTransformer, franzReadCommitted},
		{"librdkafka", newConfluentProducer, newConfluentTransformer, confluentReadCommitted},
		{"sarama", newSaramaProducer, newSaramaTransformer, saramaReadCommitted},
	}
}

// What is committed is read by every library, in order; what is aborted by none.
func TestReadCommittedSeesWhatIsCommittedAndNothingThatIsAborted(t *testing.T) {
	for _, writer := range transactionalLibraries() {
		t.Run(writer.name, func(t *testing.T) {
			t.Parallel()
			topic := fresh("transactions")
			makeTopic(t, topic, 1)
			p := writer.producer(t, fresh("id"))
			var want []string
			for i := range 6 {
				values := numbered(fmt.Sprintf("%s-%d", writer.name, i), 20)
				commit := i%2 == 0
				p.transact(t, topic, values, commit)
				if commit {
					want = append(want, values...)
				}
			}
			p.close()
			want = finish(t, topic, want)
			for _, reader := range transactionalLibraries() {
				if got := reader.readCommitted(t, topic, want[len(want)-1]); !slices.Equal(got, want) {
					t.Errorf("%s reads %d values, want %d: %.300v", reader.name, len(got), len(want), got)
				}
			}
		})
	}
}

// finish writes one more record, by which a reader knows that nothing follows.
func finish(t *testing.T, topic string, want []string) []string {
	t.Helper()
	franz().produce(t, topic, "none", []string{"the end"})
	return append(want, "the end")
}

// transformed is what a transformer makes of a value.
func transformed(v string) string { return "made of " + v }

// Records are read, transformed and written exactly once, through commits, aborts and members that stop half-way.
func TestConsumeTransformProduceIsExactlyOnce(t *testing.T) {
	for _, lib := range transactionalLibraries() {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			from, to, group, id := fresh("from"), fresh("to"), fresh("group"), fresh("id")
			makeTopic(t, from, 1)
			makeTopic(t, to, 1)
			var want []string
			for round := range 3 {
				values := numbered(fmt.Sprintf("round-%d", round), 60)
				franz().produce(t, from, "none", values)
				for _, v := range values {
					want = append(want, transformed(v))
				}
				m := lib.transform(t, id, group, from, to)
				aborted := m.step(t, false)
				m.close(t)
				// Another member starts where the last commit was: it reads what the first one has aborted.
				m = lib.transform(t, id, group, from, to)
				got := m.step(t, true)
				if got[0] != values[0] || aborted[0] != values[0] {
					t.Fatalf("round %d begins with %q and after the abort with %q", round, aborted[0], got[0])
				}
				for len(got) < len(values) {
					got = append(got, m.step(t, true)...)
				}
				m.close(t)
				if !slices.Equal(got, values) {
					t.Fatalf("round %d reads %d values of %d: %.300v", round, len(got), len(values), got)
				}
			}
			want = finish(t, to, want)
			for _, reader := range transactionalLibraries() {
				if got := reader.readCommitted(t, to, want[len(want)-1]); !slices.Equal(got, want) {
					t.Errorf("%s reads %d values, want %d: %.300v", reader.name, len(got), len(want), got)
				}
			}
		})
	}
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// franz-go

type franzProducer struct{ c *kgo.Client }

func newFranzProducer(t *testing.T, id string) transactionalProducer {
	t.Helper()
	return franzProducer{franzClient(t, kgo.TransactionalID(id))}
}

func (p franzProducer) transact(t *testing.T, topic string, values []string, commit bool) {
	t.Helper()
	ctx := bounded(t)
	must(t, "begin", p.c.BeginTransaction())
	for _, v := range values {
		must(t, "produce", p.c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr())
	}
	must(t, "end", p.c.EndTransaction(ctx, kgo.TransactionEndTry(commit)))
}

func (p franzProducer) close() { p.c.Close() }

type franzTransformer struct {
	s  *kgo.GroupTransactSession
	to string
}

func newFranzTransformer(t *testing.T, id, group, from, to string) transformer {
	t.Helper()
	s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(broker), kgo.TransactionalID(id), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, "start", err)
	return franzTransformer{s, to}
}

func (m franzTransformer) step(t *testing.T, commit bool) []string {
	t.Helper()
	ctx := bounded(t)
	var out []string
	for len(out) == 0 {
		fs := m.s.PollRecords(ctx, 25)
		must(t, "poll", fs.Err())
		fs.EachRecord(func(r *kgo.Record) { out = append(out, string(r.Value)) })
	}
	must(t, "begin", m.s.Begin())
	for _, v := range out {
		must(t, "produce", m.s.ProduceSync(ctx, &kgo.Record{Topic: m.to, Value: []byte(transformed(v))}).FirstErr())
	}
	ended, err := m.s.End(ctx, kgo.TransactionEndTry(commit))
	must(t, "end", err)
	if ended != commit {
		t.Fatalf("the transaction ended with commit %v, wanted %v", ended, commit)
	}
	return out
}

func (m franzTransformer) close(*testing.T) { m.s.Close() }

func franzReadCommitted(t *testing.T, topic, last string) []string {
	t.Helper()
	c := franzClient(t, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	ctx := bounded(t)
	var out []string
	for !slices.Contains(out, last) {
		fs := c.PollFetches(ctx)
		must(t, fmt.Sprintf("read after %d", len(out)), fs.Err())
		fs.EachRecord(func(r *kgo.Record) { out = append(out, string(r.Value)) })
	}
	return out
}

// librdkafka

type confluentProducer struct{ p *kafka.Producer }

func newConfluentProducer(t *testing.T, id string) transactionalProducer {
	t.Helper()
	return startConfluentProducer(t, id)
}

func startConfluentProducer(t *testing.T, id string) confluentProducer {
	t.Helper()
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": broker, "transactional.id": id, "go.delivery.reports": false})
	must(t, "start", err)
	go func() { // without a reader the channel of events fills up
		for range p.Events() {
		}
	}()
	must(t, "init", p.InitTransactions(bounded(t)))
	return confluentProducer{p}
}

// write begins a transaction and writes values.
func (p confluentProducer) write(t *testing.T, topic string, values []string) {
	t.Helper()
	must(t, "begin", p.p.BeginTransaction())
	for _, v := range values {
		msg := kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: kafka.PartitionAny}, Value: []byte(v)}
		must(t, "produce", p.p.Produce(&msg, nil))
	}
	for deadline := time.Now().Add(limit); p.p.Flush(100) > 0; {
		if time.Now().After(deadline) {
			t.Fatal("not everything could be written")
		}
	}
}

func (p confluentProducer) end(t *testing.T, commit bool) {
	t.Helper()
	if commit {
		must(t, "commit", p.p.CommitTransaction(bounded(t)))
	} else {
		must(t, "abort", p.p.AbortTransaction(bounded(t)))
	}
}

func (p confluentProducer) transact(t *testing.T, topic string, values []string, commit bool) {
	t.Helper()
	p.write(t, topic, values)
	p.end(t, commit)
}

func (p confluentProducer) close() { p.p.Close() }

type confluentTransformer struct {
	p  confluentProducer
	c  *kafka.Consumer
	to string
}

func newConfluentTransformer(t *testing.T, id, group, from, to string) transformer {
	t.Helper()
	p := startConfluentProducer(t, id)
	c := confluentConsumer(t, group)
	must(t, "subscribe", c.SubscribeTopics([]string{from}, nil))
	return confluentTransformer{p, c, to}
}

func (m confluentTransformer) step(t *testing.T, commit bool) []string {
	t.Helper()
	var in, out []string
	for deadline := time.Now().Add(limit); len(in) < 25; {
		e := m.c.Poll(100)
		if msg, ok := e.(*kafka.Message); ok {
			in = append(in, string(msg.Value))
			out = append(out, transformed(string(msg.Value)))
		} else if e == nil && len(in) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing to read")
		}
	}
	m.p.write(t, m.to, out)
	assigned, err := m.c.Assignment()
	must(t, "assignment", err)
	next, err := m.c.Position(assigned)
	must(t, "position", err)
	member, err := m.c.GetConsumerGroupMetadata()
	must(t, "group metadata", err)
	must(t, "offsets", m.p.p.SendOffsetsToTransaction(bounded(t), next, member))
	m.p.end(t, commit)
	return in
}

func (m confluentTransformer) close(t *testing.T) {
	t.Helper()
	must(t, "close", m.c.Close())
	m.p.close()
}

func confluentReadCommitted(t *testing.T, topic, last string) []string {
	t.Helper()
	c := confluentConsumer(t, fresh("unused")) // read_committed is its default
	defer func() { _ = c.Close() }()
	must(t, "assign", c.Assign([]kafka.TopicPartition{{Topic: &topic, Partition: 0, Offset: kafka.OffsetBeginning}}))
	var out []string
	for !slices.Contains(out, last) {
		m, err := c.ReadMessage(limit)
		must(t, fmt.Sprintf("read after %d", len(out)), err)
		out = append(out, string(m.Value))
	}
	return out
}

// Sarama

type saramaProducer struct{ p sarama.SyncProducer }

func newSaramaProducer(t *testing.T, id string) transactionalProducer {
	t.Helper()
	return startSaramaProducer(t, id)
}

func startSaramaProducer(t *testing.T, id string) saramaProducer {
	t.Helper()
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = id
	config.Net.MaxOpenRequests = 1
	p, err := sarama.NewSyncProducer([]string{broker}, config)
	must(t, "start", err)
	return saramaProducer{p}
}

func (p saramaProducer) write(t *testing.T, topic string, values []string) {
	t.Helper()
	must(t, "begin", p.p.BeginTxn())
	msgs := make([]*sarama.ProducerMessage, len(values))
	for i, v := range values {
		msgs[i] = &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(v)}
	}
	must(t, "produce", p.p.SendMessages(msgs))
}

func (p saramaProducer) end(t *testing.T, commit bool) {
	t.Helper()
	if commit {
		must(t, "commit", p.p.CommitTxn())
	} else {
		must(t, "abort", p.p.AbortTxn())
	}
}

func (p saramaProducer) transact(t *testing.T, topic string, values []string, commit bool) {
	t.Helper()
	p.write(t, topic, values)
	p.end(t, commit)
}

func (p saramaProducer) close() { _ = p.p.Close() }

// saramaTransformer hands messages and the session they belong to from the library's goroutine to step.
type saramaTransformer struct {
	p         saramaProducer
	g         sarama.ConsumerGroup
	group, to string
	cancel    context.CancelFunc
	done      chan struct{}
	read      chan saramaRead
}

type saramaRead struct {
	msg  *sarama.ConsumerMessage
	sess sarama.ConsumerGroupSession
}

func newSaramaTransformer(t *testing.T, id, group, from, to string) transformer {
	t.Helper()
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	m := &saramaTransformer{p: startSaramaProducer(t, id), group: group, to: to, done: make(chan struct{}), read: make(chan saramaRead)}
	g, err := sarama.NewConsumerGroup([]string{broker}, group, config)
	must(t, "start", err)
	ctx, cancel := context.WithCancel(context.Background())
	m.g, m.cancel = g, cancel
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{from}, m); err != nil && ctx.Err() == nil {
				t.Errorf("consume: %v", err)
				return
			}
		}
	}()
	return m
}

func (m *saramaTransformer) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (m *saramaTransformer) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *saramaTransformer) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for msg := range claim.Messages() {
		select {
		case m.read <- saramaRead{msg, s}:
		case <-s.Context().Done():
			return nil
		}
	}
	return nil
}

func (m *saramaTransformer) step(t *testing.T, commit bool) []string {
	t.Helper()
	var in, out []string
	var last saramaRead
	for timeout := time.After(limit); len(in) < 25; {
		more := timeout
		if len(in) > 0 {
			more = time.After(100 * time.Millisecond)
		}
		select {
		case last = <-m.read:
			in = append(in, string(last.msg.Value))
			out = append(out, transformed(string(last.msg.Value)))
			continue
		case <-more:
		}
		if len(in) == 0 {
			t.Fatal("nothing to read")
		}
		break
	}
	m.p.write(t, m.to, out)
	member := sarama.NewConsumerGroupMetadataFromSession(last.sess, m.group, nil)
	must(t, "offsets", m.p.p.AddMessageToTxnWithGroupMetadata(last.msg, member, nil))
	m.p.end(t, commit)
	return in
}

func (m *saramaTransformer) close(t *testing.T) {
	t.Helper()
	m.cancel()
	<-m.done
	if err := m.g.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
		t.Errorf("close: %v", err)
	}
	m.p.close()
}

func saramaReadCommitted(t *testing.T, topic, last string) []string {
	t.Helper()
	config := sarama.NewConfig()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	c, err := sarama.NewConsumer([]string{broker}, config)
	must(t, "start", err)
	defer func() { _ = c.Close() }()
	pc, err := c.ConsumePartition(topic, 0, sarama.OffsetOldest)
	must(t, "consume", err)
	defer func() { _ = pc.Close() }()
	var out []string
	for timeout := time.After(limit); !slices.Contains(out, last); {
		select {
		case m := <-pc.Messages():
			out = append(out, string(m.Value))
		case <-timeout:
			t.Fatalf("nothing more to read after %d", len(out))
		}
	}
	return out
}
