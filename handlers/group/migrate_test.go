package group

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// consumes is a classic consumer's metadata: what it subscribes to, and what it owns (partitions of topic a).
func consumes(topic string, owned ...int32) string {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics = 1, []string{topic}
	if len(owned) > 0 {
		m.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: topic, Partitions: owned}}
	}
	return string(m.AppendTo(nil))
}

// gives is what a classic leader assigns.
func gives(topic string, partitions ...int32) string {
	a := kmsg.NewConsumerMemberAssignment()
	a.Version, a.Topics = 1, []kmsg.ConsumerMemberAssignmentTopic{{Topic: topic, Partitions: partitions}}
	return string(a.AppendTo(nil))
}

// embedded is what a classic member of a consumer group is assigned.
func (b *testBroker) embedded(memberID string, generation int32) (partitions []int32, code protocol.ErrorCode) {
	b.t.Helper()
	answer := answered(b.t, b.syncLater("g", memberID, generation))
	if answer.ErrorCode != 0 {
		return nil, protocol.ErrorCode(answer.ErrorCode)
	}
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(answer.MemberAssignment); err != nil {
		b.t.Fatalf("assignment %q: %v", answer.MemberAssignment, err)
	}
	for _, topic := range a.Topics {
		partitions = append(partitions, topic.Partitions...)
	}
	return partitions, protocol.None
}

// classicAlone makes a stable classic group of one consumer that has both partitions of topic a.
func (b *testBroker) classicAlone(instance string) *kmsg.JoinGroupResponse {
	b.t.Helper()
	b.makeTopic("a", 2)
	version := int16(3)
	if instance != "" {
		version = 5
	}
	m := b.mustJoin("g", joinOptions{version: version, instance: instance, protocols: []string{"range", consumes("a")}})
	assigned(b.t, b.syncLater("g", m.MemberID, m.Generation, m.MemberID, gives("a", 0, 1)), gives("a", 0, 1))
	return m
}

func TestAClassicGroupIsUpgradedMemberByMember(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	old := b.classicAlone("")
	wantCode(t, "commit", b.commitOne("g", old.MemberID, old.Generation, "a", 0, 5), protocol.None)
	m := b.native("m1", "a").beat()
	if m.epoch <= old.Generation {
		t.Fatalf("epoch %d after generation %d", m.epoch, old.Generation)
	}
	m.want("")
	// The classic member hears of it, and may commit what it has done.
	wantCode(t, "heartbeat", b.beat("g", old.MemberID, old.Generation), protocol.RebalanceInProgress)
	wantCode(t, "commit", b.commitOne("g", old.MemberID, old.Generation, "a", 0, 6), protocol.None)
	b.restart()
	// It rejoins with what it owns, is told what to give up, and rejoins without that.
	rejoin := func(owned ...int32) *kmsg.JoinGroupResponse {
		return b.mustJoin("g", joinOptions{memberID: old.MemberID, protocols: []string{"range", consumes("a", owned...)}})
	}
	again := rejoin(0, 1)
	kept, code := b.embedded(old.MemberID, again.Generation)
	if code != protocol.None || len(kept) != 1 {
		t.Fatalf("it may keep %v, code %d", kept, code)
	}
	m.beat()
	m.want("")
	wantCode(t, "heartbeat with something to give up", b.beat("g", old.MemberID, again.Generation), protocol.RebalanceInProgress)
	again = rejoin(kept...)
	m.beat()
	if m.has() == "" || again.Generation != m.epoch {
		t.Fatalf("the new member has %q at %d, the old one is at %d", m.has(), m.epoch, again.Generation)
	}
	if again, code := b.embedded(old.MemberID, again.Generation); code != protocol.None || len(again) != 1 || again[0] != kept[0] {
		t.Fatalf("it has %v, code %d", again, code)
	}
	wantCode(t, "heartbeat", b.beat("g", old.MemberID, again.Generation), protocol.None)
	// When it leaves to come back by the new protocol, the group is all new.
	wantCode(t, "leave", b.leaveAll("g", old.MemberID)[0], protocol.None)
	b.arrive(m)
	m.want("a/0 a/1")
	if b.committed("g", "a", 0) != 6 {
		t.Fatalf("offset %d", b.committed("g", "a", 0))
	}
}

func TestWhatWaitsInAClassicGroupHearsOfTheUpgrade(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	old := b.classicAlone("")
	waiting := b.joinLater("g", joinOptions{protocols: []string{"range", consumes("a")}})
	b.native("m1", "a").beat()
	wantCode(t, "join", answered(t, waiting).ErrorCode, protocol.RebalanceInProgress)
	wantCode(t, "heartbeat", b.beat("g", old.MemberID, old.Generation), protocol.RebalanceInProgress)
}

func TestAClassicMemberThatDoesNotRejoinAfterTheUpgradeIsPutOut(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	old := b.classicAlone("")
	m := b.native("m1", "a").beat()
	for range 11 { // its rebalance timeout is 60 s, its session 10 s
		b.beat("g", old.MemberID, old.Generation)
		b.clock.Advance(6 * time.Second)
		m.beat()
	}
	wantCode(t, "heartbeat", b.beat("g", old.MemberID, old.Generation), protocol.UnknownMemberID)
	b.arrive(m)
	m.want("a/0 a/1")
}

func TestGroupsThatCantBeUpgradedStayClassic(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(b *testBroker){
		"not consumers": func(b *testBroker) {
			b.settle("g", []string{b.mustJoin("g", joinOptions{kind: "connect"}).MemberID}, 1)
		},
		"malformed":             func(b *testBroker) { b.stable("g", 1) },
		"off":                   func(b *testBroker) { b.classicAlone(""); b.config.Consumer.Upgrade = false },
		"too many":              func(b *testBroker) { b.classicAlone(""); b.config.Consumer.MaxSize = 0 },
		"a custom assignment":   func(b *testBroker) { b.classicWithUserData() },
		"it can't be committed": func(b *testBroker) { b.classicAlone(""); b.store.setFail(true) },
	} {
		b := newTestBroker(t)
		prepare(b)
		code := protocol.ErrorCode(b.native("m1", "a").try())
		if want := map[bool]protocol.ErrorCode{false: protocol.GroupIDNotFound, true: protocol.CoordinatorNotAvailable}[name == "it can't be committed"]; code != want {
			t.Errorf("%s: code %d, want %d", name, code, want)
		}
		if g := b.find("g"); g.consumer != nil || g.classic == nil || g.classic.state != stateStable {
			t.Errorf("%s: the group has changed", name)
		}
	}
}

func (b *testBroker) classicWithUserData() {
	b.makeTopic("a", 1)
	m := b.mustJoin("g", joinOptions{protocols: []string{"range", consumes("a")}})
	a := kmsg.NewConsumerMemberAssignment()
	a.UserData = []byte("custom")
	b.syncLater("g", m.MemberID, m.Generation, m.MemberID, string(a.AppendTo(nil)))
}

func TestAClassicMemberJoinsAConsumerGroup(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 2)
	m := b.native("m1", "a").beat()
	required := answered(t, b.joinLater("g", joinOptions{version: 4, protocols: []string{"range", consumes("a")}}))
	wantCode(t, "first join", required.ErrorCode, protocol.MemberIDRequired)
	rejoin := func(owned ...int32) *kmsg.JoinGroupResponse {
		return b.mustJoin("g", joinOptions{version: 4, memberID: required.MemberID, protocols: []string{"range", consumes("a", owned...)}})
	}
	joined := rejoin()
	if joined.LeaderID != "" || *joined.Protocol != "range" || *joined.ProtocolType != "consumer" {
		t.Fatalf("join answered %+v", joined)
	}
	if got, code := b.embedded(required.MemberID, joined.Generation); code != protocol.None || len(got) != 0 {
		t.Fatalf("assigned %v, code %d", got, code)
	}
	b.clock.Advance(time.Second)
	m.beat() // computes the target and gives up
	m.beat()
	wantCode(t, "heartbeat", b.beat("g", required.MemberID, joined.Generation), protocol.RebalanceInProgress)
	joined = rejoin()
	if got, code := b.embedded(required.MemberID, joined.Generation); code != protocol.None || len(got) != 1 {
		t.Fatalf("assigned %v, code %d", got, code)
	}
	// Errors as in a classic group.
	_, code := b.embedded(required.MemberID, joined.Generation-1)
	wantCode(t, "sync of another generation", int16(code), protocol.IllegalGeneration)
	_, code = b.embedded("nobody", joined.Generation)
	wantCode(t, "sync of an unknown member", int16(code), protocol.UnknownMemberID)
	wantCode(t, "heartbeat of another generation", b.beat("g", required.MemberID, joined.Generation+1), protocol.IllegalGeneration)
	wantCode(t, "join with another type", answered(t, b.joinLater("g", joinOptions{kind: "connect"})).ErrorCode, protocol.InconsistentGroupProtocol)
	wantCode(t, "join with another protocol", answered(t, b.joinLater("g", joinOptions{protocols: []string{"mine", consumes("a")}})).ErrorCode, protocol.InconsistentGroupProtocol)
	wantCode(t, "commit of another generation", b.commitOne("g", required.MemberID, joined.Generation+1, "a", 0, 1), protocol.IllegalGeneration)
	wantCode(t, "commit", b.commitOne("g", required.MemberID, joined.Generation, "a", 0, 1), protocol.None)
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups = []string{"g"}
	for _, d := range b.ConsumerGroupDescribe(describe).Groups[0].Members {
		if native := d.MemberID == m.id; native != (d.MemberType == 1) {
			t.Fatalf("member %s has type %d", d.MemberID, d.MemberType)
		}
	}
}

func TestAClassicMemberThatNeverSyncsIsPutOut(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 2)
	m := b.native("m1", "a").beat()
	joined := b.mustJoin("g", joinOptions{rebalance: 20 * time.Second, protocols: []string{"range", consumes("a")}})
	for range 4 {
		b.clock.Advance(5 * time.Second)
		m.beat()
		b.beat("g", joined.MemberID, joined.Generation)
	}
	wantCode(t, "heartbeat", b.beat("g", joined.MemberID, joined.Generation), protocol.UnknownMemberID)
}

func TestWhenTheLastMemberOfTheNewProtocolGoesTheGroupIsClassicAgain(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	old := b.classicAlone("")
	m := b.native("m1", "a").beat()
	epoch := b.find("g").consumer.epoch
	wantCode(t, "leave", m.leave(-1), protocol.None)
	for _, restarts := range []bool{false, true} {
		if restarts {
			b.restart()
		}
		if g := b.find("g"); g.consumer != nil || g.classic.state != statePreparingRebalance {
			t.Fatalf("restarted %v: the group isn't rebalancing by the classic protocol", restarts)
		}
	}
	if len(b.store.groups) != 2 { // the group and the mark
		t.Fatalf("records %v", b.store.groups)
	}
	again := b.mustJoin("g", joinOptions{memberID: old.MemberID, protocols: []string{"range", consumes("a", 0, 1)}})
	if again.Generation <= epoch || again.LeaderID != old.MemberID || len(again.Members) != 1 {
		t.Fatalf("join answered %+v after epoch %d", again, epoch)
	}
	assigned(t, b.syncLater("g", old.MemberID, again.Generation, old.MemberID, "x"), "x")
}

func TestWithDowngradesOffTheGroupStays(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.config.Consumer.Downgrade = false
	b.classicAlone("")
	m := b.native("m1", "a").beat()
	wantCode(t, "leave", m.leave(-1), protocol.None)
	if b.find("g").consumer == nil {
		t.Fatal("the group was downgraded")
	}
}

func TestAStaticMemberMovesToTheNewProtocolAndBack(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	old := b.classicAlone("i")
	m := b.native("m1", "a")
	m.instance = "i"
	m.beat()
	m.want("a/0 a/1")
	wantCode(t, "heartbeat of the old one", b.beat("g", old.MemberID, old.Generation), protocol.UnknownMemberID)
	other := b.mustJoin("g", joinOptions{version: 5, instance: "j", protocols: []string{"range", consumes("a")}})
	back := b.joinLater("g", joinOptions{version: 5, instance: "i", protocols: []string{"range", consumes("a", 0, 1)}})
	if b.find("g").consumer != nil {
		t.Fatal("the group was not downgraded")
	}
	unanswered(t, back) // the other one has to rejoin
	wantCode(t, "heartbeat of the other", b.beat("g", other.MemberID, b.find("g").classic.generation), protocol.RebalanceInProgress)
	b.joinLater("g", joinOptions{version: 5, memberID: other.MemberID, instance: "j", protocols: []string{"range", consumes("a")}})
	if answer := joined(t, back); answer.Generation <= m.epoch {
		t.Fatalf("generation %d after epoch %d", answer.Generation, m.epoch)
	}
}

func TestEmptyGroupsTakeEitherProtocol(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	b.commitOne("g", "", -1, "a", 0, 3)
	epoch := int32(0)
	for round := range 3 {
		m := b.native("m", "a").beat()
		if m.epoch <= epoch {
			t.Fatalf("round %d: epoch %d after %d", round, m.epoch, epoch)
		}
		m.leave(-1)
		if round == 1 {
			b.restart()
		}
		c := b.mustJoin("g", joinOptions{})
		if c.Generation <= m.epoch {
			t.Fatalf("round %d: generation %d after epoch %d", round, c.Generation, m.epoch)
		}
		epoch = c.Generation
		b.settle("g", []string{c.MemberID}, c.Generation)
		b.leaveAll("g", c.MemberID)
		if round == 0 {
			b.restart()
		}
	}
	if b.committed("g", "a", 0) != 3 {
		t.Fatal("the offset is gone")
	}
	wantCode(t, "delete", int16(b.deleteGroup("g")), protocol.None)
	if len(b.store.groups) != 0 {
		t.Fatalf("left: %v", b.store.groups)
	}
}
