package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// JoinGroup, versions 0 to 9. The answer comes once the group has come together.

// joinGroup makes the sender a member of a classic group.
func (h *Handlers) joinGroup(r *protocol.Request, q *kmsg.JoinGroupRequest) protocol.Response {
	client := clientOf(r)
	for i := range q.Protocols {
		q.Protocols[i].Metadata = copied(q.Protocols[i].Metadata)
	}
	return later(r, func(ctx context.Context) kmsg.Response {
		return h.Groups.JoinGroup(ctx, client, q.Version, q)
	})
}
