package handlers

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
)

// Deps is what the handlers are built on. Everything is needed unless it says otherwise.
type Deps struct {
	// NodeID is this broker's id, at least 0. It is the leader of every partition, the controller, and every coordinator.
	NodeID int32
	// Rack is the broker's rack; nil if it has none.
	Rack *string
	// Meta and Logs outlive the handlers.
	Meta Meta
	Logs Logs
	// Groups is the group coordinator.
	Groups Groups
	// Config is the broker's configuration.
	Config *config.Broker
	// ConfigStore keeps what clients change of it; nil lets that last until the broker stops.
	ConfigStore ConfigStore
	// Transactions is the transaction coordinator; nil if there is none.
	Transactions Transactions
	// Features holds the levels of the cluster's features; nil gives all their latest.
	Features *Features
	// DataDir is the data directory's path, as tools are told it.
	DataDir string
	// DiskSpace tells the size of the data directory's filesystem and what can still be written, in bytes; nil if that
	// isn't known.
	DiskSpace func() (total, usable int64, err error)
	// Clock tells the time.
	Clock clock.Clock
	// Logger is never nil; use zap.NewNop to be quiet.
	Logger *zap.Logger
	// Registerer takes the handlers' metrics; nil keeps none.
	Registerer prometheus.Registerer
	// Endpoints is the address that clients of a listener are told to connect to. It may be called concurrently. A name that
	// isn't a listener's has no endpoint.
	Endpoints func(listener string) (host string, port int32, ok bool)
	// Lifecycle ends when the broker shuts down.
	Lifecycle context.Context
}

// Handlers answers requests. It implements the server's Dispatcher; concurrent calls are allowed.
type Handlers struct {
	Deps

	table     table
	internal  internalTopics
	lifecycle topicLifecycle
	configs   topicConfigs
	data      *dataPlane
}

// New makes the handlers. It opens nothing and starts nothing.
func New(d Deps) (*Handlers, error) {
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("new handlers: %w", err)
	}
	if d.Transactions == nil {
		d.Transactions = noTransactions{}
	}
	if d.Features == nil {
		var err error
		if d.Features, err = NewFeatures(nil, d.ConfigStore); err != nil {
			return nil, fmt.Errorf("new handlers: %w", err)
		}
	}
	h := &Handlers{Deps: d}
	h.internal = configuredInternalTopics(d.Meta.ClusterID(), d.Config)
	h.data = newDataPlane(&h.Deps, d.Config.Int("max.incremental.fetch.session.cache.slots"))
	if err := h.data.register(d.Registerer); err != nil {
		return nil, fmt.Errorf("new handlers: %w", err)
	}
	t, err := newTable(rows())
	if err != nil {
		return nil, fmt.Errorf("new handlers: %w", err)
	}
	h.table = t
	return h, nil
}

// check says which dependency is missing.
func (d *Deps) check() error {
	switch {
	case d.NodeID < 0:
		return fmt.Errorf("node id %d is negative", d.NodeID)
	case d.Meta == nil, d.Logs == nil, d.Groups == nil, d.Config == nil, d.Clock == nil, d.Logger == nil, d.Endpoints == nil, d.Lifecycle == nil:
		return errors.New("a dependency is missing")
	}
	return nil
}

// Dispatch answers one request. What the request's body holds is gone once it has returned, so handlers that keep any of
// it (in a response with Later, too) copy it.
func (h *Handlers) Dispatch(r *protocol.Request) protocol.Response {
	e, err := h.table.find(r.Header.Key, r.Header.Version)
	if err != nil {
		if r.Header.Key == protocol.KeyApiVersions {
			return h.apiVersionsUnsupported(r)
		}
		return protocol.Response{Close: true, Reason: err}
	}
	body, err := decode(r)
	if err != nil {
		return protocol.Response{Close: true, Reason: err}
	}
	return e.handle(h, r, body)
}

// Disconnected forgets what belongs to a connection that has ended.
func (h *Handlers) Disconnected(*protocol.Conn) {}

// decode reads the body at the header's version.
func decode(r *protocol.Request) (kmsg.Request, error) {
	body := kmsg.RequestForKey(r.Header.Key)
	body.SetVersion(r.Header.Version)
	if err := protocol.DecodeBody(body, r.Body); err != nil {
		return nil, err
	}
	return body, nil
}

// topicByName finds a topic; nil if there is none. Internal topics are found too.
func (h *Handlers) topicByName(name string) *meta.Topic {
	if t := h.internal.named(name); t != nil {
		return t
	}
	return h.Meta.Topics().Named(name)
}

// topicByID finds a topic; nil if there is none. Internal topics are found too.
func (h *Handlers) topicByID(id storage.TopicID) *meta.Topic {
	if t := h.Meta.Topics().WithID(id); t != nil {
		return t
	}
	return h.internal.withID(id)
}

// log finds the log of a topic's partition. Errors: errUnknownPartition, storage.ErrClosed.
func (h *Handlers) log(t *meta.Topic, partition int32) (Log, error) {
	if partition < 0 || partition >= t.Partitions {
		return nil, errUnknownPartition
	}
	if h.internal.has(t) {
		return emptyLog{}, nil
	}
	return h.Logs.Get(t.ID, partition)
}

// reply frames an answer.
func reply(r *protocol.Request, body kmsg.Response) protocol.Response {
	return protocol.EncodeResponse(r, body)
}

// later answers on another goroutine, for handlers that block. What body returns must not need the request's frame any
// more, so the caller copies before it calls later.
func later(r *protocol.Request, body func(context.Context) kmsg.Response) protocol.Response {
	kept := &protocol.Request{Header: r.Header, Conn: r.Conn, Received: r.Received}
	return protocol.Response{Later: func(ctx context.Context) protocol.Response { return answered(kept, body(ctx)) }}
}
