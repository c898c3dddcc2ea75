package handlers

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/protocol"
)

// ListConfigResources, versions 0 to 1. Version 0 knows client metrics alone. Topics and the broker are always listed, groups and client
// metrics subscriptions when they have settings of their own.

// listConfigResources lists the resources that have settings.
func (h *Handlers) listConfigResources(r *protocol.Request, q *kmsg.ListConfigResourcesRequest) protocol.Response {
	a := kmsg.NewPtrListConfigResourcesResponse()
	a.Version = q.Version
	a.ConfigResources = []kmsg.ListConfigResourcesResponseConfigResource{}
	kinds := resourceKinds(q)
	for _, kind := range kinds {
		names, ok := h.resourceNames(kind)
		if !ok {
			a.ErrorCode = int16(protocol.UnsupportedVersion)
			a.ConfigResources = a.ConfigResources[:0]
			return reply(r, a)
		}
		for _, name := range names {
			c := kmsg.NewListConfigResourcesResponseConfigResource()
			c.Name, c.Type = name, kind
			a.ConfigResources = append(a.ConfigResources, c)
		}
	}
	return reply(r, a)
}

// resourceKinds are the types of resources to list, each once.
func resourceKinds(q *kmsg.ListConfigResourcesRequest) []int8 {
	if q.Version == 0 {
		return []int8{int8(kmsg.ConfigResourceTypeClientMetrics)}
	}
	if len(q.ResourceTypes) == 0 {
		return []int8{
			int8(kmsg.ConfigResourceTypeTopic), int8(kmsg.ConfigResourceTypeBroker), int8(kmsg.ConfigResourceTypeBrokerLogger),
			int8(kmsg.ConfigResourceTypeClientMetrics), int8(kmsg.ConfigResourceTypeGroupConfig),
		}
	}
	var seen [256]bool
	var kinds []int8
	for _, kind := range q.ResourceTypes {
		if !seen[uint8(kind)] {
			seen[uint8(kind)] = true
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// resourceNames lists the resources of a type; false if there is no such type.
func (h *Handlers) resourceNames(kind int8) (names []string, ok bool) {
	switch kmsg.ConfigResourceType(kind) {
	case kmsg.ConfigResourceTypeTopic:
		for _, t := range h.allTopics() {
			names = append(names, t.Name)
		}
		return names, true
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		return []string{strconv.Itoa(int(h.NodeID))}, true
	case kmsg.ConfigResourceTypeClientMetrics:
		return h.Config.Named(config.KindClientMetrics), true
	case kmsg.ConfigResourceTypeGroupConfig:
		return h.Config.Named(config.KindGroup), true
	default:
		return nil, false
	}
}
