package handlers

import (
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
)

// ListTransactions, versions 0 to 2. The pattern for transactional ids is of RE2, which lacks some of what Java's has;
// such a pattern is answered like a bad one.

// transactionFilter is what a ListTransactions asks for.
type transactionFilter struct {
	states    []txn.Status
	anyState  bool
	producers map[int64]bool
	longerMs  int64 // < 0: any
	nowMs     int64
	pattern   *regexp.Regexp // nil: any
}

func (h *Handlers) listTransactions(r *protocol.Request, req *kmsg.ListTransactionsRequest) protocol.Response {
	body := kmsg.NewPtrListTransactionsResponse()
	body.Version = req.Version
	body.UnknownStateFilters = []string{}
	body.TransactionStates = []kmsg.ListTransactionsResponseTransactionState{}
	f := transactionFilter{
		anyState: len(req.StateFilters) == 0, producers: setOf(req.ProducerIDFilters),
		longerMs: req.DurationFilterMillis, nowMs: clock.UnixMilli(h.Clock),
	}
	if req.TransactionalIDPattern != nil && *req.TransactionalIDPattern != "" {
		var err error
		if f.pattern, err = regexp.Compile(`\A(?:` + *req.TransactionalIDPattern + `)\z`); err != nil {
			body.ErrorCode = int16(protocol.InvalidRegularExpression)
			return reply(r, body)
		}
	}
	for _, name := range distinct(req.StateFilters) {
		s, known := txn.StatusNamed(name)
		if !known {
			body.UnknownStateFilters = append(body.UnknownStateFilters, strings.Clone(name))
			continue
		}
		f.states = append(f.states, s)
	}
	for _, d := range h.Transactions.List(f.wants) {
		s := kmsg.NewListTransactionsResponseTransactionState()
		s.TransactionalID, s.ProducerID, s.TransactionState = d.TransactionalID, d.ProducerID, d.Status.String()
		body.TransactionStates = append(body.TransactionStates, s)
	}
	return reply(r, body)
}

func (f *transactionFilter) wants(d *txn.Description) bool {
	return (f.anyState || slices.Contains(f.states, d.Status)) &&
		(len(f.producers) == 0 || f.producers[d.ProducerID]) &&
		(f.longerMs < 0 || f.nowMs-d.StartMs > f.longerMs) &&
		(f.pattern == nil || f.pattern.MatchString(d.TransactionalID))
}
