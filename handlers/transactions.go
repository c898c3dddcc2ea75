package handlers

import (
	"errors"

	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
)

// Transactions is the transaction coordinator. Concurrent calls are allowed; it keeps nothing of a request. Its methods
// wait for the metadata store. *txn.Coordinator implements it.
type Transactions interface {
	InitProducerID(r txn.InitRequest) (txn.Producer, protocol.ErrorCode)
	AddPartitions(r txn.AddRequest) protocol.ErrorCode
	// Verify says of each partition whether a producer's transaction takes batches in it. A transaction that does doesn't
	// end before release is called, so that its batches are in the logs ahead of its markers. Release is called once,
	// whatever the codes are.
	Verify(r txn.VerifyRequest) (codes []protocol.ErrorCode, release func())
	End(r txn.EndRequest) (txn.Producer, protocol.ErrorCode)
	Describe(id string) (txn.Description, protocol.ErrorCode)
	List(want func(*txn.Description) bool) []txn.Description
}

var _ Transactions = (*txn.Coordinator)(nil)

// noTransactions is the coordinator of a broker that has none. It answers with the one code that all clients take for
// final.
type noTransactions struct{}

var _ Transactions = noTransactions{}

// InitProducerID refuses.
func (noTransactions) InitProducerID(txn.InitRequest) (txn.Producer, protocol.ErrorCode) {
	return txn.Producer{ID: txn.NoProducerID, Epoch: txn.NoEpoch}, protocol.TransactionalIDAuthFailed
}

// AddPartitions refuses.
func (noTransactions) AddPartitions(txn.AddRequest) protocol.ErrorCode {
	return protocol.TransactionalIDAuthFailed
}

// Verify knows of no transaction.
func (noTransactions) Verify(r txn.VerifyRequest) (codes []protocol.ErrorCode, release func()) {
	codes = make([]protocol.ErrorCode, len(r.Partitions))
	for i := range codes {
		codes[i] = protocol.TransactionAbortable
	}
	return codes, func() {}
}

// End refuses.
func (noTransactions) End(txn.EndRequest) (txn.Producer, protocol.ErrorCode) {
	return txn.Producer{ID: txn.NoProducerID, Epoch: txn.NoEpoch}, protocol.TransactionalIDAuthFailed
}

// Describe knows none.
func (noTransactions) Describe(string) (txn.Description, protocol.ErrorCode) {
	return txn.Description{}, protocol.TransactionalIDNotFound
}

// List knows none.
func (noTransactions) List(func(*txn.Description) bool) []txn.Description { return nil }

// The transaction versions of clients: those with transactions v2 are told by the versions of their requests.
const (
	transactionsV1 int16 = 0
	transactionsV2 int16 = 2
)

// fencedCode is a coordinator's code for clients that know PRODUCER_FENCED only since a version of their request.
func fencedCode(code protocol.ErrorCode, version, since int16) protocol.ErrorCode {
	if code == protocol.ProducerFenced && version < since {
		return protocol.InvalidProducerEpoch
	}
	return code
}

// offsetsPartition is the partition of __consumer_offsets that a group's offsets would be in.
func (h *Handlers) offsetsPartition(group string) txn.Partition {
	return txn.Partition{Topic: offsetsTopic, Number: javaHash(group) & 0x7fffffff % h.topicByName(offsetsTopic).Partitions}
}

// javaHash is String.hashCode, which goes by UTF-16.
func javaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			h = 31*h + 0xd800 + r>>10
			r = 0xdc00 + r&0x3ff
		}
		h = 31*h + r
	}
	return h
}

// coordinatorEpoch is the epoch in this broker's markers. There is one coordinator, which never moves.
const coordinatorEpoch = 0

// MarkerLogs is where the transaction coordinator writes its markers: the logs of topics by name.
type MarkerLogs struct {
	// Topics is the view of the topics as they are now.
	Topics func() *meta.Topics
	Logs   Logs
	Clock  clock.Clock
}

var _ txn.Logs = MarkerLogs{}

// AppendMarker implements txn.Logs.
func (m MarkerLogs) AppendMarker(p txn.Partition, marker txn.Marker) (txn.Commit, error) {
	t := m.Topics().Named(p.Topic)
	if t == nil || p.Number < 0 || p.Number >= t.Partitions {
		return nil, txn.ErrNoPartition
	}
	log, err := m.Logs.Get(t.ID, p.Number)
	if err == nil {
		var commit txn.Commit
		if commit, err = m.append(log, marker, coordinatorEpoch); err == nil {
			return commit, nil
		}
		if errors.Is(err, storage.ErrCoordinatorEpoch) {
			commit, err = m.append(log, marker, knownCoordinatorEpoch(log, marker.ProducerID))
		}
		if err == nil {
			return commit, nil
		}
	}
	switch {
	case errors.Is(err, storage.ErrProducerEpoch):
		return nil, txn.ErrNoPartition // someone with a newer epoch has ended it
	case errors.Is(err, storage.ErrClosed) && m.Topics().WithID(t.ID) == nil:
		return nil, txn.ErrNoPartition
	}
	return nil, err
}

func (m MarkerLogs) append(log Log, marker txn.Marker, epoch int32) (txn.Commit, error) {
	done, err := appendMarker(log, marker, epoch, clock.UnixMilli(m.Clock))
	if err != nil || done == nil {
		return nil, err
	}
	return done, nil
}

// appendMarker ends a producer's transaction in a log. What it returns, if not nil, is to be waited for.
func appendMarker(log Log, m txn.Marker, epoch int32, nowMs int64) (storage.Commit, error) {
	b := batch.ControlBatch(m.ProducerID, m.Epoch, batch.Marker{Commit: m.Commit, CoordinatorEpoch: epoch}, nowMs)
	done, err := log.Append(b, storage.AppendOptions{TransactionV2: m.Version >= transactionsV2})
	return done.Commit, err
}

// knownCoordinatorEpoch is the epoch of the last marker a log has of a producer: a tool may have written one with a higher
// epoch than this coordinator's.
func knownCoordinatorEpoch(log Log, producerID int64) int32 {
	for _, p := range log.Producers() {
		if p.ProducerID == producerID {
			return max(p.CoordinatorEpoch, coordinatorEpoch)
		}
	}
	return coordinatorEpoch
}
