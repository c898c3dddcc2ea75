package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// ConsumerGroupHeartbeat, versions 0 to 1.

// consumerGroupHeartbeat makes, keeps or ends a membership of a consumer group (KIP-848).
func (h *Handlers) consumerGroupHeartbeat(r *protocol.Request, q *kmsg.ConsumerGroupHeartbeatRequest) protocol.Response {
	return answered(r, h.Groups.ConsumerGroupHeartbeat(clientOf(r), q))
}
