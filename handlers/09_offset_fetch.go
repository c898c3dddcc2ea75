package handlers

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// OffsetFetch, versions 1 to 10. From version 10 on topics come by id: they are named for the coordinator, and its
// answer gets the ids. All of a group's offsets are answered once, however often a request asks for them.

// offsetFetch answers the offsets that groups have committed.
func (h *Handlers) offsetFetch(r *protocol.Request, q *kmsg.OffsetFetchRequest) protocol.Response {
	q.Groups = withoutRepeated(q.Groups)
	if q.Version < 10 {
		return answered(r, h.Groups.OffsetFetch(q))
	}
	unknown := make([][]kmsg.OffsetFetchResponseGroupTopic, len(q.Groups))
	ids := make(map[string]storage.TopicID)
	for i := range q.Groups {
		q.Groups[i].Topics, unknown[i] = h.nameTopics(q.Groups[i].Topics, ids)
	}
	a := h.Groups.OffsetFetch(q)
	for i := range a.Groups {
		g := &a.Groups[i]
		g.Topics = h.identifyTopics(g.Topics, ids)
		if i < len(unknown) && g.ErrorCode == 0 {
			g.Topics = append(g.Topics, unknown[i]...)
		}
	}
	return answered(r, a)
}

// withoutRepeated leaves out what asks once more for all offsets of a group.
func withoutRepeated(groups []kmsg.OffsetFetchRequestGroup) []kmsg.OffsetFetchRequestGroup {
	seen := make(map[string]struct{})
	return slices.DeleteFunc(groups, func(g kmsg.OffsetFetchRequestGroup) bool {
		_, again := seen[g.Group]
		if g.Topics == nil {
			seen[g.Group] = struct{}{}
		}
		return again && g.Topics == nil
	})
}

// nameTopics names the topics of a request, and answers those whose ids no topic has. It adds what it finds to ids. nil,
// which asks for everything, stays nil.
func (h *Handlers) nameTopics(asked []kmsg.OffsetFetchRequestGroupTopic, ids map[string]storage.TopicID) (
	named []kmsg.OffsetFetchRequestGroupTopic, unknown []kmsg.OffsetFetchResponseGroupTopic,
) {
	if asked == nil {
		return nil, nil
	}
	named = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(asked))
	for _, topic := range asked {
		if t := h.topicByID(topic.TopicID); t != nil {
			topic.Topic = t.Name
			ids[t.Name] = t.ID
			named = append(named, topic)
			continue
		}
		a := kmsg.NewOffsetFetchResponseGroupTopic()
		a.TopicID = topic.TopicID
		for _, number := range topic.Partitions {
			p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch = number, -1, -1
			p.Metadata, p.ErrorCode = kmsg.StringPtr(""), int16(protocol.UnknownTopicID)
			a.Partitions = append(a.Partitions, p)
		}
		unknown = append(unknown, a)
	}
	return named, unknown
}

// identifyTopics sets the ids in an answer. Topics that are gone, whose offsets are on their way out, are left out.
func (h *Handlers) identifyTopics(topics []kmsg.OffsetFetchResponseGroupTopic, ids map[string]storage.TopicID) []kmsg.OffsetFetchResponseGroupTopic {
	kept := topics[:0]
	for _, topic := range topics {
		id, asked := ids[topic.Topic]
		if !asked {
			t := h.topicByName(topic.Topic)
			if t == nil {
				continue
			}
			id = t.ID
		}
		topic.TopicID = id
		kept = append(kept, topic)
	}
	return kept
}
