package group

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

func TestAMemberThatStopsHeartbeatingIsPutOutAndTheOthersRebalance(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, generation := b.stable("g", 2)
	b.clock.Advance(9 * time.Second)
	wantCode(t, "heartbeat", b.beat("g", ids[0], generation), protocol.None)
	b.clock.Advance(2 * time.Second)
	wantCode(t, "heartbeat of the expired", b.beat("g", ids[1], generation), protocol.UnknownMemberID)
	wantCode(t, "heartbeat of the other", b.beat("g", ids[0], generation), protocol.RebalanceInProgress)
	if next := b.mustJoin("g", joinOptions{memberID: ids[0]}); next.Generation != generation+1 || len(next.Members) != 1 {
		t.Fatalf("rejoin answered %+v", next)
	}
}

func TestCommitsProlongTheSession(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	ids, generation := b.stable("g", 1)
	for range 5 {
		b.clock.Advance(8 * time.Second)
		wantCode(t, "commit", b.commitOne("g", ids[0], generation, "a", 0, 1), protocol.None)
	}
	b.clock.Advance(11 * time.Second)
	if b.state("g") != "Empty" {
		t.Fatalf("state %s after the session", b.state("g"))
	}
}

func TestMembersThatWaitDontExpire(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, generation := b.stable("g", 2)
	rejoin := b.joinLater("g", joinOptions{memberID: ids[0]})
	for range 5 { // the other one keeps its session but doesn't rejoin
		b.clock.Advance(9 * time.Second)
		wantCode(t, "heartbeat", b.beat("g", ids[1], generation), protocol.RebalanceInProgress)
	}
	unanswered(t, rejoin)
	b.clock.Advance(16 * time.Second) // and is put out at the rebalance timeout
	next := joined(t, rejoin)
	if next.Generation != generation+1 || len(next.Members) != 1 {
		t.Fatalf("rejoin answered %+v", next)
	}
}

func TestMembersThatWaitForTheLeaderDontExpireBeforeItDoes(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, _ := b.stable("g", 2)
	w1, w0 := b.joinLater("g", joinOptions{memberID: ids[1], protocols: []string{"range", "new"}}), b.joinLater("g", joinOptions{memberID: ids[0]})
	generation := joined(t, w0).Generation
	joined(t, w1)
	sync := b.syncLater("g", ids[1], generation)
	b.clock.Advance(9 * time.Second)
	wantCode(t, "leader's heartbeat", b.beat("g", ids[0], generation), protocol.None)
	b.clock.Advance(9 * time.Second)
	unanswered(t, sync) // 18 s of a session of 10: it waits
	b.clock.Advance(2 * time.Second)
	wantCode(t, "sync after the leader expired", answered(t, sync).ErrorCode, protocol.RebalanceInProgress)
}

func TestMembersThatNeverSyncArePutOutAfterTheRebalanceTimeout(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	first := b.mustJoin("g", joinOptions{rebalance: 20 * time.Second})
	second := b.joinLater("g", joinOptions{rebalance: 20 * time.Second})
	generation := b.mustJoin("g", joinOptions{memberID: first.MemberID, rebalance: 20 * time.Second}).Generation
	late := joined(t, second).MemberID
	assigned(t, b.syncLater("g", first.MemberID, generation, first.MemberID, "all"), "all")
	for range 3 {
		b.clock.Advance(6 * time.Second)
		b.beat("g", first.MemberID, generation)
		wantCode(t, "heartbeat", b.beat("g", late, generation), protocol.None)
	}
	b.clock.Advance(3 * time.Second)
	wantCode(t, "heartbeat of the one that didn't sync", b.beat("g", late, generation), protocol.UnknownMemberID)
	wantCode(t, "heartbeat of the other", b.beat("g", first.MemberID, generation), protocol.RebalanceInProgress)
}

func TestTheInitialDelayIsExtendedWhileMembersJoinUpToTheRebalanceTimeout(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.config.InitialRebalanceDelay = 3 * time.Second
	var waiting []*waiter[*kmsg.JoinGroupResponse]
	for range 4 { // at 0, 2, 4 and 6 s; the delays end at 3, at 6, and the last one at 8 s instead of 9
		b.clock.Advance(2 * time.Second)
		waiting = append(waiting, b.joinLater("g", joinOptions{rebalance: 8 * time.Second}))
	}
	b.clock.Advance(1999 * time.Millisecond)
	unanswered(t, waiting[0])
	b.clock.Advance(time.Millisecond)
	for _, w := range waiting {
		if answer := joined(t, w); answer.Generation != 1 {
			t.Fatalf("generation %d", answer.Generation)
		}
	}
}

func TestTheInitialDelayEndsWhenNobodyElseJoins(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.config.InitialRebalanceDelay = 3 * time.Second
	w := b.joinLater("g", joinOptions{})
	b.clock.Advance(2999 * time.Millisecond)
	unanswered(t, w)
	b.clock.Advance(time.Millisecond)
	joined(t, w)
}

func TestVersion0UsesTheSessionTimeoutForTheRebalance(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	first := b.mustJoin("g", joinOptions{version: -1, session: 10 * time.Second, rebalance: time.Hour})
	b.settle("g", []string{first.MemberID}, first.Generation)
	second := b.joinLater("g", joinOptions{version: -1, session: 10 * time.Second, rebalance: time.Hour})
	b.clock.Advance(9 * time.Second)
	b.beat("g", first.MemberID, first.Generation)
	b.clock.Advance(2 * time.Second)
	if answer := joined(t, second); len(answer.Members) != 1 {
		t.Fatalf("the member that didn't rejoin is still there: %+v", answer)
	}
}

func TestHeartbeatInEachState(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.config.InitialRebalanceDelay = time.Second
	wantCode(t, "no group", b.beat("g", "x", 0), protocol.UnknownMemberID)
	first := b.joinLater("g", joinOptions{})
	wantCode(t, "unknown while preparing", b.beat("g", "x", 0), protocol.UnknownMemberID)
	b.clock.Advance(time.Second)
	m := joined(t, first)
	wantCode(t, "completing", b.beat("g", m.MemberID, 1), protocol.None)
	wantCode(t, "completing, old generation", b.beat("g", m.MemberID, 0), protocol.IllegalGeneration)
	b.settle("g", []string{m.MemberID}, 1)
	wantCode(t, "stable", b.beat("g", m.MemberID, 1), protocol.None)
	wantCode(t, "stable, another generation", b.beat("g", m.MemberID, 2), protocol.IllegalGeneration)
	b.joinLater("g", joinOptions{})
	wantCode(t, "preparing", b.beat("g", m.MemberID, 1), protocol.RebalanceInProgress)
	b.leaveAll("g", m.MemberID)
	wantCode(t, "left", b.beat("g", m.MemberID, 1), protocol.UnknownMemberID)
}

func TestAJoinWhileTheAssignmentIsAwaitedStartsOver(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	first := b.mustJoin("g", joinOptions{})
	late := b.joinLater("g", joinOptions{})
	unanswered(t, late)
	wantCode(t, "leader's sync", answered(t, b.syncLater("g", first.MemberID, 1, first.MemberID, "x")).ErrorCode, protocol.RebalanceInProgress)
	again := b.mustJoin("g", joinOptions{memberID: first.MemberID})
	if again.Generation != 2 || len(again.Members) != 2 {
		t.Fatalf("rejoin answered %+v", again)
	}
	joined(t, late)
}

func TestAFollowerThatSyncsIsToldWhenARebalanceComesBetween(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, _ := b.stable("g", 2)
	w := b.joinLater("g", joinOptions{memberID: ids[1], protocols: []string{"range", "new"}})
	generation := b.mustJoin("g", joinOptions{memberID: ids[0]}).Generation
	joined(t, w)
	follower := b.syncLater("g", ids[1], generation)
	b.joinLater("g", joinOptions{})
	wantCode(t, "follower's sync", answered(t, follower).ErrorCode, protocol.RebalanceInProgress)
}

func TestMembersThatTheLeaderForgetsGetAnEmptyAssignment(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, _ := b.stable("g", 2)
	w := b.joinLater("g", joinOptions{memberID: ids[1], protocols: []string{"range", "new"}})
	generation := b.mustJoin("g", joinOptions{memberID: ids[0]}).Generation
	joined(t, w)
	follower := b.syncLater("g", ids[1], generation)
	assigned(t, b.syncLater("g", ids[0], generation, ids[0], "all", "nobody", "x"), "all")
	answer := answered(t, follower)
	if answer.ErrorCode != 0 || answer.MemberAssignment == nil || len(answer.MemberAssignment) != 0 {
		t.Fatalf("the follower got %+v", answer)
	}
}

func TestAMemberIDGivenOutHoldsTheRebalanceUntilItsSessionEnds(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, generation := b.stable("g", 1)
	if code := answered(t, b.joinLater("g", joinOptions{version: 4, session: 20 * time.Second})).ErrorCode; code != int16(protocol.MemberIDRequired) {
		t.Fatalf("code %d", code)
	}
	rejoin := b.joinLater("g", joinOptions{memberID: ids[0]})
	b.clock.Advance(19 * time.Second)
	unanswered(t, rejoin)
	b.clock.Advance(time.Second)
	if joined(t, rejoin).Generation != generation+1 {
		t.Fatal("no new generation")
	}
}

func TestAPendingMemberThatLeavesLetsTheRebalanceGoOn(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, _ := b.stable("g", 1)
	pending := answered(t, b.joinLater("g", joinOptions{version: 4})).MemberID
	rejoin := b.joinLater("g", joinOptions{memberID: ids[0]})
	unanswered(t, rejoin)
	if codes := b.leaveAll("g", pending); codes[0] != 0 {
		t.Fatalf("leave answered %v", codes)
	}
	joined(t, rejoin)
}

func TestANewMemberWhoseClientIsGoneIsPutOutAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.config.InitialRebalanceDelay = 10 * time.Minute
	w := b.joinLater("g", joinOptions{rebalance: time.Hour})
	b.clock.Advance(newMemberJoinTimeout - time.Second)
	unanswered(t, w)
	b.clock.Advance(time.Second)
	wantCode(t, "join", answered(t, w).ErrorCode, protocol.UnknownMemberID)
}

func TestAFullGroupTakesNoMoreMembers(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.config.MaxSize = 2
	ids, generation := b.stable("g", 2)
	refused := answered(t, b.joinLater("g", joinOptions{}))
	if refused.ErrorCode != int16(protocol.GroupMaxSizeReached) || refused.MemberID != "" {
		t.Fatalf("the third got %+v", refused)
	}
	wantCode(t, "heartbeat", b.beat("g", ids[0], generation), protocol.None)
	first := b.joinLater("g", joinOptions{memberID: ids[0]})
	// While members gather, only those who have come count: a third one may take the place of one that is late.
	third := b.joinLater("g", joinOptions{})
	wantCode(t, "the late one", answered(t, b.joinLater("g", joinOptions{memberID: ids[1]})).ErrorCode, protocol.GroupMaxSizeReached)
	// Nobody waits for who has been turned away.
	if joined(t, first).Generation != generation+1 || joined(t, third).Generation != generation+1 {
		t.Fatal("no new generation")
	}
	wantCode(t, "its heartbeat", b.beat("g", ids[1], generation), protocol.UnknownMemberID)
}

func TestAGroupThatIsTooLargeAfterARestartRebalances(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, generation := b.stable("g", 3)
	b.restart()
	wantCode(t, "heartbeat", b.beat("g", ids[0], generation), protocol.None)
	b.config.MaxSize = 2
	b.restart()
	wantCode(t, "heartbeat of a group too large", b.beat("g", ids[0], generation), protocol.RebalanceInProgress)
	first, second := b.joinLater("g", joinOptions{memberID: ids[0]}), b.joinLater("g", joinOptions{memberID: ids[1]})
	wantCode(t, "the one too many", answered(t, b.joinLater("g", joinOptions{memberID: ids[2]})).ErrorCode, protocol.GroupMaxSizeReached)
	if joined(t, first).Generation != joined(t, second).Generation {
		t.Error("two generations")
	}
}

func TestTheLastMembersToLeaveEmptyTheGroupInOneCommit(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, generation := b.stable("g", 3)
	before := b.store.commits
	codes := b.leaveAll("g", ids[0], ids[1], ids[2], ids[0])
	if codes[0] != 0 || codes[1] != 0 || codes[2] != 0 || codes[3] != int16(protocol.UnknownMemberID) {
		t.Fatalf("leave answered %v", codes)
	}
	if b.state("g") != "Empty" || b.store.commits != before+1 {
		t.Fatalf("state %s after %d commits", b.state("g"), b.store.commits-before)
	}
	if next := b.mustJoin("g", joinOptions{}); next.Generation <= generation+1 {
		t.Fatalf("generation %d after %d and an empty one", next.Generation, generation)
	}
}

func TestWhenTheLeaderLeavesAnotherMemberLeads(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, _ := b.stable("g", 3)
	b.leaveAll("g", ids[0])
	w := b.joinLater("g", joinOptions{memberID: ids[2]})
	second := b.mustJoin("g", joinOptions{memberID: ids[1]})
	third := joined(t, w)
	if second.LeaderID != third.LeaderID || second.LeaderID == ids[0] || len(second.Members)+len(third.Members) != 2 {
		t.Fatalf("answers %+v, %+v", second, third)
	}
}

func TestTheGroupWorksByTheProtocolThatAllKnowAndMostPrefer(t *testing.T) {
	t.Parallel()
	list := func(names ...string) (l []protocolChoice) {
		for _, name := range names {
			l = append(l, protocolChoice{name: name})
		}
		return l
	}
	for _, c := range []struct {
		name    string
		members [][]protocolChoice
		want    string
	}{
		{"nobody", nil, ""},
		{"one", [][]protocolChoice{list("a", "b")}, "a"},
		{"in common", [][]protocolChoice{list("a", "b"), list("b", "c")}, "b"},
		{"votes", [][]protocolChoice{list("a", "b"), list("b", "a"), list("b", "a")}, "b"},
		{"votes only for what all know", [][]protocolChoice{list("x", "a", "b"), list("x", "b", "a"), list("b", "a")}, "b"},
		{"a draw", [][]protocolChoice{list("a", "b"), list("b", "a")}, "a"},
		{"a name twice", [][]protocolChoice{list("a", "a", "b"), list("b")}, "b"},
		{"nothing in common", [][]protocolChoice{list("a"), list("b")}, ""},
	} {
		if got := choose(c.members); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestANewMemberNeedsAProtocolThatAllOthersKnow(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	first := b.mustJoin("g", joinOptions{protocols: []string{"a", "1", "b", "2"}})
	second := b.joinLater("g", joinOptions{protocols: []string{"b", "2", "c", "3"}})
	b.mustJoin("g", joinOptions{memberID: first.MemberID, protocols: []string{"a", "1", "b", "2"}})
	joined(t, second)
	wantCode(t, "knows a and c", answered(t, b.joinLater("g", joinOptions{protocols: []string{"a", "1", "c", "3"}})).ErrorCode, protocol.InconsistentGroupProtocol)
	wantCode(t, "other type", answered(t, b.joinLater("g", joinOptions{kind: "connect", protocols: []string{"b", "1"}})).ErrorCode, protocol.InconsistentGroupProtocol)
	b.leaveAll("g", first.MemberID)
	unanswered(t, b.joinLater("g", joinOptions{protocols: []string{"c", "3"}})) // only the second is left
}

func TestAStaticLeaderBelowVersion9IsToldOfItsOldSelf(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	first := b.mustJoin("g", joinOptions{version: 5, instance: "i"})
	b.settle("g", []string{first.MemberID}, 1)
	again := b.mustJoin("g", joinOptions{version: 8, instance: "i"})
	if again.LeaderID != first.MemberID || again.MemberID == first.MemberID || len(again.Members) != 0 || again.Generation != 1 {
		t.Fatalf("rejoin answered %+v", again)
	}
	assigned(t, b.syncLater("g", again.MemberID, 1), "for "+first.MemberID)
	if again := b.mustJoin("g", joinOptions{version: 9, instance: "i"}); again.LeaderID != again.MemberID || !again.SkipAssignment || len(again.Members) != 1 {
		t.Fatalf("rejoin at version 9 answered %+v", again)
	}
}

func TestAStaticMemberThatRejoinsFencesTheCallOfItsOldSelf(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.config.InitialRebalanceDelay = time.Second
	old := b.joinLater("g", joinOptions{version: 5, instance: "i"})
	next := b.joinLater("g", joinOptions{version: 5, instance: "i"})
	wantCode(t, "the old one's join", answered(t, old).ErrorCode, protocol.FencedInstanceID)
	b.clock.Advance(time.Second)
	first := joined(t, next)
	// While the assignment is awaited, a new self means a new rebalance: the leader knows the old id.
	again := b.joinLater("g", joinOptions{version: 5, instance: "i"})
	second := joined(t, again)
	if second.Generation != first.Generation+1 {
		t.Fatalf("generation %d", second.Generation)
	}
	wantCode(t, "heartbeat of the old id", b.beat("g", first.MemberID, first.Generation), protocol.UnknownMemberID)
}

func TestAStaticMemberWithAnotherProtocolCausesARebalance(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	first := b.mustJoin("g", joinOptions{version: 5, instance: "i", protocols: []string{"a", "1", "b", "2"}})
	b.settle("g", []string{first.MemberID}, 1)
	again := b.mustJoin("g", joinOptions{version: 5, instance: "i", protocols: []string{"b", "2", "a", "1"}})
	if again.Generation != 2 || *again.Protocol != "b" || again.LeaderID != again.MemberID {
		t.Fatalf("rejoin answered %+v", again)
	}
}

func TestAStaticMemberKeepsItsPlaceUntilItsSessionEnds(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	first := b.mustJoin("g", joinOptions{version: 5, instance: "i", session: 30 * time.Second, rebalance: 10 * time.Second})
	b.settle("g", []string{first.MemberID}, 1)
	second := b.joinLater("g", joinOptions{version: 5, instance: "j", session: 60 * time.Second, rebalance: 10 * time.Second})
	b.clock.Advance(10 * time.Second) // the end of the join phase: a dynamic member would be dropped
	if answer := joined(t, second); len(answer.Members) != 2 || answer.LeaderID != answer.MemberID {
		t.Fatalf("the second got %+v", answer)
	}
}

func TestDescribeShowsMetadataOnlyWhenStable(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, _ := b.stable("g", 1)
	b.joinLater("g", joinOptions{client: "late"})
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{"g"}
	d := b.DescribeGroups(req).Groups[0]
	if d.State != "PreparingRebalance" || d.Protocol != "" || len(d.Members) != 2 {
		t.Fatalf("described as %+v", d)
	}
	for i, m := range d.Members {
		assigned := ""
		if i == 0 {
			assigned = "for " + ids[0] // of the last generation: it holds until there is another
		}
		if len(m.ProtocolMetadata) != 0 || string(m.MemberAssignment) != assigned || m.ClientHost != "/127.0.0.1" || !strings.HasPrefix(m.MemberID, m.ClientID+"-") {
			t.Fatalf("member %+v of %v", m, ids)
		}
	}
}

func TestDrainAnswersAllThatWait(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, _ := b.stable("g", 2)
	rejoin := b.joinLater("g", joinOptions{memberID: ids[0]})
	w := b.joinLater("h", joinOptions{})
	joined(t, w)
	b.Drain()
	wantCode(t, "join", answered(t, rejoin).ErrorCode, protocol.NotCoordinator)
	wantCode(t, "join after", answered(t, b.joinLater("i", joinOptions{})).ErrorCode, protocol.NotCoordinator)
	wantCode(t, "sync after", answered(t, b.syncLater("g", ids[1], 2)).ErrorCode, protocol.NotCoordinator)
}

func TestACallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, _ := b.stable("g", 2)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.SessionTimeoutMillis, req.ProtocolType = "g", ids[0], 10_000, "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	wantCode(t, "join", b.JoinGroup(ctx, Client{}, 5, req).ErrorCode, protocol.NotCoordinator)
	// The member is still there: it finds its place when it comes back.
	w := b.joinLater("g", joinOptions{memberID: ids[1]})
	if answer := joined(t, w); answer.Generation != 3 {
		t.Fatalf("generation %d", answer.Generation)
	}
	if again := b.mustJoin("g", joinOptions{memberID: ids[0], protocols: []string{"range", ""}}); again.Generation != 3 || len(again.Members) != 2 {
		t.Fatalf("join again answered %+v", again)
	}
}

func TestAJoinSentAgainReplacesTheOneThatWaits(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, _ := b.stable("g", 2)
	lost := b.joinLater("g", joinOptions{memberID: ids[0]})
	again := b.joinLater("g", joinOptions{memberID: ids[0]})
	wantCode(t, "the first", answered(t, lost).ErrorCode, protocol.RebalanceInProgress)
	unanswered(t, again)
	w := b.joinLater("g", joinOptions{memberID: ids[1]})
	joined(t, again)
	joined(t, w)
}

func TestAStaticMemberWithoutARebalanceTimeoutDoesNotKeepTheBrokerBusy(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	join := func() *waiter[*kmsg.JoinGroupResponse] {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.SessionTimeoutMillis, req.ProtocolType, req.InstanceID = "g", 10_000, "consumer", kmsg.StringPtr("i")
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		w := newWaiter[*kmsg.JoinGroupResponse](5)
		b.join(&joinRequest{JoinGroupRequest: req, wait: w})
		return w
	}
	joined(t, join()) // and never syncs
	b.clock.Advance(time.Second)
	b.clock.Advance(20 * time.Second)
	if b.state("g") != "Empty" {
		t.Fatalf("state %s", b.state("g"))
	}
}

func TestARequestThatIsRefusedLeavesNoGroupBehind(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	wantCode(t, "join", answered(t, b.joinLater("a", joinOptions{kind: "consumer", protocols: []string{}, session: time.Second})).ErrorCode, protocol.InvalidSessionTimeout)
	bad := b.native("m1")
	bad.regex = "("
	bad.try()
	wantCode(t, "commit on a topic that is gone", b.commitOne("b", "", -1, "gone", 0, 1), protocol.UnknownTopicOrPartition)
	wantCode(t, "the same in a transaction", b.sendInTxn("c", 7, "gone", 0, 1), protocol.UnknownTopicOrPartition)
	if b.size() != 0 {
		t.Fatalf("%d groups", b.size())
	}
}

func TestAGroupThatAJoinWasRefusedForIsThereUntilTheNextSweep(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.SessionTimeoutMillis = "g", 10_000
	wantCode(t, "join without protocols", b.JoinGroup(context.Background(), Client{}, 5, req).ErrorCode, protocol.InconsistentGroupProtocol)
	if b.size() != 1 {
		t.Errorf("%d groups before", b.size())
	}
	b.clock.Advance(b.config.RetentionCheckInterval)
	if b.size() != 0 {
		t.Errorf("%d groups after", b.size())
	}
}

func TestWhatOneClientMayAskAGroupForIsBounded(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	for range maxPending {
		if a := answered(t, b.joinLater("g", joinOptions{version: 4})); a.ErrorCode != int16(protocol.MemberIDRequired) {
			t.Fatalf("error %d", a.ErrorCode)
		}
	}
	if a := answered(t, b.joinLater("g", joinOptions{version: 4})); a.ErrorCode != int16(protocol.CoordinatorNotAvailable) {
		t.Errorf("one more id: error %d", a.ErrorCode)
	}
	many := make([]string, 2*(maxProtocols+1))
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	if a := answered(t, b.joinLater("other", joinOptions{protocols: many})); a.ErrorCode != int16(protocol.InconsistentGroupProtocol) {
		t.Errorf("%d protocols: error %d", maxProtocols+1, a.ErrorCode)
	}
	if id := b.newMemberID(strings.Repeat("c", 32000)); len(id) > maxIDPrefix+37 {
		t.Errorf("an id of %d bytes", len(id))
	}
}
