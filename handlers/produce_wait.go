package handlers

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
)

// lastSyncWait is how long a Produce still waits for its syncs once its connection ends or the broker stops: what has been
// appended should be answered if it can be.
const lastSyncWait = time.Second

// produceWait is a Produce whose batches are in their logs but not acknowledged yet. It is used by one goroutine.
type produceWait struct {
	clock   clock.Clock
	request protocol.Request
	body    *kmsg.ProduceResponse
	waiting []pendingCommit
	timeout time.Duration // from the request; <= 0 sets no limit, as a sync always ends

	timer   clock.Timer // nil without a limit
	expired bool
}

// wait answers when all batches are acknowledged, or with RequestTimedOut for those that aren't in time.
func (w *produceWait) wait(ctx context.Context) protocol.Response {
	if w.timeout > 0 {
		w.timer = w.clock.NewTimer(w.timeout)
		defer func() { w.timer.Stop() }()
	}
	for i := range w.waiting {
		if code := w.await(ctx, w.waiting[i].commit); code != protocol.None {
			w.fail(w.waiting[i].place, code)
		}
	}
	return reply(&w.request, w.body)
}

// await waits for one commit.
func (w *produceWait) await(ctx context.Context, c storage.Commit) protocol.ErrorCode {
	select {
	case <-c.Done():
		return codeOf(c.Err())
	default:
	}
	if w.expired {
		return protocol.RequestTimedOut
	}
	var limit <-chan time.Time
	if w.timer != nil {
		limit = w.timer.C()
	}
	select {
	case <-c.Done():
		return codeOf(c.Err())
	case <-limit:
	case <-ctx.Done():
		if w.stopping(c) {
			return codeOf(c.Err())
		}
	}
	w.expired = true
	return protocol.RequestTimedOut
}

// stopping gives a commit a last chance and says whether it took it.
func (w *produceWait) stopping(c storage.Commit) bool {
	last := w.clock.NewTimer(lastSyncWait)
	defer last.Stop()
	select {
	case <-c.Done():
		return true
	case <-last.C():
		return false
	}
}

// fail turns a partition's answer into an error.
func (w *produceWait) fail(at place, code protocol.ErrorCode) {
	answer := &w.body.Topics[at.topic].Partitions[at.partition]
	answer.ErrorCode = int16(code)
	answer.BaseOffset, answer.LogAppendTime, answer.LogStartOffset = -1, -1, -1
}
