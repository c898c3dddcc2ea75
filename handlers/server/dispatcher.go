package server

import "github.com/kbroker/kbroker/protocol"

// Dispatcher answers requests; *handlers.Handlers implements it. Calls for different connections come concurrently, for
// one connection one after the other.
type Dispatcher interface {
	// Dispatch answers one request. r.Body and what aliases it are gone once it has returned.
	Dispatch(r *protocol.Request) protocol.Response
	// Disconnected says that a connection has ended and that nothing more comes from it.
	Disconnected(c *protocol.Conn)
}
