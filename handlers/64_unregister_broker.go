package handlers

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// UnregisterBroker, version 0. The only broker can't be unregistered: INVALID_REQUEST (Kafka would fence it).

// unregisterBroker refuses.
func (h *Handlers) unregisterBroker(r *protocol.Request, q *kmsg.UnregisterBrokerRequest) protocol.Response {
	var err error = &wireError{
		protocol.BrokerIDNotRegistered,
		fmt.Sprintf("Broker ID %d is not currently registered", q.BrokerID),
	}
	if q.BrokerID == h.NodeID {
		err = &wireError{protocol.InvalidRequest, "The only broker of a cluster can't be unregistered."}
	}
	a := kmsg.NewPtrUnregisterBrokerResponse()
	a.ErrorCode, a.ErrorMessage = int16(codeOf(err)), textOf(err)
	return reply(r, a)
}
