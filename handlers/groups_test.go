package handlers

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

func TestJoinAndSyncKeepNothingOfTheFrame(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group = 9, "group"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("metadata")}}
	r := encoded(join)
	r.Conn.Peer = netip.MustParseAddrPort("[::ffff:10.0.0.7]:4711")
	askAs(c, r, kmsg.NewPtrJoinGroupResponse()) // clears the frame before the answer is made
	got, ok := c.groups.last().(*kmsg.JoinGroupRequest)
	if !ok || got.Group != "group" || got.Protocols[0].Name != "range" || string(got.Protocols[0].Metadata) != "metadata" {
		t.Errorf("the coordinator got %+v", c.groups.last())
	}
	if c.groups.client.ID != "test" || c.groups.client.Host != "/10.0.0.7" {
		t.Errorf("client %+v", c.groups.client)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version = 5
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: "m", MemberAssignment: []byte("assignment")}}
	ask(c, sync, kmsg.NewPtrSyncGroupResponse())
	if got, ok := c.groups.last().(*kmsg.SyncGroupRequest); !ok || string(got.GroupAssignment[0].MemberAssignment) != "assignment" {
		t.Errorf("the coordinator got %+v", c.groups.last())
	}
}

func TestJoinIsAnsweredOnAnotherGoroutine(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	r := encoded(kmsg.NewPtrJoinGroupRequest())
	got := c.Dispatch(r)
	if got.Later == nil || c.groups.last() != nil {
		t.Fatal("the connection's reader would wait for the group")
	}
	frame(t, got.Later(context.Background()))
}

// TestGroupRequestsAtEveryVersion: every answer can be decoded in the request's version.
func TestGroupRequestsAtEveryVersion(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a")
	c.groups.fetched = kmsg.NewPtrOffsetFetchResponse()
	for _, key := range []int16{
		protocol.KeyOffsetCommit, protocol.KeyOffsetFetch, protocol.KeyJoinGroup, protocol.KeyHeartbeat, protocol.KeyLeaveGroup,
		protocol.KeySyncGroup, protocol.KeyDescribeGroups, protocol.KeyListGroups, protocol.KeyDeleteGroups, protocol.KeyOffsetDelete,
		protocol.KeyConsumerGroupHeartbeat, protocol.KeyConsumerGroupDescribe,
	} {
		e := c.table[key]
		for v := e.AcceptMin; v <= e.Max; v++ {
			q := kmsg.RequestForKey(key)
			if key == protocol.KeyOffsetCommit { // one without partitions wouldn't
				q = commit(v, commitTo("a", c.topicByName("a").ID, 0))
			}
			q.SetVersion(v)
			ask(c, q, kmsg.ResponseForKey(key))
			if c.groups.last().Key() != key {
				t.Errorf("%s %d didn't reach the coordinator", e.Name, v)
			}
		}
	}
}

func TestTheProtocolOfConsumerGroupsIsOffAtLevel0(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	level := func(level int16, kind int8) {
		q := kmsg.NewPtrUpdateFeaturesRequest()
		q.Version = 1
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = "group.version", level, kind
		q.FeatureUpdates = append(q.FeatureUpdates, u)
		if a := ask(c, q, kmsg.NewPtrUpdateFeaturesResponse()); a.ErrorCode != 0 {
			t.Fatalf("level %d: %+v", level, a)
		}
	}
	level(0, safeDowngrade)
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Version, beat.Group = 1, "g"
	if a := ask(c, beat, kmsg.NewPtrConsumerGroupHeartbeatResponse()); a.ErrorCode != 35 || a.ErrorMessage != nil || a.MemberID != nil {
		t.Errorf("heartbeat: %+v", a)
	}
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Version, describe.Groups, describe.IncludeAuthorizedOperations = 1, []string{"g", "h", "g"}, true
	a := ask(c, describe, kmsg.NewPtrConsumerGroupDescribeResponse())
	if len(a.Groups) != 2 || a.Groups[1].Group != "h" || a.Groups[1].ErrorCode != 35 || a.Groups[1].AuthorizedOperations != noOperations {
		t.Errorf("describe: %+v", a)
	}
	if c.groups.last() != nil {
		t.Errorf("the coordinator got %+v", c.groups.last())
	}
	level(1, upgrade)
	if a := ask(c, beat, kmsg.NewPtrConsumerGroupHeartbeatResponse()); a.ErrorCode == 35 || c.groups.last() == nil {
		t.Errorf("heartbeat at level 1: %+v", a)
	}
}

func commit(version int16, topics ...kmsg.OffsetCommitRequestTopic) *kmsg.OffsetCommitRequest {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.Topics = version, "g", topics
	return q
}

// commitTo commits partitions with offsets 70 and more, which groupsFake answers as codes.
func commitTo(name string, id storage.TopicID, partitions ...int32) kmsg.OffsetCommitRequestTopic {
	q := kmsg.NewOffsetCommitRequestTopic()
	q.Topic, q.TopicID = name, id
	for _, p := range partitions {
		at := kmsg.NewOffsetCommitRequestTopicPartition()
		at.Partition, at.Offset = p, int64(70+p)
		q.Partitions = append(q.Partitions, at)
	}
	return q
}

func TestOffsetCommitPassesOnlyWhatIsThere(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	if a := c.createWith(topicOf("a", 3)); a.ErrorCode != 0 {
		t.Fatal(a.ErrorCode)
	}
	c.create("b")
	a, b := c.topicByName("a").ID, c.topicByName("b").ID
	none := storage.TopicID{}
	for _, x := range []struct {
		name   string
		q      *kmsg.OffsetCommitRequest
		want   string
		passed string
	}{
		{
			"by name", commit(9, commitTo("no", none, 0), commitTo("a", none, 2, 7, 0), commitTo("b", none, -1), commitTo("b", none, 0)),
			"no[0=3] a[2=72 7=3 0=70] b[-1=3] b[0=70]", "a[2 0] b[0]",
		},
		{
			"by id", commit(10, commitTo("", storage.TopicID{9}, 0), commitTo("", b, 0), commitTo("", a, 1, 3)),
			"[0=100] [0=70] [1=71 3=3]", "b[0] a[1]",
		},
		{"nothing there", commit(2, commitTo("no", none, 0)), "no[0=3]", ""},
	} {
		c.groups.asked = nil
		got := ask(c, x.q, kmsg.NewPtrOffsetCommitResponse())
		var answered, passed []string
		for i, topic := range got.Topics {
			var ps []string
			for _, p := range topic.Partitions {
				ps = append(ps, fmt.Sprintf("%d=%d", p.Partition, p.ErrorCode))
			}
			answered = append(answered, topic.Topic+"["+strings.Join(ps, " ")+"]")
			if topic.TopicID != x.q.Topics[i].TopicID {
				t.Errorf("%s: topic %d has id %x", x.name, i, topic.TopicID)
			}
		}
		if q, ok := c.groups.last().(*kmsg.OffsetCommitRequest); ok {
			for _, topic := range q.Topics {
				var ps []int32
				for _, p := range topic.Partitions {
					ps = append(ps, p.Partition)
				}
				passed = append(passed, topic.Topic+fmt.Sprint(ps))
			}
		}
		if strings.Join(answered, " ") != x.want || strings.Join(passed, " ") != x.passed {
			t.Errorf("%s: answered %v, want %s; passed on %v, want %s", x.name, answered, x.want, passed, x.passed)
		}
	}
}

func TestOffsetFetchTranslatesIDs(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a", "b")
	a, b := c.topicByName("a").ID, c.topicByName("b").ID
	at := func(topic string) kmsg.OffsetFetchResponseGroupTopic {
		return kmsg.OffsetFetchResponseGroupTopic{Topic: topic, Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{{Offset: 5}}}
	}
	c.groups.fetched = kmsg.NewPtrOffsetFetchResponse()
	c.groups.fetched.Groups = []kmsg.OffsetFetchResponseGroup{
		{Group: "g", Topics: []kmsg.OffsetFetchResponseGroupTopic{at("b")}},
		{Group: "all", Topics: []kmsg.OffsetFetchResponseGroupTopic{at("a"), at("deleted")}},
		{Group: "failed", ErrorCode: int16(protocol.StaleMemberEpoch)},
	}
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version = 10
	unknown := kmsg.OffsetFetchRequestGroupTopic{TopicID: storage.TopicID{9}, Partitions: []int32{3}}
	q.Groups = []kmsg.OffsetFetchRequestGroup{
		{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{unknown, {TopicID: b, Partitions: []int32{0}}}},
		{Group: "all"},
		{Group: "failed", Topics: []kmsg.OffsetFetchRequestGroupTopic{unknown}},
	}
	got := ask(c, q, kmsg.NewPtrOffsetFetchResponse())
	var said []string
	for _, g := range got.Groups {
		for _, topic := range g.Topics {
			p := topic.Partitions[0]
			said = append(said, fmt.Sprintf("%s %s %d:%d=%d", g.Group, storage.TopicID(topic.TopicID), p.Partition, p.Offset, p.ErrorCode))
		}
	}
	want := []string{
		fmt.Sprintf("g %s 0:5=0", b), fmt.Sprintf("g %s 3:-1=100", storage.TopicID{9}), fmt.Sprintf("all %s 0:5=0", a),
	}
	if fmt.Sprint(said) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", said, want)
	}
	passed, ok := c.groups.last().(*kmsg.OffsetFetchRequest)
	if !ok || len(passed.Groups[0].Topics) != 1 || passed.Groups[0].Topics[0].Topic != "b" || passed.Groups[1].Topics != nil || passed.Groups[2].Topics == nil {
		t.Errorf("the coordinator got %+v", passed)
	}
}

func TestDescribeGroupsAnswersOperationsOfGroupsThatAreThere(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Version = 6
	for _, include := range []bool{false, true} {
		q.IncludeAuthorizedOperations = include
		a := ask(c, q, kmsg.NewPtrDescribeGroupsResponse())
		want := noOperations
		if include {
			want = groupOperations
		}
		if a.Groups[0].AuthorizedOperations != want || a.Groups[1].AuthorizedOperations != noOperations {
			t.Errorf("include %v: %+v", include, a.Groups)
		}
	}
}

// What is named again and again in a request doesn't make its answer larger.
func TestWhatComesTwiceIsAskedOnce(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{"a", "b", "a", "a"}
	ask(c, describe, kmsg.NewPtrDescribeGroupsResponse())
	if got, ok := c.groups.last().(*kmsg.DescribeGroupsRequest); !ok || strings.Join(got.Groups, " ") != "a b" {
		t.Errorf("asked for %v", c.groups.last())
	}
	c.groups.fetched = kmsg.NewPtrOffsetFetchResponse()
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version = 8
	some := []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}
	fetch.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "a"}, {Group: "a", Topics: some}, {Group: "b"}, {Group: "a"}}
	ask(c, fetch, kmsg.NewPtrOffsetFetchResponse())
	if got, ok := c.groups.last().(*kmsg.OffsetFetchRequest); !ok || len(got.Groups) != 3 || got.Groups[1].Topics == nil || got.Groups[2].Group != "b" {
		t.Errorf("asked for %+v", c.groups.last())
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{"a", "a", "b"}
	if got := ask(c, find, kmsg.NewPtrFindCoordinatorResponse()).Coordinators; len(got) != 2 {
		t.Errorf("%d coordinators", len(got))
	}
	c.create("topic")
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "topic", Partitions: []int32{0, 0}}, {Topic: "topic", Partitions: []int32{0}}}
	n := 0
	for _, topic := range ask(c, producers, kmsg.NewPtrDescribeProducersResponse()).Topics {
		n += len(topic.Partitions)
	}
	if n != 1 {
		t.Errorf("%d partitions' producers", n)
	}
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Version, dirs.Topics = 4, []kmsg.DescribeLogDirsRequestTopic{{Topic: "topic"}}
	if got := ask(c, dirs, kmsg.NewPtrDescribeLogDirsResponse()).Dirs[0].Topics; len(got) != 0 {
		t.Errorf("no partitions asked for, got %+v", got)
	}
}

func TestDescribedSettingsAreBounded(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	q := kmsg.NewPtrDescribeConfigsRequest()
	wanted := kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: ""}
	if a := c.describeResource(&wanted, q, true); a.ErrorCode != 0 || len(a.Configs) == 0 {
		t.Errorf("with room: error %d, %d settings", a.ErrorCode, len(a.Configs))
	}
	if a := c.describeResource(&wanted, q, false); a.ErrorCode != int16(protocol.InvalidRequest) || len(a.Configs) != 0 {
		t.Errorf("without: error %d, %d settings", a.ErrorCode, len(a.Configs))
	}
}
