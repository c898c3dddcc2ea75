package txn

import (
	"cmp"
	"math"
	"slices"
)

// NoProducerID and NoEpoch stand for a producer id or an epoch that isn't there.
const (
	NoProducerID int64 = -1
	NoEpoch      int16 = -1
)

// lastUsableEpoch is the last epoch that a producer may be given: one above it fences it, and then its id is replaced.
const lastUsableEpoch = math.MaxInt16 - 1

// noTime stands for a start time that isn't there.
const noTime = -1

// OffsetsTopic holds, for clients, the offsets of groups. A transaction that commits offsets has a partition of it.
const OffsetsTopic = "__consumer_offsets"

// Status is where a transactional id's transaction stands. The numbers are in the store.
type Status uint8

// The statuses.
const (
	Empty Status = iota
	Ongoing
	PrepareCommit
	PrepareAbort
	CompleteCommit
	CompleteAbort
)

// statusNames are the names by Status.
func statusNames() [6]string {
	return [...]string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}
}

// String is the status as Kafka's tools show it.
func (s Status) String() string {
	if names := statusNames(); int(s) < len(names) {
		return names[s]
	}
	return "Unknown"
}

// prepared says that the transaction is decided and its markers are being written.
func (s Status) prepared() bool { return s == PrepareCommit || s == PrepareAbort }

// completed says that the last transaction has ended.
func (s Status) completed() bool { return s == CompleteCommit || s == CompleteAbort }

// Partition names a partition.
type Partition struct {
	Topic  string
	Number int32
}

// compare orders partitions by topic and number.
func (p Partition) compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Number, q.Number))
}

// State is what is known of a transactional id. It is a value: a changed one is made from it, and Partitions is never
// changed in place.
type State struct {
	Status     Status
	ProducerID int64
	// PreviousID is the producer id before the last change, by which an EndTxn is known again whose answer, with a new
	// producer id, got lost.
	PreviousID int64
	// NextID takes the producer id's place once the transaction is complete; NoProducerID if it stays.
	NextID int64
	Epoch  int16
	// LastEpoch is the epoch before, by which a producer that asks again for a new one is known; NoEpoch if there is none.
	LastEpoch int16
	// TimeoutMs is how long a transaction may be open.
	TimeoutMs int32
	// StartMs is when the last transaction began, in Unix time; -1 if there hasn't been one since the last InitProducerId.
	StartMs  int64
	UpdateMs int64
	// Version is the transaction version of the client that changed the state last, 0 or 2.
	Version int16
	// Partitions is what the transaction writes to, in order.
	Partitions []Partition
}

// exhausted says that the producer id has no epoch left to give.
func (s *State) exhausted() bool { return s.Epoch >= lastUsableEpoch }

// has says whether a partition is part of the transaction.
func (s *State) has(p Partition) bool {
	_, found := slices.BinarySearchFunc(s.Partitions, p, Partition.compare)
	return found
}

// hasAll says whether all partitions are.
func (s *State) hasAll(all []Partition) bool {
	for _, p := range all {
		if !s.has(p) {
			return false
		}
	}
	return true
}

// with is the transaction's partitions and more. What comes from the caller is copied.
func (s *State) with(more []Partition) []Partition {
	all := slices.Clone(s.Partitions)
	for _, p := range more {
		if !s.has(p) {
			all = append(all, p.clone())
		}
	}
	slices.SortFunc(all, Partition.compare)
	return slices.Compact(all)
}

// change is a copy to make the next state of.
func (s *State) change(nowMs int64) State {
	next := *s
	next.PreviousID, next.UpdateMs = s.ProducerID, nowMs
	return next
}

// timedOut says that the transaction has been open for too long.
func (s *State) timedOut(nowMs int64) bool {
	return s.Status == Ongoing && s.StartMs+int64(s.TimeoutMs) < nowMs
}

// expired says that the transactional id hasn't been used for so long that it may be forgotten.
func (s *State) expired(nowMs, expirationMs int64) bool {
	return (s.Status == Empty || s.Status.completed()) && s.UpdateMs <= nowMs-expirationMs
}
