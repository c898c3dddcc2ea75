package handlers

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

func TestDescribeTopicPartitionsGoesOnAtTheCursor(t *testing.T) {
	t.Parallel()
	c := newControl(t, "max.request.partition.size.limit", "4")
	for _, name := range []string{"a", "b", "c"} {
		if a := c.createWith(topicOf(name, 3)); a.ErrorCode != 0 {
			t.Fatal(a.ErrorCode)
		}
	}
	at := func(topic string, partition int32) *kmsg.DescribeTopicPartitionsRequestCursor {
		return &kmsg.DescribeTopicPartitionsRequestCursor{Topic: topic, Partition: partition}
	}
	for _, x := range []struct {
		name   string
		topics string
		limit  int32
		cursor *kmsg.DescribeTopicPartitionsRequestCursor
		want   string
		next   string
	}{
		{"sorted, up to the limit", "b a", 4, nil, "a[0 1 2] b[0]", "b 1"},
		{"the broker's limit", "a b c", 2000, nil, "a[0 1 2] b[0]", "b 1"},
		{"from the cursor on", "a b c", 4, at("b", 1), "b[1 2] c[0 1]", "c 2"},
		{"to the end", "a b c", 4, at("c", 2), "c[2]", ""},
		{"at a topic's end", "a b", 3, nil, "a[0 1 2]", "b 0"},
		{"limit below 1", "a", 0, nil, "a[0]", "a 1"},
		{"cursor beyond the topic", "a", 9, at("a", 9), "a[]", ""},
		{"errors cost nothing", "a no a/b", 4, nil, "a[0 1 2] a/b=17[] no=3[]", ""},
		{"at a topic's end, before one that isn't there", "a no", 3, nil, "a[0 1 2]", "no 0"},
		{"a cursor that isn't in the list", "a c", 9, at("b", 0), "a=42[] c=42[]", ""},
		{"negative cursor", "a", 3, at("a", -1), "a=42[]", ""},
		{"all topics", "", 4, at("b", 0), "b[0 1 2] c[0]", "c 1"},
	} {
		q := kmsg.NewPtrDescribeTopicPartitionsRequest()
		for _, name := range strings.Fields(x.topics) {
			q.Topics = append(q.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		q.ResponsePartitionLimit, q.Cursor = x.limit, x.cursor
		a := ask(c, q, kmsg.NewPtrDescribeTopicPartitionsResponse())
		var got []string
		for _, topic := range a.Topics {
			var partitions []int32
			for _, p := range topic.Partitions {
				partitions = append(partitions, p.Partition)
			}
			code := ""
			if topic.ErrorCode != 0 {
				code = fmt.Sprintf("=%d", topic.ErrorCode)
			}
			got = append(got, fmt.Sprint(*topic.Topic, code, partitions))
		}
		next := ""
		if a.NextCursor != nil {
			next = fmt.Sprint(a.NextCursor.Topic, " ", a.NextCursor.Partition)
		}
		if strings.Join(got, " ") != x.want || next != x.next {
			t.Errorf("%s: got %v and %q, want %s and %q", x.name, got, next, x.want, x.next)
		}
	}
}

func TestDescribeTopicPartitionsOfAnEmptyName(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a")
	q := kmsg.NewPtrDescribeTopicPartitionsRequest()
	q.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{}, {Topic: "a"}}
	for _, topic := range ask(c, q, kmsg.NewPtrDescribeTopicPartitionsResponse()).Topics {
		if topic.ErrorCode != int16(protocol.UnknownServerError) || topic.AuthorizedOperations != noOperations {
			t.Errorf("%+v", topic)
		}
	}
}

func TestPartitionsThatComeTwiceAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	if a := c.createWith(topicOf("a", 2)); a.ErrorCode != 0 {
		t.Fatal(a.ErrorCode)
	}
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Version = 5
	dirs.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "a", Partitions: []int32{0, 0}}, {Topic: "a", Partitions: []int32{1, 0}}}
	if got := ask(c, dirs, kmsg.NewPtrDescribeLogDirsResponse()).Dirs[0].Topics; len(got) != 1 || len(got[0].Partitions) != 2 {
		t.Errorf("DescribeLogDirs: %+v", got)
	}
	dirs.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "a", Partitions: []int32{7}}, {Topic: "a"}}
	if got := ask(c, dirs, kmsg.NewPtrDescribeLogDirsResponse()).Dirs[0].Topics; len(got) != 0 {
		t.Errorf("DescribeLogDirs of nothing: %+v", got)
	}
	move := kmsg.NewPtrAlterReplicaLogDirsRequest()
	move.Version = 2
	to := func(dir string, partitions ...int32) kmsg.AlterReplicaLogDirsRequestDir {
		return kmsg.AlterReplicaLogDirsRequestDir{Dir: dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: "a", Partitions: partitions}}}
	}
	move.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{to("/elsewhere", 0, 0, 1), to("/data", 0), to("/data")}
	got := ask(c, move, kmsg.NewPtrAlterReplicaLogDirsResponse()).Topics
	if len(got) != 1 || len(got[0].Partitions) != 2 || got[0].Partitions[0].ErrorCode != 0 ||
		got[0].Partitions[1].ErrorCode != int16(protocol.LogDirNotFound) {
		t.Errorf("AlterReplicaLogDirs: %+v", got)
	}
}

func TestRequestsThatFailAsAWholeSayItOnTop(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a")
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Version, elect.ElectionType = 2, 5
	for _, x := range []struct {
		topics []kmsg.ElectLeadersRequestTopic
		want   protocol.ErrorCode
	}{
		{nil, protocol.InvalidRequest},
		{[]kmsg.ElectLeadersRequestTopic{}, protocol.None},
		{[]kmsg.ElectLeadersRequestTopic{{Topic: "a", Partitions: []int32{0}}}, protocol.InvalidRequest},
	} {
		elect.Topics = x.topics
		if got := ask(c, elect, kmsg.NewPtrElectLeadersResponse()); got.ErrorCode != int16(x.want) || len(got.Topics) != len(x.topics) {
			t.Errorf("election of %v: %+v", x.topics, got)
		}
	}
	reassign := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	reassign.Version, reassign.TimeoutMillis = 1, 0
	reassign.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
		Topic: "a", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{1}}},
	}}
	got := ask(c, reassign, kmsg.NewPtrAlterPartitionAssignmentsResponse())
	if late := int16(protocol.RequestTimedOut); got.ErrorCode != late || got.Topics[0].Partitions[0].ErrorCode != late {
		t.Errorf("reassignment without time: %+v", got)
	}
	reassign.Topics = nil
	if got = ask(c, reassign, kmsg.NewPtrAlterPartitionAssignmentsResponse()); got.ErrorCode != 0 || got.ErrorMessage == nil {
		t.Errorf("reassignment of nothing: %+v", got)
	}
}

func TestDescribeLogDirsAnswersWhatIsThere(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a", "b")
	c.DiskSpace = func() (int64, int64, error) { return 100, 40, nil }
	q := kmsg.NewPtrDescribeLogDirsRequest()
	q.Version = 5
	topics := func() string {
		t.Helper()
		a := ask(c, q, kmsg.NewPtrDescribeLogDirsResponse())
		if len(a.Dirs) != 1 || a.Dirs[0].Dir != "/data" || a.Dirs[0].ErrorCode != 0 {
			t.Fatalf("answer %+v", a)
		}
		var got []string
		for _, topic := range a.Dirs[0].Topics {
			got = append(got, fmt.Sprintf("%s:%d", topic.Topic, len(topic.Partitions)))
		}
		return fmt.Sprintf("%s %d/%d", strings.Join(got, " "), a.Dirs[0].UsableBytes, a.Dirs[0].TotalBytes)
	}
	if got := topics(); got != "__consumer_offsets:1 __transaction_state:1 a:1 b:1 40/100" {
		t.Errorf("everything: %s", got)
	}
	q.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "a", Partitions: []int32{0, 5, -1}}, {Topic: "no", Partitions: []int32{0}}}
	if got := topics(); got != "a:1 40/100" {
		t.Errorf("some: %s", got)
	}
	q.Topics = []kmsg.DescribeLogDirsRequestTopic{}
	c.DiskSpace = func() (int64, int64, error) { return 0, 0, errors.New("no such call") }
	if got := topics(); got != " -1/-1" {
		t.Errorf("nothing: %s", got)
	}
}

func TestToolsFindNothingToMove(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.create("a")
	elect := func(kind int8, topic string, partition int32) protocol.ErrorCode {
		q := kmsg.NewPtrElectLeadersRequest()
		q.Version, q.ElectionType = 2, kind
		q.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
		return protocol.ErrorCode(ask(c, q, kmsg.NewPtrElectLeadersResponse()).Topics[0].Partitions[0].ErrorCode)
	}
	reassign := func(topic string, partition int32, replicas []int32) protocol.ErrorCode {
		q := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		q.Version = 1
		q.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
			Topic: topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: partition, Replicas: replicas}},
		}}
		return protocol.ErrorCode(ask(c, q, kmsg.NewPtrAlterPartitionAssignmentsResponse()).Topics[0].Partitions[0].ErrorCode)
	}
	move := func(dir, topic string, partition int32) protocol.ErrorCode {
		q := kmsg.NewPtrAlterReplicaLogDirsRequest()
		q.Version = 2
		q.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{
			Dir: dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic, Partitions: []int32{partition}}},
		}}
		return protocol.ErrorCode(ask(c, q, kmsg.NewPtrAlterReplicaLogDirsResponse()).Topics[0].Partitions[0].ErrorCode)
	}
	for _, x := range []struct {
		what      string
		got, want protocol.ErrorCode
	}{
		{"preferred election", elect(0, "a", 0), protocol.ElectionNotNeeded},
		{"unclean election", elect(1, "a", 0), protocol.ElectionNotNeeded},
		{"unknown election", elect(5, "a", 0), protocol.InvalidRequest},
		{"election of an unknown partition", elect(0, "a", 1), protocol.UnknownTopicOrPartition},
		{"election of an unknown topic", elect(0, "no", 0), protocol.UnknownTopicOrPartition},
		{"reassign to the same", reassign("a", 0, []int32{1}), protocol.None},
		{"reassign to another", reassign("a", 0, []int32{99}), protocol.InvalidReplicaAssignment},
		{"reassign to none", reassign("a", 0, []int32{}), protocol.InvalidReplicaAssignment},
		{"cancel", reassign("a", 0, nil), protocol.NoReassignmentInProgress},
		{"reassign an unknown partition", reassign("a", 6, []int32{1}), protocol.UnknownTopicOrPartition},
		{"reassign an unknown topic", reassign("no", 0, []int32{1}), protocol.UnknownTopicOrPartition},
		{"move to the same", move("/data", "a", 0), protocol.None},
		{"move away", move("/elsewhere", "a", 0), protocol.LogDirNotFound},
		{"move an unknown partition", move("/data", "a", 1), protocol.UnknownTopicOrPartition},
	} {
		if x.got != x.want {
			t.Errorf("%s: %v, want %v", x.what, x.got, x.want)
		}
	}
}

func TestQuorumIsThisBroker(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	q := kmsg.NewPtrDescribeQuorumRequest()
	q.Version = 2
	one := []kmsg.DescribeQuorumRequestTopicPartition{{}}
	q.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: metadataTopic, Partitions: one}}
	a := ask(c, q, kmsg.NewPtrDescribeQuorumResponse())
	known := a.Topics[0].Partitions[0]
	if known.ErrorCode != 0 || known.LeaderID != 1 || len(known.CurrentVoters) != 1 || known.CurrentVoters[0].ReplicaID != 1 {
		t.Errorf("quorum %+v", known)
	}
	if len(a.Nodes) != 1 || a.Nodes[0].Listeners[0].Host != "broker" {
		t.Errorf("nodes %+v", a.Nodes)
	}
	for name, topics := range map[string][]kmsg.DescribeQuorumRequestTopic{
		"another topic":             {{Topic: "other", Partitions: one}},
		"beside another topic":      {{Topic: metadataTopic, Partitions: one}, {Topic: "other", Partitions: one}},
		"beside another partition":  {{Topic: metadataTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}, {Partition: 1}}}},
		"the same partition, twice": {{Topic: metadataTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}, {}}}},
	} {
		q.Topics = topics
		a = ask(c, q, kmsg.NewPtrDescribeQuorumResponse())
		if got := a.Topics[0].Partitions[0]; got.ErrorCode != int16(protocol.UnknownTopicOrPartition) || len(got.CurrentVoters) != 0 || len(a.Nodes) != 0 {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestTheOnlyBrokerIsNotUnregistered(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	for id, want := range map[int32]protocol.ErrorCode{1: protocol.InvalidRequest, 4242: protocol.BrokerIDNotRegistered} {
		q := kmsg.NewPtrUnregisterBrokerRequest()
		q.BrokerID = id
		if a := ask(c, q, kmsg.NewPtrUnregisterBrokerResponse()); a.ErrorCode != int16(want) || a.ErrorMessage == nil {
			t.Errorf("broker %d: %d", id, a.ErrorCode)
		}
	}
}

func TestApiVersionsListsTheTable(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	q := kmsg.NewPtrApiVersionsRequest()
	for v := range int16(6) {
		q.Version, q.ClientSoftwareName, q.ClientSoftwareVersion = v, "test", "1.0"
		a := ask(c, q, kmsg.NewPtrApiVersionsResponse())
		if a.ErrorCode != 0 || len(a.ApiKeys) != len(rows()) {
			t.Fatalf("version %d: error %d, %d keys", v, a.ErrorCode, len(a.ApiKeys))
		}
		for i, k := range a.ApiKeys {
			e := c.table[k.ApiKey]
			if k.ApiKey != rows()[i].key || k.MinVersion != e.Min || k.MaxVersion != e.Max {
				t.Errorf("version %d: entry %+v", v, k)
			}
		}
		if v >= 3 && (len(a.FinalizedFeatures) != len(c.Features.finalized()) || a.FinalizedFeaturesEpoch < 0) {
			t.Errorf("version %d: features %+v", v, a.FinalizedFeatures)
		}
	}
}

func TestApiVersionsOfAnUnknownVersionIsAnsweredInTheOldest(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	r := request(protocol.KeyApiVersions, 99)
	r.Body = []byte("whatever")
	b := frame(t, c.Dispatch(r))[8:]
	a := kmsg.NewPtrApiVersionsResponse()
	if err := a.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	if a.ErrorCode != int16(protocol.UnsupportedVersion) || len(a.ApiKeys) != 1 || a.ApiKeys[0].ApiKey != 18 || a.ApiKeys[0].MaxVersion != 5 {
		t.Errorf("answer %+v", a)
	}
}

func TestApiVersionsChecksTheClient(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	cluster, other := c.Meta.ClusterID(), "nonsense"
	for _, x := range []struct {
		software, version string
		cluster           *string
		node              int32
		want              protocol.ErrorCode
	}{
		{"a-b.c", "1-2.3", nil, -1, protocol.None},
		{"", "1.0", nil, -1, protocol.InvalidRequest},
		{"a", "", nil, -1, protocol.InvalidRequest},
		{"a b", "1.0", nil, -1, protocol.InvalidRequest},
		{"-a", "1.0", nil, -1, protocol.InvalidRequest},
		{"a.", "1.0", nil, -1, protocol.InvalidRequest},
		{"a", "1.0", &cluster, 1, protocol.None},
		{"a", "1.0", &cluster, -1, protocol.InvalidRequest},
		{"a", "1.0", nil, 1, protocol.InvalidRequest},
		{"a", "1.0", &other, 1, protocol.RebootstrapRequired},
		{"a", "1.0", &cluster, 77, protocol.RebootstrapRequired},
	} {
		q := kmsg.NewPtrApiVersionsRequest()
		q.Version, q.ClientSoftwareName, q.ClientSoftwareVersion, q.ClusterID, q.NodeID = 5, x.software, x.version, x.cluster, x.node
		r := encoded(q)
		a := askAs(c, r, kmsg.NewPtrApiVersionsResponse())
		if a.ErrorCode != int16(x.want) || x.want != 0 && (len(a.ApiKeys) != 0 || a.FinalizedFeaturesEpoch != -1) {
			t.Errorf("%+v: %+v", x, a)
		}
		if known := r.Conn.Software() != (protocol.Software{}); known != (x.want == 0) {
			t.Errorf("%+v: the connection knows %+v", x, r.Conn.Software())
		}
	}
}
