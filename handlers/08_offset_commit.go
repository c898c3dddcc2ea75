package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// OffsetCommit, versions 2 to 10. Topics and partitions are looked up here, and what isn't there answered; the
// coordinator gets the rest by name. Offsets aren't checked: those beyond the end are stored, too. The answer is in the
// request's order.

// offsetCommit stores the offsets that a group has reached.
func (h *Handlers) offsetCommit(r *protocol.Request, q *kmsg.OffsetCommitRequest) protocol.Response {
	a := kmsg.NewPtrOffsetCommitResponse()
	a.Version = q.Version
	a.Topics = make([]kmsg.OffsetCommitResponseTopic, 0, len(q.Topics))
	known := *q
	known.Topics = make([]kmsg.OffsetCommitRequestTopic, 0, len(q.Topics))
	var places []*kmsg.OffsetCommitResponseTopicPartition // of the partitions of known, in their order
	for i := range q.Topics {
		asked := &q.Topics[i]
		if len(asked.Partitions) == 0 {
			continue // and isn't answered
		}
		a.Topics = append(a.Topics, kmsg.OffsetCommitResponseTopic{})
		answer := &a.Topics[len(a.Topics)-1]
		t, unknown := h.topicAsked(q.Version >= 10, asked.TopicID, asked.Topic)
		answer.TopicID, answer.Topic = asked.TopicID, validUTF8(asked.Topic)
		answer.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(asked.Partitions))
		passed := kmsg.OffsetCommitRequestTopic{}
		for j, p := range asked.Partitions {
			answer.Partitions[j].Partition = p.Partition
			switch {
			case t == nil:
				answer.Partitions[j].ErrorCode = int16(unknown)
			case p.Partition < 0 || p.Partition >= t.Partitions:
				answer.Partitions[j].ErrorCode = int16(protocol.UnknownTopicOrPartition)
			default:
				passed.Partitions = append(passed.Partitions, p)
				places = append(places, &answer.Partitions[j])
			}
		}
		if len(passed.Partitions) > 0 {
			passed.Topic, passed.TopicID = t.Name, t.ID
			known.Topics = append(known.Topics, passed)
		}
	}
	if len(places) > 0 {
		placeCodes(places, h.Groups.OffsetCommit(&known))
	}
	return reply(r, a)
}

// topicAsked finds a topic by its id, or by its name below the versions with ids. If there is none, code says so.
func (h *Handlers) topicAsked(byID bool, id [16]byte, name string) (t *meta.Topic, code protocol.ErrorCode) {
	if byID {
		return h.topicByID(id), protocol.UnknownTopicID
	}
	return h.topicByName(name), protocol.UnknownTopicOrPartition
}

// placeCodes puts the coordinator's codes where they belong; it answers what it was passed, in order.
func placeCodes(places []*kmsg.OffsetCommitResponseTopicPartition, a *kmsg.OffsetCommitResponse) {
	for i := range a.Topics {
		for _, p := range a.Topics[i].Partitions {
			if len(places) == 0 {
				return
			}
			places[0].ErrorCode = p.ErrorCode
			places = places[1:]
		}
	}
}
