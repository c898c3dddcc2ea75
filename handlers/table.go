package handlers

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// handler answers a decoded request.
type handler func(h *Handlers, r *protocol.Request, body kmsg.Request) protocol.Response

// on adapts a handler of one request type to the table.
func on[R kmsg.Request](f func(*Handlers, *protocol.Request, R) protocol.Response) handler {
	return func(h *Handlers, r *protocol.Request, body kmsg.Request) protocol.Response {
		typed, ok := body.(R)
		if !ok {
			return protocol.Response{Close: true, Reason: fmt.Errorf("key %d decoded as %T", r.Header.Key, body)}
		}
		return f(h, r, typed)
	}
}
