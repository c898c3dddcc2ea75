// Package kbroker is a broker that Kafka clients take for Apache Kafka, to be embedded in a Go program or test.
//
//	b, err := kbroker.Start(ctx, kbroker.Options{})
//	...
//	defer b.Close()
//	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
//
// The zero [Options] suit a test: a free port of 127.0.0.1, and data that is gone at Close. [StartTest] is the same in one
// line of a test. Several brokers in one process don't touch each other.
//
// This package also is the one place where the parts of the broker are put together; see docs/ for what they are.
package kbroker

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/handlers"
	"github.com/kbroker/kbroker/handlers/server"
	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
	"github.com/kbroker/kbroker/storage/vfs"
)

// closeTimeout is how long Close lets requests finish.
const closeTimeout = 5 * time.Second

// Broker is a running broker. Concurrent calls are allowed.
type Broker struct {
	clock   clock.Clock
	fs      vfs.FS
	log     *zap.Logger
	config  *config.Broker
	metrics registry

	requestLog *zap.Logger // log, for what requests run into

	dir       string
	temporary bool // dir is removed at the end
	listeners []*bound
	admin     net.Addr // nil without one

	meta     *meta.Store
	features *handlers.Features
	logs     *storage.Set
	server   *server.Server

	ready     atomic.Bool
	lifecycle context.Context
	stop      stack

	closing struct {
		sync.Once
		err error
	}
}

// Addr is the address, host:port, at which clients reach the broker by its first listener.
func (b *Broker) Addr() string { return b.listeners[0].address() }

// Addrs are the addresses at which clients reach the broker, one a listener.
func (b *Broker) Addrs() []string {
	out := make([]string, len(b.listeners))
	for i, l := range b.listeners {
		out[i] = l.address()
	}
	return out
}

// AdminAddr is the address, host:port, of the admin listener; "" if there is none.
func (b *Broker) AdminAddr() string {
	if b.admin == nil {
		return ""
	}
	return b.admin.String()
}

// ClusterID is the cluster's id. It is made at the first start in a data directory and never changes.
func (b *Broker) ClusterID() string { return b.meta.ClusterID() }

// DataDir is where the data is.
func (b *Broker) DataDir() string { return b.dir }

// Close shuts the broker down, giving requests that have started a few seconds to finish. Further calls return what
// the first did.
func (b *Broker) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t := b.clock.AfterFunc(closeTimeout, cancel)
	defer t.Stop()
	err := b.Shutdown(ctx)
	if errors.Is(err, context.Canceled) {
		return nil // clients that didn't finish are no fault of the broker's
	}
	return err
}

// Shutdown stops accepting connections, answers waiting requests with what there is, lets those that have started finish
// until ctx ends, and closes everything. Data is safe whether or not ctx ended, which the error then says.
func (b *Broker) Shutdown(ctx context.Context) error {
	b.closing.Do(func() {
		b.ready.Store(false)
		b.closing.err = b.stop.unwind(ctx)
		b.log.Info("kbroker stopped")
	})
	return b.closing.err
}

// stack is what has to be done to undo what a start did, in reverse.
type stack struct {
	undo []func(ctx context.Context) error
}

// push adds a step.
func (s *stack) push(f func(ctx context.Context) error) { s.undo = append(s.undo, f) }

// unwind does all steps, whatever the errors.
func (s *stack) unwind(ctx context.Context) error {
	var errs []error
	for i := len(s.undo) - 1; i >= 0; i-- {
		errs = append(errs, s.undo[i](ctx))
	}
	s.undo = nil
	return errors.Join(errs...)
}
