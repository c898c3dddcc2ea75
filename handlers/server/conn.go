package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol"
)

// errRequestCost is the reason for closing a connection whose request could take more memory than all may.
var errRequestCost = errors.New("decoding the request could take more memory than a connection may")

// errNoResponse is the reason for closing a connection when a dispatcher gives back none of what a response can be.
var errNoResponse = errors.New("no answer")

// conn is one connection. Its reader goroutine runs serve; see the package's comment.
type conn struct {
	server *Server
	net    net.Conn
	info   *protocol.Conn
	in     frameReader
	pipe   pipeline

	done   chan struct{} // closed by fail
	failed atomic.Bool

	// When the janitor closes the connection, in nanoseconds since the server's start; 0 is never. The reader sets the first
	// two when it waits for bytes, whoever writes the third. answered is when the pipeline last wrote.
	idleDue, frameDue, writeDue, answered atomic.Int64

	// What follows is the reader's.
	spare    *protocol.Request // used again when nothing can have kept it
	decoding hold
	large    bool // has the place of large requests
	partial  bool // frameDue is set

	w writer
}

func newConn(s *Server, nc net.Conn, info *protocol.Conn) *conn {
	c := &conn{server: s, net: nc, info: info, done: make(chan struct{})}
	c.in = frameReader{conn: nc, server: s, done: c.done, beforeGrow: c.beforeGrow, parked: c.parked}
	c.in.init()
	c.pipe.init(c, s.opts.MaxPending)
	c.w = writer{conn: c}
	return c
}

// serve reads requests until the connection ends.
func (c *conn) serve() {
	defer c.end()
	for !c.server.draining.Load() {
		frame, err := c.in.next()
		if err != nil {
			c.readFailed(err)
			break
		}
		if !c.request(frame) {
			break
		}
	}
	if c.server.draining.Load() && c.flush() {
		c.pipe.close() // lets those that wait answer
	}
}

// flush writes what the reader has gathered; while answers are pending it has nothing. It is false when the connection is
// gone.
func (c *conn) flush() bool { return !c.pipe.idle() || c.w.flush() }

// request deals with one frame. It is false when the connection is to be closed.
func (c *conn) request(frame []byte) bool {
	received := c.server.clock.Now()
	c.busy()
	header, body, err := protocol.ParseRequestHeader(frame)
	if err != nil {
		c.malformed(err)
		return false
	}
	if !c.turn(header.Key, received) {
		return false
	}
	if !c.admit(&header, body) {
		return false
	}
	resp := c.dispatch(header, body, received)
	c.releaseDecoding()
	size := len(frame) + lengthBytes
	c.in.consumed()
	s := slot{resp: resp, key: header.Key, bytesIn: size, received: received}
	return c.route(&s)
}

// busy says that no bytes are waited for.
func (c *conn) busy() {
	c.idleDue.Store(0)
	if c.partial {
		c.partial = false
		c.frameDue.Store(0)
	}
}

// turn waits until a request may start. It is false when it won't.
func (c *conn) turn(key int16, now time.Time) bool {
	if c.pipe.idle() {
		return !c.w.stale(now) || c.w.flush()
	}
	return c.pipe.wait(key == protocol.KeyProduce) && !c.server.draining.Load()
}

// admit waits for the memory that the decoded body may take, which is held until the request is dispatched: what is decoded
// lives as long as its handler works on it. It is false when the connection is to be closed.
func (c *conn) admit(h *protocol.RequestHeader, body []byte) bool {
	cost := decodeCost(h, body)
	if cost > c.server.opts.MaxConnDecodeBytes {
		c.malformed(fmt.Errorf("%w: %s version %d of %d bytes", errRequestCost, keyName(h.Key), h.Version, len(body)))
		return false
	}
	if len(body) > largeBytes && h.Key != protocol.KeyProduce {
		select {
		case c.server.largeTurn <- struct{}{}:
			c.large = true
		case <-c.done:
			return false
		}
	}
	if !c.server.decoding.acquire(c.done, &c.decoding, cost) {
		c.releaseDecoding()
		return false
	}
	return true
}

// releaseDecoding gives back what admit took; more calls do nothing.
func (c *conn) releaseDecoding() {
	c.server.decoding.release(&c.decoding)
	if c.large {
		c.large = false
		<-c.server.largeTurn
	}
}

// dispatch has a request answered. A panic is turned into a closed connection.
func (c *conn) dispatch(h protocol.RequestHeader, body []byte, received time.Time) (resp protocol.Response) {
	r := c.spare
	c.spare = nil
	if r == nil {
		r = &protocol.Request{}
	}
	*r = protocol.Request{Header: h, Body: body, Conn: c.info, Received: received}
	defer func() {
		if p := recover(); p != nil {
			resp = c.panicked(h.Key, p)
		} else if resp.Later == nil {
			c.spare = r
		}
	}()
	return c.server.opts.Dispatcher.Dispatch(r)
}

// panicked logs a panic of a handler.
func (c *conn) panicked(key int16, p any) protocol.Response {
	c.server.metrics.panics.Add(1)
	c.server.opts.Logger.Error("panic while a request was answered; the connection is closed",
		zap.String("api", keyName(key)), c.peerField(), zap.Any("panic", p), zap.StackSkip("stack", 1))
	return protocol.Response{Close: true}
}

// route sends an answer on its way: by the reader if nothing is before it, else by the writer. It is false when the
// connection is to be closed.
func (c *conn) route(s *slot) bool {
	switch {
	case s.resp.Later == nil && s.resp.NoAnswer:
		c.finish(s, 0, c.server.clock.Now())
		return true
	case s.resp.Later != nil, !c.pipe.idle():
		c.flush() // if that fails, so does what comes now
		c.pipe.put(*s)
		return true
	default:
		return c.w.answer(s, s.received, c.in.buffered())
	}
}

// writeSlot answers what waited in the pipeline. The writer goroutine calls it.
func (c *conn) writeSlot(ctx context.Context, s *slot) {
	if s.resp.Later != nil {
		outer := s.resp.Release
		s.resp = c.runLater(ctx, s)
		if outer != nil {
			defer outer()
		}
	}
	switch {
	case c.failed.Load():
		c.drop(s)
	case s.resp.NoAnswer && s.resp.Later == nil:
		c.finish(s, 0, c.server.clock.Now())
	case !c.w.answer(s, c.server.clock.Now(), false):
		c.fail()
	}
	c.answered.Store(c.server.since(c.server.clock.Now()))
}

// runLater waits for an answer. A panic is turned into a closed connection.
func (c *conn) runLater(ctx context.Context, s *slot) (resp protocol.Response) {
	defer func() {
		if p := recover(); p != nil {
			resp = c.panicked(s.key, p)
		}
	}()
	return s.resp.Later(ctx)
}

// finish counts a request that has been dealt with and gives back what its answer holds.
func (c *conn) finish(s *slot, out int64, now time.Time) {
	c.server.metrics.of(s.key).observe(s.bytesIn, out, now.Sub(s.received), s.resp.ErrorCode)
	c.drop(s)
}

// drop gives back what an answer holds.
func (c *conn) drop(s *slot) {
	if release := s.resp.Release; release != nil {
		s.resp.Release = nil
		release()
	}
}

// beforeGrow lets a large frame come in only when its request could start, so that no large frame waits in memory for the
// end of a long poll. It also sends what has been answered.
func (c *conn) beforeGrow(frame []byte) error {
	produce := len(frame) >= 2 && frame[0] == 0 && frame[1] == byte(protocol.KeyProduce)
	switch {
	case c.pipe.idle():
		if !c.w.flush() {
			return errGone
		}
	default:
		c.busy()
		if !c.pipe.wait(produce) || c.server.draining.Load() {
			return errGone
		}
	}
	return nil
}

// parked is called when the reader has to wait for bytes.
func (c *conn) parked(partial bool, size int) {
	if !c.flush() {
		return // the connection is closed, so the read fails next
	}
	now := c.server.clock.Now()
	switch {
	case !partial:
		c.idleDue.Store(c.server.since(now) + int64(c.server.opts.MaxIdle))
	case !c.partial:
		c.partial = true
		c.idleDue.Store(0)
		c.frameDue.Store(c.server.due(now, c.server.opts.StallTimeout, int64(size)))
	}
}

// readFailed tells a peer that went away from one that sent nonsense.
func (c *conn) readFailed(err error) {
	switch {
	case errors.Is(err, errFrameSize):
		c.malformed(err)
	case errors.Is(err, io.EOF), errors.Is(err, errGone), errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
	default:
		c.server.opts.Logger.Debug("connection lost", c.peerField(), zap.Error(err))
	}
}

// malformed counts and logs what makes the server close the connection.
func (c *conn) malformed(err error) {
	c.server.metrics.malformed.Add(1)
	c.server.warn("connection closed for what the client sent", c.peerField(), zap.String("listener", c.info.Listener), zap.Error(err))
}

func (c *conn) peerField() zap.Field { return zap.String("peer", c.net.RemoteAddr().String()) }

// fail closes the connection under whoever uses it. Concurrent and repeated calls are allowed.
func (c *conn) fail() {
	if !c.failed.CompareAndSwap(false, true) {
		return
	}
	close(c.done)
	_ = c.net.Close() // an error would say that it is closed
	c.pipe.fail()
}

// end gives everything back, once the reader is done.
func (c *conn) end() {
	c.flush()
	c.fail()
	c.pipe.close()
	c.in.drop()
	c.w.end()
	c.server.opts.Dispatcher.Disconnected(c.info)
	c.server.remove(c)
}
