package handlers

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// FindCoordinator, versions 0 to 6. One broker coordinates everything, so the answer depends on nothing but the key's
// form. A key that comes twice is answered once.

// The kinds of coordinators.
const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
	coordinatorShare       = 2 // KIP-932, from version 6 on
)

// findCoordinator answers where the coordinators of groups, transactional ids and share partitions are.
func (h *Handlers) findCoordinator(r *protocol.Request, q *kmsg.FindCoordinatorRequest) protocol.Response {
	a := kmsg.NewPtrFindCoordinatorResponse()
	a.Version = q.Version
	if q.Version >= 4 {
		for _, key := range distinct(q.CoordinatorKeys) {
			a.Coordinators = append(a.Coordinators, h.coordinator(r, q, key))
		}
		return reply(r, a)
	}
	c := h.coordinator(r, q, q.CoordinatorKey)
	a.NodeID, a.Host, a.Port, a.ErrorCode, a.ErrorMessage = c.NodeID, c.Host, c.Port, c.ErrorCode, c.ErrorMessage
	if c.ErrorCode == 0 {
		a.ErrorMessage = kmsg.StringPtr("NONE")
	}
	return reply(r, a)
}

// coordinator answers one key.
func (h *Handlers) coordinator(r *protocol.Request, q *kmsg.FindCoordinatorRequest, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID, c.Port, c.ErrorMessage = key, -1, -1, kmsg.StringPtr("")
	switch q.CoordinatorType {
	case coordinatorGroup, coordinatorTransaction:
	case coordinatorShare:
		if q.Version < 6 || !isShareKey(key) {
			c.ErrorCode = int16(protocol.InvalidRequest)
			return c
		}
	default:
		c.ErrorCode = int16(protocol.InvalidRequest)
		c.ErrorMessage = kmsg.StringPtr("There is no coordinator of type " + strconv.Itoa(int(q.CoordinatorType)))
		return c
	}
	host, port, ok := h.Endpoints(r.Conn.Listener)
	if !ok {
		c.ErrorCode = int16(protocol.CoordinatorNotAvailable)
		return c
	}
	c.NodeID, c.Host, c.Port = h.NodeID, host, port
	return c
}

// isShareKey says whether a key is a group id, a topic id in base64 and a partition, with colons between them. The group
// id may contain colons.
func isShareKey(key string) bool {
	rest, partition, ok := cutLast(key, ":")
	if !ok {
		return false
	}
	group, topic, ok := cutLast(rest, ":")
	if !ok || group == "" {
		return false
	}
	id, err := base64.RawURLEncoding.DecodeString(topic)
	if err != nil || len(id) != 16 {
		return false
	}
	n, err := strconv.ParseInt(partition, 10, 32)
	return err == nil && n >= 0
}

// cutLast cuts s at the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}
