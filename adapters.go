package kbroker

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kbroker/kbroker/handlers"
	"github.com/kbroker/kbroker/handlers/group"
	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/storage"
)

// logs is the set of logs as the handlers know it.
type logs struct{ *storage.Set }

// Get implements handlers.Logs.
func (l logs) Get(id storage.TopicID, partition int32) (handlers.Log, error) {
	found, err := l.Set.Get(id, partition)
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Open implements handlers.Logs.
func (l logs) Open(p storage.Partition, c storage.Config, epochBase int32) (handlers.Log, error) {
	opened, err := l.Set.Open(p, c, epochBase)
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// settings makes a coordinator's view of the configuration, anew only when that has changed.
type settings[T any] struct {
	config *config.Broker
	read   func(*config.Broker) T
	last   atomic.Pointer[versioned[T]]
}

type versioned[T any] struct {
	version uint64
	view    T
}

func newSettings[T any](c *config.Broker, read func(*config.Broker) T) *settings[T] {
	return &settings[T]{config: c, read: read}
}

// get is what holds now.
func (s *settings[T]) get() T {
	version := s.config.Version()
	if v := s.last.Load(); v != nil && v.version == version {
		return v.view
	}
	v := &versioned[T]{version, s.read(s.config)}
	s.last.Store(v)
	return v.view
}

// groupSettings is the configuration as the group coordinator knows it.
func groupSettings(c *config.Broker) group.Config {
	policy := strings.ToLower(c.String("group.consumer.migration.policy"))
	out := group.Config{
		InitialRebalanceDelay:  c.Duration("group.initial.rebalance.delay.ms"),
		MinSessionTimeout:      c.Duration("group.min.session.timeout.ms"),
		MaxSessionTimeout:      c.Duration("group.max.session.timeout.ms"),
		MaxSize:                c.Int("group.max.size"),
		OffsetMetadataMax:      c.Int("offset.metadata.max.bytes"),
		OffsetsRetention:       c.Duration("offsets.retention.minutes"),
		RetentionCheckInterval: c.Duration("offsets.retention.check.interval.ms"),
		Consumer:               group.DefaultConfig().Consumer,
	}
	out.Consumer.SessionTimeout = c.Duration("group.consumer.session.timeout.ms")
	out.Consumer.HeartbeatInterval = c.Duration("group.consumer.heartbeat.interval.ms")
	out.Consumer.AssignmentInterval = c.Duration("group.consumer.assignment.interval.ms")
	out.Consumer.MaxSize = c.Int("group.consumer.max.size")
	out.Consumer.Assignors = c.List("group.consumer.assignors")
	out.Consumer.Upgrade = policy == "upgrade" || policy == "bidirectional"
	out.Consumer.Downgrade = policy == "downgrade" || policy == "bidirectional"
	return out
}

// groupOverrides gives a group its own settings of the KIP-848 protocol.
func groupOverrides(c *config.Broker) func(string, group.ConsumerConfig) group.ConsumerConfig {
	return func(name string, out group.ConsumerConfig) group.ConsumerConfig {
		if len(c.Dynamic(config.KindGroup, name)) == 0 {
			return out
		}
		own := c.Group(name)
		ms := func(key string) time.Duration { return time.Duration(own.Int(key)) * time.Millisecond }
		out.SessionTimeout = ms("consumer.session.timeout.ms")
		out.HeartbeatInterval = ms("consumer.heartbeat.interval.ms")
		out.AssignmentInterval = ms("consumer.assignment.interval.ms")
		return out
	}
}

// registry passes metrics on to where they are wanted, the embedding program's registry or the one that the admin listener
// shows, and takes them back at the end, so that another broker may use the same.
type registry struct {
	targets []prometheus.Registerer

	mu  sync.Mutex
	all []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (r *registry) Register(c prometheus.Collector) error {
	for i, t := range r.targets {
		if err := t.Register(c); err != nil {
			for _, before := range r.targets[:i] {
				before.Unregister(c)
			}
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, c)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r *registry) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements prometheus.Registerer.
func (r *registry) Unregister(c prometheus.Collector) bool {
	found := len(r.targets) > 0
	for _, t := range r.targets {
		found = t.Unregister(c) && found
	}
	return found
}

// release takes all metrics back.
func (r *registry) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		r.Unregister(c)
	}
	r.all = nil
}

// join writes a list for a person.
func join(list []string) string { return strings.Join(list, ", ") }
