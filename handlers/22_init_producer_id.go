package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// InitProducerId, versions 0 to 5. Without a transactional id every call gets a new id, whatever id and epoch came with it.
// Transactions are not offered yet: a transactional id is answered with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the one code that
// all clients take for final rather than trying again.

func (h *Handlers) initProducerID(r *protocol.Request, req *kmsg.InitProducerIDRequest) protocol.Response {
	if code := checkInitProducerID(req); code != protocol.None {
		return reply(r, producerIDAnswer(req.Version, -1, code))
	}
	if id, ok := h.data.producerIDs.take(); ok {
		return reply(r, producerIDAnswer(req.Version, id, protocol.None))
	}
	version := req.Version
	return later(r, func(context.Context) kmsg.Response {
		id, err := h.data.producerIDs.reserve()
		if err != nil {
			return producerIDAnswer(version, -1, codeOf(err))
		}
		return producerIDAnswer(version, id, protocol.None)
	})
}

func checkInitProducerID(req *kmsg.InitProducerIDRequest) protocol.ErrorCode {
	switch {
	case (req.ProducerID < 0) != (req.ProducerEpoch < 0):
		return protocol.InvalidRequest
	case req.TransactionalID == nil:
		return protocol.None
	case *req.TransactionalID == "":
		return protocol.InvalidRequest
	default:
		return protocol.TransactionalIDAuthFailed
	}
}

func producerIDAnswer(version int16, id int64, code protocol.ErrorCode) *kmsg.InitProducerIDResponse {
	body := kmsg.NewPtrInitProducerIDResponse()
	body.Version, body.ErrorCode = version, int16(code)
	body.ProducerID, body.ProducerEpoch = id, 0
	if code != protocol.None {
		body.ProducerEpoch = -1
	}
	return body
}
