package group

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// joinOptions are the parts of a join that tests vary.
type joinOptions struct {
	version   int16
	memberID  string
	instance  string
	session   time.Duration
	rebalance time.Duration
	kind      string
	protocols []string // name, metadata, name, metadata...
	client    string
}

// joinLater sends a join and returns the call that waits.
func (b *testBroker) joinLater(group string, o joinOptions) *waiter[*kmsg.JoinGroupResponse] {
	if o.version == 0 {
		o.version = 3
	}
	if o.version < 0 {
		o.version = 0
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = o.version, group, o.memberID, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 60_000
	if o.session != 0 {
		req.SessionTimeoutMillis = int32(o.session.Milliseconds())
	}
	if o.rebalance != 0 {
		req.RebalanceTimeoutMillis = int32(o.rebalance.Milliseconds())
	}
	if o.kind != "" {
		req.ProtocolType = o.kind
	}
	if o.instance != "" {
		req.InstanceID = &o.instance
	}
	if len(o.protocols) == 0 {
		o.protocols = []string{"range", "m"}
	}
	for i := 0; i < len(o.protocols); i += 2 {
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: o.protocols[i], Metadata: []byte(o.protocols[i+1])})
	}
	w := newWaiter[*kmsg.JoinGroupResponse](o.version)
	b.join(&joinRequest{JoinGroupRequest: req, client: Client{ID: "c" + o.client, Host: "/127.0.0.1"}, wait: w})
	return w
}

// syncLater sends a sync; assignments are member id, assignment...
func (b *testBroker) syncLater(group, memberID string, generation int32, assignments ...string) *waiter[*kmsg.SyncGroupResponse] {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 3, group, memberID, generation
	for i := 0; i < len(assignments); i += 2 {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
			MemberID: assignments[i], MemberAssignment: []byte(assignments[i+1]),
		})
	}
	w := newWaiter[*kmsg.SyncGroupResponse](3)
	b.sync(req, w)
	return w
}

// answered takes the answer that must be there.
func answered[T any](tb testing.TB, w *waiter[T]) T {
	tb.Helper()
	select {
	case answer := <-w.ch:
		return answer
	default:
		tb.Fatal("the call has not been answered")
		panic("unreachable")
	}
}

// unanswered fails if there is an answer.
func unanswered[T any](tb testing.TB, w *waiter[T]) {
	tb.Helper()
	select {
	case answer := <-w.ch:
		tb.Fatalf("the call was answered: %+v", answer)
	default:
	}
}

// mustJoin joins and takes the answer that must be there and a success.
func (b *testBroker) mustJoin(group string, o joinOptions) *kmsg.JoinGroupResponse {
	b.t.Helper()
	return joined(b.t, b.joinLater(group, o))
}

func joined(tb testing.TB, w *waiter[*kmsg.JoinGroupResponse]) *kmsg.JoinGroupResponse {
	tb.Helper()
	answer := answered(tb, w)
	if answer.ErrorCode != 0 {
		tb.Fatalf("join answered code %d", answer.ErrorCode)
	}
	return answer
}

func assigned(tb testing.TB, w *waiter[*kmsg.SyncGroupResponse], want string) {
	tb.Helper()
	answer := answered(tb, w)
	if answer.ErrorCode != 0 || string(answer.MemberAssignment) != want {
		tb.Fatalf("sync answered code %d, assignment %q, want %q", answer.ErrorCode, answer.MemberAssignment, want)
	}
}

func wantCode(tb testing.TB, what string, got int16, want protocol.ErrorCode) {
	tb.Helper()
	if got != int16(want) {
		tb.Fatalf("%s: code %d, want %d", what, got, want)
	}
}

// stable makes a stable group of n dynamic members, the first of which leads, and returns their ids and the generation.
func (b *testBroker) stable(group string, n int) (ids []string, generation int32) {
	b.t.Helper()
	first := b.mustJoin(group, joinOptions{})
	ids, generation = []string{first.MemberID}, first.Generation
	var waiting []*waiter[*kmsg.JoinGroupResponse]
	for range n - 1 {
		waiting = append(waiting, b.joinLater(group, joinOptions{}))
	}
	if n > 1 {
		waiting = append(waiting, b.joinLater(group, joinOptions{memberID: ids[0]}))
	}
	for i, w := range waiting {
		answer := joined(b.t, w)
		generation = answer.Generation
		if i < n-1 {
			ids = append(ids, answer.MemberID)
		}
	}
	b.settle(group, ids, generation)
	return ids, generation
}

// settle has all members sync, each given its own id.
func (b *testBroker) settle(group string, ids []string, generation int32) {
	b.t.Helper()
	var syncs []*waiter[*kmsg.SyncGroupResponse]
	var assignments []string
	for _, id := range ids {
		assignments = append(assignments, id, "for "+id)
	}
	for i := len(ids) - 1; i >= 0; i-- {
		syncs = append(syncs, b.syncLater(group, ids[i], generation, assignments...))
	}
	for i, w := range syncs {
		assigned(b.t, w, "for "+ids[len(ids)-1-i])
	}
}

func (b *testBroker) beat(group, memberID string, generation int32) int16 {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, memberID, generation
	return b.Heartbeat(req).ErrorCode
}

func (b *testBroker) leaveAll(group string, ids ...string) []int16 {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, group
	for _, id := range ids {
		req.Members = append(req.Members, kmsg.LeaveGroupRequestMember{MemberID: id})
	}
	var codes []int16
	for _, m := range b.LeaveGroup(5, req).Members {
		codes = append(codes, m.ErrorCode)
	}
	return codes
}

// state is the group's state as ListGroups shows it; "" when it isn't there.
func (b *testBroker) state(group string) string {
	for _, g := range b.ListGroups(kmsg.NewPtrListGroupsRequest()).Groups {
		if g.Group == group {
			return g.GroupState
		}
	}
	return ""
}

// commitOne commits an offset of a partition and returns the code.
func (b *testBroker) commitOne(group, memberID string, generation int32, topic string, partition int32, offset int64) int16 {
	req := commitRequestOf(group, topic, partition, offset)
	req.MemberID, req.Generation = memberID, generation
	return b.OffsetCommit(req).Topics[0].Partitions[0].ErrorCode
}

func commitRequestOf(group, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, group, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return req
}

// committed is the offset of a partition as OffsetFetch answers it; -1 if there is none.
func (b *testBroker) committed(group, topic string, partition int32) int64 {
	b.t.Helper()
	p := b.fetchOne(group, topic, partition, false)
	if p.ErrorCode != 0 {
		b.t.Fatalf("fetch answered code %d", p.ErrorCode)
	}
	return p.Offset
}

func (b *testBroker) fetchOne(group, topic string, partition int32, stable bool) kmsg.OffsetFetchResponseTopicPartition {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group, req.RequireStable = 7, group, stable
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
	return b.OffsetFetch(req).Topics[0].Partitions[0]
}

// stored is the offset of a partition in the store; -1 if there is none.
func (b *testBroker) stored(group, topic string, partition int32) int64 {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	if c, found := b.store.cursors[group][meta.TopicPartition{Topic: topic, Partition: partition}]; found {
		return c.Offset
	}
	return -1
}
