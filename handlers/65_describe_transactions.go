package handlers

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// DescribeTransactions, version 0. An id that comes twice is answered once.

func (h *Handlers) describeTransactions(r *protocol.Request, req *kmsg.DescribeTransactionsRequest) protocol.Response {
	body := kmsg.NewPtrDescribeTransactionsResponse()
	body.Version = req.Version
	for _, id := range distinct(req.TransactionalIDs) {
		s := h.describeTransaction(id)
		body.TransactionStates = append(body.TransactionStates, s)
	}
	return reply(r, body)
}

func (h *Handlers) describeTransaction(id string) kmsg.DescribeTransactionsResponseTransactionState {
	s := kmsg.NewDescribeTransactionsResponseTransactionState()
	s.TransactionalID = strings.Clone(id)
	s.Topics = []kmsg.DescribeTransactionsResponseTransactionStateTopic{}
	d, code := h.Transactions.Describe(id)
	if code != protocol.None {
		s.ErrorCode = int16(code)
		return s
	}
	s.State, s.TimeoutMillis, s.StartTimestamp = d.Status.String(), d.TimeoutMs, d.StartMs
	s.ProducerID, s.ProducerEpoch = d.ProducerID, d.Epoch
	for _, p := range d.Partitions {
		if n := len(s.Topics); n == 0 || s.Topics[n-1].Topic != p.Topic {
			s.Topics = append(s.Topics, kmsg.DescribeTransactionsResponseTransactionStateTopic{Topic: p.Topic})
		}
		t := &s.Topics[len(s.Topics)-1]
		t.Partitions = append(t.Partitions, p.Number)
	}
	return s
}
