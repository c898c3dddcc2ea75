package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// DescribeProducers, version 0. A partition that comes twice is answered once.

func (h *Handlers) describeProducers(r *protocol.Request, req *kmsg.DescribeProducersRequest) protocol.Response {
	body := kmsg.NewPtrDescribeProducersResponse()
	body.Version = req.Version
	seen := make(map[named]struct{})
	for i := range req.Topics {
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic = req.Topics[i].Topic
		for _, number := range req.Topics[i].Partitions {
			n := named{t.Topic, number}
			if _, twice := seen[n]; twice {
				continue
			}
			seen[n] = struct{}{}
			p := h.producersOf(t.Topic, number)
			t.Partitions = append(t.Partitions, p)
		}
		body.Topics = append(body.Topics, t)
	}
	return reply(r, body)
}

// producersOf answers for one partition. A text comes only with errors of the topic, as from Kafka.
func (h *Handlers) producersOf(name string, number int32) kmsg.DescribeProducersResponseTopicPartition {
	p := kmsg.NewDescribeProducersResponseTopicPartition()
	p.Partition = number
	p.ActiveProducers = []kmsg.DescribeProducersResponseTopicPartitionActiveProducer{}
	t := h.topicByName(name)
	if t == nil {
		err := checkTopicName(name)
		if err == nil {
			err = errUnknownTopic
		}
		p.ErrorCode, p.ErrorMessage = int16(codeOf(err)), textOf(err)
		return p
	}
	log, err := h.log(t, number)
	if err != nil {
		p.ErrorCode = int16(codeOf(err))
		return p
	}
	for _, s := range log.Producers() {
		p.ActiveProducers = append(p.ActiveProducers, activeProducer(s))
	}
	return p
}

func activeProducer(s storage.ProducerState) kmsg.DescribeProducersResponseTopicPartitionActiveProducer {
	a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
	a.ProducerID, a.ProducerEpoch, a.LastSequence = s.ProducerID, int32(s.Epoch), s.LastSequence
	a.LastTimestamp, a.CoordinatorEpoch, a.CurrentTxnStartOffset = s.LastTimestamp, s.CoordinatorEpoch, s.TxnStartOffset
	return a
}
