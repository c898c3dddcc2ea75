package meta

import (
	"crypto/rand"
	"io"

	"github.com/cockroachdb/pebble/v2"
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

// The store is small and mostly idle: these keep Pebble's memory to a few MiB.
const (
	memTableBytes = 4 << 20
	cacheBytes    = 2 << 20
	maxOpenFiles  = 64
)

// pebbleOptions configures Pebble on the given filesystem.
func (s *Store) pebbleOptions(fs *pebbleFS) *pebble.Options {
	o := &pebble.Options{
		FS:   fs,
		Lock: s.lock,
		// Only the newest format notes in the log how much of it had been synced, and so can tell rot from a torn end.
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: 4,
		CacheSize:                   cacheBytes,
		MaxOpenFiles:                maxOpenFiles,
		Logger:                      pebbleLogger{s},
		EventListener:               &pebble.EventListener{BackgroundError: s.backgroundError},
	}
	o.Experimental.FileCacheShards = 1
	return o
}

// pebbleLogger passes Pebble's messages on: its chatter for debugging, and what it takes for fatal to the store, which
// then takes no more writes.
type pebbleLogger struct{ store *Store }

func (l pebbleLogger) Infof(format string, args ...any) {
	l.store.logger.Debugf(format, args...)
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.store.logger.Errorf(format, args...)
}

// Fatalf must not return success to whoever called Pebble; see [Store.write].
func (l pebbleLogger) Fatalf(format string, args ...any) { l.store.fatal(format, args...) }
