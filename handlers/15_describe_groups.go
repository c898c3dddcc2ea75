package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// DescribeGroups, versions 0 to 6. A group that comes twice is answered once.

// describeGroups answers the state and the members of classic groups.
func (h *Handlers) describeGroups(r *protocol.Request, q *kmsg.DescribeGroupsRequest) protocol.Response {
	q.Groups = distinct(q.Groups)
	a := h.Groups.DescribeGroups(q)
	for i := range a.Groups {
		g := &a.Groups[i]
		g.AuthorizedOperations = noOperations
		if q.IncludeAuthorizedOperations && g.ErrorCode == 0 {
			g.AuthorizedOperations = groupOperations
		}
	}
	return answered(r, a)
}
