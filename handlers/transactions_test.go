package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (g *groupsFake) TxnOffsetCommit(q *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse {
	g.keep(q)
	return kmsg.NewPtrTxnOffsetCommitResponse()
}

func (g *groupsFake) CompleteTransaction(int64, bool) error { return nil }
