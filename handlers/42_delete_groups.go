package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// DeleteGroups, versions 0 to 3.

// deleteGroups removes groups without members, and their offsets.
func (h *Handlers) deleteGroups(r *protocol.Request, q *kmsg.DeleteGroupsRequest) protocol.Response {
	return answered(r, h.Groups.DeleteGroups(q))
}
