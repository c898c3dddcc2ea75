// Package server moves frames: it listens, reads requests within the bounds on memory, hands them to a [Dispatcher] and
// writes the answers in the order of the requests. It knows nothing of what they mean beyond their header.
//
// # One connection
//
// One goroutine reads frames and dispatches them; an answer that is there at once is written by the same goroutine. An
// answer that comes later is written by the connection's second goroutine, started at the first such answer, in order.
// Requests start one after the other: the next one waits until all before it are answered, except that a Produce may
// start while earlier Produces wait for their sync. While a request waits, the reader goes on reading one frame ahead, so a
// peer that goes away is noticed and the wait ends.
package server
