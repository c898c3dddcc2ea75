package server

import (
	"errors"
	"math"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/clock"
)

// The bounds that hold when [Options] leaves them out.
const (
	DefaultMaxRequestBytes = 100 << 20
	DefaultMaxFrameBytes   = 256 << 20
	DefaultMaxDecodeBytes  = 512 << 20
	DefaultMaxConnBytes    = 200 << 20
	DefaultMaxIdle         = 10 * time.Minute
	DefaultStallTimeout    = 30 * time.Second
	DefaultMaxPending      = 64
)

// Options says what a server is built on and within which bounds it works. Dispatcher and Clock are needed; a bound that
// isn't above 0 has its default.
type Options struct {
	Dispatcher Dispatcher
	Clock      clock.Clock
	Logger     *zap.Logger           // nil is quiet
	Registerer prometheus.Registerer // nil keeps no metrics

	// MaxRequestBytes is the largest frame taken (socket.request.max.bytes).
	MaxRequestBytes int
	// MaxFrameBytes bounds the memory of all frames being received that don't fit the small buffer that each active
	// connection has. One frame at a time may go beyond, so that there is always one that gets on.
	MaxFrameBytes int64
	// MaxDecodeBytes bounds what the decoded bodies of all requests at work may take, and the large answers that wait for
	// their reader.
	MaxDecodeBytes int64
	// MaxConnDecodeBytes bounds the same for one connection: a request that alone could take more is refused.
	MaxConnDecodeBytes int64
	// MaxIdle is how long a connection may do nothing (connections.max.idle.ms).
	MaxIdle time.Duration
	// StallTimeout is how long a peer may take to send the rest of a frame, or to read an answer that lies in memory, on
	// top of a second per 64 KiB.
	StallTimeout time.Duration
	// Limits is asked at each new connection how many there may be: on all listeners (max.connections), where further ones
	// wait to be served, and from its address (max.connections.per.ip), where further ones are closed. Nil is no bound.
	Limits func(address netip.Addr) (all, ofAddress int)
	// MaxPending bounds the answers that one connection waits for.
	MaxPending int
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() (Options, error) {
	if o.Dispatcher == nil || o.Clock == nil {
		return o, errors.New("new server: a dispatcher and a clock are needed")
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Limits == nil {
		o.Limits = func(netip.Addr) (all, ofAddress int) { return math.MaxInt, math.MaxInt }
	}
	o.MaxRequestBytes = positive(o.MaxRequestBytes, DefaultMaxRequestBytes)
	o.MaxFrameBytes = positive(o.MaxFrameBytes, DefaultMaxFrameBytes)
	o.MaxDecodeBytes = positive(o.MaxDecodeBytes, DefaultMaxDecodeBytes)
	o.MaxConnDecodeBytes = min(positive(o.MaxConnDecodeBytes, DefaultMaxConnBytes), o.MaxDecodeBytes)
	o.MaxIdle = positive(o.MaxIdle, DefaultMaxIdle)
	o.StallTimeout = positive(o.StallTimeout, DefaultStallTimeout)
	o.MaxPending = positive(o.MaxPending, DefaultMaxPending)
	return o, nil
}

// positive is v, or def when v isn't above 0.
func positive[N int | int64 | time.Duration](v, def N) N {
	if v > 0 {
		return v
	}
	return def
}
