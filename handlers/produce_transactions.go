package handlers

import (
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// Transactions is what Produce needs of the transaction coordinator. Concurrent calls are allowed.
type Transactions interface {
	// Verify says of each partition whether a producer's transaction takes batches in it: its code is None, or what the
	// client is told. A transaction that does doesn't end before release is called, so that its batches are in the logs
	// ahead of its markers. Release is called once, whatever the codes are. Verify may wait for the metadata store.
	Verify(q TransactionQuery) (codes []protocol.ErrorCode, release func())
}

// TransactionQuery asks whether a transaction takes batches.
type TransactionQuery struct {
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	Partitions      []TransactionPartition
	// Add puts partitions that aren't part of the transaction yet into it, starting it if need be (KIP-890).
	Add bool
	// Version is the Produce request's: before 11 clients don't know TransactionAbortable.
	Version int16
}

// TransactionPartition names a partition.
type TransactionPartition struct {
	Topic     string
	Partition int32
}

// transactionAbortableSince is the first Produce version whose clients know TransactionAbortable.
const transactionAbortableSince = 11

// appendVerified asks the coordinator about the transactional batches whose transaction isn't open in their log, and
// appends those that it vouches for. The batches of one producer, which is all that clients send, are asked for together.
func (p *produce) appendVerified() {
	for rest := p.unverified; len(rest) > 0; {
		id, epoch := rest[0].batch.ProducerID(), rest[0].batch.ProducerEpoch()
		n := 1
		for n < len(rest) && rest[n].batch.ProducerID() == id && rest[n].batch.ProducerEpoch() == epoch {
			n++
		}
		p.appendOne(id, epoch, rest[:n])
		rest = rest[n:]
	}
}

// appendOne does so for the batches of one producer.
func (p *produce) appendOne(id int64, epoch int16, batches []unverifiedBatch) {
	if p.h.Transactions == nil {
		for i := range batches {
			p.notAdded(&batches[i])
		}
		return
	}
	q := TransactionQuery{
		TransactionalID: *p.req.TransactionID, ProducerID: id, ProducerEpoch: epoch,
		Add: p.transactionsV2(), Version: p.req.Version,
	}
	for i := range batches {
		q.Partitions = append(q.Partitions, TransactionPartition{Topic: batches[i].topic, Partition: batches[i].partition})
	}
	codes, release := p.h.Transactions.Verify(q)
	defer release()
	for i := range batches {
		u := &batches[i]
		switch codes[i] {
		case protocol.None:
			err := p.append(u.place, u.ready, storage.AppendOptions{TransactionVerified: true, TransactionV2: p.transactionsV2()})
			p.refused(u.place, u.log, err)
		case protocol.TransactionAbortable, protocol.InvalidTxnState:
			p.notAdded(u)
		default:
			p.fail(u.place, codes[i])
		}
	}
}

// notAdded answers a batch whose partition isn't part of an open transaction.
func (p *produce) notAdded(u *unverifiedBatch) {
	if p.req.Version >= transactionAbortableSince {
		p.fail(u.place, protocol.TransactionAbortable)
		return
	}
	p.fail(u.place, protocol.InvalidTxnState)
	message := "Partition was not added to the transaction"
	p.answer(u.place).ErrorMessage = &message
}
