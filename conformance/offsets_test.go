package conformance

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func commitRequest(group, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.LeaderEpoch = partition, offset, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func commitOffset(t *testing.T, group, topic string, partition int32, offset int64) int16 {
	t.Helper()
	resp := ask[*kmsg.OffsetCommitResponse](dial(t), commitRequest(group, topic, partition, offset), 8)
	return resp.Topics[0].Partitions[0].ErrorCode
}

// committed returns a committed offset, -1 if there is none.
func committed(t *testing.T, group, topic string, partition int32) int64 {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{partition}
	req.Topics = append(req.Topics, rt)
	resp := ask[*kmsg.OffsetFetchResponse](dial(t), req, 7)
	p := resp.Topics[0].Partitions[0]
	if resp.ErrorCode != 0 || p.ErrorCode != 0 {
		t.Fatalf("OffsetFetch: errors %d, %d", resp.ErrorCode, p.ErrorCode)
	}
	return p.Offset
}

func TestCommittedOffsetsAreReadBackAtEveryVersion(t *testing.T) {
	t.Parallel()
	topic, group := name(t, "t"), name(t, "g")
	createTopic(t, topic, 1)
	c := dial(t)
	for version := int16(2); version <= 9; version++ {
		resp := ask[*kmsg.OffsetCommitResponse](c, commitRequest(group, topic, 0, int64(version)), version)
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatalf("commit v%d: error %d", version, code)
		}
		if got := committed(t, group, topic, 0); got != int64(version) {
			t.Fatalf("after commit v%d: offset %d", version, got)
		}
	}
}

func TestNothingCommittedIsNoError(t *testing.T) {
	t.Parallel()
	topic, group := name(t, "t"), name(t, "g")
	createTopic(t, topic, 1)
	for _, asked := range []string{topic, name(t, "missing")} {
		if got := committed(t, group, asked, 0); got != -1 {
			t.Errorf("offset %d, want -1", got)
		}
	}
	for version := int16(1); version <= 7; version++ {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = group
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic, rt.Partitions = topic, []int32{0}
		req.Topics = append(req.Topics, rt)
		p := ask[*kmsg.OffsetFetchResponse](dial(t), req, version).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.Offset != -1 || p.LeaderEpoch != -1 || p.Metadata == nil || *p.Metadata != "" {
			t.Errorf("v%d: %+v", version, p)
		}
	}
}

func TestNullTopicsFetchesAllWithTheirNames(t *testing.T) {
	t.Parallel()
	group := name(t, "g")
	want := map[string]int64{name(t, "a"): 1, name(t, "b"): 2}
	for topic, offset := range want {
		createTopic(t, topic, 1)
		if code := commitOffset(t, group, topic, 0, offset); code != 0 {
			t.Fatalf("commit: error %d", code)
		}
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.Topics = group, nil
	resp := ask[*kmsg.OffsetFetchResponse](dial(t), req, 5)
	if len(resp.Topics) != len(want) {
		t.Fatalf("%d topics, want %d", len(resp.Topics), len(want))
	}
	for _, rt := range resp.Topics {
		if len(rt.Partitions) != 1 || rt.Partitions[0].Offset != want[rt.Topic] {
			t.Errorf("%s: %+v", rt.Topic, rt.Partitions)
		}
	}
}

func TestCommitToWhatIsNotThereIsRefusedAlone(t *testing.T) {
	t.Parallel()
	topic, group := name(t, "t"), name(t, "g")
	createTopic(t, topic, 1)
	req := commitRequest(group, topic, 0, 5)
	rp := req.Topics[0].Partitions[0]
	rp.Partition = 7
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, rp)
	req.Topics = append(req.Topics, commitRequest(group, name(t, "missing"), 0, 5).Topics...)
	resp := ask[*kmsg.OffsetCommitResponse](dial(t), req, 8)
	var codes []int16
	for _, rt := range resp.Topics {
		for _, p := range rt.Partitions {
			codes = append(codes, p.ErrorCode)
		}
	}
	if len(codes) != 3 || codes[0] != 0 || codes[1] != 3 || codes[2] != 3 {
		t.Fatalf("errors %v, want 0, 3, 3", codes)
	}
}

func TestRetentionTimeOfOldCommitsMayBeNegative(t *testing.T) {
	t.Parallel()
	topic, group := name(t, "t"), name(t, "g")
	createTopic(t, topic, 1)
	for version := int16(2); version <= 4; version++ {
		req := commitRequest(group, topic, 0, int64(version))
		req.RetentionTimeMillis = -1
		if code := ask[*kmsg.OffsetCommitResponse](dial(t), req, version).Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatalf("v%d: error %d", version, code)
		}
	}
	if got := committed(t, group, topic, 0); got != 4 {
		t.Fatalf("offset %d, want 4", got)
	}
}

func TestGroupsAreDescribedListedAndDeleted(t *testing.T) {
	t.Parallel()
	topic, group := name(t, "t"), name(t, "g")
	createTopic(t, topic, 1)
	m := newMember(t, group)
	m.join()
	m.sync(map[string]string{m.id: "assignment"})
	describe := func() kmsg.DescribeGroupsResponseGroup {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{group}
		return ask[*kmsg.DescribeGroupsResponse](dial(t), req, 5).Groups[0]
	}
	remove := func() int16 {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{group}
		return ask[*kmsg.DeleteGroupsResponse](dial(t), req, 2).Groups[0].ErrorCode
	}
	if g := describe(); g.State != "Stable" || g.Protocol != "range" || len(g.Members) != 1 || string(g.Members[0].MemberAssignment) != "assignment" {
		t.Fatalf("described as %+v", g)
	}
	if code := remove(); code != 68 {
		t.Fatalf("delete of a group with members: error %d, want 68", code)
	}
	if code := commitOffset(t, group, topic, 0, 1); code != 25 {
		t.Fatalf("commit from outside a live group: error %d, want 25", code)
	}
	m.leave()
	if g := describe(); g.State != "Empty" {
		t.Fatalf("state %q, want Empty", g.State)
	}
	if code := remove(); code != 0 {
		t.Fatalf("delete: error %d", code)
	}
	if g := describe(); g.State != "Dead" {
		t.Fatalf("state %q, want Dead", g.State)
	}
}

// deleteOffset removes a committed offset; it returns the code of the group and that of the partition.
func deleteOffset(t *testing.T, group, topic string) (whole, partition int16) {
	t.Helper()
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	rt := kmsg.NewOffsetDeleteRequestTopic()
	rt.Topic, rt.Partitions = topic, []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
	req.Topics = append(req.Topics, rt)
	resp := ask[*kmsg.OffsetDeleteResponse](dial(t), req, 0)
	if resp.ErrorCode == 0 {
		partition = resp.Topics[0].Partitions[0].ErrorCode
	}
	return resp.ErrorCode, partition
}

func TestOffsetsAreDeletedAlone(t *testing.T) {
	t.Parallel()
	topic, other, group := name(t, "t"), name(t, "other"), name(t, "g")
	createTopic(t, topic, 1)
	createTopic(t, other, 1)
	for _, each := range []string{topic, other} {
		if code := commitOffset(t, group, each, 0, 7); code != 0 {
			t.Fatalf("commit: error %d", code)
		}
	}
	if whole, code := deleteOffset(t, group, topic); whole != 0 || code != 0 {
		t.Fatalf("delete: errors %d, %d", whole, code)
	}
	if got := committed(t, group, topic, 0); got != -1 {
		t.Errorf("deleted offset is %d", got)
	}
	if got := committed(t, group, other, 0); got != 7 {
		t.Errorf("the other offset is %d, want 7", got)
	}
	if whole, code := deleteOffset(t, group, name(t, "missing")); whole != 0 || code != 3 {
		t.Errorf("missing topic: errors %d, %d; want 0, 3", whole, code)
	}
	if whole, _ := deleteOffset(t, name(t, "nobody"), topic); whole != 69 {
		t.Errorf("missing group: error %d, want 69", whole)
	}
}
