package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
)

// Store is where the coordinator's records live. Concurrent calls are allowed. *meta.Store implements it.
type Store interface {
	// Commit makes a batch durable, as durable as the store is set to be, before it returns. After an error it isn't known
	// whether the batch counts.
	Commit(b *meta.Batch) error
	// Transactions yields all records put with Batch.PutTransaction. The bytes are valid during the call only. An error
	// from yield ends it.
	Transactions(yield func(id string, record []byte) error) error
}

// Marker ends a producer's transaction in a partition.
type Marker struct {
	ProducerID int64
	Epoch      int16
	Commit     bool
	// Version is the transaction version: from 2 on the epoch is above that of the transaction's batches.
	Version int16
}

// Logs is where markers go. Concurrent calls are allowed.
type Logs interface {
	// AppendMarker appends a marker to a partition. What it returns, if not nil, is to be waited for; until then the marker
	// isn't durable. ErrNoPartition says that there is nothing to end; other errors are passing, and the marker is tried
	// again.
	AppendMarker(p Partition, m Marker) (Commit, error)
}

// Commit is an append that waits to become durable.
type Commit interface {
	// Done is closed when that is so, or can't be.
	Done() <-chan struct{}
	// Err is nil if the append is durable; valid after Done.
	Err() error
}

// Offsets is what keeps the offsets that were sent in a transaction. Concurrent calls are allowed.
type Offsets interface {
	// CompleteTransaction makes the offsets of a producer's transaction count, or drops them, before it returns. It may be
	// called again.
	CompleteTransaction(producerID int64, commit bool) error
}

// IDs hands out producer ids. Concurrent calls are allowed. *ProducerIDs implements it.
type IDs interface {
	Next() (int64, error)
}

// ErrNoPartition is returned for a marker that has no place to go, as the partition is gone or has moved on.
var ErrNoPartition = errors.New("partition of the transaction is gone")

// Config is how the coordinator is set.
type Config struct {
	// MaxTimeout is the longest transaction timeout a producer may ask for.
	MaxTimeout time.Duration
	// IDExpiration is how long a transactional id is remembered after its last use.
	IDExpiration time.Duration
	// AbortInterval and ExpireInterval are the pauses between searches for what has timed out or expired.
	AbortInterval, ExpireInterval time.Duration
	// CompletionWait is how long a request that comes while the last transaction's markers are being written waits for
	// that, before it is answered with CONCURRENT_TRANSACTIONS.
	CompletionWait time.Duration
}

// DefaultConfig is Kafka's.
func DefaultConfig() Config {
	return Config{
		MaxTimeout: 15 * time.Minute, IDExpiration: 7 * 24 * time.Hour,
		AbortInterval: 10 * time.Second, ExpireInterval: time.Hour, CompletionWait: 100 * time.Millisecond,
	}
}

// Options is what a coordinator is made of. Store, Logs, Offsets, IDs and Clock are required.
type Options struct {
	Store   Store
	Logs    Logs
	Offsets Offsets
	IDs     IDs
	Clock   clock.Clock
	Logger  *zap.Logger
	// Config is asked once per request; it must be cheap. DefaultConfig when nil.
	Config func() Config
	// Version is the cluster's transaction version, by which the coordinator itself aborts transactions; 2 when nil.
	Version func() int16
	// Spawn runs a function on a goroutine of its own; tests may run it otherwise.
	Spawn func(func())
	// Registerer takes the coordinator's metrics; none when nil.
	Registerer prometheus.Registerer
}

// Coordinator coordinates all transactions of the broker. Concurrent calls are allowed.
type Coordinator struct {
	Options
	metrics *metrics
	closing context.Context
	close   context.CancelFunc
	running struct {
		sync.Mutex
		sync.WaitGroup // completions
		closed         bool
	}

	registry struct {
		sync.RWMutex
		entries map[string]*entry
	}
	settler settler
	sweeps  sweeps
}

// entry is a transactional id.
type entry struct {
	id string

	mu    sync.Mutex
	state State
	known bool // InitProducerId has succeeded once
	dead  bool // no longer in the registry
	// unsettled says that the store may hold another state, since a commit has failed; it must be made to agree before
	// anyone relies on state.
	unsettled bool
	late      bool          // Complete* isn't in the store yet
	listed    bool          // in the settler's list; guarded by its lock
	completed chan struct{} // closed when the prepared transaction is complete; nil if none is prepared
	guards    int           // batches vouched for that aren't in their logs yet
	unguarded chan struct{} // closed when guards is 0 again; nil if nobody waits for it
}

// New makes a coordinator from what the store holds, and goes on with the transactions that had been decided.
func New(o Options) (*Coordinator, error) {
	if o.Store == nil || o.Logs == nil || o.Offsets == nil || o.IDs == nil || o.Clock == nil {
		return nil, errors.New("transaction coordinator: a dependency is missing")
	}
	c := &Coordinator{Options: o}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Config == nil {
		c.Config = DefaultConfig
	}
	if c.Version == nil {
		c.Version = func() int16 { return versionTwo }
	}
	if c.Spawn == nil {
		c.Spawn = func(f func()) { go f() }
	}
	c.closing, c.close = context.WithCancel(context.Background())
	c.registry.entries = make(map[string]*entry)
	var err error
	if c.metrics, err = newMetrics(o.Registerer, c.size); err != nil {
		return nil, fmt.Errorf("register transaction metrics: %w", err)
	}
	if err = c.load(); err != nil {
		return nil, fmt.Errorf("load transactions: %w", err)
	}
	c.scheduleSweeps()
	return c, nil
}

// load reads all records, then goes on where the process before ended.
func (c *Coordinator) load() error {
	err := c.Store.Transactions(func(id string, record []byte) error {
		s, err := decode(record)
		if err != nil {
			return fmt.Errorf("transactional id %q: %w", id, err)
		}
		c.registry.entries[id] = &entry{id: id, state: s, known: true}
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range c.all() {
		e.mu.Lock()
		if e.state.Status.prepared() {
			e.completed = make(chan struct{})
			s := e.state
			c.background(func() { c.finish(e, s, allOf(s)) })
		}
		e.mu.Unlock()
	}
	return nil
}

// background runs a function that Close waits for; not any more once the coordinator closes.
func (c *Coordinator) background(f func()) {
	c.running.Lock()
	defer c.running.Unlock()
	if c.running.closed {
		return
	}
	c.running.Add(1)
	c.Spawn(func() {
		defer c.running.Done()
		f()
	})
}

// Close stops the timers, gives up on markers that can't be written at once, and brings the store up to date. Transactions
// that aren't complete are completed after the next start. The store stays open.
func (c *Coordinator) Close() {
	c.sweeps.stop()
	c.close()
	c.running.Lock()
	c.running.closed = true
	c.running.Unlock()
	c.running.Wait()
	c.settler.stop()
	c.settle()
}

// find returns the entry of an id with its lock held, or nil.
func (c *Coordinator) find(id string) *entry {
	for {
		c.registry.RLock()
		e := c.registry.entries[id]
		c.registry.RUnlock()
		if e == nil {
			return nil
		}
		e.mu.Lock()
		if !e.dead {
			return e
		}
		e.mu.Unlock()
	}
}

// findOrMake returns the entry of an id with its lock held.
func (c *Coordinator) findOrMake(id string) *entry {
	for {
		if e := c.find(id); e != nil {
			return e
		}
		c.registry.Lock()
		if c.registry.entries[id] == nil {
			e := &entry{id: strings.Clone(id), state: State{
				ProducerID: NoProducerID, PreviousID: NoProducerID, NextID: NoProducerID, Epoch: NoEpoch, LastEpoch: NoEpoch,
			}}
			c.registry.entries[e.id] = e
		}
		c.registry.Unlock()
	}
}

// bury takes an entry out of the registry. The caller holds its lock.
func (c *Coordinator) bury(e *entry) {
	e.dead = true
	c.registry.Lock()
	delete(c.registry.entries, e.id)
	c.registry.Unlock()
}

// ready returns the entry of an id with its lock held and the store agreeing with it. While the markers of its last
// transaction are being written it waits a moment for that. Code is None or why there is no entry.
func (c *Coordinator) ready(id string) (*entry, protocol.ErrorCode) {
	if id == "" {
		return nil, protocol.InvalidRequest
	}
	e := c.find(id)
	if e == nil {
		return nil, protocol.InvalidProducerIDMapping
	}
	if e = c.quiet(e); e == nil || !e.known {
		if e != nil {
			e.mu.Unlock()
		}
		return nil, protocol.InvalidProducerIDMapping
	}
	if code := c.agree(e); code != protocol.None {
		e.mu.Unlock()
		return nil, code
	}
	return e, protocol.None
}

// quiet waits a moment for a prepared transaction to be complete. The caller holds e.mu; what is returned is held too, and
// nil if the id is gone meanwhile.
func (c *Coordinator) quiet(e *entry) *entry {
	limit := c.Config().CompletionWait
	if e.completed == nil || limit <= 0 {
		return e
	}
	done := e.completed
	e.mu.Unlock()
	timer := c.Clock.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C():
	case <-c.closing.Done():
	}
	return c.find(e.id)
}

// agree writes the state again if a commit has failed and the store may hold another one.
func (c *Coordinator) agree(e *entry) protocol.ErrorCode {
	if !e.unsettled {
		return protocol.None
	}
	return c.commit(e, e.state)
}

// commit makes a state durable and applies it. The caller holds e.mu.
func (c *Coordinator) commit(e *entry, next State) protocol.ErrorCode {
	var b meta.Batch
	b.PutTransaction(e.id, next.encode(make([]byte, 0, 128)))
	if err := c.Store.Commit(&b); err != nil {
		e.unsettled = true
		c.settleLater(e, settleAgain)
		c.metrics.storeErrors.Inc()
		c.Logger.Warn("transaction's state not committed", zap.String("transactional id", e.id), zap.Error(err))
		return protocol.CoordinatorNotAvailable
	}
	e.state, e.known, e.unsettled, e.late = next, true, false, false
	return protocol.None
}

// all lists the entries by id.
func (c *Coordinator) all() []*entry {
	c.registry.RLock()
	list := make([]*entry, 0, len(c.registry.entries))
	for _, e := range c.registry.entries {
		list = append(list, e)
	}
	c.registry.RUnlock()
	slices.SortFunc(list, func(a, b *entry) int { return strings.Compare(a.id, b.id) })
	return list
}

// size is the number of transactional ids.
func (c *Coordinator) size() int {
	c.registry.RLock()
	defer c.registry.RUnlock()
	return len(c.registry.entries)
}
