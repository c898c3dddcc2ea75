package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// AlterConfigs, versions 0 to 2. The older way: what isn't named goes back to its default. A resource that stands twice in a request is
// refused; Apache Kafka never answers that.

// alterConfigs replaces the settings of resources.
func (h *Handlers) alterConfigs(r *protocol.Request, q *kmsg.AlterConfigsRequest) protocol.Response {
	all := make([]alteration, len(q.Resources))
	for i := range q.Resources {
		from := &q.Resources[i]
		a := &all[i]
		a.kind, a.name, a.replace = from.ResourceType, from.ResourceName, true
		for _, c := range from.Configs {
			a.ops = append(a.ops, configOp{op: kmsg.IncrementalAlterConfigOpSet, name: c.Name, value: c.Value})
		}
	}
	answer := kmsg.NewPtrAlterConfigsResponse()
	answer.Version = q.Version
	for i, err := range h.alterAll(all, q.ValidateOnly) {
		a := kmsg.NewAlterConfigsResponseResource()
		a.ErrorCode, a.ErrorMessage = int16(codeOf(err)), textOf(err)
		a.ResourceType, a.ResourceName = all[i].kind, validUTF8(all[i].name)
		answer.Resources = append(answer.Resources, a)
	}
	return reply(r, answer)
}
