package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// ConsumerGroupHeartbeat, versions 0 to 1. With group.version at 0 it is unsupported, as by Kafka.

// consumerGroupHeartbeat makes, keeps or ends a membership of a consumer group (KIP-848).
func (h *Handlers) consumerGroupHeartbeat(r *protocol.Request, q *kmsg.ConsumerGroupHeartbeatRequest) protocol.Response {
	if !h.consumerGroups() {
		a := kmsg.NewPtrConsumerGroupHeartbeatResponse()
		a.ErrorCode = int16(protocol.UnsupportedVersion)
		return answered(r, a)
	}
	return answered(r, h.Groups.ConsumerGroupHeartbeat(clientOf(r), q))
}

// consumerGroups says whether the protocol of KIP-848 is on. Groups that have it stay what they are while it is off.
func (h *Handlers) consumerGroups() bool { return h.Features.Level(featureGroups) > 0 }
