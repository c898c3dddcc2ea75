package handlers

import (
	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

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
		p.appendOne(txn.Producer{ID: id, Epoch: epoch}, rest[:n])
		rest = rest[n:]
	}
}

// appendOne does so for the batches of one producer. From version 12 on their partitions are put into the transaction.
func (p *produce) appendOne(producer txn.Producer, batches []unverifiedBatch) {
	q := txn.VerifyRequest{
		AddRequest: txn.AddRequest{
			TransactionalID: *p.req.TransactionID, Producer: producer,
			Partitions: make([]txn.Partition, 0, len(batches)), Version: transactionsV2,
		},
		Add: p.transactionsV2(),
	}
	for i := range batches {
		q.Partitions = append(q.Partitions, txn.Partition{Topic: batches[i].topic, Number: batches[i].partition})
	}
	codes, release := p.h.Transactions.Verify(q)
	defer release()
	for i := range batches {
		u := &batches[i]
		if codes[i] != protocol.None {
			p.notVouchedFor(u, codes[i])
			continue
		}
		if u.fault != nil {
			p.invalid(u.place, u.log, u.fault)
			continue
		}
		err := p.append(u.place, u.ready, storage.AppendOptions{TransactionVerified: true, TransactionV2: p.transactionsV2()})
		p.refused(u.place, u.log, err)
	}
}

// notVouchedFor answers a batch by the coordinator's verdict. Codes that older producers would make the wrong thing of
// become ones by which they try again.
func (p *produce) notVouchedFor(u *unverifiedBatch, code protocol.ErrorCode) {
	switch {
	case code == protocol.ProducerFenced:
		p.fail(u.place, protocol.InvalidProducerEpoch)
	case code == protocol.TransactionAbortable && p.req.Version < transactionAbortableSince, code == protocol.InvalidTxnState:
		p.failWith(u.place, protocol.InvalidTxnState, "Partition was not added to the transaction")
	case code == protocol.CoordinatorNotAvailable, code == protocol.ConcurrentTransactions && !p.transactionsV2():
		p.failWith(u.place, protocol.NotEnoughReplicas,
			"Unable to verify the partition has been added to the transaction. Underlying error: "+code.String())
	default:
		p.fail(u.place, code)
	}
}

func (p *produce) failWith(at place, code protocol.ErrorCode, message string) {
	p.fail(at, code)
	p.answer(at).ErrorMessage = &message
}
