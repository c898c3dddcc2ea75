package group

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
)

// Store is where records of groups and committed offsets live. Concurrent calls are allowed. *meta.Store implements it.
type Store interface {
	// Commit makes a batch durable, as durable as the store is set to be, before it returns. Cursors on topics that have
	// been deleted meanwhile are left out. After an error it isn't known whether the batch counts.
	Commit(b *meta.Batch) error
	// Groups yields all records put with Batch.PutGroup, by the name they were put under. The bytes are valid during the
	// call only. An error from yield ends it.
	Groups(yield func(group string, record []byte) error) error
	// Cursors yields all committed offsets.
	Cursors(yield func(group string, tp meta.TopicPartition, c meta.Cursor) error) error
}

// Options is what a coordinator is made of. Store and Clock are required.
type Options struct {
	Store  Store
	Clock  clock.Clock
	Logger *zap.Logger
	// Config is asked once per request; it must be cheap. DefaultConfig when nil.
	Config func() Config
	// GroupConfig gives a group's own settings of the KIP-848 protocol (resource type GROUP), from the broker's; nil when
	// groups have none. It must be cheap.
	GroupConfig func(group string, broker ConsumerConfig) ConsumerConfig
	// Topics is the view of the topics as they are now; asked by offset commits and by consumer groups. It returns the same
	// view as long as nothing changes.
	Topics func() *meta.Topics
	// Internal are topics that aren't in that view but can be subscribed to and committed on. They never change.
	Internal []*meta.Topic
	// Registerer takes the coordinator's metrics; none when nil.
	Registerer prometheus.Registerer
	// Random is where member ids come from; crypto/rand when nil.
	Random io.Reader
}

// Client is the sender of a request as it appears in descriptions of a group.
type Client struct {
	ID   string // client id; "" when null
	Host string // as Kafka shows it: "/127.0.0.1"
}

// Coordinator coordinates all groups of the broker. Concurrent calls are allowed. Its methods take requests of any version
// and keep none of their memory; topics are known to it by name, so at versions with topic ids the caller sets the
// names in the request and the ids in the answer.
type Coordinator struct {
	store  Store
	clock  clock.Clock
	log    *zap.Logger
	config func() Config
	topics func() *meta.Topics
	random io.Reader

	groupConfig func(string, ConsumerConfig) ConsumerConfig

	start   time.Time
	metrics *metrics
	rounds  rounds
	txns    openTxns

	registry struct {
		sync.RWMutex
		groups map[string]*group
	}
	draining atomic.Bool
	sweeper  struct {
		sync.Mutex
		timer  clock.Timer
		closed bool
	}
}

// New makes a coordinator from what the store holds.
func New(o Options) (*Coordinator, error) {
	if o.Store == nil || o.Clock == nil {
		return nil, errors.New("group coordinator: store and clock are required")
	}
	c := &Coordinator{
		store: o.Store, clock: o.Clock, log: o.Logger, config: o.Config, topics: o.Topics, random: o.Random,
		groupConfig: o.GroupConfig, start: o.Clock.Now(),
	}
	if c.log == nil {
		c.log = zap.NewNop()
	}
	if c.config == nil {
		c.config = DefaultConfig
	}
	if c.topics == nil {
		empty := meta.NewTopics(nil)
		c.topics = func() *meta.Topics { return empty }
	}
	if len(o.Internal) > 0 {
		c.topics = (&mergedTopics{stored: c.topics, internal: o.Internal}).get
	}
	if c.random == nil {
		c.random = rand.Reader
	}
	c.registry.groups = make(map[string]*group)
	var err error
	if c.metrics, err = newMetrics(o.Registerer, c.size); err != nil {
		return nil, fmt.Errorf("register group metrics: %w", err)
	}
	if err = c.load(); err != nil {
		return nil, fmt.Errorf("load groups: %w", err)
	}
	c.scheduleSweep()
	return c, nil
}

// mergedTopics is a view of topics with some more. Like the view it is made of, it is the same as long as nothing changes.
type mergedTopics struct {
	stored   func() *meta.Topics
	internal []*meta.Topic
	last     atomic.Pointer[mergedView]
}

type mergedView struct{ stored, merged *meta.Topics }

func (m *mergedTopics) get() *meta.Topics {
	stored := m.stored()
	last := m.last.Load()
	if last != nil && last.stored == stored {
		return last.merged
	}
	next := &mergedView{stored, meta.NewTopics(slices.Concat(stored.All(), m.internal))}
	if !m.last.CompareAndSwap(last, next) {
		return m.get()
	}
	return next.merged
}

// Drain answers all calls that wait with NOT_COORDINATOR, and those that come later at once, so that clients look for a
// coordinator again. Committing and fetching offsets goes on.
func (c *Coordinator) Drain() {
	c.draining.Store(true)
	for _, g := range c.all() {
		g.mu.Lock()
		if g.classic != nil {
			g.classic.abandonWaiting(protocol.NotCoordinator)
		}
		g.mu.Unlock()
	}
}

// Close drains and stops all timers. The store stays open.
func (c *Coordinator) Close() {
	c.Drain()
	c.sweeper.Lock()
	c.sweeper.closed = true
	if c.sweeper.timer != nil {
		c.sweeper.timer.Stop()
	}
	c.sweeper.Unlock()
	for _, g := range c.all() {
		g.mu.Lock()
		g.disarm()
		g.mu.Unlock()
	}
}

// turn is the circumstances of one event: the time and the settings it is judged by.
type turn struct {
	c      *Coordinator
	cfg    Config
	now    time.Duration // since the coordinator's start
	wallMs int64         // Unix time in milliseconds
}

// turn begins an event. Call it with the group's lock held, so that events of a group are in the order of their times.
func (c *Coordinator) turn() *turn {
	now := c.clock.Now()
	return &turn{c: c, cfg: c.config(), now: now.Sub(c.start) + 1, wallMs: now.UnixMilli()}
}

// commit makes records durable. On error they don't count and the caller changes nothing.
func (c *Coordinator) commit(b *meta.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	if err := c.store.Commit(b); err != nil {
		c.metrics.commitErrors.Inc()
		c.log.Warn("group records not committed", zap.Error(err))
		return fmt.Errorf("commit group records: %w", err)
	}
	return nil
}

// find returns the group of that id, or nil.
func (c *Coordinator) find(id string) *group {
	c.registry.RLock()
	defer c.registry.RUnlock()
	return c.registry.groups[id]
}

// lock returns the group of that id with its lock held, or nil.
func (c *Coordinator) lock(id string) *group {
	for {
		g := c.find(id)
		if g == nil {
			return nil
		}
		g.mu.Lock()
		if !g.dead {
			return g
		}
		g.mu.Unlock()
	}
}

// lockOrMake returns the group of that id with its lock held; it makes one if there is none.
func (c *Coordinator) lockOrMake(id string) *group {
	for {
		if g := c.lock(id); g != nil {
			return g
		}
		c.registry.Lock()
		if c.registry.groups[id] == nil {
			g := c.newGroup(id)
			c.registry.groups[g.id] = g
		}
		c.registry.Unlock()
	}
}

// bury takes a group out of the registry. The caller holds its lock.
func (c *Coordinator) bury(g *group) {
	g.dead = true
	g.disarm()
	c.registry.Lock()
	delete(c.registry.groups, g.id)
	c.registry.Unlock()
}

// all lists the groups in no order.
func (c *Coordinator) all() []*group {
	c.registry.RLock()
	defer c.registry.RUnlock()
	groups := make([]*group, 0, len(c.registry.groups))
	for _, g := range c.registry.groups {
		groups = append(groups, g)
	}
	return groups
}

// size is the number of groups.
func (c *Coordinator) size() int {
	c.registry.RLock()
	defer c.registry.RUnlock()
	return len(c.registry.groups)
}

// newMemberID makes a member id of the classic protocol as Kafka does: a prefix and a random UUID.
func (c *Coordinator) newMemberID(prefix string) string {
	u := c.newRandom()
	prefix = strings.ToValidUTF8(prefix[:min(len(prefix), maxIDPrefix)], "")
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", prefix, u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// newUUID makes a member id of the KIP-848 protocol.
func (c *Coordinator) newUUID() string {
	u := c.newRandom()
	return base64.RawURLEncoding.EncodeToString(u[:])
}

// newRandom makes a random UUID (version 4).
func (c *Coordinator) newRandom() (u [16]byte) {
	if _, err := io.ReadFull(c.random, u[:]); err != nil {
		c.log.Error("no randomness for a member id", zap.Error(err))
	}
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}

// waiter is a call that waits for its answer. It is answered exactly once; nobody may be there to hear it any more.
type waiter[T any] struct {
	version int16
	ch      chan T
}

func newWaiter[T any](version int16) *waiter[T] {
	return &waiter[T]{version: version, ch: make(chan T, 1)}
}

func (w *waiter[T]) answer(v T) {
	if w != nil {
		w.ch <- v
	}
}

// wait returns the answer, or late() when ctx ends first.
func (w *waiter[T]) wait(ctx context.Context, late func() T) T {
	select {
	case v := <-w.ch:
		return v
	case <-ctx.Done():
	}
	select {
	case v := <-w.ch:
		return v
	default:
		return late()
	}
}
