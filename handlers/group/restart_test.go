package group

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

func TestAStableGroupGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	ids, generation := b.stable("g", 3)
	b.clock.Advance(9 * time.Second)
	b.restart()
	b.clock.Advance(9 * time.Second) // sessions began anew
	for i, id := range ids {
		wantCode(t, "heartbeat", b.beat("g", id, generation), protocol.None)
		wantCode(t, "commit", b.commitOne("g", id, generation, "a", 0, int64(i)), protocol.None)
		assigned(t, b.syncLater("g", id, generation), "for "+id)
	}
	if b.state("g") != "Stable" {
		t.Fatalf("state %s", b.state("g"))
	}
	// The leader is the same, and so are the protocols: a follower's rejoin changes nothing, the leader's does.
	if again := b.mustJoin("g", joinOptions{memberID: ids[1]}); again.Generation != generation || again.LeaderID != ids[0] {
		t.Fatalf("rejoin answered %+v", again)
	}
	unanswered(t, b.joinLater("g", joinOptions{memberID: ids[0]}))
}

func TestMembersThatDontComeBackAfterARestartArePutOut(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, generation := b.stable("g", 2)
	b.restart()
	b.clock.Advance(9 * time.Second)
	wantCode(t, "heartbeat", b.beat("g", ids[0], generation), protocol.None)
	b.clock.Advance(2 * time.Second)
	wantCode(t, "heartbeat", b.beat("g", ids[0], generation), protocol.RebalanceInProgress)
	if again := b.mustJoin("g", joinOptions{memberID: ids[0]}); len(again.Members) != 1 {
		t.Fatalf("rejoin answered %+v", again)
	}
}

func TestAStaticMemberIsKnownByItsInstanceAfterARestart(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	first := b.mustJoin("g", joinOptions{version: 9, instance: "i"})
	b.settle("g", []string{first.MemberID}, 1)
	second := b.mustJoin("g", joinOptions{version: 9, instance: "i"})
	b.restart()
	wantCode(t, "the first id", b.beat("g", first.MemberID, 1), protocol.UnknownMemberID)
	wantCode(t, "the second id", b.beat("g", second.MemberID, 1), protocol.None)
	third := b.mustJoin("g", joinOptions{version: 9, instance: "i"})
	if third.Generation != 1 || !third.SkipAssignment {
		t.Fatalf("rejoin answered %+v", third)
	}
	assigned(t, b.syncLater("g", third.MemberID, 1), "for "+first.MemberID)
}

func TestARebalanceGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	for _, completing := range []bool{false, true} {
		b := newTestBroker(t)
		b.makeTopic("a", 1)
		ids, generation := b.stable("g", 2)
		seen := generation
		b.leaveAll("g", ids[1])
		if completing { // the new generation has been handed out
			seen = b.mustJoin("g", joinOptions{memberID: ids[0]}).Generation
		}
		b.restart()
		// The member of the last stable generation may say what it has done, and is told to rejoin.
		wantCode(t, "commit", b.commitOne("g", ids[0], generation, "a", 0, 5), protocol.None)
		wantCode(t, "heartbeat", b.beat("g", ids[0], generation), protocol.RebalanceInProgress)
		if completing {
			wantCode(t, "sync", answered(t, b.syncLater("g", ids[0], seen)).ErrorCode, protocol.IllegalGeneration)
		}
		rejoin := b.joinLater("g", joinOptions{memberID: ids[0], rebalance: 5 * time.Second})
		b.clock.Advance(10 * time.Second) // the one that had left doesn't come back
		answer := joined(t, rejoin)
		if answer.Generation <= seen || len(answer.Members) != 1 {
			t.Fatalf("completing %v: generation %d after %d, members %v", completing, answer.Generation, seen, answer.Members)
		}
	}
}

func TestGenerationsGrowOverARestartInTheFirstRebalance(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	first := b.mustJoin("g", joinOptions{})
	b.restart()
	if b.state("g") != "Empty" {
		t.Fatalf("state %s", b.state("g"))
	}
	wantCode(t, "heartbeat", b.beat("g", first.MemberID, first.Generation), protocol.UnknownMemberID)
	if next := b.mustJoin("g", joinOptions{}); next.Generation <= first.Generation {
		t.Fatalf("generation %d after %d", next.Generation, first.Generation)
	}
}

func TestAnEmptyGroupIsEmptyAfterARestart(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, generation := b.stable("g", 1)
	b.leaveAll("g", ids[0])
	b.restart()
	if b.state("g") != "Empty" {
		t.Fatalf("state %s", b.state("g"))
	}
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{"g"}
	if d := b.DescribeGroups(req).Groups[0]; d.ProtocolType != "consumer" {
		t.Fatalf("described as %+v", d)
	}
	if next := b.mustJoin("g", joinOptions{}); next.Generation <= generation {
		t.Fatalf("generation %d after %d", next.Generation, generation)
	}
}

func TestADeletedGroupStaysDeleted(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	ids, generation := b.stable("g", 1)
	b.commitOne("g", ids[0], generation, "a", 0, 7)
	b.leaveAll("g", ids[0])
	b.joinLater("g", joinOptions{version: 4}) // somebody is about to join
	if code := b.deleteGroup("g"); code != protocol.None {
		t.Fatalf("code %d", code)
	}
	if len(b.store.groups)+len(b.store.cursors) != 0 {
		t.Fatalf("left in the store: %v, %v", b.store.groups, b.store.cursors)
	}
	b.restart()
	if b.state("g") != "" {
		t.Fatalf("state %s", b.state("g"))
	}
}

func TestOffsetsAreThereAfterARestart(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 3)
	for _, group := range []string{"g", "", "odd \x00\x01/%ä"} {
		for p := range int32(3) {
			b.commitOne(group, "", -1, "a", p, int64(p)+10)
		}
	}
	b.restart()
	for _, group := range []string{"g", "", "odd \x00\x01/%ä"} {
		for p := range int32(3) {
			if got := b.committed(group, "a", p); got != int64(p)+10 {
				t.Fatalf("group %q partition %d: %d", group, p, got)
			}
		}
	}
}

func TestGroupsWithOddNamesDontMix(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	names := []string{"g", "g\x00", "g\x00\x01", "g\x00\xff", "g\x00\xff\x01", "\x00"}
	generations := map[string]int32{}
	for i, name := range names {
		ids, generation := b.stable(name, i%2+1)
		generations[name] = generation
		b.joinLater(name, joinOptions{memberID: ids[0]}) // leaves a mark
	}
	b.restart()
	for _, name := range names {
		if b.state(name) != "PreparingRebalance" {
			t.Errorf("group %q: state %q", name, b.state(name))
		}
		if b.find(name).classic.generation != generations[name] {
			t.Errorf("group %q: generation %d, want %d", name, b.find(name).classic.generation, generations[name])
		}
	}
	if b.size() != len(names) {
		t.Errorf("%d groups, want %d", b.size(), len(names))
	}
}

func TestNothingCountsThatCouldNotBeCommitted(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	ids, generation := b.stable("g", 2)
	b.store.setFail(true)
	wantCode(t, "commit", b.commitOne("g", ids[0], generation, "a", 0, 1), protocol.CoordinatorNotAvailable)
	wantCode(t, "leave", b.leaveAll("g", ids[1])[0], protocol.CoordinatorNotAvailable)
	wantCode(t, "join", answered(t, b.joinLater("g", joinOptions{})).ErrorCode, protocol.CoordinatorNotAvailable)
	wantCode(t, "leader's join", answered(t, b.joinLater("g", joinOptions{memberID: ids[0]})).ErrorCode, protocol.CoordinatorNotAvailable)
	wantCode(t, "first join", answered(t, b.joinLater("h", joinOptions{})).ErrorCode, protocol.CoordinatorNotAvailable)
	for _, id := range ids {
		wantCode(t, "heartbeat", b.beat("g", id, generation), protocol.None)
	}
	if b.committed("g", "a", 0) != -1 {
		t.Fatal("an offset that was not committed is read")
	}
	b.store.setFail(false)
	wantCode(t, "commit", b.commitOne("g", ids[0], generation, "a", 0, 2), protocol.None)
	wantCode(t, "leave", b.leaveAll("g", ids[1])[0], protocol.None)
}

func TestAnAssignmentThatCouldNotBeCommittedIsAskedForAgain(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	first := b.mustJoin("g", joinOptions{})
	second := b.joinLater("g", joinOptions{})
	generation := b.mustJoin("g", joinOptions{memberID: first.MemberID}).Generation
	ids := []string{first.MemberID, joined(t, second).MemberID}
	b.store.setFail(true)
	follower := b.syncLater("g", ids[1], generation)
	wantCode(t, "leader", answered(t, b.syncLater("g", ids[0], generation, ids[0], "x")).ErrorCode, protocol.CoordinatorNotAvailable)
	wantCode(t, "follower", answered(t, follower).ErrorCode, protocol.CoordinatorNotAvailable)
	b.store.setFail(false)
	b.settle("g", ids, generation)
}

func TestWhatIsDueIsTriedAgainWhenItCouldNotBeCommitted(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.stable("g", 1)
	b.store.setFail(true)
	b.clock.Advance(30 * time.Second)
	if b.state("g") != "Stable" {
		t.Fatalf("state %s though nothing could be committed", b.state("g"))
	}
	b.store.setFail(false)
	b.clock.Advance(commitRetry)
	if b.state("g") != "Empty" {
		t.Fatalf("state %s", b.state("g"))
	}
}
