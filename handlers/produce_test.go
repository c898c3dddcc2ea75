package handlers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage"
)

// produceRequest asks to write one batch to partition 0 of each topic.
func produceRequest(version int16, topic string, b []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 1000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: b}}}}
	return req
}

func produceAnswer(tb testing.TB, r protocol.Response, version int16) *kmsg.ProduceResponse {
	tb.Helper()
	body := kmsg.NewPtrProduceResponse()
	body.Version = version
	return answer(tb, r, body)
}

func (p *plane) produceOne(req *kmsg.ProduceRequest) kmsg.ProduceResponseTopicPartition {
	p.t.Helper()
	body := produceAnswer(p.t, p.produce(request(protocol.KeyProduce, req.Version), req), req.Version)
	if len(body.Topics) != 1 || len(body.Topics[0].Partitions) != 1 {
		p.t.Fatalf("answer: %+v", body)
	}
	return body.Topics[0].Partitions[0]
}

func TestProduceIsAnsweredAtOnceWhenTheLogHasAcknowledged(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 1)
	logs[0].start = 3
	for i, base := range []int64{3, 5, 7} {
		got := p.produceOne(produceRequest(9, "a", records(t, 2, 10)))
		if got.ErrorCode != 0 || got.BaseOffset != base || got.LogStartOffset != 3 || got.LogAppendTime != -1 {
			t.Errorf("produce %d: %+v", i, got)
		}
	}
}

func TestProduceWaitsForTheSync(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		then func(*plane, *memoryLog)
		code protocol.ErrorCode
		base int64
	}{
		"done":                       {t.Context(), func(_ *plane, l *memoryLog) { l.acknowledge(nil) }, 0, 0},
		"failed":                     {t.Context(), func(_ *plane, l *memoryLog) { l.acknowledge(storage.ErrReadOnly) }, protocol.KafkaStorageError, -1},
		"late":                       {t.Context(), func(p *plane, _ *memoryLog) { p.clock.Advance(time.Second) }, protocol.RequestTimedOut, -1},
		"done when the broker stops": {canceled, func(_ *plane, l *memoryLog) { l.acknowledge(nil) }, 0, 0},
		"not done when the broker stops": {
			canceled, func(p *plane, _ *memoryLog) { p.clock.Advance(time.Second) }, protocol.RequestTimedOut, -1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t)
			_, logs := p.topic("a", 1)
			logs[0].held = true
			r := p.produce(request(protocol.KeyProduce, 9), produceRequest(9, "a", records(t, 1, 10)))
			if r.Later == nil || !r.Overlap {
				t.Fatalf("not later: %+v", r)
			}
			answered := make(chan protocol.Response)
			go func() { answered <- r.Later(c.ctx) }()
			timers := 1
			if c.ctx == canceled {
				timers = 2 // the request's own, and how long a stopping broker waits
			}
			p.clock.AwaitPending(timers)
			c.then(p, logs[0])
			got := produceAnswer(t, <-answered, 9).Topics[0].Partitions[0]
			if got.ErrorCode != int16(c.code) || got.BaseOffset != c.base {
				t.Errorf("got %+v, want code %d and offset %d", got, c.code, c.base)
			}
			if p.clock.Pending() != 0 {
				t.Errorf("%d timers left", p.clock.Pending())
			}
		})
	}
}

func TestProduceRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		topic  string
		change func(*kmsg.ProduceRequest)
		fail   error
		code   protocol.ErrorCode
		start  int64
	}{
		"unknown topic":     {"no", nil, nil, protocol.UnknownTopicOrPartition, -1},
		"unknown partition": {"a", func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = 1 }, nil, protocol.UnknownTopicOrPartition, -1},
		"negative partition": {
			"a", func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = -1 }, nil,
			protocol.UnknownTopicOrPartition, -1,
		},
		"acks 2":          {"a", func(r *kmsg.ProduceRequest) { r.Acks = 2 }, nil, protocol.InvalidRequiredAcks, -1},
		"internal topic":  {"__consumer_offsets", nil, nil, protocol.InvalidTopicException, -1},
		"null records":    {"a", func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Records = nil }, nil, protocol.InvalidRecord, -1},
		"bad checksum":    {"a", func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Records[20] ^= 1 }, nil, protocol.CorruptMessage, -1},
		"base offset":     {"a", func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Records[7] = 1 }, nil, protocol.InvalidRecord, 4},
		"out of order":    {"a", nil, storage.ErrOutOfOrderSequence, protocol.OutOfOrderSequenceNumber, 4},
		"old epoch":       {"a", nil, storage.ErrProducerEpoch, protocol.InvalidProducerEpoch, 4},
		"in transaction":  {"a", nil, storage.ErrTransactionOpen, protocol.InvalidTxnState, 4},
		"too large":       {"a", nil, storage.ErrBatchTooLarge, protocol.RecordListTooLarge, -1},
		"disk full":       {"a", nil, storage.ErrNoSpace, protocol.KafkaStorageError, -1},
		"being recovered": {"a", nil, storage.ErrNotReady, protocol.NotLeaderOrFollower, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t)
			_, logs := p.topic("a", 1)
			logs[0].start, logs[0].failNext = 4, c.fail
			req := produceRequest(9, c.topic, records(t, 1, 10))
			if c.change != nil {
				c.change(req)
			}
			got := p.produceOne(req)
			if got.ErrorCode != int16(c.code) || got.BaseOffset != -1 || got.LogAppendTime != -1 || got.LogStartOffset != c.start {
				t.Errorf("got %+v, want code %d and log start %d", got, c.code, c.start)
			}
			if len(logs[0].batches) != 0 {
				t.Error("appended all the same")
			}
			req.Acks = 0
			logs[0].failNext = c.fail
			if r := p.produce(request(protocol.KeyProduce, 9), req); name != "acks 2" && !r.Close {
				t.Errorf("with acks 0: %+v", r)
			}
		})
	}
}

func TestProduceByTopicID(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	topic, _ := p.topic("a", 1)
	req := produceRequest(13, "", records(t, 1, 10))
	if got := p.produceOne(req); got.ErrorCode != int16(protocol.UnknownTopicID) {
		t.Errorf("zero id: %+v", got)
	}
	req.Topics[0].TopicID = topic.ID
	if got := p.produceOne(req); got.ErrorCode != 0 || got.BaseOffset != 0 {
		t.Errorf("good id: %+v", got)
	}
}

func TestProduceWithAcks0IsNotAnswered(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 1)
	logs[0].held = true
	req := produceRequest(9, "a", records(t, 1, 10))
	req.Acks = 0
	if r := p.produce(request(protocol.KeyProduce, 9), req); !r.NoAnswer || r.Later != nil {
		t.Errorf("got %+v", r)
	}
	if len(logs[0].batches) != 1 {
		t.Error("not appended")
	}
}

func TestProduceTakesTheLastOfAPartitionThatComesTwice(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 2)
	req := produceRequest(9, "a", records(t, 1, 10))
	again := produceRequest(9, "a", records(t, 3, 10)).Topics[0]
	again.Partitions = append(again.Partitions, kmsg.ProduceRequestTopicPartition{Partition: 1, Records: records(t, 1, 10)})
	req.Topics = append(req.Topics, again)
	body := produceAnswer(t, p.produce(request(protocol.KeyProduce, 9), req), 9)
	if len(body.Topics) != 1 || len(body.Topics[0].Partitions) != 2 {
		t.Fatalf("answer %+v", body)
	}
	if got := logs[0].end(); got != 3 {
		t.Errorf("log end %d, want 3", got)
	}
}

func TestProduceStampsTheBrokersTime(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 1, "message.timestamp.type", "LogAppendTime")
	p.clock.Advance(time.Hour)
	now := planeStart.Add(time.Hour).UnixMilli()
	if got := p.produceOne(produceRequest(9, "a", records(t, 1, 10))); got.LogAppendTime != now {
		t.Errorf("answered %d, want %d", got.LogAppendTime, now)
	}
	if b := logs[0].batches[0]; b.MaxTimestamp() != now || !b.IsAppendTime() || b.VerifyChecksum() != nil {
		t.Errorf("stored time %d, bit %t, checksum %v", b.MaxTimestamp(), b.IsAppendTime(), b.VerifyChecksum())
	}
}

func TestProduceTellsWhichRecordsAreWrong(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.topic("a", 1, "cleanup.policy", "compact")
	b := batch.NewBuilder(batch.NoProducer())
	b.Append(1, []byte("k"), nil)
	b.Append(1, nil, []byte("v"))
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	got := p.produceOne(produceRequest(9, "a", built))
	if got.ErrorCode != int16(protocol.InvalidRecord) || got.ErrorMessage == nil || len(got.ErrorRecords) != 1 ||
		got.ErrorRecords[0].RelativeOffset != 1 {
		t.Errorf("got %+v", got)
	}
}

// coordinator is a Transactions that remembers what it was asked.
type coordinator struct {
	noTransactions
	codes    []protocol.ErrorCode
	queries  []txn.VerifyRequest
	released int
}

func (c *coordinator) Verify(q txn.VerifyRequest) ([]protocol.ErrorCode, func()) {
	c.queries = append(c.queries, q)
	return c.codes, func() { c.released++ }
}

func transactional(t *testing.T, version int16, id string) *kmsg.ProduceRequest {
	t.Helper()
	m := batch.NoProducer()
	m.ProducerID, m.ProducerEpoch, m.BaseSequence, m.Transactional = 9, 2, 0, true
	req := produceRequest(version, "a", recordsOf(t, m, 1, 10))
	req.TransactionID = &id
	return req
}

func TestProduceInATransactionAsksTheCoordinator(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version int16
		verdict protocol.ErrorCode
		code    protocol.ErrorCode
		message bool
		add     bool
	}{
		"added, version 9":      {9, 0, 0, false, false},
		"added, version 12":     {12, 0, 0, false, true},
		"not added, version 9":  {9, protocol.TransactionAbortable, protocol.InvalidTxnState, true, false},
		"not added, version 11": {11, protocol.TransactionAbortable, protocol.TransactionAbortable, false, false},
		"fenced":                {11, protocol.ProducerFenced, protocol.InvalidProducerEpoch, false, false},
		"ending, version 11":    {11, protocol.ConcurrentTransactions, protocol.NotEnoughReplicas, true, false},
		"ending, version 12":    {12, protocol.ConcurrentTransactions, protocol.ConcurrentTransactions, false, true},
		"no coordinator":        {12, protocol.CoordinatorNotAvailable, protocol.NotEnoughReplicas, true, true},
		"another producer's":    {12, protocol.InvalidProducerIDMapping, protocol.InvalidProducerIDMapping, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t)
			_, logs := p.topic("a", 1)
			asked := &coordinator{codes: []protocol.ErrorCode{c.verdict}}
			p.Transactions = asked
			got := p.produceOne(transactional(t, c.version, "t"))
			if got.ErrorCode != int16(c.code) || (got.ErrorMessage != nil) != c.message {
				t.Errorf("got %+v", got)
			}
			if (len(logs[0].batches) == 1) != (c.code == 0) {
				t.Errorf("%d batches appended", len(logs[0].batches))
			}
			if len(asked.queries) != 1 || asked.released != 1 {
				t.Fatalf("asked %d times, released %d times", len(asked.queries), asked.released)
			}
			q := asked.queries[0]
			if q.Add != c.add || q.TransactionalID != "t" || q.Producer != (txn.Producer{ID: 9, Epoch: 2}) ||
				len(q.Partitions) != 1 || q.Partitions[0] != (txn.Partition{Topic: "a"}) {
				t.Errorf("asked %+v", q)
			}
			if c.code == 0 {
				p.produceOne(transactional(t, c.version, "t"))
				if len(asked.queries) != 1 {
					t.Error("asked again though the transaction is open in the log")
				}
			}
		})
	}
}

func TestProduceInATransactionWithoutACoordinator(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.topic("a", 1)
	if got := p.produceOne(transactional(t, 9, "t")); got.ErrorCode != int16(protocol.InvalidTxnState) || got.LogStartOffset != -1 {
		t.Errorf("version 9: %+v", got)
	}
	if got := p.produceOne(transactional(t, 11, "t")); got.ErrorCode != int16(protocol.TransactionAbortable) {
		t.Errorf("version 11: %+v", got)
	}
	req := transactional(t, 11, "")
	req.TransactionID = nil
	if got := p.produceOne(req); got.ErrorCode != int16(protocol.TransactionalIDAuthFailed) {
		t.Errorf("without an id: %+v", got)
	}
}

func TestProduceAsksTheCoordinatorBeforeItFindsFault(t *testing.T) {
	t.Parallel()
	control := func(b []byte) { b[22] |= 32 }
	for name, c := range map[string]struct {
		change  func([]byte)
		verdict protocol.ErrorCode
		code    protocol.ErrorCode
		start   int64
		asked   int
	}{
		"fault, transaction not open":      {control, protocol.InvalidProducerIDMapping, protocol.InvalidProducerIDMapping, -1, 1},
		"fault, transaction open":          {control, protocol.None, protocol.CorruptMessage, -1, 1},
		"fault in the frame, asked nobody": {func(b []byte) { b[11] = 5 + 12 }, protocol.InvalidProducerIDMapping, protocol.CorruptMessage, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t)
			_, logs := p.topic("a", 1)
			asked := &coordinator{codes: []protocol.ErrorCode{c.verdict}}
			p.Transactions = asked
			req := transactional(t, 12, "t")
			c.change(req.Topics[0].Partitions[0].Records)
			got := p.produceOne(req)
			if got.ErrorCode != int16(c.code) || got.LogStartOffset != c.start || len(asked.queries) != c.asked || asked.released != c.asked {
				t.Errorf("%+v, asked %d times, released %d times", got, len(asked.queries), asked.released)
			}
			if len(logs[0].batches) != 0 {
				t.Error("appended all the same")
			}
		})
	}
}

func TestProduceFailsAsAWhole(t *testing.T) {
	t.Parallel()
	sound := func() []byte { return records(t, 1, 10) }
	odd := func() []byte { b := sound(); b[16] = 3; return b }
	inTransaction := func() []byte { return transactional(t, 9, "t").Topics[0].Partitions[0].Records }
	id := "t"
	for name, c := range map[string]struct {
		first, second []byte
		id            *string
		codes         [2]protocol.ErrorCode
		messages      bool
	}{
		"a frame that can't be read":          {sound(), odd(), nil, [2]protocol.ErrorCode{protocol.CorruptMessage, protocol.CorruptMessage}, true},
		"before a transactional batch":        {odd(), inTransaction(), nil, [2]protocol.ErrorCode{protocol.CorruptMessage, protocol.CorruptMessage}, true},
		"a transactional batch without id":    {inTransaction(), odd(), nil, [2]protocol.ErrorCode{protocol.TransactionalIDAuthFailed, protocol.TransactionalIDAuthFailed}, false},
		"behind a transactional batch, alone": {inTransaction(), odd(), &id, [2]protocol.ErrorCode{protocol.InvalidTxnState, protocol.CorruptMessage}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t)
			_, logs := p.topic("a", 2)
			req := produceRequest(9, "a", c.first)
			req.TransactionID = c.id
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: 1, Records: c.second})
			for i, got := range produceAnswer(t, p.produce(request(protocol.KeyProduce, 9), req), 9).Topics[0].Partitions {
				if got.ErrorCode != int16(c.codes[i]) || got.LogStartOffset != -1 {
					t.Errorf("partition %d: %+v", i, got)
				}
				if c.id == nil && (got.ErrorMessage != nil) != c.messages {
					t.Errorf("partition %d: message %v", i, got.ErrorMessage)
				}
				if len(logs[i].batches) != 0 {
					t.Errorf("partition %d: appended", i)
				}
			}
		})
	}
}

func TestProduceAnswersATopicThatComesTwiceOnce(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.topic("a", 2)
	p.topic("b", 1)
	req := produceRequest(9, "a", records(t, 1, 10))
	req.Topics = append(req.Topics, produceRequest(9, "b", records(t, 1, 10)).Topics[0], produceRequest(9, "a", records(t, 1, 10)).Topics[0])
	req.Topics[2].Partitions[0].Partition = 1
	body := produceAnswer(t, p.produce(request(protocol.KeyProduce, 9), req), 9)
	if len(body.Topics) != 2 || len(body.Topics[0].Partitions) != 2 || body.Topics[0].Partitions[1].Partition != 1 || body.Topics[1].Topic != "b" {
		t.Fatalf("answer %+v", body)
	}
}

func TestProducerIDsComeFromBlocks(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	seen := map[int64]bool{}
	for i := range 2500 {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version = 4
		r := p.initProducerID(request(protocol.KeyInitProducerID, 4), req)
		if r.Later != nil {
			if i%1000 != 0 {
				t.Fatalf("call %d had to wait", i)
			}
			r = r.Later(t.Context())
		}
		body := kmsg.NewPtrInitProducerIDResponse()
		body.Version = 4
		answer(t, r, body)
		if body.ErrorCode != 0 || body.ProducerEpoch != 0 || seen[body.ProducerID] {
			t.Fatalf("call %d: %+v", i, body)
		}
		seen[body.ProducerID] = true
	}
	if p.store.reserve != 3 {
		t.Errorf("%d blocks reserved, want 3", p.store.reserve)
	}
}

func TestErrorsOfRecordsHaveCodes(t *testing.T) {
	t.Parallel()
	for k := batch.KindCorrupt; k <= batch.KindTransactionalID; k++ {
		err := errors.Join(&batch.ValidationError{Kind: k})
		if code := codeOf(err); (code == protocol.UnknownServerError) != (k == batch.KindUnreadable) {
			t.Errorf("kind %d: code %d", k, code)
		}
	}
}
