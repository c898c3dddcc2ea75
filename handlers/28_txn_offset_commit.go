package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/protocol"
)

// TxnOffsetCommit, versions 0 to 6. Topics and partitions are looked up here, the coordinator is asked whether the
// transaction has the group, and the group coordinator gets the rest by name. From version 5 on the group needn't have been
// added to the transaction before (KIP-890).

func (h *Handlers) txnOffsetCommit(r *protocol.Request, req *kmsg.TxnOffsetCommitRequest) protocol.Response {
	body := kmsg.NewPtrTxnOffsetCommitResponse()
	body.Version = req.Version
	body.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, 0, len(req.Topics))
	known := *req
	known.Topics = make([]kmsg.TxnOffsetCommitRequestTopic, 0, len(req.Topics))
	var places []*kmsg.TxnOffsetCommitResponseTopicPartition // of the partitions of known, in their order
	for i := range req.Topics {
		asked := &req.Topics[i]
		if len(asked.Partitions) == 0 {
			continue // and isn't answered
		}
		body.Topics = append(body.Topics, kmsg.TxnOffsetCommitResponseTopic{})
		answer := &body.Topics[len(body.Topics)-1]
		t, unknown := h.topicAsked(req.Version >= 6, asked.TopicID, asked.Topic)
		answer.TopicID, answer.Topic = asked.TopicID, validUTF8(asked.Topic)
		answer.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(asked.Partitions))
		passed := kmsg.TxnOffsetCommitRequestTopic{}
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
		h.keepTxnOffsets(&known, places)
	}
	return reply(r, body)
}

// keepTxnOffsets hands offsets to the group, with the coordinator vouching for the transaction meanwhile.
func (h *Handlers) keepTxnOffsets(known *kmsg.TxnOffsetCommitRequest, places []*kmsg.TxnOffsetCommitResponseTopicPartition) {
	code := protocol.InvalidGroupID
	if known.Group != "" {
		codes, release := h.Transactions.Verify(txn.VerifyRequest{
			AddRequest: txn.AddRequest{
				TransactionalID: known.TransactionalID, Producer: txn.Producer{ID: known.ProducerID, Epoch: known.ProducerEpoch},
				Partitions: []txn.Partition{h.offsetsPartition(known.Group)}, Version: transactionsV2,
			},
			Add: known.Version >= 5,
		})
		defer release()
		code = txnOffsetsCode(codes[0], known.Version)
	}
	if code != protocol.None {
		for _, p := range places {
			p.ErrorCode = int16(code)
		}
		return
	}
	answer := h.Groups.TxnOffsetCommit(known)
	for i := range answer.Topics {
		for _, p := range answer.Topics[i].Partitions {
			if len(places) > 0 {
				places[0].ErrorCode = p.ErrorCode
				places = places[1:]
			}
		}
	}
}

// txnOffsetsCode is what a client is told of the coordinator's verdict.
func txnOffsetsCode(code protocol.ErrorCode, version int16) protocol.ErrorCode {
	switch {
	case code == protocol.ProducerFenced:
		return protocol.InvalidProducerEpoch
	case code == protocol.TransactionAbortable && version < 4:
		return protocol.InvalidTxnState
	}
	return code
}
