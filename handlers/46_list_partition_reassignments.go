package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// ListPartitionReassignments, version 0. None is ever under way.

// listPartitionReassignments answers an empty list.
func (h *Handlers) listPartitionReassignments(r *protocol.Request, _ *kmsg.ListPartitionReassignmentsRequest) protocol.Response {
	return reply(r, kmsg.NewPtrListPartitionReassignmentsResponse())
}
