package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// OffsetDelete removes committed offsets, but not of topics that the group's members subscribe to.
func (c *Coordinator) OffsetDelete(req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	answer := kmsg.NewPtrOffsetDeleteResponse()
	answer.Topics = []kmsg.OffsetDeleteResponseTopic{}
	if req.Group == "" {
		answer.ErrorCode = int16(protocol.InvalidGroupID)
		return answer
	}
	g := c.lock(req.Group)
	if g == nil {
		answer.ErrorCode = int16(protocol.GroupIDNotFound)
		return answer
	}
	if code := g.checkOffsetDelete(); code != protocol.None {
		g.mu.Unlock()
		answer.ErrorCode = int16(code)
		return answer
	}
	var deleted []meta.TopicPartition
	topics := c.topics()
	for i := range req.Topics {
		answered, there := g.deletable(topics, &req.Topics[i])
		if len(answered.Partitions) > 0 {
			answer.Topics = append(answer.Topics, answered)
		}
		deleted = append(deleted, there...)
	}
	g.offsets.mu.Lock()
	g.mu.Unlock()
	if c.deleteOffsets(g, deleted) != nil {
		answer.ErrorCode = int16(protocol.CoordinatorNotAvailable)
		answer.Topics = []kmsg.OffsetDeleteResponseTopic{}
	}
	return answer
}

// deletable answers for a topic and lists what is to be deleted of it.
func (g *group) deletable(topics *meta.Topics, asked *kmsg.OffsetDeleteRequestTopic) (answer kmsg.OffsetDeleteResponseTopic, deleted []meta.TopicPartition) {
	answer.Topic = asked.Topic
	topic := topics.Named(asked.Topic)
	subscribed := topic != nil && g.subscribes(topic.Name)
	for i := range asked.Partitions {
		number := asked.Partitions[i].Partition
		code := protocol.None
		switch {
		case topic == nil || number < 0 || number >= topic.Partitions:
			code = protocol.UnknownTopicOrPartition
		case subscribed:
			code = protocol.GroupSubscribedToTopic
		default:
			deleted = append(deleted, meta.TopicPartition{Topic: topic.Name, Partition: number})
		}
		answer.Partitions = append(answer.Partitions, kmsg.OffsetDeleteResponseTopicPartition{Partition: number, ErrorCode: int16(code)})
	}
	return answer, deleted
}

// deleteOffsets removes offsets. The caller holds g.offsets.mu; it is released.
func (c *Coordinator) deleteOffsets(g *group, deleted []meta.TopicPartition) error {
	o := &g.offsets
	if len(deleted) == 0 {
		o.mu.Unlock()
		return nil
	}
	return o.write(c, func(r *round) {
		for _, tp := range deleted {
			r.batch.DeleteCursor(g.id, tp)
		}
	}, func() {
		for _, tp := range deleted {
			o.remove(tp.Topic, tp.Partition)
		}
	})
}

// checkOffsetDelete says whether single offsets may be deleted: of a group with members only if their subscriptions are
// known.
func (g *group) checkOffsetDelete() protocol.ErrorCode {
	if g.classic != nil && g.classic.state != stateEmpty && g.classic.protocolType != consumerProtocolType {
		return protocol.NonEmptyGroup
	}
	return protocol.None
}

// subscribes says whether a member subscribes to the topic.
func (g *group) subscribes(topic string) bool {
	return g.classic != nil && g.classic.subscribes(topic) || g.consumer != nil && g.consumer.subscribes(topic)
}

// TopicsDeleted forgets the offsets of topics. It is called after the store has removed the topics with their cursors, and
// the view of topics shows that. What is being written just then the store leaves out.
func (c *Coordinator) TopicsDeleted(names []string) {
	for _, g := range c.all() {
		o := &g.offsets
		o.mu.Lock()
		o.settle()
		for _, name := range names {
			delete(o.topics, name)
			for _, txn := range o.txns {
				delete(txn.topics, name)
			}
		}
		o.mu.Unlock()
	}
}
