package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// ConsumerGroupDescribe, versions 0 to 1. A group that comes twice is answered once.

// consumerGroupDescribe answers the state and the members of consumer groups (KIP-848).
func (h *Handlers) consumerGroupDescribe(r *protocol.Request, q *kmsg.ConsumerGroupDescribeRequest) protocol.Response {
	q.Groups = distinct(q.Groups)
	a := h.Groups.ConsumerGroupDescribe(q)
	for i := range a.Groups {
		g := &a.Groups[i]
		g.AuthorizedOperations = noOperations
		if q.IncludeAuthorizedOperations && g.ErrorCode == 0 {
			g.AuthorizedOperations = groupOperations
		}
	}
	return answered(r, a)
}
