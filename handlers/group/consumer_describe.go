package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// ConsumerGroupDescribe describes consumer groups. Authorized operations are for the caller to fill in.
func (c *Coordinator) ConsumerGroupDescribe(req *kmsg.ConsumerGroupDescribeRequest) *kmsg.ConsumerGroupDescribeResponse {
	answer := kmsg.NewPtrConsumerGroupDescribeResponse()
	answer.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(req.Groups))
	for i, id := range req.Groups {
		answer.Groups[i] = c.describeConsumer(id)
	}
	return answer
}

func (c *Coordinator) describeConsumer(id string) kmsg.ConsumerGroupDescribeResponseGroup {
	d := kmsg.NewConsumerGroupDescribeResponseGroup()
	d.Group = id
	d.Members = []kmsg.ConsumerGroupDescribeResponseGroupMember{}
	if id == "" {
		d.ErrorCode = int16(protocol.InvalidGroupID)
		return d
	}
	g := c.lock(id)
	if g == nil {
		d.ErrorCode, d.ErrorMessage = int16(protocol.GroupIDNotFound), kmsg.StringPtr("Group "+id+" not found.")
		return d
	}
	defer g.mu.Unlock()
	if g.consumer == nil {
		d.ErrorCode, d.ErrorMessage = int16(protocol.GroupIDNotFound), kmsg.StringPtr("Group "+id+" is not a consumer group.")
		return d
	}
	g.consumer.describe(c, &d)
	return d
}

func (k *consumer) describe(c *Coordinator, d *kmsg.ConsumerGroupDescribeResponseGroup) {
	view, members := c.topics(), k.inOrder()
	d.State, d.Epoch, d.AssignmentEpoch = k.stateName(), k.epoch, k.assignmentEpoch
	d.AssignorName = preferredAssignor(c.config().Consumer.Assignors, members)
	for _, m := range members {
		d.Members = append(d.Members, m.describe(view))
	}
}

func (m *consumerMember) describe(view *meta.Topics) kmsg.ConsumerGroupDescribeResponseGroupMember {
	d := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	d.MemberID, d.InstanceID, d.RackID, d.MemberEpoch = m.id, m.instance, m.rack, m.epoch
	d.ClientID, d.ClientHost = m.clientID, m.clientHost
	d.SubscribedTopics, d.SubscribedTopicRegex = append([]string{}, m.names...), &m.regex
	d.Assignment = describeAssignment(m.assigned, m.revoking, view)
	d.TargetAssignment = describeAssignment(m.target, nil, view)
	d.MemberType = 1
	if m.classic != nil {
		d.MemberType = 0
	}
	return d
}

// describeAssignment names the topics; those that are gone are left out. What is being revoked comes last.
func describeAssignment(a, revoking assignment, view *meta.Topics) kmsg.Assignment {
	d := kmsg.NewAssignment()
	d.TopicPartitions = []kmsg.AssignmentTopicPartition{}
	for _, id := range a.union(revoking).topics() {
		topic := view.WithID(id)
		if topic == nil {
			continue
		}
		t := kmsg.NewAssignmentTopicPartition()
		t.TopicID, t.Topic, t.Partitions = id, topic.Name, append(a.numbers(id), revoking.numbers(id)...)
		d.TopicPartitions = append(d.TopicPartitions, t)
	}
	return d
}
