package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// OffsetDelete, version 0.

// offsetDelete removes offsets of a group from topics that it doesn't read.
func (h *Handlers) offsetDelete(r *protocol.Request, q *kmsg.OffsetDeleteRequest) protocol.Response {
	return answered(r, h.Groups.OffsetDelete(q))
}
