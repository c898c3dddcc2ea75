package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// Heartbeat, versions 0 to 4.

// heartbeat keeps a member of a classic group alive.
func (h *Handlers) heartbeat(r *protocol.Request, q *kmsg.HeartbeatRequest) protocol.Response {
	return answered(r, h.Groups.Heartbeat(q))
}
