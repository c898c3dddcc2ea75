package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fencePause is between looks at whether an abort is complete.
const fencePause = 20 * time.Millisecond

// fence takes a transactional id's producer its transaction away, and waits until that is aborted.
func fence(ctx context.Context, cl *kgo.Client, t *transaction) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr(t.ID), max(t.TimeoutMs, 1)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil && !errors.Is(err, kerr.ConcurrentTransactions) {
		return err
	}
	for {
		now, err := describeTransaction(ctx, kadm.NewClient(cl), t.ID)
		switch {
		case err != nil:
			return err
		case now.ProducerID != t.ProducerID || now.Epoch != t.Epoch && now.State != "PrepareAbort":
			return nil
		}
		select {
		case <-time.After(fencePause):
		case <-ctx.Done():
			return fmt.Errorf("it is still %s: %w", now.State, ctx.Err())
		}
	}
}
