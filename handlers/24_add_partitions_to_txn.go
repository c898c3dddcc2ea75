package handlers

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/protocol"
)

// AddPartitionsToTxn, versions 0 to 5. From version 4 on it is what Kafka's brokers ask each other, for several
// transactions at once. A partition that isn't there keeps the others of its transaction out.

// producerFencedSinceAdd is the first version whose clients know PRODUCER_FENCED; AddOffsetsToTxn and EndTxn learnt it in
// the same.
const producerFencedSinceAdd = 2

func (h *Handlers) addPartitionsToTxn(r *protocol.Request, req *kmsg.AddPartitionsToTxnRequest) protocol.Response {
	body := kmsg.NewPtrAddPartitionsToTxnResponse()
	body.Version = req.Version
	if req.Version >= 4 {
		for i := range req.Transactions {
			body.Transactions = append(body.Transactions, h.addToTransaction(req.Version, &req.Transactions[i]))
		}
		return reply(r, body)
	}
	asked := kmsg.AddPartitionsToTxnRequestTransaction{
		TransactionalID: req.TransactionalID, ProducerID: req.ProducerID, ProducerEpoch: req.ProducerEpoch,
	}
	for _, t := range req.Topics {
		asked.Topics = append(asked.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	for _, t := range h.addToTransaction(req.Version, &asked).Topics {
		answer := kmsg.AddPartitionsToTxnResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			answer.Partitions = append(answer.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{
				Partition: p.Partition, ErrorCode: p.ErrorCode,
			})
		}
		body.Topics = append(body.Topics, answer)
	}
	return reply(r, body)
}

// addToTransaction puts the partitions into one transaction, or says whether they are in it.
func (h *Handlers) addToTransaction(version int16, asked *kmsg.AddPartitionsToTxnRequestTransaction) kmsg.AddPartitionsToTxnResponseTransaction {
	q := txn.VerifyRequest{AddRequest: txn.AddRequest{
		TransactionalID: asked.TransactionalID, Producer: txn.Producer{ID: asked.ProducerID, Epoch: asked.ProducerEpoch},
		Version: transactionsV1,
	}}
	if version >= 4 {
		q.Version = transactionsV2
	}
	codes, failed := h.checkPartitions(version, asked, &q.AddRequest)
	switch {
	case failed:
	case asked.VerifyOnly:
		var release func()
		codes, release = h.Transactions.Verify(q)
		release()
	default:
		code := fencedCode(h.Transactions.AddPartitions(q.AddRequest), version, producerFencedSinceAdd)
		for i := range codes {
			codes[i] = code
		}
	}
	return addAnswer(asked, codes)
}

// checkPartitions lists the partitions of a transaction in q and says of each what is wrong, if anything is with any.
// Clients may not add those of internal topics.
func (h *Handlers) checkPartitions(version int16, asked *kmsg.AddPartitionsToTxnRequestTransaction, q *txn.AddRequest) (codes []protocol.ErrorCode, failed bool) {
	for i := range asked.Topics {
		topic := h.topicByName(asked.Topics[i].Topic)
		internal := version < 4 && topic != nil && h.internal.has(topic)
		for _, number := range asked.Topics[i].Partitions {
			q.Partitions = append(q.Partitions, txn.Partition{Topic: asked.Topics[i].Topic, Number: number})
			code := protocol.OperationNotAttempted
			switch {
			case internal:
				code, failed = protocol.TopicAuthorizationFailed, true
			case topic == nil || number < 0 || number >= topic.Partitions:
				code, failed = protocol.UnknownTopicOrPartition, true
			}
			codes = append(codes, code)
		}
	}
	return codes, failed
}

// addAnswer puts codes where they belong.
func addAnswer(asked *kmsg.AddPartitionsToTxnRequestTransaction, codes []protocol.ErrorCode) kmsg.AddPartitionsToTxnResponseTransaction {
	a := kmsg.AddPartitionsToTxnResponseTransaction{TransactionalID: strings.Clone(asked.TransactionalID)}
	for i := range asked.Topics {
		t := kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: validUTF8(asked.Topics[i].Topic)}
		for _, number := range asked.Topics[i].Partitions {
			t.Partitions = append(t.Partitions, kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{
				Partition: number, ErrorCode: int16(codes[0]),
			})
			codes = codes[1:]
		}
		a.Topics = append(a.Topics, t)
	}
	return a
}
