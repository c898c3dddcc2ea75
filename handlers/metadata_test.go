package handlers

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// metadataFor asks for topics by name; none for an empty list.
func metadataFor(version int16, names ...string) *kmsg.MetadataRequest {
	q := kmsg.NewPtrMetadataRequest()
	q.Version = version
	q.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		q.Topics = append(q.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr(name)})
	}
	return q
}

// said lists topics as name=code.
func said(a *kmsg.MetadataResponse) string {
	var all []string
	for _, t := range a.Topics {
		name := "<nil>"
		if t.Topic != nil {
			name = *t.Topic
		}
		all = append(all, fmt.Sprintf("%s=%d", name, t.ErrorCode))
	}
	return strings.Join(all, " ")
}

func TestMetadataAnswersWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a", "b")
	a, b := c.topicByName("a").ID, c.topicByName("b").ID
	byID := func(version int16, ids ...storage.TopicID) *kmsg.MetadataRequest {
		q := metadataFor(version)
		for _, id := range ids {
			q.Topics = append(q.Topics, kmsg.MetadataRequestTopic{TopicID: id})
		}
		return q
	}
	all := func(version int16) *kmsg.MetadataRequest {
		q := metadataFor(version)
		q.Topics = nil
		return q
	}
	named := byID(12, a)
	named.Topics[0].Topic = kmsg.StringPtr("b")
	mixed := metadataFor(12, "b")
	mixed.Topics = append(mixed.Topics, byID(12, a).Topics...)
	const everything = "__consumer_offsets=0 __transaction_state=0 a=0 b=0"
	for _, x := range []struct {
		name string
		q    *kmsg.MetadataRequest
		want string
	}{
		{"v0 empty is all", metadataFor(0), everything},
		{"v1 empty is none", metadataFor(1), ""},
		{"null is all", all(1), everything},
		{"null is all, newest", all(13), everything},
		{"by name", metadataFor(9, "b", "a"), "b=0 a=0"},
		{"twice", metadataFor(9, "a", "a", "b", "a"), "a=0 b=0"},
		{"unknown", metadataFor(9, "a", "no"), "a=0 no=3"},
		{"bad names", metadataFor(9, "a/b", "", "..", "ä", strings.Repeat("x", 250)), "a/b=17 =17 ..=17 ä=17 " + strings.Repeat("x", 250) + "=17"},
		{"no UTF-8", metadataFor(9, "\xff\xfe"), "\ufffd\ufffd=17"},
		{"by id", byID(12, b, a, b), "b=0 a=0"},
		{"unknown id", byID(13, storage.TopicID{1}), "<nil>=100"},
		{"id and another's name", named, "a=0"},
		{"names beside ids are ignored", mixed, "a=0"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			if got := said(ask(c, x.q, kmsg.NewPtrMetadataResponse())); got != x.want {
				t.Errorf("got %s\nwant %s", got, x.want)
			}
		})
	}
}

func TestMetadataDescribesATopic(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	if a := c.createWith(topicOf("a", 3)); a.ErrorCode != 0 {
		t.Fatal(a.ErrorCode)
	}
	for _, log := range c.store.logs[c.topicByName("a").ID] {
		log.epoch = 7
	}
	q := metadataFor(10, "a", offsetsTopic)
	q.IncludeClusterAuthorizedOperations, q.IncludeTopicAuthorizedOperations = true, true
	a := ask(c, q, kmsg.NewPtrMetadataResponse())
	if a.ControllerID != 1 || *a.ClusterID != c.Meta.ClusterID() || a.AuthorizedOperations != clusterOperations {
		t.Errorf("cluster: %+v", a)
	}
	topic := a.Topics[0]
	if topic.TopicID != [16]byte(c.topicByName("a").ID) || topic.IsInternal || topic.AuthorizedOperations != topicOperations || len(topic.Partitions) != 3 {
		t.Errorf("topic: %+v", topic)
	}
	for i, p := range topic.Partitions {
		if p.Partition != int32(i) || p.Leader != 1 || p.LeaderEpoch != 7 || fmt.Sprint(p.Replicas, p.ISR, p.OfflineReplicas) != "[1] [1] []" {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
	if internal := a.Topics[1]; !internal.IsInternal || internal.ErrorCode != 0 {
		t.Errorf("internal: %+v", internal)
	}
	plain := ask(c, metadataFor(10, "a"), kmsg.NewPtrMetadataResponse())
	if plain.AuthorizedOperations != noOperations || plain.Topics[0].AuthorizedOperations != noOperations {
		t.Error("operations answered though nobody asked")
	}
}

func TestMetadataAnswersTheListenerThatWasAsked(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	for listener, want := range map[string]string{"PLAINTEXT": "broker:9092", "DOCKER": "kbroker.internal:9093"} {
		r := encoded(metadataFor(9))
		r.Conn = &protocol.Conn{Listener: listener}
		a := askAs(c, r, kmsg.NewPtrMetadataResponse())
		if got := fmt.Sprintf("%s:%d", a.Brokers[0].Host, a.Brokers[0].Port); got != want {
			t.Errorf("%s is told %s", listener, got)
		}
	}
}

func TestMetadataRefusesAMalformedListAsAWhole(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a")
	withID := metadataFor(10, "a")
	withID.Topics[0].TopicID = c.topicByName("a").ID
	noName := metadataFor(11)
	noName.Topics = make([]kmsg.MetadataRequestTopic, 1)
	neither := metadataFor(12, "a")
	neither.Topics = append(neither.Topics, kmsg.MetadataRequestTopic{})
	for _, x := range []struct {
		q    *kmsg.MetadataRequest
		want string
	}{{withID, "a=42"}, {noName, "=42"}, {neither, "a=-1 =-1"}} {
		a := ask(c, x.q, kmsg.NewPtrMetadataResponse())
		if said(a) != x.want || len(a.Brokers) != 0 || a.ClusterID != nil || a.ControllerID != -1 {
			t.Errorf("version %d: %s, %+v", x.q.Version, said(a), a)
		}
	}
}

func TestMetadataMakesTopicsOnDemand(t *testing.T) {
	t.Parallel()
	allowed := metadataFor(4, "new")
	allowed.AllowAutoTopicCreation = true
	for _, x := range []struct {
		name    string
		setting string
		q       *kmsg.MetadataRequest
		made    bool
	}{
		{"asked for", "true", allowed, true},
		{"old versions can't say no", "true", metadataFor(3, "new"), true},
		{"not wanted", "true", metadataFor(4, "new"), false},
		{"switched off", "false", allowed, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			c := newControl(t, "auto.create.topics.enable", x.setting, "num.partitions", "4")
			q := *x.q
			if got := said(ask(c, &q, kmsg.NewPtrMetadataResponse())); got != "new=3" {
				t.Errorf("first answer %s", got)
			}
			made := c.topicByName("new")
			if (made != nil) != x.made {
				t.Fatalf("topic made: %v", made != nil)
			}
			if made == nil {
				return
			}
			if _, err := c.log(made, 3); err != nil {
				t.Errorf("the topic can't be used once it has been answered: %v", err)
			}
			if got := said(ask(c, &q, kmsg.NewPtrMetadataResponse())); got != "new=0" {
				t.Errorf("second answer %s", got)
			}
		})
	}
}

func TestMetadataDoesNotTellThatATopicIsNeverMade(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a.b")
	q := metadataFor(9, "a_b")
	q.AllowAutoTopicCreation = true
	for range 2 {
		if got := said(ask(c, q, kmsg.NewPtrMetadataResponse())); got != "a_b=3" {
			t.Errorf("got %s", got)
		}
	}
}

func TestMetadataTellsOperationsOfTopicsWithErrorsToo(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a")
	q := metadataFor(9, "a", "no", "a/b")
	q.AllowAutoTopicCreation = false
	for asked, want := range map[bool]int32{true: topicOperations, false: noOperations} {
		q.IncludeTopicAuthorizedOperations = asked
		for _, topic := range ask(c, q, kmsg.NewPtrMetadataResponse()).Topics {
			if topic.AuthorizedOperations != want {
				t.Errorf("asked %v: %+v", asked, topic)
			}
		}
	}
}

func TestMetadataPassesOverTopicsWithoutIDBesideIDs(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a")
	q := kmsg.NewPtrMetadataRequest()
	q.Version = 12
	q.Topics = []kmsg.MetadataRequestTopic{{}, {TopicID: c.topicByName("a").ID}}
	if got := said(ask(c, q, kmsg.NewPtrMetadataResponse())); got != "a=0" {
		t.Errorf("got %s", got)
	}
}

func TestMetadataMakesNoMoreThanARequestMay(t *testing.T) {
	t.Parallel()
	c := newControl(t, "num.partitions", "4000")
	q := metadataFor(9, "a", "b", "c", "a")
	q.AllowAutoTopicCreation = true
	if got := said(ask(c, q, kmsg.NewPtrMetadataResponse())); got != "a=3 b=3 c=3" {
		t.Errorf("got %s", got)
	}
	if c.topicByName("b") == nil || c.topicByName("c") != nil {
		t.Error("want a and b to be made, and c not")
	}
}

func TestTopicMadeOnDemandByManyExistsOnce(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := c.autoCreateTopics([]string{"a"})[0].err; err != nil && codeOf(err) != protocol.TopicAlreadyExists {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if c.store.Topics().Len() != 1 {
		t.Errorf("%d topics", c.store.Topics().Len())
	}
}

func TestFindCoordinator(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	for _, x := range []struct {
		version int16
		kind    int8
		key     string
		want    protocol.ErrorCode
		message string
	}{
		{1, 0, "g", 0, "NONE"},
		{3, 1, "t", 0, "NONE"},
		{4, 0, "", 0, ""},
		{6, 1, "t", 0, ""},
		{2, 7, "x", protocol.InvalidRequest, "There is no coordinator of type 7"},
		{4, 7, "x", protocol.InvalidRequest, "There is no coordinator of type 7"},
		{5, 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0", protocol.InvalidRequest, ""},
		{6, 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0", 0, ""},
		{6, 2, "g:h:AAAAAAAAAAAAAAAAAAAAAQ:0", 0, ""},
		{6, 2, "x", protocol.InvalidRequest, ""},
		{6, 2, "g:nouuid:0", protocol.InvalidRequest, ""},
		{6, 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:-1", protocol.InvalidRequest, ""},
		{6, 2, ":AAAAAAAAAAAAAAAAAAAAAQ:0", protocol.InvalidRequest, ""},
	} {
		q := kmsg.NewPtrFindCoordinatorRequest()
		q.Version, q.CoordinatorType, q.CoordinatorKey, q.CoordinatorKeys = x.version, x.kind, x.key, []string{x.key}
		a := ask(c, q, kmsg.NewPtrFindCoordinatorResponse())
		got := kmsg.FindCoordinatorResponseCoordinator{Key: x.key, NodeID: a.NodeID, Host: a.Host, Port: a.Port, ErrorCode: a.ErrorCode, ErrorMessage: a.ErrorMessage}
		if x.version >= 4 {
			got = a.Coordinators[0]
		}
		node, host, port := int32(1), "broker", int32(9092)
		if x.want != 0 {
			node, host, port = -1, "", -1
		}
		if got.Key != x.key || got.NodeID != node || got.Host != host || got.Port != port ||
			got.ErrorCode != int16(x.want) || *got.ErrorMessage != x.message {
			t.Errorf("%+v: got %+v, %q", x, got, *got.ErrorMessage)
		}
	}
}

func TestInternalTopicsKeepTheirIDs(t *testing.T) {
	t.Parallel()
	one, again := newInternalTopics("one", 5, 5), newInternalTopics("one", 9, 9)
	other := newInternalTopics("other", 5, 5)
	for i, topic := range one.all {
		if topic.ID == (storage.TopicID{}) || topic.ID != again.all[i].ID || topic.ID == other.all[i].ID {
			t.Errorf("%s has id %s, later %s, in another cluster %s", topic.Name, topic.ID, again.all[i].ID, other.all[i].ID)
		}
	}
	if one.all[0].ID == one.all[1].ID {
		t.Error("both have the same id")
	}
}

func TestInternalTopicsAreEmptyAndTakeNothing(t *testing.T) {
	t.Parallel()
	c := newControl(t, "offsets.topic.num.partitions", "3")
	h, err := New(c.Deps)
	if err != nil {
		t.Fatal(err)
	}
	topic := h.topicByName(offsetsTopic)
	if topic.Partitions != 3 || h.topicByID(topic.ID) != topic {
		t.Errorf("topic: %+v", topic)
	}
	l, err := h.log(topic, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = h.log(topic, 3); codeOf(err) != protocol.UnknownTopicOrPartition {
		t.Errorf("partition 3: %v", err)
	}
	if _, err = l.Append(nil, storage.AppendOptions{}); codeOf(err) != protocol.InvalidTopicException {
		t.Errorf("append: %v", err)
	}
	if _, err = l.Read(1, storage.ReadOptions{}); codeOf(err) != protocol.OffsetOutOfRange {
		t.Errorf("read at 1: %v", err)
	}
	var r storage.ReadResult
	if r, err = l.Read(0, storage.ReadOptions{}); err != nil || r.Records != nil || r.Offsets != (storage.Offsets{}) {
		t.Errorf("read at 0: %+v %v", r, err)
	}
	if _, err = l.Trim(1); codeOf(err) != protocol.OffsetOutOfRange {
		t.Errorf("trim: %v", err)
	}
}

// BenchmarkMetadataOfAllTopics asks a cluster of 5000 topics with 10 partitions each for everything.
func BenchmarkMetadataOfAllTopics(b *testing.B) {
	c := newControl(&testing.T{})
	all := make([]*meta.Topic, 5000)
	for i := range all {
		id := storage.TopicID{1, byte(i), byte(i >> 8)}
		all[i] = &meta.Topic{Name: fmt.Sprintf("topic-%d", i), Partitions: 10, ID: id}
		for range 10 {
			c.store.logs[id] = append(c.store.logs[id], newMemoryLog())
		}
	}
	c.store.topics = meta.NewTopics(all)
	q := metadataFor(13)
	q.Topics = nil
	b.ReportAllocs()
	for b.Loop() {
		if got := c.Dispatch(encoded(q)); got.Release != nil {
			got.Release()
		}
	}
}
