package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// IncrementalAlterConfigs, versions 0 to 1. What is changed is durable and holds when the answer leaves.

// incrementalAlterConfigs changes single settings of resources.
func (h *Handlers) incrementalAlterConfigs(r *protocol.Request, q *kmsg.IncrementalAlterConfigsRequest) protocol.Response {
	all := make([]alteration, len(q.Resources))
	for i := range q.Resources {
		from := &q.Resources[i]
		a := &all[i]
		a.kind, a.name = from.ResourceType, from.ResourceName
		for _, c := range from.Configs {
			a.ops = append(a.ops, configOp{op: c.Op, name: c.Name, value: c.Value})
		}
	}
	answer := kmsg.NewPtrIncrementalAlterConfigsResponse()
	answer.Version = q.Version
	for i, err := range h.alterAll(all, q.ValidateOnly) {
		a := kmsg.NewIncrementalAlterConfigsResponseResource()
		a.ErrorCode, a.ErrorMessage = int16(codeOf(err)), textOf(err)
		a.ResourceType, a.ResourceName = all[i].kind, validUTF8(all[i].name)
		answer.Resources = append(answer.Resources, a)
	}
	return reply(r, answer)
}
