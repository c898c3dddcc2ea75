package conformance

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAProducerIDComesWithAnEpoch(t *testing.T) {
	t.Parallel()
	p := newTransactional(t)
	for what, c := range map[string]struct {
		id    int64
		epoch int16
		want  int16
	}{
		"no epoch":           {p.producer.id, -1, 42},
		"no id":              {-1, 0, 42},
		"nonsense, no epoch": {-2, -1, 42},
		"nonsense":           {-2, -2, 90},
	} {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &p.id, 60000
		req.ProducerID, req.ProducerEpoch = c.id, c.epoch
		if got := ask[*kmsg.InitProducerIDResponse](p.c, req, 4); got.ErrorCode != c.want || got.ProducerID != -1 || got.ProducerEpoch != -1 {
			t.Errorf("%s: error %d, producer %d/%d; want %d", what, got.ErrorCode, got.ProducerID, got.ProducerEpoch, c.want)
		}
	}
}

func TestClientsPutNoInternalTopicIntoATransaction(t *testing.T) {
	t.Parallel()
	p, topic := newTransactional(t), name(t, "a")
	createTopic(t, topic, 1)
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.id, p.producer.id, p.epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{
		{Topic: "__consumer_offsets", Partitions: []int32{0}}, {Topic: topic, Partitions: []int32{0}},
	}
	for _, got := range ask[*kmsg.AddPartitionsToTxnResponse](p.c, req, 3).Topics {
		want := int16(55)
		if got.Topic == "__consumer_offsets" {
			want = 29
		}
		if got.Partitions[0].ErrorCode != want {
			t.Errorf("%s: error %d, want %d", got.Topic, got.Partitions[0].ErrorCode, want)
		}
	}
}

// inTransaction is a transactional batch of a producer.
func inTransaction(p *transactional) []byte {
	b := plain("v")
	b.producer, b.attrs = &producer{id: p.producer.id, epoch: p.epoch}, 1<<4
	return b.bytes()
}

func TestATransactionalRequestIsOfOneProducer(t *testing.T) {
	t.Parallel()
	p, other, topic := newTransactional(t), newTransactional(t), name(t, "a")
	createTopic(t, topic, 2)
	p.add(topic)
	req := produceRequest(topic, 0, -1, inTransaction(p))
	req.TransactionID = &p.id
	second := kmsg.NewProduceRequestTopicPartition()
	second.Partition, second.Records = 1, inTransaction(other)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, second)
	for _, got := range ask[*kmsg.ProduceResponse](p.c, req, 9).Topics[0].Partitions {
		if got.ErrorCode != 49 || got.ErrorMessage == nil || got.BaseOffset != -1 {
			t.Errorf("partition %d: %+v", got.Partition, got)
		}
	}
	p.write(topic, "nothing is in its way")
}

func TestAnEmptyTransactionalIDIsNobodys(t *testing.T) {
	t.Parallel()
	p, topic := newTransactional(t), name(t, "a")
	createTopic(t, topic, 1)
	for what, c := range map[string]struct {
		id   *string
		want int16
	}{
		"empty": {kmsg.StringPtr(""), 42},
		"none":  {nil, 53},
	} {
		req := produceRequest(topic, 0, -1, inTransaction(p))
		req.TransactionID = c.id
		if got := ask[*kmsg.ProduceResponse](p.c, req, 9).Topics[0].Partitions[0]; got.ErrorCode != c.want {
			t.Errorf("%s: error %d, want %d", what, got.ErrorCode, c.want)
		}
	}
}

func TestUnknownStatesOfTransactionsAreToldOnce(t *testing.T) {
	t.Parallel()
	req := kmsg.NewPtrListTransactionsRequest()
	req.StateFilters = []string{"x", "Ongoing", "y", "x"}
	got := ask[*kmsg.ListTransactionsResponse](dial(t), req, 1).UnknownStateFilters
	if slices.Sort(got); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("unknown: %v", got)
	}
}

func TestMarkersOfNoProducerAreRefused(t *testing.T) {
	t.Parallel()
	topic := name(t, "a")
	createTopic(t, topic, 1)
	mark := func(id int64, epoch int16, partitions ...int32) *kmsg.WriteTxnMarkersResponse {
		m := kmsg.NewWriteTxnMarkersRequestMarker()
		m.ProducerID, m.ProducerEpoch = id, epoch
		m.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: partitions}}
		req := kmsg.NewPtrWriteTxnMarkersRequest()
		req.Markers = append(req.Markers, m)
		return ask[*kmsg.WriteTxnMarkersResponse](dial(t), req, 1)
	}
	for what, got := range map[string]*kmsg.WriteTxnMarkersResponse{"no id": mark(-1, 0, 0), "no epoch": mark(5, -1, 0)} {
		if code := got.Markers[0].Topics[0].Partitions[0].ErrorCode; code != -1 {
			t.Errorf("%s: error %d, want -1", what, code)
		}
	}
	if got := mark(5, 0); len(got.Markers) != 0 {
		t.Errorf("a marker for nothing is answered with %+v", got.Markers)
	}
	if all := fetchAll(t, dial(t), topic, 0); len(all) != 0 {
		t.Errorf("in the log: %+v", all)
	}
}

func TestTopicsWithoutPartitionsAreNotAnswered(t *testing.T) {
	t.Parallel()
	c, group, topic := dial(t), name(t, "g"), name(t, "a")
	createTopic(t, topic, 1)
	if code := commitOffset(t, group, topic, 0, 1); code != 0 {
		t.Fatalf("commit: error %d", code)
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Generation = group, -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic}}
	if got := ask[*kmsg.OffsetCommitResponse](c, commit, 8); len(got.Topics) != 0 {
		t.Errorf("commit: %+v", got.Topics)
	}
	pending := kmsg.NewPtrTxnOffsetCommitRequest()
	pending.Group, pending.TransactionalID, pending.Generation = group, name(t, "x"), -1
	pending.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topic}}
	if got := ask[*kmsg.TxnOffsetCommitResponse](c, pending, 3); len(got.Topics) != 0 {
		t.Errorf("commit in a transaction: %+v", got.Topics)
	}
	forget := kmsg.NewPtrOffsetDeleteRequest()
	forget.Group, forget.Topics = group, []kmsg.OffsetDeleteRequestTopic{{Topic: topic}}
	if got := ask[*kmsg.OffsetDeleteResponse](c, forget, 0); got.ErrorCode != 0 || len(got.Topics) != 0 {
		t.Errorf("delete: error %d, %+v", got.ErrorCode, got.Topics)
	}
}

func TestAGroupNamedTwiceIsDeletedOnce(t *testing.T) {
	t.Parallel()
	group, topic := name(t, "g"), name(t, "a")
	createTopic(t, topic, 1)
	if code := commitOffset(t, group, topic, 0, 1); code != 0 {
		t.Fatalf("commit: error %d", code)
	}
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group, group}
	if got := ask[*kmsg.DeleteGroupsResponse](dial(t), req, 2).Groups; len(got) != 1 || got[0].ErrorCode != 0 {
		t.Errorf("answered %+v", got)
	}
}
