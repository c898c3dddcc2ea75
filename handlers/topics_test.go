package handlers

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

func TestCreateTopicsSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("exists", "a.b")
	with := func(change func(*kmsg.CreateTopicsRequestTopic)) kmsg.CreateTopicsRequestTopic {
		q := topicOf("new", 1)
		change(&q)
		return q
	}
	assigned := func(partitions ...kmsg.CreateTopicsRequestTopicReplicaAssignment) kmsg.CreateTopicsRequestTopic {
		q := topicOf("new", -1)
		q.ReplicationFactor, q.ReplicaAssignment = -1, partitions
		return q
	}
	on := func(partition int32, brokers ...int32) kmsg.CreateTopicsRequestTopicReplicaAssignment {
		return kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: partition, Replicas: brokers}
	}
	config := func(name string, value *string) kmsg.CreateTopicsRequestTopic {
		return with(func(q *kmsg.CreateTopicsRequestTopic) {
			q.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: name, Value: value}}
		})
	}
	counted := assigned(on(0, 1))
	counted.NumPartitions = 3
	replicated := assigned(on(0, 1))
	replicated.ReplicationFactor = 1
	for _, x := range []struct {
		name string
		q    kmsg.CreateTopicsRequestTopic
		want protocol.ErrorCode
	}{
		{"empty name", topicOf("", 1), protocol.InvalidTopicException},
		{"parent directory", topicOf("..", 1), protocol.InvalidTopicException},
		{"path", topicOf("../../etc", 1), protocol.InvalidTopicException},
		{"long name", topicOf(strings.Repeat("a", 250), 1), protocol.InvalidTopicException},
		{"bad character", topicOf("a#b", 1), protocol.InvalidTopicException},
		{"exists", topicOf("exists", 1), protocol.TopicAlreadyExists},
		{"internal", topicOf(offsetsTopic, 1), protocol.TopicAlreadyExists},
		{"collides", topicOf("a_b", 1), protocol.InvalidTopicException},
		{"collides with an internal one", topicOf("..consumer.offsets", 1), protocol.InvalidTopicException},
		{"no partitions", topicOf("new", 0), protocol.InvalidPartitions},
		{"-2 partitions", topicOf("new", -2), protocol.InvalidPartitions},
		{"too many partitions", topicOf("new", 10001), protocol.PolicyViolation},
		{"factor 0", with(func(q *kmsg.CreateTopicsRequestTopic) { q.ReplicationFactor = 0 }), protocol.InvalidReplicationFactor},
		{"factor -2", with(func(q *kmsg.CreateTopicsRequestTopic) { q.ReplicationFactor = -2 }), protocol.InvalidReplicationFactor},
		{"factor 2", with(func(q *kmsg.CreateTopicsRequestTopic) { q.ReplicationFactor = 2 }), protocol.InvalidReplicationFactor},
		{"other broker", assigned(on(0, 9)), protocol.InvalidReplicaAssignment},
		{"broker twice", assigned(on(0, 1, 1)), protocol.InvalidReplicaAssignment},
		{"no broker", assigned(on(0)), protocol.InvalidReplicaAssignment},
		{"gap", assigned(on(0, 1), on(2, 1)), protocol.InvalidReplicaAssignment},
		{"partition twice", assigned(on(0, 1), on(0, 1)), protocol.InvalidReplicaAssignment},
		{"assignment and count", counted, protocol.InvalidRequest},
		{"assignment and factor", replicated, protocol.InvalidRequest},
		{"unknown key", config("no.such.key", kmsg.StringPtr("1")), protocol.InvalidConfig},
		{"null value", config("retention.ms", nil), protocol.InvalidConfig},
		{"bad value", config("retention.ms", kmsg.StringPtr("x")), protocol.InvalidConfig},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			a := c.createWith(x.q)
			if a.ErrorCode != int16(x.want) || a.ErrorMessage == nil || *a.ErrorMessage == "" {
				t.Errorf("code %d, want %d; message %v", a.ErrorCode, x.want, a.ErrorMessage)
			}
			if a.NumPartitions != -1 || a.ReplicationFactor != -1 || a.TopicID != [16]byte{} || a.Configs == nil || len(a.Configs) != 0 {
				t.Errorf("answer of an error: %+v", a)
			}
		})
	}
}

func TestCreateTopicsAnswersWhatWasMade(t *testing.T) {
	t.Parallel()
	c := newControl(t, "num.partitions", "6")
	q := topicOf("a", -1)
	q.ReplicationFactor = -1
	q.Configs = []kmsg.CreateTopicsRequestTopicConfig{
		{Name: "retention.ms", Value: kmsg.StringPtr("1")}, {Name: "retention.ms", Value: kmsg.StringPtr("2")},
	}
	a := c.createWith(q)
	made := c.topicByName("a")
	if a.ErrorCode != 0 || a.NumPartitions != 6 || a.ReplicationFactor != 1 || a.TopicID != [16]byte(made.ID) {
		t.Errorf("answer %+v", a)
	}
	if made.Configs["retention.ms"] != "2" || len(c.store.logs[made.ID]) != 6 {
		t.Errorf("made %+v", made)
	}
	found := false
	for _, e := range a.Configs {
		found = found || e.Name == "retention.ms" && *e.Value == "2" && e.Source == 1
	}
	if !found {
		t.Errorf("retention.ms isn't described in %d entries", len(a.Configs))
	}
	assigned := topicOf("b", -1)
	assigned.ReplicationFactor = -1
	assigned.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 1, Replicas: []int32{1}}, {Replicas: []int32{1}}}
	if a = c.createWith(assigned); a.ErrorCode != 0 || a.NumPartitions != 2 {
		t.Errorf("assigned: %+v", a)
	}
}

func TestCreateTopicsOnlyValidates(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	q := createRequest(topicOf("a", 2))
	q.ValidateOnly = true
	a := ask(c, q, kmsg.NewPtrCreateTopicsResponse())
	if got := a.Topics[0]; got.ErrorCode != 0 || got.NumPartitions != 2 || got.TopicID == [16]byte{} {
		t.Errorf("answer %+v", got)
	}
	if c.topicByName("a") != nil {
		t.Error("the topic was made")
	}
}

func TestCreateTopicsKeepsErrorsApart(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	q := createRequest(topicOf("a", 1), topicOf("twice", 1), topicOf("b", 0), topicOf("twice", 2), topicOf("c.d", 1), topicOf("c_d", 1), topicOf(metadataTopic, 1))
	a := ask(c, q, kmsg.NewPtrCreateTopicsResponse())
	var got []string
	for _, topic := range a.Topics {
		got = append(got, fmt.Sprintf("%s=%d", topic.Topic, topic.ErrorCode))
	}
	if want := "a=0 twice=42 b=37 c.d=0 c_d=0 __cluster_metadata=42"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	over := ask(c, createRequest(topicOf("e", 6000), topicOf("f", 6000)), kmsg.NewPtrCreateTopicsResponse())
	for _, topic := range over.Topics {
		if topic.ErrorCode != int16(protocol.PolicyViolation) {
			t.Errorf("%s: %d", topic.Topic, topic.ErrorCode)
		}
	}
}

func TestTopicMadeByManyAtOnceIsMadeByOne(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	var won, lost atomic.Int32
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			// Half of them use the name that collides.
			name := []string{"a.b", "a_b"}[i%2]
			a := c.createWith(topicOf(name, 1))
			switch protocol.ErrorCode(a.ErrorCode) {
			case protocol.None:
				won.Add(1)
			case protocol.TopicAlreadyExists, protocol.InvalidTopicException:
				lost.Add(1)
			default:
				t.Errorf("code %d", a.ErrorCode)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || lost.Load() != 7 {
		t.Errorf("%d made it, %d were told that it is there", won.Load(), lost.Load())
	}
}

func TestTopicIsTakenBackWhenItsLogsDoNotOpen(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.store.refuse = storage.ErrNoSpace
	if a := c.createWith(topicOf("a", 1)); a.ErrorCode != int16(protocol.KafkaStorageError) {
		t.Errorf("code %d", a.ErrorCode)
	}
	if c.topicByName("a") != nil {
		t.Error("the topic is there")
	}
}

// deletion asks for topics by name or id: strings and storage.TopicID.
func deletionOf(version int16, topics ...any) *kmsg.DeleteTopicsRequest {
	q := kmsg.NewPtrDeleteTopicsRequest()
	q.Version = version
	for _, x := range topics {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		switch x := x.(type) {
		case string:
			topic.Topic = &x
			q.TopicNames = append(q.TopicNames, x)
		case storage.TopicID:
			topic.TopicID = x
		}
		q.Topics = append(q.Topics, topic)
	}
	return q
}

func TestChangesWithoutTimeTimeOut(t *testing.T) {
	t.Parallel()
	late := int16(protocol.RequestTimedOut)
	for _, timeout := range []int32{0, -1} {
		c := newControl(t)
		c.create("a")
		create := createRequest(topicOf("b", 1), topicOf("a", 1))
		create.TimeoutMillis = timeout
		for _, topic := range ask(c, create, kmsg.NewPtrCreateTopicsResponse()).Topics {
			if topic.ErrorCode != late || topic.ErrorMessage != nil {
				t.Errorf("create: %+v", topic)
			}
		}
		grow := kmsg.NewPtrCreatePartitionsRequest()
		grow.Version, grow.TimeoutMillis = 3, timeout
		grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "a", Count: 3}}
		if got := ask(c, grow, kmsg.NewPtrCreatePartitionsResponse()).Topics[0]; got.ErrorCode != late {
			t.Errorf("grow: %+v", got)
		}
		name := "a"
		remove := kmsg.NewPtrDeleteTopicsRequest()
		remove.Version, remove.TimeoutMillis = 6, timeout
		remove.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
		if got := ask(c, remove, kmsg.NewPtrDeleteTopicsResponse()).Topics[0]; got.ErrorCode != late {
			t.Errorf("delete: %+v", got)
		}
		elect := kmsg.NewPtrElectLeadersRequest()
		elect.Version, elect.TimeoutMillis = 2, timeout
		elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "a", Partitions: []int32{0}}}
		if got := ask(c, elect, kmsg.NewPtrElectLeadersResponse()); got.ErrorCode != late || got.Topics[0].Partitions[0].ErrorCode != late {
			t.Errorf("elect: %+v", got)
		}
		if topic := c.topicByName("a"); topic == nil || topic.Partitions != 1 || c.topicByName("b") != nil {
			t.Error("changed all the same")
		}
	}
}

func TestCreateTopicsBoundsWhatIsWritten(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	for partitions, want := range map[int32]protocol.ErrorCode{9999: 0, 10000: protocol.PolicyViolation} {
		q := createRequest(topicOf("a", partitions))
		q.ValidateOnly = true
		if got := ask(c, q, kmsg.NewPtrCreateTopicsResponse()).Topics[0]; got.ErrorCode != int16(want) {
			t.Errorf("%d partitions: %+v", partitions, got.ErrorCode)
		}
	}
}

func TestDeleteTopics(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a", "b", "c", "d", "e")
	id := func(name string) storage.TopicID { return c.topicByName(name).ID }
	both := deletionOf(6, "d")
	both.Topics[0].TopicID = id("d")
	removed := id("a")
	for _, x := range []struct {
		name string
		q    *kmsg.DeleteTopicsRequest
		want string
	}{
		{"by name", deletionOf(1, "a", "no"), "a=0 no=3"},
		{"deleted already", deletionOf(6, removed), "<nil>=100"},
		{"by id", deletionOf(6, id("b"), storage.TopicID{1}), "b=0 <nil>=100"},
		{"name twice", deletionOf(5, "c", "c"), "c=42"},
		{"id twice", deletionOf(6, id("c"), id("c")), "<nil>=42"},
		{"name, then id", deletionOf(6, "c", id("c")), "c=42"},
		{"id, then name", deletionOf(6, id("c"), "c", "e"), "c=42 e=0"},
		{"name and id in one", both, "d=42"},
		{"neither", deletionOf(6, storage.TopicID{}), "<nil>=42"},
		{"internal", deletionOf(6, offsetsTopic), offsetsTopic + "=17"},
		{"path", deletionOf(6, "../.."), "../..=3"},
	} {
		a := ask(c, x.q, kmsg.NewPtrDeleteTopicsResponse())
		var got []string
		for _, topic := range a.Topics {
			name := "<nil>"
			if topic.Topic != nil {
				name = *topic.Topic
			}
			got = append(got, fmt.Sprintf("%s=%d", name, topic.ErrorCode))
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%s: got %v, want %s", x.name, got, x.want)
		}
	}
	if left := c.store.Topics().Len(); left != 2 {
		t.Errorf("%d topics left, want c and d", left)
	}
	if len(c.store.logs[removed]) != 0 {
		t.Error("the logs of a deleted topic are there")
	}
	if got := strings.Join(c.groups.deleted, " "); got != "a b e" {
		t.Errorf("the coordinator was told of %s", got)
	}
}

func TestTopicsOfARequestAreDeletedInOneCommit(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a", "b", "c")
	before := c.store.deletions
	ask(c, deletionOf(5, "a", "no", "b", "c"), kmsg.NewPtrDeleteTopicsResponse())
	if n := c.store.deletions - before; n != 1 || c.store.Topics().Len() != 0 {
		t.Errorf("%d commits, %d topics left", n, c.store.Topics().Len())
	}
}

func TestDeleteTopicsSwitchedOff(t *testing.T) {
	t.Parallel()
	c := newControl(t, "delete.topic.enable", "false")
	c.create("a")
	for version, want := range map[int16]protocol.ErrorCode{2: protocol.InvalidRequest, 3: protocol.TopicDeletionDisabled, 6: protocol.TopicDeletionDisabled} {
		a := ask(c, deletionOf(version, "a"), kmsg.NewPtrDeleteTopicsResponse())
		if len(a.Topics) != 1 || a.Topics[0].ErrorCode != int16(want) {
			t.Errorf("version %d: %+v", version, a.Topics)
		}
	}
	if c.topicByName("a") == nil {
		t.Error("the topic is gone")
	}
}

func TestCreatePartitions(t *testing.T) {
	t.Parallel()
	on := func(brokers ...int32) kmsg.CreatePartitionsRequestTopicAssignment {
		return kmsg.CreatePartitionsRequestTopicAssignment{Replicas: brokers}
	}
	for _, x := range []struct {
		name       string
		topic      string
		count      int32
		assignment []kmsg.CreatePartitionsRequestTopicAssignment
		validate   bool
		want       protocol.ErrorCode
		left       int32
	}{
		{name: "more", topic: "a", count: 5, left: 5},
		{name: "validated only", topic: "a", count: 5, validate: true, left: 2},
		{name: "the same", topic: "a", count: 2, want: protocol.InvalidPartitions, left: 2},
		{name: "fewer", topic: "a", count: 1, want: protocol.InvalidPartitions, left: 2},
		{name: "negative", topic: "a", count: -1, want: protocol.InvalidPartitions, left: 2},
		{name: "unknown", topic: "no", count: 5, want: protocol.UnknownTopicOrPartition, left: 2},
		{name: "internal", topic: offsetsTopic, count: 500, want: protocol.InvalidTopicException, left: 2},
		{name: "internal, fewer", topic: offsetsTopic, count: 1, want: protocol.InvalidPartitions, left: 2},
		{name: "internal, validated only", topic: offsetsTopic, count: 500, validate: true, want: protocol.InvalidTopicException, left: 2},
		{name: "far too many", topic: "a", count: 10003, want: protocol.PolicyViolation, left: 2},
		{name: "assigned", topic: "a", count: 4, assignment: []kmsg.CreatePartitionsRequestTopicAssignment{on(1), on(1)}, left: 4},
		{name: "too few assigned", topic: "a", count: 4, assignment: []kmsg.CreatePartitionsRequestTopicAssignment{on(1)}, want: protocol.InvalidReplicaAssignment, left: 2},
		{name: "other broker", topic: "a", count: 3, assignment: []kmsg.CreatePartitionsRequestTopicAssignment{on(42)}, want: protocol.InvalidReplicaAssignment, left: 2},
		{name: "no broker", topic: "a", count: 3, assignment: []kmsg.CreatePartitionsRequestTopicAssignment{on()}, want: protocol.InvalidReplicaAssignment, left: 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			c := newControl(t)
			if a := c.createWith(topicOf("a", 2)); a.ErrorCode != 0 {
				t.Fatal(a.ErrorCode)
			}
			q := kmsg.NewPtrCreatePartitionsRequest()
			q.Version, q.ValidateOnly = 3, x.validate
			q.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: x.topic, Count: x.count, Assignment: x.assignment}}
			a := ask(c, q, kmsg.NewPtrCreatePartitionsResponse())
			if len(a.Topics) != 1 || a.Topics[0].Topic != x.topic || a.Topics[0].ErrorCode != int16(x.want) {
				t.Errorf("answer %+v, want %d", a.Topics, x.want)
			}
			topic := c.topicByName("a")
			if topic.Partitions != x.left || int32(len(c.store.logs[topic.ID])) != x.left {
				t.Errorf("%d partitions, want %d", topic.Partitions, x.left)
			}
			if _, err := c.log(topic, x.left-1); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCreatePartitionsBoundsTheRequest(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a", "b")
	q := kmsg.NewPtrCreatePartitionsRequest()
	q.Version, q.ValidateOnly = 3, true
	for count, want := range map[int32]protocol.ErrorCode{5001: 0, 5002: protocol.PolicyViolation} {
		q.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "a", Count: count}, {Topic: "b", Count: 5001}}
		for _, topic := range ask(c, q, kmsg.NewPtrCreatePartitionsResponse()).Topics {
			if topic.ErrorCode != int16(want) {
				t.Errorf("%d: %+v", count, topic)
			}
		}
	}
}

func TestCreatePartitionsTwiceIsRefused(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a")
	q := kmsg.NewPtrCreatePartitionsRequest()
	q.Version = 3
	q.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "a", Count: 3}, {Topic: "a", Count: 4}}
	a := ask(c, q, kmsg.NewPtrCreatePartitionsResponse())
	if len(a.Topics) != 1 || a.Topics[0].ErrorCode != int16(protocol.InvalidRequest) || c.topicByName("a").Partitions != 1 {
		t.Errorf("answer %+v", a.Topics)
	}
}

func TestTopicConfigFollowsTopicAndBroker(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a")
	topic := c.topicByName("a")
	first := c.topicConfig(topic)
	if first != c.topicConfig(topic) {
		t.Error("resolved twice though nothing changed")
	}
	changed := *topic
	changed.Configs = map[string]string{"retention.ms": "5"}
	if got := c.topicConfig(&changed).RetentionMs; got != 5 {
		t.Errorf("retention.ms is %d", got)
	}
	if got := c.topicConfig(topic).RetentionMs; got != first.RetentionMs {
		t.Errorf("retention.ms is %d", got)
	}
	if err := errors.Join(c.removeTopics([]storage.TopicID{topic.ID})...); err != nil {
		t.Fatal(err)
	}
	c.topicConfig(topic)
	if _, kept := c.configs.byID.Load(topic.ID); kept {
		t.Error("the configuration of a deleted topic is kept")
	}
}
