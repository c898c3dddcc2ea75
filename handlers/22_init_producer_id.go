package handlers

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/protocol"
)

// InitProducerId, versions 0 to 5. Without a transactional id every call gets a new id, whatever id and epoch came with it.

// producerFencedSinceInit is the first version whose clients know PRODUCER_FENCED.
const producerFencedSinceInit = 4

func (h *Handlers) initProducerID(r *protocol.Request, req *kmsg.InitProducerIDRequest) protocol.Response {
	known := req.ProducerID != txn.NoProducerID && req.ProducerEpoch != txn.NoEpoch
	if !known && (req.ProducerID != txn.NoProducerID || req.ProducerEpoch != txn.NoEpoch) {
		return initProducerIDAnswer(r, noProducer(), protocol.InvalidRequest)
	}
	if req.TransactionalID == nil {
		return h.initIdempotent(r)
	}
	q := txn.InitRequest{
		TransactionalID: strings.Clone(*req.TransactionalID), TimeoutMs: req.TransactionTimeoutMillis,
		ExpectedID: req.ProducerID, ExpectedEpoch: req.ProducerEpoch,
	}
	p, code := h.Transactions.InitProducerID(q)
	return initProducerIDAnswer(r, p, fencedCode(code, req.Version, producerFencedSinceInit))
}

// initIdempotent gives a producer without transactions an id.
func (h *Handlers) initIdempotent(r *protocol.Request) protocol.Response {
	if id, ok := h.data.producerIDs.Take(); ok {
		return initProducerIDAnswer(r, txn.Producer{ID: id}, protocol.None)
	}
	version := r.Header.Version
	return later(r, func(context.Context) kmsg.Response {
		id, err := h.data.producerIDs.Next()
		if err != nil {
			return initProducerIDBody(version, noProducer(), codeOf(err))
		}
		return initProducerIDBody(version, txn.Producer{ID: id}, protocol.None)
	})
}

// noProducer goes with errors.
func noProducer() txn.Producer { return txn.Producer{ID: txn.NoProducerID, Epoch: txn.NoEpoch} }

func initProducerIDAnswer(r *protocol.Request, p txn.Producer, code protocol.ErrorCode) protocol.Response {
	return reply(r, initProducerIDBody(r.Header.Version, p, code))
}

func initProducerIDBody(version int16, p txn.Producer, code protocol.ErrorCode) *kmsg.InitProducerIDResponse {
	body := kmsg.NewPtrInitProducerIDResponse()
	body.Version, body.ErrorCode = version, int16(code)
	body.ProducerID, body.ProducerEpoch = p.ID, p.Epoch
	return body
}
