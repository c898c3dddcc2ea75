package txn

import (
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol"
)

// InitRequest asks for a producer id and epoch.
type InitRequest struct {
	TransactionalID string
	TimeoutMs       int32
	// ExpectedID and ExpectedEpoch are what the producer believes to have; NoProducerID and NoEpoch if nothing.
	ExpectedID    int64
	ExpectedEpoch int16
}

// Producer is a producer id and epoch.
type Producer struct {
	ID    int64
	Epoch int16
}

// noProducer goes with errors.
func noProducer() Producer { return Producer{NoProducerID, NoEpoch} }

// InitProducerID gives a transactional id's producer the next epoch, or a new producer id. A transaction that is open is
// aborted, and the answer is CONCURRENT_TRANSACTIONS until that is complete. It returns once the answer is durable.
func (c *Coordinator) InitProducerID(r InitRequest) (Producer, protocol.ErrorCode) {
	switch {
	case r.TransactionalID == "":
		return noProducer(), protocol.InvalidRequest
	case r.TimeoutMs <= 0 || time.Duration(r.TimeoutMs)*time.Millisecond > c.Config().MaxTimeout:
		return noProducer(), protocol.InvalidTransactionTimeout
	}
	e := c.quiet(c.findOrMake(r.TransactionalID))
	if e == nil {
		e = c.findOrMake(r.TransactionalID)
	}
	defer e.mu.Unlock()
	code := c.init(e, r)
	if !e.known && !e.dead {
		c.bury(e)
	}
	if code != protocol.None {
		return noProducer(), code
	}
	return Producer{e.state.ProducerID, e.state.Epoch}, protocol.None
}

// init does so. The caller holds e.mu.
func (c *Coordinator) init(e *entry, r InitRequest) protocol.ErrorCode {
	if code := c.agree(e); code != protocol.None {
		return code
	}
	want := expected{r.ExpectedID, r.ExpectedEpoch, r.ExpectedID != NoProducerID}
	fence, code := e.state.checkInit(want)
	if code != protocol.None {
		return code
	}
	if fence {
		if code = c.fence(e); code == protocol.None {
			code = protocol.ConcurrentTransactions
		}
		return code
	}
	now := c.Clock.Now().UnixMilli()
	if !e.known || e.state.rotates(want) {
		id, idCode := c.newID()
		if idCode != protocol.None {
			return idCode
		}
		if e.known {
			return c.commit(e, e.state.rotated(id, r.TimeoutMs, want, now))
		}
		fresh := e.state
		fresh.ProducerID = id
		next, _ := fresh.bumped(r.TimeoutMs, want, now)
		return c.commit(e, next)
	}
	next, code := e.state.bumped(r.TimeoutMs, want, now)
	if code != protocol.None {
		return code
	}
	return c.commit(e, next)
}

// newID is a producer id that nobody has had.
func (c *Coordinator) newID() (int64, protocol.ErrorCode) {
	id, err := c.IDs.Next()
	if err != nil {
		c.Logger.Warn("no producer id", zap.Error(err))
		return NoProducerID, protocol.CoordinatorNotAvailable
	}
	return id, protocol.None
}

// fence aborts an open transaction and shuts its producer out. The caller holds e.mu.
func (c *Coordinator) fence(e *entry) protocol.ErrorCode {
	version, next := c.Version(), NoProducerID
	if e.state.needsID(version) {
		var code protocol.ErrorCode
		if next, code = c.newID(); code != protocol.None {
			return code
		}
	}
	return c.prepare(e, e.state.fenced(version, next, c.Clock.Now().UnixMilli()))
}

// prepare makes a decision durable and begins to carry it out. The caller holds e.mu.
func (c *Coordinator) prepare(e *entry, next State) protocol.ErrorCode {
	if code := c.commit(e, next); code != protocol.None {
		return code
	}
	c.metrics.decided(next.Status == PrepareCommit)
	e.completed = make(chan struct{})
	c.carryOut(e)
	return protocol.None
}

// AddRequest puts partitions into a transaction.
type AddRequest struct {
	TransactionalID string
	Producer        Producer
	Partitions      []Partition
	// Version is the client's transaction version, 0 or 2.
	Version int16
}

// AddPartitions puts partitions into the producer's transaction, which begins if there is none. It returns once that is
// durable. It keeps nothing of the request.
func (c *Coordinator) AddPartitions(r AddRequest) protocol.ErrorCode {
	e, code := c.ready(r.TransactionalID)
	if code != protocol.None {
		return code
	}
	defer e.mu.Unlock()
	return c.add(e, &r)
}

// add does so. The caller holds e.mu.
func (c *Coordinator) add(e *entry, r *AddRequest) protocol.ErrorCode {
	if code := e.state.checkAdd(r.Producer.ID, r.Producer.Epoch); code != protocol.None {
		return code
	}
	if e.state.Status == Ongoing && e.state.hasAll(r.Partitions) {
		return protocol.None
	}
	return c.commit(e, e.state.added(r.Partitions, r.Version, c.Clock.Now().UnixMilli()))
}

// VerifyRequest asks whether a producer's transaction has partitions.
type VerifyRequest struct {
	AddRequest
	// Add puts those that it hasn't into it (KIP-890).
	Add bool
}

// Verify says of each partition whether the producer's transaction has it: TRANSACTION_ABORTABLE if not. Codes are those
// of the coordinator; what a producer is told differs. A transaction that has one doesn't end before release is called,
// which is to be called once, whatever the codes are.
func (c *Coordinator) Verify(r VerifyRequest) (codes []protocol.ErrorCode, release func()) {
	codes = make([]protocol.ErrorCode, len(r.Partitions))
	if r.TransactionalID == "" {
		return fill(codes, protocol.InvalidRequest), func() {}
	}
	e, code := c.ready(r.TransactionalID)
	if code != protocol.None {
		return fill(codes, code), func() {}
	}
	defer e.mu.Unlock()
	if r.Add {
		code = c.add(e, &r.AddRequest)
	} else {
		code = e.state.checkAdd(r.Producer.ID, r.Producer.Epoch)
	}
	if code != protocol.None {
		return fill(codes, code), func() {}
	}
	for i, p := range r.Partitions {
		if !e.state.has(p) {
			codes[i] = protocol.TransactionAbortable
		}
	}
	e.guards++
	return codes, e.release
}

func fill(codes []protocol.ErrorCode, code protocol.ErrorCode) []protocol.ErrorCode {
	for i := range codes {
		codes[i] = code
	}
	return codes
}

// release ends one vouching.
func (e *entry) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guards--; e.guards == 0 && e.unguarded != nil {
		close(e.unguarded)
		e.unguarded = nil
	}
}

// EndRequest ends a transaction.
type EndRequest struct {
	TransactionalID string
	Producer        Producer
	Commit          bool
	// Version is the client's transaction version, 0 or 2.
	Version int16
}

// End ends the producer's transaction. It returns once the decision is durable, perhaps before the markers are written,
// and gives the producer id and epoch that hold from then on (with version 2).
func (c *Coordinator) End(r EndRequest) (Producer, protocol.ErrorCode) {
	e, code := c.ready(r.TransactionalID)
	if code != protocol.None {
		return noProducer(), code
	}
	defer e.mu.Unlock()
	ends, code := e.state.checkEnd(r.Producer.ID, r.Producer.Epoch, r.Commit, r.Version)
	if code != protocol.None {
		return noProducer(), code
	}
	if !ends {
		return Producer{e.state.ProducerID, e.state.Epoch}, protocol.None
	}
	next := NoProducerID
	if e.state.needsID(r.Version) {
		if next, code = c.newID(); code != protocol.None {
			return noProducer(), code
		}
	}
	decided := e.state.ended(r.Commit, r.Version, next, c.Clock.Now().UnixMilli())
	var after Producer
	after.ID, after.Epoch = decided.after()
	if code = c.prepare(e, decided); code != protocol.None {
		return noProducer(), code
	}
	return after, protocol.None
}

// Description is what tools are told of a transactional id.
type Description struct {
	TransactionalID string
	State
}

// Describe tells of one transactional id.
func (c *Coordinator) Describe(id string) (Description, protocol.ErrorCode) {
	if id == "" {
		return Description{}, protocol.InvalidRequest
	}
	e := c.find(id)
	if e == nil {
		return Description{}, protocol.TransactionalIDNotFound
	}
	defer e.mu.Unlock()
	if !e.known {
		return Description{}, protocol.TransactionalIDNotFound
	}
	return Description{e.id, e.state}, protocol.None
}

// List tells of all transactional ids for which want returns true, by id. Descriptions are shared and must not be
// changed.
func (c *Coordinator) List(want func(*Description) bool) []Description {
	var list []Description
	for _, e := range c.all() {
		e.mu.Lock()
		d := Description{e.id, e.state}
		shown := e.known && !e.dead
		e.mu.Unlock()
		if shown && want(&d) {
			list = append(list, d)
		}
	}
	return list
}

// StatusNamed finds a status by its name as tools write it. Dead and PrepareEpochFence are known, but never a status here.
func StatusNamed(name string) (s Status, known bool) {
	for i, n := range statusNames() {
		if n == name {
			return Status(i), true
		}
	}
	if name == "Dead" || name == "PrepareEpochFence" {
		return CompleteAbort + 1, true
	}
	return 0, false
}
