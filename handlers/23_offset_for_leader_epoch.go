package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// OffsetForLeaderEpoch, versions 2 to 4. Consumers and replicas are answered alike.

func (h *Handlers) offsetForLeaderEpoch(r *protocol.Request, req *kmsg.OffsetForLeaderEpochRequest) protocol.Response {
	body := kmsg.NewPtrOffsetForLeaderEpochResponse()
	body.Version = req.Version
	for i := range req.Topics {
		t := kmsg.NewOffsetForLeaderEpochResponseTopic()
		t.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			q := &req.Topics[i].Partitions[j]
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition, p.LeaderEpoch, p.EndOffset = q.Partition, -1, -1
			code := h.endOfEpoch(&p, t.Topic, q)
			p.ErrorCode = int16(code)
			t.Partitions = append(t.Partitions, p)
		}
		body.Topics = append(body.Topics, t)
	}
	return reply(r, body)
}

// endOfEpoch answers for one partition.
func (h *Handlers) endOfEpoch(p *kmsg.OffsetForLeaderEpochResponseTopicPartition, name string,
	q *kmsg.OffsetForLeaderEpochRequestTopicPartition,
) protocol.ErrorCode {
	log, err := h.logByName(name, q.Partition)
	if err != nil {
		return codeOf(err)
	}
	if code := checkEpoch(log, q.CurrentLeaderEpoch); code != protocol.None {
		return code
	}
	if _, err = standing(log); err != nil {
		return codeOf(err)
	}
	end := log.EpochEnd(q.LeaderEpoch)
	p.LeaderEpoch, p.EndOffset = end.Epoch, end.EndOffset
	return protocol.None
}
