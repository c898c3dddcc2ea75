package handlers

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// AlterPartitionReassignments, versions 0 to 1. Replicas can only be where they are: on the only broker.

// alterPartitionReassignments checks the assignments asked for; there is nothing to move.
func (h *Handlers) alterPartitionReassignments(r *protocol.Request, q *kmsg.AlterPartitionAssignmentsRequest) protocol.Response {
	a := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	a.Version = q.Version
	a.AllowReplicationFactorChange = q.AllowReplicationFactorChange
	late := checkTime(q.TimeoutMillis)
	switch {
	case len(q.Topics) == 0:
		a.ErrorMessage = kmsg.StringPtr("") // as Kafka has it
	case late != nil:
		a.ErrorCode = int16(codeOf(late))
	}
	for i := range q.Topics {
		topic := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		topic.Topic = validUTF8(q.Topics[i].Topic)
		for _, p := range q.Topics[i].Partitions {
			err := late
			if err == nil {
				err = h.reassignment(q.Topics[i].Topic, p.Partition, p.Replicas)
			}
			answer := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			answer.Partition, answer.ErrorCode, answer.ErrorMessage = p.Partition, int16(codeOf(err)), textOf(err)
			topic.Partitions = append(topic.Partitions, answer)
		}
		a.Topics = append(a.Topics, topic)
	}
	return reply(r, a)
}

// reassignment says what is wrong with an assignment; nil replicas cancel one, and there never is one under way.
func (h *Handlers) reassignment(topic string, partition int32, replicas []int32) error {
	t := h.topicByName(topic)
	switch {
	case t == nil:
		return &wireError{protocol.UnknownTopicOrPartition, fmt.Sprintf("Unable to find a topic named %s.", validUTF8(topic))}
	case partition < 0 || partition >= t.Partitions:
		return &wireError{protocol.UnknownTopicOrPartition, fmt.Sprintf("Unable to find partition %s:%d.", topic, partition)}
	case replicas == nil:
		return &wireError{code: protocol.NoReassignmentInProgress}
	}
	return h.checkReplicas(replicas)
}
