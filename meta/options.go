package meta

import (
	"crypto/rand"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/clock"
)

// Options says how a store is opened.
type Options struct {
	// Clock is required.
	Clock clock.Clock
	// Logger may be nil.
	Logger *zap.Logger
	// NodeID is this broker's. A store remembers the first one it is opened with and refuses others.
	NodeID int32
	// Durability is that of cursors, groups and transactions; all else is always durable before a call returns.
	Durability Durability
	// Existing refuses to make a store where there is none, with [ErrMissing].
	Existing bool
	// Registerer gets the store's metrics. It may be nil.
	Registerer prometheus.Registerer
	// Random is where ids come from; nil is crypto/rand.
	Random io.Reader
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
}
