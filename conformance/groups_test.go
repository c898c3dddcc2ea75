package conformance

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// member is one classic group member on a connection of its own.
type member struct {
	t        *testing.T
	c        *conn
	group    string
	id       string
	gen      int32
	instance *string
	metadata string
}

func newMember(t *testing.T, group string) *member {
	t.Helper()
	return &member{t: t, c: dial(t), group: group, gen: -1, metadata: "subscription"}
}

func (m *member) joinRequest() *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID = m.group, m.id, m.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10000, 10000, "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte(m.metadata)
	req.Protocols = append(req.Protocols, p)
	return req
}

// startJoin sends a JoinGroup, after having obtained a member id, and returns what to receive with.
func (m *member) startJoin() (*kmsg.JoinGroupRequest, int32) {
	m.t.Helper()
	if m.id == "" && m.instance == nil {
		resp := ask[*kmsg.JoinGroupResponse](m.c, m.joinRequest(), 7)
		if resp.ErrorCode != 79 || resp.MemberID == "" {
			m.t.Fatalf("first join: error %d, member %q; want 79 and an id", resp.ErrorCode, resp.MemberID)
		}
		m.id = resp.MemberID
	}
	req := m.joinRequest()
	return req, m.c.send(req, 7)
}

func (m *member) finishJoin(req *kmsg.JoinGroupRequest, id int32) *kmsg.JoinGroupResponse {
	m.t.Helper()
	resp, ok := m.c.receive(req, id).(*kmsg.JoinGroupResponse)
	if !ok || resp.ErrorCode != 0 {
		m.t.Fatalf("join: %+v", resp)
	}
	m.id, m.gen = resp.MemberID, resp.Generation
	return resp
}

func (m *member) join() *kmsg.JoinGroupResponse {
	m.t.Helper()
	return m.finishJoin(m.startJoin())
}

func (m *member) syncRequest(assignments map[string]string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = m.group, m.id, m.gen, m.instance
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	for id, a := range assignments {
		ra := kmsg.NewSyncGroupRequestGroupAssignment()
		ra.MemberID, ra.MemberAssignment = id, []byte(a)
		req.GroupAssignment = append(req.GroupAssignment, ra)
	}
	return req
}

func (m *member) sync(assignments map[string]string) *kmsg.SyncGroupResponse {
	m.t.Helper()
	return ask[*kmsg.SyncGroupResponse](m.c, m.syncRequest(assignments), 5)
}

func (m *member) heartbeat() int16 {
	m.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = m.group, m.id, m.gen, m.instance
	return ask[*kmsg.HeartbeatResponse](m.c, req, 4).ErrorCode
}

// hearsOfTheRebalance heartbeats until the answer is that the group rebalances.
func (m *member) hearsOfTheRebalance() {
	m.t.Helper()
	eventually(m.t, "REBALANCE_IN_PROGRESS", func() (bool, any) {
		code := m.heartbeat()
		return code == 27, code
	})
}

func (m *member) leave() int16 {
	m.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = m.group
	rm := kmsg.NewLeaveGroupRequestMember()
	rm.MemberID, rm.InstanceID = m.id, m.instance
	req.Members = append(req.Members, rm)
	resp := ask[*kmsg.LeaveGroupResponse](m.c, req, 4)
	if resp.ErrorCode != 0 {
		return resp.ErrorCode
	}
	return resp.Members[0].ErrorCode
}

// pair brings two members into one stable generation, the first as leader.
func pair(t *testing.T, group string) (leader, follower *member) {
	t.Helper()
	a, b := newMember(t, group), newMember(t, group)
	a.join()
	a.sync(map[string]string{a.id: "all"})
	bReq, bID := b.startJoin()
	a.hearsOfTheRebalance()
	aReq, aID := a.startJoin()
	ra := a.finishJoin(aReq, aID)
	b.finishJoin(bReq, bID)
	if ra.LeaderID != a.id || len(ra.Members) != 2 {
		t.Fatalf("leader %q of %d members, want %q", ra.LeaderID, len(ra.Members), a.id)
	}
	return a, b
}

// Followers wait for the leader, and each gets its own bytes and nobody else's.
func TestEachMemberGetsItsOwnAssignment(t *testing.T) {
	t.Parallel()
	a, b := pair(t, name(t, "g"))
	req := b.syncRequest(nil)
	id := b.c.send(req, 5)
	if got := a.sync(map[string]string{a.id: "for a", b.id: "for b"}); string(got.MemberAssignment) != "for a" || got.ErrorCode != 0 {
		t.Fatalf("leader: error %d, %q", got.ErrorCode, got.MemberAssignment)
	}
	got, ok := b.c.receive(req, id).(*kmsg.SyncGroupResponse)
	if !ok || got.ErrorCode != 0 || string(got.MemberAssignment) != "for b" {
		t.Fatalf("follower: %+v", got)
	}
	if a.heartbeat() != 0 || b.heartbeat() != 0 {
		t.Fatal("a stable group's heartbeats fail")
	}
}

// Two consumers with the same client id are two members.
func TestMembersAreToldApartByMemberID(t *testing.T) {
	t.Parallel()
	a, b := pair(t, name(t, "g"))
	if a.id == b.id || !strings.HasPrefix(a.id, "conformance-") {
		t.Fatalf("member ids %q and %q", a.id, b.id)
	}
}

func TestRebalanceIsToldInEachState(t *testing.T) {
	t.Parallel()
	group := name(t, "g")
	a, b := pair(t, group)
	// Completing: the leader hasn't synced yet. A late joiner starts the rebalance anew.
	late := newMember(t, group)
	lateReq, lateID := late.startJoin()
	a.hearsOfTheRebalance()
	if got := b.sync(nil); got.ErrorCode != 27 {
		t.Fatalf("sync while preparing: error %d, want 27", got.ErrorCode)
	}
	aReq, aID := a.startJoin()
	bReq, bID := b.startJoin()
	if ra := a.finishJoin(aReq, aID); len(ra.Members) != 3 {
		t.Fatalf("%d members, want 3", len(ra.Members))
	}
	b.finishJoin(bReq, bID)
	late.finishJoin(lateReq, lateID)
	if got := a.sync(map[string]string{a.id: "1", b.id: "2", late.id: "3"}); got.ErrorCode != 0 {
		t.Fatalf("sync: error %d", got.ErrorCode)
	}
	if got := late.sync(nil); string(got.MemberAssignment) != "3" {
		t.Fatalf("late joiner: %q", got.MemberAssignment)
	}
	if code := b.leave(); code != 0 {
		t.Fatalf("leave: error %d", code)
	}
	if code := a.heartbeat(); code != 27 {
		t.Fatalf("heartbeat after a member left: error %d, want 27", code)
	}
}

func TestWrongMembersAndGenerationsAreRefused(t *testing.T) {
	t.Parallel()
	group := name(t, "g")
	a := newMember(t, group)
	a.join()
	a.sync(map[string]string{a.id: "x"})
	stranger := *a
	stranger.id = "stranger"
	if code := stranger.heartbeat(); code != 25 {
		t.Errorf("heartbeat of a stranger: error %d, want 25", code)
	}
	old := *a
	old.gen--
	if code := old.heartbeat(); code != 22 {
		t.Errorf("heartbeat of an old generation: error %d, want 22", code)
	}
	if got := old.sync(nil); got.ErrorCode != 22 {
		t.Errorf("sync of an old generation: error %d, want 22", got.ErrorCode)
	}
	nowhere := *a
	nowhere.group = name(t, "nowhere")
	if code := nowhere.heartbeat(); code != 25 {
		t.Errorf("heartbeat in a group that isn't there: error %d, want 25", code)
	}
}

func TestStaticMemberComesBackWithoutARebalance(t *testing.T) {
	t.Parallel()
	group, instance := name(t, "g"), "instance-1"
	a := newMember(t, group)
	a.instance = &instance
	a.join()
	a.sync(map[string]string{a.id: "mine"})
	back := newMember(t, group)
	back.instance = &instance
	resp := back.join()
	if resp.Generation != a.gen || back.id == a.id {
		t.Fatalf("generation %d, want %d; member %q replaces %q", resp.Generation, a.gen, back.id, a.id)
	}
	if got := back.sync(nil); string(got.MemberAssignment) != "mine" {
		t.Fatalf("assignment %q, want the old one", got.MemberAssignment)
	}
	if code := a.heartbeat(); code != 82 {
		t.Fatalf("heartbeat of the replaced member: error %d, want 82", code)
	}
}

// Version 0 has no rebalance timeout; the session timeout stands for it.
func TestOldestJoinVersionWorks(t *testing.T) {
	t.Parallel()
	m := newMember(t, name(t, "g"))
	req := m.joinRequest()
	resp := ask[*kmsg.JoinGroupResponse](m.c, req, 0)
	if resp.ErrorCode != 0 || resp.MemberID == "" || resp.LeaderID != resp.MemberID || resp.Generation != 1 {
		t.Fatalf("got %+v", resp)
	}
	m.id, m.gen = resp.MemberID, resp.Generation
	sync := m.syncRequest(map[string]string{m.id: "x"})
	if got := ask[*kmsg.SyncGroupResponse](m.c, sync, 0); got.ErrorCode != 0 || string(got.MemberAssignment) != "x" {
		t.Fatalf("sync: %+v", got)
	}
}

func TestCoordinatorIsFoundByKeyAndByKeys(t *testing.T) {
	t.Parallel()
	group := name(t, "g")
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey = group
	old := ask[*kmsg.FindCoordinatorResponse](dial(t), req, 3)
	if old.ErrorCode != 0 || old.Port == 0 {
		t.Fatalf("v3: %+v", old)
	}
	req = kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{group, group + "-2"}
	batched := ask[*kmsg.FindCoordinatorResponse](dial(t), req, 4)
	if len(batched.Coordinators) != 2 || batched.Coordinators[0].NodeID != old.NodeID || batched.Coordinators[1].ErrorCode != 0 {
		t.Fatalf("v4: %+v", batched)
	}
	for _, kind := range []int8{0, 1} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorType = group, kind
		if got := ask[*kmsg.FindCoordinatorResponse](dial(t), req, 3); got.ErrorCode != 0 || got.NodeID != old.NodeID {
			t.Errorf("kind %d: %+v", kind, got)
		}
	}
	list := ask[*kmsg.ListGroupsResponse](dial(t), kmsg.NewPtrListGroupsRequest(), 4)
	for _, g := range list.Groups {
		if g.Group == group {
			t.Fatal("looking for a coordinator made a group")
		}
	}
}
