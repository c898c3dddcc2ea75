package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// OffsetFetch reads committed offsets. What isn't there is no error: offset -1.
func (c *Coordinator) OffsetFetch(req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	answer := kmsg.NewPtrOffsetFetchResponse()
	if req.Version >= 8 {
		answer.Groups = make([]kmsg.OffsetFetchResponseGroup, len(req.Groups))
		for i := range req.Groups {
			answer.Groups[i] = c.fetchGroup(&req.Groups[i], req.RequireStable)
		}
		return answer
	}
	asked := kmsg.NewOffsetFetchRequestGroup()
	asked.Group = req.Group
	if req.Topics != nil {
		asked.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(req.Topics))
	}
	for i := range req.Topics {
		asked.Topics[i].Topic, asked.Topics[i].Partitions = req.Topics[i].Topic, req.Topics[i].Partitions
	}
	found := c.fetchGroup(&asked, req.RequireStable)
	answer.ErrorCode = found.ErrorCode
	answer.Topics = make([]kmsg.OffsetFetchResponseTopic, len(found.Topics))
	for i := range found.Topics {
		answer.Topics[i].Topic = found.Topics[i].Topic
		answer.Topics[i].Partitions = make([]kmsg.OffsetFetchResponseTopicPartition, len(found.Topics[i].Partitions))
		for j := range found.Topics[i].Partitions {
			answer.Topics[i].Partitions[j] = kmsg.OffsetFetchResponseTopicPartition(found.Topics[i].Partitions[j])
		}
	}
	return answer
}

// fetchGroup reads the offsets of one group: of the topics asked for, or of all when they are null.
func (c *Coordinator) fetchGroup(asked *kmsg.OffsetFetchRequestGroup, stable bool) kmsg.OffsetFetchResponseGroup {
	answer := kmsg.NewOffsetFetchResponseGroup()
	answer.Group = asked.Group
	answer.Topics = []kmsg.OffsetFetchResponseGroupTopic{}
	var o *offsets
	if g := c.lock(asked.Group); g != nil {
		code := g.checkFetch(asked)
		g.mu.Unlock()
		if code != protocol.None {
			answer.ErrorCode = int16(code)
			return answer
		}
		o = &g.offsets
		o.mu.Lock()
		defer o.mu.Unlock()
	} else {
		o = &offsets{}
	}
	if asked.Topics == nil {
		answer.Topics = o.readAll(stable)
		return answer
	}
	answer.Topics = make([]kmsg.OffsetFetchResponseGroupTopic, len(asked.Topics))
	for i := range asked.Topics {
		topic := &asked.Topics[i]
		answer.Topics[i].Topic, answer.Topics[i].TopicID = topic.Topic, topic.TopicID
		answer.Topics[i].Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(topic.Partitions))
		for j, partition := range topic.Partitions {
			answer.Topics[i].Partitions[j] = o.read(topic.Topic, partition, stable)
		}
	}
	return answer
}

// readAll reads everything committed, in the order of topics and partitions.
func (o *offsets) readAll(stable bool) []kmsg.OffsetFetchResponseGroupTopic {
	all := make([]kmsg.OffsetFetchResponseGroupTopic, 0, len(o.topics))
	for _, name := range o.names() {
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic = name
		for _, p := range o.topics[name] {
			topic.Partitions = append(topic.Partitions, o.read(name, p.partition, stable))
		}
		all = append(all, topic)
	}
	return all
}

// read is one partition's answer. With stable, an offset that an open transaction may replace is withheld, so that a
// consumer doesn't begin below what the transaction is about to commit (KIP-447).
func (o *offsets) read(topic string, partition int32, stable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	answer := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	answer.Partition, answer.Offset, answer.LeaderEpoch = partition, -1, -1
	answer.Metadata = kmsg.StringPtr("")
	if stable && o.pending(topic, partition) {
		answer.ErrorCode = int16(protocol.UnstableOffsetCommit)
		return answer
	}
	if cursor, found := o.get(topic, partition); found {
		answer.Offset, answer.LeaderEpoch = cursor.Offset, cursor.LeaderEpoch
		answer.Metadata = &cursor.Metadata
	}
	return answer
}

// checkFetch says whether the sender may read: only who claims to be a member of a consumer group can be refused.
func (g *group) checkFetch(asked *kmsg.OffsetFetchRequestGroup) protocol.ErrorCode {
	if g.consumer == nil || asked.MemberID == nil && asked.MemberEpoch < 0 {
		return protocol.None
	}
	if asked.MemberID == nil {
		return protocol.UnknownMemberID
	}
	m := g.consumer.members[*asked.MemberID]
	switch {
	case m == nil:
		return protocol.UnknownMemberID
	case m.epoch != asked.MemberEpoch:
		return m.stale()
	default:
		return protocol.None
	}
}
