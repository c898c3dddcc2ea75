package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// SyncGroup, versions 0 to 5. The answer comes once the leader has sent what every member gets.

// syncGroup tells a member of a classic group what it gets.
func (h *Handlers) syncGroup(r *protocol.Request, q *kmsg.SyncGroupRequest) protocol.Response {
	for i := range q.GroupAssignment {
		q.GroupAssignment[i].MemberAssignment = copied(q.GroupAssignment[i].MemberAssignment)
	}
	return later(r, func(ctx context.Context) kmsg.Response {
		return h.Groups.SyncGroup(ctx, q.Version, q)
	})
}
