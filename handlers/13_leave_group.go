package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// LeaveGroup, versions 0 to 5.

// leaveGroup removes members from a group.
func (h *Handlers) leaveGroup(r *protocol.Request, q *kmsg.LeaveGroupRequest) protocol.Response {
	return answered(r, h.Groups.LeaveGroup(q.Version, q))
}
