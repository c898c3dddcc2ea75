package handlers

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// ElectLeaders, versions 0 to 2. The only broker leads everything, so an election is never needed.

// The kinds of elections.
const (
	electPreferred = 0
	electUnclean   = 1
)

// electLeaders answers that the partitions have the leader they should have.
func (h *Handlers) electLeaders(r *protocol.Request, q *kmsg.ElectLeadersRequest) protocol.Response {
	a := kmsg.NewPtrElectLeadersResponse()
	a.Version = q.Version
	refused := checkTime(q.TimeoutMillis)
	if q.ElectionType != electPreferred && q.ElectionType != electUnclean {
		refused = &wireError{protocol.InvalidRequest, fmt.Sprintf("Unknown election type %d", q.ElectionType)}
	}
	if q.Topics == nil {
		if refused != nil {
			a.ErrorCode = int16(codeOf(refused))
			return reply(r, a)
		}
		// Partitions that need no election are left out when all are meant.
		for _, t := range h.allTopics() {
			topic := kmsg.NewElectLeadersResponseTopic()
			topic.Topic = t.Name
			a.Topics = append(a.Topics, topic)
		}
		return reply(r, a)
	}
	for i := range q.Topics {
		topic := kmsg.NewElectLeadersResponseTopic()
		topic.Topic = validUTF8(q.Topics[i].Topic)
		for _, p := range q.Topics[i].Partitions {
			err := refused
			if err == nil {
				err = h.election(q.Topics[i].Topic, p)
			} else {
				a.ErrorCode = int16(codeOf(refused))
			}
			answer := kmsg.NewElectLeadersResponseTopicPartition()
			answer.Partition, answer.ErrorCode, answer.ErrorMessage = p, int16(codeOf(err)), textOf(err)
			topic.Partitions = append(topic.Partitions, answer)
		}
		a.Topics = append(a.Topics, topic)
	}
	return reply(r, a)
}

// election says why there is nothing to elect.
func (h *Handlers) election(topic string, partition int32) error {
	t := h.topicByName(topic)
	switch {
	case t == nil:
		return &wireError{protocol.UnknownTopicOrPartition, "No such topic as " + validUTF8(topic)}
	case partition < 0 || partition >= t.Partitions:
		return &wireError{protocol.UnknownTopicOrPartition, fmt.Sprintf("No such partition as %s-%d", topic, partition)}
	}
	return &wireError{protocol.ElectionNotNeeded, "Leader election not needed for topic partition."}
}
