package conformance

import (
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func createPartitions(t *testing.T, validateOnly bool, counts map[string]int32) map[string]int16 {
	t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.ValidateOnly, req.TimeoutMillis = validateOnly, 10000
	for topic, n := range counts {
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = topic, n
		req.Topics = append(req.Topics, rt)
	}
	out := map[string]int16{}
	for _, r := range ask[*kmsg.CreatePartitionsResponse](dial(t), req, 3).Topics {
		out[r.Topic] = r.ErrorCode
	}
	return out
}

func deleteTopic(t *testing.T, topic string) {
	t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = 10000, []string{topic}
	if code := ask[*kmsg.DeleteTopicsResponse](dial(t), req, 4).Topics[0].ErrorCode; code != 0 {
		t.Fatalf("delete %s: error %d", topic, code)
	}
}

func TestAddedPartitionsAreNumberedOnAndAnsweredEach(t *testing.T) {
	t.Parallel()
	topic, missing := name(t, "t"), name(t, "missing")
	createTopic(t, topic, 2)
	if got := createPartitions(t, true, map[string]int32{topic: 5}); got[topic] != 0 {
		t.Fatalf("validate only: error %d", got[topic])
	}
	if n := len(metadata(t, 9, false, topic).Topics[0].Partitions); n != 2 {
		t.Fatalf("validate_only made partitions: %d", n)
	}
	got := createPartitions(t, false, map[string]int32{topic: 5, missing: 3})
	if len(got) != 2 || got[topic] != 0 || got[missing] != 3 {
		t.Fatalf("got %v, want one answer a topic", got)
	}
	seen := map[int32]bool{}
	for _, p := range metadata(t, 9, false, topic).Topics[0].Partitions {
		seen[p.Partition] = true
	}
	for i := range int32(5) {
		if !seen[i] {
			t.Fatalf("partition %d is missing: %v", i, seen)
		}
	}
}

func TestErrorsOfTopicsInOneRequestAreIndependent(t *testing.T) {
	t.Parallel()
	good, exists := name(t, "good"), name(t, "exists")
	createTopic(t, exists, 1)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	want := map[string]int16{good: 0, exists: 36, "bad/name": 17, name(t, "partitions"): 37, name(t, "factor"): 38, name(t, "config"): 40}
	for topic := range want {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 1, 1
		switch {
		case strings.Contains(topic, "-partitions-"):
			rt.NumPartitions = 0
		case strings.Contains(topic, "-factor-"):
			rt.ReplicationFactor = 3
		case strings.Contains(topic, "-config-"):
			rc := kmsg.NewCreateTopicsRequestTopicConfig()
			rc.Name, rc.Value = "no.such.key", kmsg.StringPtr("1")
			rt.Configs = append(rt.Configs, rc)
		}
		req.Topics = append(req.Topics, rt)
	}
	answered := map[string]bool{}
	for _, r := range ask[*kmsg.CreateTopicsResponse](dial(t), req, 7).Topics {
		answered[r.Topic] = true
		if r.ErrorCode != want[r.Topic] {
			t.Errorf("%s: error %d, want %d", r.Topic, r.ErrorCode, want[r.Topic])
		}
	}
	if len(answered) != len(want) {
		t.Errorf("only %v were answered", answered)
	}
	if md := metadata(t, 9, false, good); md.Topics[0].ErrorCode != 0 {
		t.Fatalf("the good topic wasn't made: error %d", md.Topics[0].ErrorCode)
	}
}

func TestRecreatedTopicInheritsNothing(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	old := createTopic(t, topic, 1)
	c := dial(t)
	pid := initProducer(t)
	for seq := range int32(3) {
		mustProduce(t, c, topic, batch{producer: &producer{id: pid, seq: seq}, records: plain("old").records})
	}
	deleteTopic(t, topic)
	fresh := createTopic(t, topic, 1)
	if old == fresh {
		t.Fatal("the topic id is the same")
	}
	if got := mustProduce(t, c, topic, batch{producer: &producer{id: pid}, records: plain("new").records}); got != 0 {
		t.Fatalf("first offset %d, want 0", got)
	}
	if got := values(fetchAll(t, c, topic, 0)); len(got) != 1 || got[0] != "new" {
		t.Fatalf("got %q", got)
	}
	req := fetchRequest("", 0, 0)
	req.Topics[0].TopicID = old
	resp := ask[*kmsg.FetchResponse](c, req, 13)
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 100 || resp.Topics[0].TopicID != old {
		t.Fatalf("fetch by the dead id: error %d, id %x", p.ErrorCode, resp.Topics[0].TopicID)
	}
}

func TestDeletedTopicsOffsetsAreGone(t *testing.T) {
	t.Parallel()
	topic, group := name(t, "t"), name(t, "g")
	createTopic(t, topic, 1)
	if code := commitOffset(t, group, topic, 0, 5); code != 0 {
		t.Fatalf("commit: error %d", code)
	}
	deleteTopic(t, topic)
	createTopic(t, topic, 1)
	if got := committed(t, group, topic, 0); got != -1 {
		t.Fatalf("offset %d, want none", got)
	}
}

func TestDeleteRecordsMovesTheLogStart(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	for range 5 {
		mustProduce(t, c, topic, plain("a", "b"))
	}
	trim := func(offset int64) (int64, int16) {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = 10000
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Offset = offset
		rt := kmsg.NewDeleteRecordsRequestTopic()
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		p := ask[*kmsg.DeleteRecordsResponse](c, req, 2).Topics[0].Partitions[0]
		return p.LowWatermark, p.ErrorCode
	}
	if low, code := trim(4); low != 4 || code != 0 {
		t.Fatalf("trim to 4: low watermark %d, error %d", low, code)
	}
	if p := fetch(t, c, topic, 3); p.ErrorCode != 1 {
		t.Fatalf("fetch below the start: error %d, want 1", p.ErrorCode)
	}
	if p := fetch(t, c, topic, 4); p.ErrorCode != 0 || p.LogStartOffset != 4 {
		t.Fatalf("fetch at the start: error %d, start %d", p.ErrorCode, p.LogStartOffset)
	}
	if got := listOffset(t, topic, -2, 0); got.Offset != 4 {
		t.Fatalf("earliest %d, want 4", got.Offset)
	}
	if got := listOffset(t, topic, 0, 0); got.Offset < 4 {
		t.Fatalf("offset for time 0 is %d, below the start", got.Offset)
	}
	if _, code := trim(99); code != 1 {
		t.Fatalf("trim beyond the end: error %d, want 1", code)
	}
	if low, code := trim(-1); low != 10 || code != 0 {
		t.Fatalf("trim to the high watermark: low watermark %d, error %d", low, code)
	}
}

func TestDeleteRecordsIsDecidedByThePresentPolicy(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1, "cleanup.policy", "compact")
	req := kmsg.NewPtrDeleteRecordsRequest()
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Offset = -1
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	if p := ask[*kmsg.DeleteRecordsResponse](dial(t), req, 2).Topics[0].Partitions[0]; p.ErrorCode != 44 {
		t.Fatalf("error %d, want 44", p.ErrorCode)
	}
}

func describeConfigs(t *testing.T, kind kmsg.ConfigResourceType, resource string) map[string]kmsg.DescribeConfigsResponseResourceConfig {
	t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	rr := kmsg.NewDescribeConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kind, resource
	req.Resources = append(req.Resources, rr)
	resp := ask[*kmsg.DescribeConfigsResponse](dial(t), req, 4).Resources[0]
	if resp.ErrorCode != 0 {
		t.Fatalf("describe %s: error %d", resource, resp.ErrorCode)
	}
	out := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, c := range resp.Configs {
		out[c.Name] = c
	}
	return out
}

func TestConfigurationsAreDescribedByKafkasNames(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1, "cleanup.policy", "compact", "max.message.bytes", "50000")
	topicConfigs := describeConfigs(t, kmsg.ConfigResourceTypeTopic, topic)
	for key, want := range map[string]string{"cleanup.policy": "compact", "max.message.bytes": "50000", "segment.ms": "604800000"} {
		if c := topicConfigs[key]; c.Value == nil || *c.Value != want {
			t.Errorf("%s: got %v, want %s", key, c.Value, want)
		}
	}
	if src := topicConfigs["cleanup.policy"].Source; src != kmsg.ConfigSourceDynamicTopicConfig {
		t.Errorf("cleanup.policy: source %d", src)
	}
	node := strconv.Itoa(int(metadata(t, 9, false).Brokers[0].NodeID))
	broker := describeConfigs(t, kmsg.ConfigResourceTypeBroker, node)
	for _, key := range []string{"num.partitions", "log.retention.ms", "message.max.bytes", "auto.create.topics.enable"} {
		if _, ok := broker[key]; !ok {
			t.Errorf("broker doesn't describe %s", key)
		}
	}
}
