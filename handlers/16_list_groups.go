package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// ListGroups, versions 0 to 5.

// listGroups lists the groups of any type.
func (h *Handlers) listGroups(r *protocol.Request, q *kmsg.ListGroupsRequest) protocol.Response {
	return answered(r, h.Groups.ListGroups(q))
}
