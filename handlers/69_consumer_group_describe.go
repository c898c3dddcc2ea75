package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// ConsumerGroupDescribe, versions 0 to 1. A group that comes twice is answered once. With group.version at 0 it is unsupported,
// as by Kafka.

// consumerGroupDescribe answers the state and the members of consumer groups (KIP-848).
func (h *Handlers) consumerGroupDescribe(r *protocol.Request, q *kmsg.ConsumerGroupDescribeRequest) protocol.Response {
	q.Groups = distinct(q.Groups)
	if !h.consumerGroups() {
		return answered(r, groupsUndescribed(q.Groups, protocol.UnsupportedVersion))
	}
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

// groupsUndescribed answers each group with a code.
func groupsUndescribed(groups []string, code protocol.ErrorCode) *kmsg.ConsumerGroupDescribeResponse {
	a := kmsg.NewPtrConsumerGroupDescribeResponse()
	for _, id := range groups {
		g := kmsg.NewConsumerGroupDescribeResponseGroup()
		g.Group, g.ErrorCode, g.AuthorizedOperations = validUTF8(id), int16(code), noOperations
		a.Groups = append(a.Groups, g)
	}
	return a
}
