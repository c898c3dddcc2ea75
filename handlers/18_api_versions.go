package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// ApiVersions 0-5. Only what works is advertised: keys come from the dispatch table. Finalized features that this broker
// doesn't serve are left out.
func (h *Handlers) apiVersions(r *protocol.Request, q *kmsg.ApiVersionsRequest) protocol.Response {
	a := kmsg.NewPtrApiVersionsResponse()
	a.Version = q.Version
	if q.Version >= 3 && (!isSoftware(q.ClientSoftwareName) || !isSoftware(q.ClientSoftwareVersion)) {
		a.ErrorCode = int16(protocol.InvalidRequest)
		return reply(r, a)
	}
	for _, e := range h.table.sorted() {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = e.key, e.min, e.max
		a.ApiKeys = append(a.ApiKeys, k)
	}
	return reply(r, a)
}

// apiVersionsUnsupported answers a version that isn't known in the oldest form, which every client can read (KIP-511).
func (h *Handlers) apiVersionsUnsupported(r *protocol.Request) protocol.Response {
	a := kmsg.NewPtrApiVersionsResponse()
	a.ErrorCode = int16(protocol.UnsupportedVersion)
	e := h.table[int16(kmsg.ApiVersions)]
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = e.key, e.min, e.max
	a.ApiKeys = append(a.ApiKeys, k)
	return reply(r, a)
}

// isSoftware says whether a client's software name or version has the form that KIP-511 demands.
func isSoftware(s string) bool {
	for i := range len(s) {
		c := s[i]
		inner := i > 0 && i < len(s)-1 && (c == '-' || c == '.')
		if !inner && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != ""
}
