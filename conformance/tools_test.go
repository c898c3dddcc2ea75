package conformance

import (
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What administrators' tools ask of a broker.

func nodeID(t *testing.T) int32 {
	t.Helper()
	return metadata(t, 9, false).ControllerID
}

func TestLogDirsTellSizesAndLeaveOutWhatIsNotThere(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 2)
	c := dial(t)
	mustProduce(t, c, topic, plain("a"))
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: topic, Partitions: []int32{0, 9}}, {Topic: name(t, "none"), Partitions: []int32{0}}}
	dirs := ask[*kmsg.DescribeLogDirsResponse](c, req, 4).Dirs
	if len(dirs) != 1 || dirs[0].Dir == "" || dirs[0].TotalBytes < dirs[0].UsableBytes || dirs[0].UsableBytes <= 0 {
		t.Fatalf("got %+v", dirs)
	}
	if len(dirs[0].Topics) != 1 || len(dirs[0].Topics[0].Partitions) != 1 || dirs[0].Topics[0].Partitions[0].Size <= 0 {
		t.Fatalf("topics: %+v", dirs[0].Topics)
	}
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
	if dirs = ask[*kmsg.DescribeLogDirsResponse](c, req, 4).Dirs; len(dirs) != 1 || len(dirs[0].Topics) != 0 {
		t.Fatalf("no topics asked for: %+v", dirs)
	}
}

func TestReplicasCannotBeMovedElsewhere(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	dirs := kmsg.NewPtrAlterReplicaLogDirsRequest()
	dirs.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{
		Dir: "/nowhere", Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic, Partitions: []int32{0}}},
	}}
	if code := ask[*kmsg.AlterReplicaLogDirsResponse](c, dirs, 2).Topics[0].Partitions[0].ErrorCode; code != 57 {
		t.Errorf("to another directory: error %d, want 57", code)
	}
	for _, tt := range []struct {
		what     string
		replicas []int32
		code     int16
	}{{"where it is", []int32{nodeID(t)}, 0}, {"nowhere", []int32{}, 39}, {"to a broker that isn't there", []int32{4711}, 39}, {"cancelled", nil, 85}} {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.TimeoutMillis = 10000
		req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
			Topic: topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: 0, Replicas: tt.replicas}},
		}}
		if code := ask[*kmsg.AlterPartitionAssignmentsResponse](c, req, 0).Topics[0].Partitions[0].ErrorCode; code != tt.code {
			t.Errorf("%s: error %d, want %d", tt.what, code, tt.code)
		}
	}
	list := kmsg.NewPtrListPartitionReassignmentsRequest()
	list.TimeoutMillis = 10000
	if got := ask[*kmsg.ListPartitionReassignmentsResponse](c, list, 0); got.ErrorCode != 0 || len(got.Topics) != 0 {
		t.Errorf("reassignments under way: %+v", got)
	}
}

func TestLeadersNeedNoElection(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	for partition, want := range map[int32]int16{0: 84, 7: 3} {
		req := kmsg.NewPtrElectLeadersRequest()
		req.TimeoutMillis, req.Topics = 10000, []kmsg.ElectLeadersRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
		if code := ask[*kmsg.ElectLeadersResponse](dial(t), req, 2).Topics[0].Partitions[0].ErrorCode; code != want {
			t.Errorf("partition %d: error %d, want %d", partition, code, want)
		}
	}
}

func TestTheQuorumHasALeaderAndOtherBrokersAreUnknown(t *testing.T) {
	t.Parallel()
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = []kmsg.DescribeQuorumRequestTopic{{
		Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{Partition: 0}},
	}}
	p := ask[*kmsg.DescribeQuorumResponse](dial(t), req, 1).Topics[0].Partitions[0]
	if p.ErrorCode != 0 || len(p.CurrentVoters) == 0 || p.CurrentVoters[0].ReplicaID != p.LeaderID {
		t.Errorf("quorum: %+v", p)
	}
	gone := kmsg.NewPtrUnregisterBrokerRequest()
	gone.BrokerID = 4711
	if code := ask[*kmsg.UnregisterBrokerResponse](dial(t), gone, 0).ErrorCode; code != 102 {
		t.Errorf("unregister a broker that isn't there: error %d, want 102", code)
	}
	features := kmsg.NewPtrUpdateFeaturesRequest()
	features.TimeoutMillis = 10000
	update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	update.Feature, update.MaxVersionLevel, update.UpgradeType = "no.such.feature", 1, 1
	features.FeatureUpdates = append(features.FeatureUpdates, update)
	if code := ask[*kmsg.UpdateFeaturesResponse](dial(t), features, 2).ErrorCode; code != 95 {
		t.Errorf("an unknown feature: error %d, want 95", code)
	}
}

func TestPartitionsAreDescribedInPages(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 3)
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2
	req.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: topic}}
	first := ask[*kmsg.DescribeTopicPartitionsResponse](dial(t), req, 0)
	if len(first.Topics) != 1 || len(first.Topics[0].Partitions) != 2 || first.NextCursor == nil || first.NextCursor.Partition != 2 {
		t.Fatalf("first page: %+v", first)
	}
	cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
	cursor.Topic, cursor.Partition = first.NextCursor.Topic, first.NextCursor.Partition
	req.Cursor = &cursor
	second := ask[*kmsg.DescribeTopicPartitionsResponse](dial(t), req, 0)
	if len(second.Topics) != 1 || len(second.Topics[0].Partitions) != 1 || second.NextCursor != nil {
		t.Fatalf("second page: %+v", second)
	}
}

// alter changes settings of a topic one by one and returns the error.
func alter(t *testing.T, topic string, op kmsg.IncrementalAlterConfigOp, key, value string) int16 {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Op: op, Value: &value}},
	}}
	c := dial(t)
	code := ask[*kmsg.IncrementalAlterConfigsResponse](c, req, 1).Resources[0].ErrorCode
	c.alive()
	return code
}

func TestSingleSettingsAreChangedAndBadOnesRefused(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1, "retention.ms", "1000")
	for _, tt := range []struct {
		what       string
		op         kmsg.IncrementalAlterConfigOp
		key, value string
		code       int16
	}{
		{"set", kmsg.IncrementalAlterConfigOpSet, "max.message.bytes", "50000", 0},
		{"bad value", kmsg.IncrementalAlterConfigOpSet, "retention.ms", "soon", 40},
		{"unknown key", kmsg.IncrementalAlterConfigOpSet, "no.such.key", "1", 40},
		{"append to a list", kmsg.IncrementalAlterConfigOpAppend, "cleanup.policy", "compact", 0},
		{"append to what is none", kmsg.IncrementalAlterConfigOpAppend, "retention.ms", "1", 40},
		{"subtract from what is none", kmsg.IncrementalAlterConfigOpSubtract, "retention.ms", "1", 40},
	} {
		if code := alter(t, topic, tt.op, tt.key, tt.value); code != tt.code {
			t.Errorf("%s: error %d, want %d", tt.what, code, tt.code)
		}
	}
	got := describeConfigs(t, kmsg.ConfigResourceTypeTopic, topic)
	for key, want := range map[string]string{"max.message.bytes": "50000", "retention.ms": "1000", "cleanup.policy": "delete,compact"} {
		if v := got[key].Value; v == nil || *v != want {
			t.Errorf("%s is %v, want %s", key, v, want)
		}
	}
}

// The older way to alter sets what is named and takes back everything else.
func TestAlterConfigsTakesBackWhatIsNotNamed(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1, "retention.ms", "1000", "cleanup.policy", "compact")
	value := "60000"
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Resources = []kmsg.AlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic,
		Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "max.message.bytes", Value: &value}},
	}}
	if code := ask[*kmsg.AlterConfigsResponse](dial(t), req, 2).Resources[0].ErrorCode; code != 0 {
		t.Fatalf("error %d", code)
	}
	got := describeConfigs(t, kmsg.ConfigResourceTypeTopic, topic)
	for key, want := range map[string]string{"max.message.bytes": value, "retention.ms": "604800000", "cleanup.policy": "delete"} {
		if v := got[key].Value; v == nil || *v != want {
			t.Errorf("%s is %v, want %s", key, v, want)
		}
	}
}

func TestResourcesWithSettingsAreListed(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = []int8{int8(kmsg.ConfigResourceTypeTopic), int8(kmsg.ConfigResourceTypeBroker)}
	missing := map[string]bool{topic: true, strconv.Itoa(int(nodeID(t))): true}
	for _, r := range ask[*kmsg.ListConfigResourcesResponse](dial(t), req, 1).ConfigResources {
		delete(missing, r.Name)
	}
	if len(missing) > 0 {
		t.Errorf("not listed: %v", missing)
	}
}
