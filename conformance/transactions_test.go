package conformance

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// transactional is a producer with a transactional id.
type transactional struct {
	t  *testing.T
	c  *conn
	id string
	producer
}

// newTransactional starts a producer whose transactions no other test sees.
func newTransactional(t *testing.T) *transactional {
	t.Helper()
	p := &transactional{t: t, c: dial(t), id: name(t, "x")}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &p.id, 60000
	req.ProducerID, req.ProducerEpoch = -1, -1
	p.retried("init", func() int16 {
		a := ask[*kmsg.InitProducerIDResponse](p.c, req, 4)
		p.producer.id, p.epoch = a.ProducerID, a.ProducerEpoch
		return a.ErrorCode
	})
	return p
}

// retried asks until the answer is no longer that a transaction is still being completed.
func (p *transactional) retried(what string, f func() int16) {
	p.t.Helper()
	eventually(p.t, what, func() (bool, any) {
		code := f()
		switch code {
		case 0, 51, 14, 15:
		default:
			p.t.Fatalf("%s: error %d", what, code)
		}
		return code == 0, code
	})
}

// add puts a topic's partition 0 into the transaction.
func (p *transactional) add(topic string) {
	p.t.Helper()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.id, p.producer.id, p.epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	p.retried("add partition", func() int16 {
		return ask[*kmsg.AddPartitionsToTxnResponse](p.c, req, 3).Topics[0].Partitions[0].ErrorCode
	})
}

// write produces values to a topic that has been added.
func (p *transactional) write(topic string, values ...string) {
	p.t.Helper()
	b := plain(values...)
	b.producer, b.attrs = &producer{id: p.producer.id, epoch: p.epoch, seq: p.seq}, 1<<4
	p.seq += int32(len(values))
	req := produceRequest(topic, 0, -1, b.bytes())
	req.TransactionID = &p.id
	if got := ask[*kmsg.ProduceResponse](p.c, req, 9).Topics[0].Partitions[0]; got.ErrorCode != 0 {
		p.t.Fatalf("produce: error %d", got.ErrorCode)
	}
}

func (p *transactional) end(commit bool) {
	p.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = p.id, p.producer.id, p.epoch, commit
	p.retried("end", func() int16 { return ask[*kmsg.EndTxnResponse](p.c, req, 3).ErrorCode })
}

// readCommitted reads from offset 0 and takes out what was aborted, as clients do, once nothing is open any more.
func readCommitted(t *testing.T, topic string) ([]string, kmsg.FetchResponseTopicPartition) {
	t.Helper()
	req := fetchRequest(topic, 0, 0)
	req.IsolationLevel = 1
	var p kmsg.FetchResponseTopicPartition
	eventually(t, "all transactions ended", func() (bool, any) {
		p = ask[*kmsg.FetchResponse](dial(t), req, 12).Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			t.Fatalf("fetch: error %d", p.ErrorCode)
		}
		return p.LastStableOffset == p.HighWatermark, p
	})
	aborted := map[int64]bool{}
	for i, a := range p.AbortedTransactions {
		if i > 0 && a.FirstOffset < p.AbortedTransactions[i-1].FirstOffset {
			t.Errorf("aborted transactions aren't sorted: %+v", p.AbortedTransactions)
		}
		aborted[a.ProducerID] = true
	}
	var all []string
	for _, b := range batches(t, p.RecordBatches) {
		if b.Attributes&(1<<5) == 0 && !aborted[b.ProducerID] {
			all = append(all, values(records(t, b.AppendTo(nil)))...)
		}
	}
	return all, p
}

func TestOnlyCommittedTransactionsAreRead(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	aborting, committing := newTransactional(t), newTransactional(t)
	aborting.add(topic)
	aborting.write(topic, "never")
	committing.add(topic)
	committing.write(topic, "kept", "as well")
	req := fetchRequest(topic, 0, 0)
	req.IsolationLevel = 1
	if p := ask[*kmsg.FetchResponse](dial(t), req, 12).Topics[0].Partitions[0]; p.LastStableOffset != 0 || len(p.RecordBatches) != 0 {
		t.Fatalf("open transactions: last stable offset %d, %d bytes", p.LastStableOffset, len(p.RecordBatches))
	}
	aborting.end(false)
	committing.end(true)
	if got, p := readCommitted(t, topic); len(got) != 2 || got[0] != "kept" || got[1] != "as well" {
		t.Fatalf("read %q of %+v", got, p)
	}
}

func TestOffsetsOfATransactionCountOnceItIsCommitted(t *testing.T) {
	t.Parallel()
	topic, group := name(t, "t"), name(t, "g")
	createTopic(t, topic, 1)
	p := newTransactional(t)
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = p.id, p.producer.id, p.epoch, group
	p.retried("add offsets", func() int16 { return ask[*kmsg.AddOffsetsToTxnResponse](p.c, add, 3).ErrorCode })
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.Group, commit.ProducerID, commit.ProducerEpoch = p.id, group, p.producer.id, p.epoch
	commit.Generation = -1
	commit.Topics = []kmsg.TxnOffsetCommitRequestTopic{{
		Topic: topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: 0, Offset: 42, LeaderEpoch: -1}},
	}}
	p.retried("commit offset", func() int16 {
		return ask[*kmsg.TxnOffsetCommitResponse](p.c, commit, 3).Topics[0].Partitions[0].ErrorCode
	})
	if got := committed(t, group, topic, 0); got != -1 {
		t.Fatalf("offset %d before the commit", got)
	}
	p.end(true)
	eventually(t, "offset 42", func() (bool, any) {
		got := committed(t, group, topic, 0)
		return got == 42, got
	})
}

func TestTransactionsAndProducersAreDescribed(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	p := newTransactional(t)
	p.add(topic)
	p.write(topic, "a")
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{p.id, name(t, "none")}
	states := ask[*kmsg.DescribeTransactionsResponse](p.c, describe, 0).TransactionStates
	if s := states[0]; s.ErrorCode != 0 || s.State != "Ongoing" || s.ProducerID != p.producer.id || len(s.Topics) != 1 || s.Topics[0].Topic != topic {
		t.Errorf("described as %+v", s)
	}
	if states[1].ErrorCode != 105 {
		t.Errorf("one that isn't there: error %d, want 105", states[1].ErrorCode)
	}
	list := kmsg.NewPtrListTransactionsRequest()
	list.ProducerIDFilters = []int64{p.producer.id}
	if got := ask[*kmsg.ListTransactionsResponse](p.c, list, 0).TransactionStates; len(got) != 1 || got[0].TransactionalID != p.id {
		t.Errorf("listed as %+v", got)
	}
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{0, 5}}}
	found := ask[*kmsg.DescribeProducersResponse](p.c, producers, 0).Topics[0].Partitions
	if len(found) != 2 || len(found[0].ActiveProducers) != 1 || found[0].ActiveProducers[0].ProducerID != p.producer.id ||
		found[0].ActiveProducers[0].CurrentTxnStartOffset != 0 || found[1].ErrorCode != 3 {
		t.Errorf("producers: %+v", found)
	}
	p.end(false)
}

func TestMarkersGoToPartitionsThatAreThere(t *testing.T) {
	t.Parallel()
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = []kmsg.WriteTxnMarkersRequestMarker{{
		ProducerID: initProducer(t), Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: name(t, "none"), Partitions: []int32{0}}},
	}}
	if code := ask[*kmsg.WriteTxnMarkersResponse](dial(t), req, 1).Markers[0].Topics[0].Partitions[0].ErrorCode; code != 3 {
		t.Errorf("error %d, want 3", code)
	}
}
