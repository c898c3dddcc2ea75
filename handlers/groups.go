package handlers

import (
	"bytes"
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/handlers/group"
	"github.com/kbroker/kbroker/protocol"
)

// Groups is the group coordinator. Concurrent calls are allowed; it keeps nothing of a request, and knows topics by name.
// *group.Coordinator implements it.
type Groups interface {
	// JoinGroup waits until the group's members have come together. It and SyncGroup empty the request, so that a wait holds no
	// memory.
	JoinGroup(ctx context.Context, c group.Client, version int16, q *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse
	// SyncGroup waits until the leader has told who gets what.
	SyncGroup(ctx context.Context, version int16, q *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse
	Heartbeat(q *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse
	LeaveGroup(version int16, q *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse
	// OffsetCommit returns once the offsets are durable. The answer has the request's partitions in their order.
	OffsetCommit(q *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse
	OffsetFetch(q *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse
	OffsetDelete(q *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse
	DescribeGroups(q *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse
	ListGroups(q *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse
	DeleteGroups(q *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse
	// ConsumerGroupHeartbeat and ConsumerGroupDescribe are the protocol of KIP-848.
	ConsumerGroupHeartbeat(c group.Client, q *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse
	ConsumerGroupDescribe(q *kmsg.ConsumerGroupDescribeRequest) *kmsg.ConsumerGroupDescribeResponse
	// TxnOffsetCommit returns once the offsets are durable. They count when the transaction is committed. That it is open is
	// for the caller to check. The answer has the request's partitions in their order.
	TxnOffsetCommit(q *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse
	// CompleteTransaction makes the offsets of a producer's transaction count, or drops them. It may be called again.
	CompleteTransaction(producerID int64, commit bool) error
	// TopicsDeleted forgets the offsets that were committed on topics.
	TopicsDeleted(topics []string)
}

var _ Groups = (*group.Coordinator)(nil)

// clientOf is a request's sender as descriptions of groups show it.
func clientOf(r *protocol.Request) group.Client {
	return group.Client{ID: r.Header.ClientID, Host: "/" + r.Conn.Peer.Addr().Unmap().String()}
}

// answered frames the coordinator's answer in the version of the request.
func answered(r *protocol.Request, a kmsg.Response) protocol.Response {
	a.SetVersion(r.Header.Version)
	return reply(r, a)
}

// distinct keeps the first of each, in order. What a request names again and again must not make its answer larger than
// what there is to tell.
func distinct(all []string) []string {
	seen := make(map[string]struct{}, len(all))
	kept := all[:0]
	for _, s := range all {
		if _, again := seen[s]; !again {
			seen[s] = struct{}{}
			kept = append(kept, s)
		}
	}
	return kept
}

// copied takes bytes out of a request's frame.
func copied(b []byte) []byte { return bytes.Clone(b) }
