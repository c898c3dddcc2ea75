package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// ApiVersions, versions 0 to 5. Unlike Kafka, only what is served is listed: the keys of the dispatch table, and the
// features in features.go.

// apiVersions lists what this broker serves.
func (h *Handlers) apiVersions(r *protocol.Request, q *kmsg.ApiVersionsRequest) protocol.Response {
	a := kmsg.NewPtrApiVersionsResponse()
	a.Version = q.Version
	if code := h.checkAPIVersions(q); code != protocol.None {
		a.ErrorCode = int16(code)
		return reply(r, a)
	}
	if q.Version >= 3 && r.Conn != nil {
		r.Conn.SetSoftware(protocol.Software{Name: q.ClientSoftwareName, Version: q.ClientSoftwareVersion})
	}
	for _, e := range h.table.served() {
		a.ApiKeys = append(a.ApiKeys, apiVersionsKey(e))
	}
	if q.Version >= 3 {
		a.FinalizedFeaturesEpoch = h.Features.Epoch()
		a.FinalizedFeatures = h.Features.finalized()
		a.SupportedFeatures = supportedFeatures(q.Version)
	}
	return reply(r, a)
}

// checkAPIVersions checks what the client says of itself (KIP-511), and which cluster and node it means to reach
// (KIP-1242).
func (h *Handlers) checkAPIVersions(q *kmsg.ApiVersionsRequest) protocol.ErrorCode {
	if q.Version >= 3 && (!isSoftware(q.ClientSoftwareName) || !isSoftware(q.ClientSoftwareVersion)) {
		return protocol.InvalidRequest
	}
	if q.Version < 5 {
		return protocol.None
	}
	switch {
	case (q.ClusterID == nil) != (q.NodeID == -1):
		return protocol.InvalidRequest
	case q.ClusterID != nil && (*q.ClusterID != h.Meta.ClusterID() || q.NodeID != h.NodeID):
		return protocol.RebootstrapRequired
	}
	return protocol.None
}

// apiVersionsUnsupported answers a version that isn't known in the oldest form, which every client can read (KIP-511).
func (h *Handlers) apiVersionsUnsupported(r *protocol.Request) protocol.Response {
	a := kmsg.NewPtrApiVersionsResponse()
	a.ErrorCode = int16(protocol.UnsupportedVersion)
	a.ApiKeys = append(a.ApiKeys, apiVersionsKey(h.table[protocol.KeyApiVersions]))
	return reply(r, a)
}

func apiVersionsKey(e entry) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = e.Key, e.Min, e.Max
	return k
}

// isSoftware says whether a client's software name or version has the form that KIP-511 demands: letters, digits, and
// between them '-' and '.'.
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
