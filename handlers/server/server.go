package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
)

const (
	// minRate is how fast, in bytes a second, a peer must take or send what is large, on top of the timeout.
	minRate = 64 << 10

	// acceptPause is how long accepting rests after an error such as too many open files.
	acceptPause = 100 * time.Millisecond

	// keepAliveIdle, keepAliveInterval and keepAliveCount find peers that are gone without a word within three minutes.
	keepAliveIdle     = 2 * time.Minute
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 4

	// anonymous is the principal of those who haven't said who they are.
	anonymous = "User:ANONYMOUS"
)

// Server serves the connections of any number of listeners. Concurrent calls are allowed.
type Server struct {
	opts    Options
	clock   clock.Clock
	started time.Time
	pool    bufferPool
	metrics metrics
	limits  connLimits
	warned  logLimit

	frames    *budget       // memory of large frames being received
	decoding  *budget       // memory of decoded bodies, and of large answers
	largeTurn chan struct{} // holds an element while a large request is decoded

	draining atomic.Bool
	nextID   atomic.Uint64
	running  sync.WaitGroup // acceptors and connections

	mu struct {
		sync.Mutex
		listeners []net.Listener
		conns     map[*conn]struct{}
		janitor   clock.Timer // nil while there are no connections
	}
}

// New makes a server. It does nothing until Serve.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: o, clock: o.Clock, started: o.Clock.Now(),
		frames: newBudget(o.MaxFrameBytes, true), decoding: newBudget(o.MaxDecodeBytes, false),
		largeTurn: make(chan struct{}, 1),
	}
	s.mu.conns = make(map[*conn]struct{})
	s.limits.init(o.Limits)
	s.metrics.server, s.metrics.desc = s, newMetricDescs()
	if o.Registerer != nil {
		if err = o.Registerer.Register(&s.metrics); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Serve starts to accept connections on a listener, which the server closes at Shutdown. The name is what the
// connections' Listener says. It returns at once.
func (s *Server) Serve(name string, l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		_ = l.Close() // nothing was accepted
		return
	}
	s.mu.listeners = append(s.mu.listeners, l)
	s.running.Add(1)
	go s.accept(name, l)
}

// accept takes connections until the listener is closed.
func (s *Server) accept(name string, l net.Listener) {
	defer s.running.Done()
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			s.open(name, nc)
		case s.draining.Load() || errors.Is(err, net.ErrClosed):
			return
		default:
			s.warn("accepting a connection failed", zap.String("listener", name), zap.Error(err))
			s.pause(acceptPause)
		}
	}
}

// pause rests for d, or until the server shuts down.
func (s *Server) pause(d time.Duration) {
	t := s.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
	case <-s.limits.stopped:
	}
}

// open serves a connection, waiting for a place if there are too many.
func (s *Server) open(name string, nc net.Conn) {
	info := &protocol.Conn{
		ID: s.nextID.Add(1), Listener: name, Principal: anonymous,
		Local: addrPort(nc.LocalAddr()), Peer: addrPort(nc.RemoteAddr()),
	}
	switch s.limits.enter(info.Peer.Addr(), func() {
		s.warn("max.connections is reached; new connections wait")
	}) {
	case entered:
	case tooManyOfAddress:
		s.metrics.refused.Add(1)
		s.warn("max.connections.per.ip is reached; the connection is closed", zap.String("peer", nc.RemoteAddr().String()))
		_ = nc.Close() // nothing was said
		return
	default:
		_ = nc.Close() // the server shuts down
		return
	}
	tune(nc)
	s.metrics.accepted.Add(1)
	c := newConn(s, nc, info)
	if !s.add(c) {
		s.limits.leave(info.Peer.Addr())
		_ = nc.Close() // the server shuts down
		return
	}
	go c.serve()
}

// tune sets what differs from Go's presets, which include TCP_NODELAY. Errors mean that the connection is gone already.
func tune(nc net.Conn) {
	if t, ok := nc.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
		})
	}
}

// addrPort is an address in the form that handlers use; zero if it isn't of IP.
func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// add registers a connection. It is false when the server shuts down.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	s.mu.conns[c] = struct{}{}
	s.running.Add(1)
	if s.mu.janitor == nil {
		s.mu.janitor = s.clock.AfterFunc(s.sweepEvery(), s.sweep)
	}
	return true
}

// remove forgets a connection that has ended.
func (s *Server) remove(c *conn) {
	s.mu.Lock()
	delete(s.mu.conns, c)
	s.mu.Unlock()
	s.limits.leave(c.info.Peer.Addr())
	s.running.Done()
}

// connections is how many are open.
func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.conns)
}

// since is a time in nanoseconds since the server's start.
func (s *Server) since(t time.Time) int64 { return int64(t.Sub(s.started)) }

// due is when a peer that has to move bytes is given up.
func (s *Server) due(now time.Time, timeout time.Duration, bytes int64) int64 {
	return s.since(now) + int64(timeout) + bytes/minRate*int64(time.Second)
}

// Shutdown stops accepting, lets requests that have started finish and parked ones answer with what they have, and
// closes all connections. When ctx ends first, the rest is closed as it is, and its error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.running.Wait()
		s.forget()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.all() {
		c.fail()
	}
	<-done
	return ctx.Err()
}

// forget ends what is left once all connections have.
func (s *Server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.janitor != nil {
		s.mu.janitor.Stop()
		s.mu.janitor = nil
	}
	if s.opts.Registerer != nil {
		s.opts.Registerer.Unregister(&s.metrics)
	}
}

// Close closes everything at once.
func (s *Server) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Shutdown(ctx) // the error is the context's
}

// drain makes every connection end after what it does.
func (s *Server) drain() {
	s.mu.Lock()
	first := s.draining.CompareAndSwap(false, true)
	listeners := s.mu.listeners
	s.mu.listeners = nil
	s.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close() // Accept returns all the same
	}
	if first {
		s.limits.stop()
	}
	for _, c := range s.all() {
		c.pipe.drain()
		_ = c.net.SetReadDeadline(time.Unix(1, 0)) // long past, which wakes the reader
	}
}

// all lists the connections.
func (s *Server) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*conn, 0, len(s.mu.conns))
	for c := range s.mu.conns {
		out = append(out, c)
	}
	return out
}

// warn logs a warning that a peer can cause, not more often than a person wants to read.
func (s *Server) warn(msg string, fields ...zap.Field) {
	if skipped, ok := s.warned.allow(s.clock.Now()); ok {
		if skipped > 0 {
			fields = append(fields, zap.Int("similar", skipped))
		}
		s.opts.Logger.Warn(msg, fields...)
	}
}
