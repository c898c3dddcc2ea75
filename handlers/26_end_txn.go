package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/protocol"
)

// EndTxn, versions 0 to 5. It is answered once the decision is durable; markers may follow. From version 5 on it is that
// of transactions v2 (KIP-890), whatever the cluster's transaction.version is, as by Kafka.

func (h *Handlers) endTxn(r *protocol.Request, req *kmsg.EndTxnRequest) protocol.Response {
	q := txn.EndRequest{
		TransactionalID: req.TransactionalID, Producer: txn.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
		Commit: req.Commit, Version: transactionsV1,
	}
	if req.Version >= 5 {
		q.Version = transactionsV2
	}
	p, code := h.Transactions.End(q)
	body := kmsg.NewPtrEndTxnResponse()
	body.Version = req.Version
	code = fencedCode(code, req.Version, producerFencedSinceAdd)
	body.ErrorCode, body.ProducerID, body.ProducerEpoch = int16(code), p.ID, p.Epoch
	return reply(r, body)
}
