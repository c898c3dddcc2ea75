package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// native is a member of a consumer group as tests drive it. It does what it is told at once.
type native struct {
	b        *testBroker
	group    string
	id       string
	instance string
	names    []string
	regex    string
	epoch    int32
	owned    assignment
	last     *kmsg.ConsumerGroupHeartbeatResponse
}

func (b *testBroker) native(id string, names ...string) *native {
	return &native{b: b, group: "g", id: id, names: names}
}

// try sends a heartbeat and returns the code. A join says everything, others what it owns.
func (n *native) try() int16 {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = 1, n.group, n.id, n.epoch, -1
	if n.instance != "" {
		req.InstanceID = &n.instance
	}
	if n.epoch == 0 {
		n.owned = nil
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 20_000, append([]string{}, n.names...)
		if n.regex != "" {
			req.SubscribedTopicRegex = &n.regex
		}
	}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, topic := range n.owned.topics() {
		req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic, Partitions: n.owned.numbers(topic)})
	}
	return n.send(req)
}

func (n *native) send(req *kmsg.ConsumerGroupHeartbeatRequest) int16 {
	n.last = n.b.ConsumerGroupHeartbeat(Client{ID: "c", Host: "/127.0.0.1"}, req)
	if n.last.ErrorCode != 0 {
		return n.last.ErrorCode
	}
	n.epoch = n.last.MemberEpoch
	if n.last.Assignment != nil {
		n.owned = make(assignment)
		for _, topic := range n.last.Assignment.Topics {
			for _, number := range topic.Partitions {
				n.owned.add(topic.TopicID, ownedPartition{number: number})
			}
		}
	}
	return 0
}

func (n *native) beat() *native {
	n.b.t.Helper()
	if code := n.try(); code != 0 {
		n.b.t.Fatalf("%s: heartbeat answered %d %s", n.id, code, *n.last.ErrorMessage)
	}
	return n
}

// leave leaves with epoch -1, or -2 for a while.
func (n *native) leave(epoch int32) int16 {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, n.group, n.id, epoch
	if n.instance != "" {
		req.InstanceID = &n.instance
	}
	return n.b.ConsumerGroupHeartbeat(Client{}, req).ErrorCode
}

// has is what the member owns: "a/0 a/1".
func (n *native) has() string {
	var all []string
	n.owned.each(func(topic topicID, p ownedPartition) {
		name := "?"
		if t := n.b.view.Load().WithID(topic); t != nil {
			name = t.Name
		}
		all = append(all, fmt.Sprintf("%s/%d", name, p.number))
	})
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (n *native) want(has string) {
	n.b.t.Helper()
	if n.has() != has {
		n.b.t.Fatalf("%s has %q, want %q", n.id, n.has(), has)
	}
}

// until lets members heartbeat, with time passing, until all of them have arrived.
func (b *testBroker) arrive(members ...*native) {
	b.t.Helper()
	for range 10 {
		for _, n := range members {
			n.beat()
		}
		b.clock.Advance(600 * time.Millisecond)
	}
	if state := b.state("g"); state != "Stable" {
		b.t.Fatalf("state %s", state)
	}
}

func TestAPartitionIsGivenOnlyAfterItWasGivenUp(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 4)
	first := b.native("m1", "a").beat()
	first.want("a/0 a/1 a/2 a/3")
	second := b.native("m2", "a").beat()
	second.want("")
	b.clock.Advance(time.Second)
	second.beat()
	second.want("") // the target is there, its partitions are not
	held := first.owned
	first.beat()
	first.want("a/0 a/1")
	second.beat()
	second.want("")
	// As long as the first says that it still has all four, or doesn't say, nothing is given.
	kept := first.owned
	first.owned = held
	first.beat()
	second.beat()
	second.want("")
	first.owned = kept
	first.beat()
	second.beat()
	second.want("a/2 a/3")
	b.arrive(first, second)
}

func TestAMemberThatDoesNotGiveUpIsPutOutAfterItsRebalanceTimeout(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 2)
	first := b.native("m1", "a").beat()
	second := b.native("m2", "a").beat()
	b.clock.Advance(time.Second)
	second.beat()
	held := first.owned
	first.beat()
	for range 4 {
		first.owned = held
		b.clock.Advance(4 * time.Second)
		first.beat()
		second.beat()
	}
	second.want("")
	b.clock.Advance(4 * time.Second)
	wantCode(t, "the one that holds on", first.try(), protocol.UnknownMemberID)
	second.beat()
	b.clock.Advance(time.Second)
	second.beat()
	second.want("a/0 a/1")
}

func TestAMemberThatStopsHeartbeatingLosesItsPartitions(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 2)
	first, second := b.native("m1", "a").beat(), b.native("m2", "a").beat()
	b.arrive(first, second)
	for range 5 {
		b.clock.Advance(10 * time.Second)
		second.beat()
	}
	second.want("a/0 a/1")
	wantCode(t, "the first", first.try(), protocol.UnknownMemberID)
}

func TestAGroupsOwnSettingsHold(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.groupConfig = func(group string, c ConsumerConfig) ConsumerConfig {
		if group == "g" {
			c.SessionTimeout, c.HeartbeatInterval = 5*time.Second, time.Second
		}
		return c
	}
	m := b.native("m1", "a").beat()
	if m.last.HeartbeatIntervalMillis != 1000 {
		t.Fatalf("interval %d", m.last.HeartbeatIntervalMillis)
	}
	b.clock.Advance(5 * time.Second)
	wantCode(t, "after the group's session timeout", m.try(), protocol.UnknownMemberID)
}

func TestTopicsThatComeGoAndGrowWhileSubscribed(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	m := b.native("m1", "a", "b").beat()
	m.want("a/0")
	b.makeTopic("b", 2)
	b.arrive(m)
	m.want("a/0 b/0 b/1")
	b.growTopic("a", 3)
	b.arrive(m)
	m.want("a/0 a/1 a/2 b/0 b/1")
	b.deleteTopic("b")
	b.arrive(m)
	m.want("a/0 a/1 a/2")
	epoch := m.epoch
	b.makeTopic("c", 5) // nobody subscribes to it
	b.arrive(m)
	if m.epoch != epoch {
		t.Fatal("a topic that nobody subscribes to has caused a rebalance")
	}
	b.makeTopic("b", 1) // under the same name, another one
	b.arrive(m)
	m.want("a/0 a/1 a/2 b/0")
}

func TestAPatternFollowsTheTopics(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("logs-a", 1)
	b.makeTopic("other", 1)
	m := b.native("m1")
	m.regex = "logs-.*"
	m.beat()
	m.want("") // it is resolved after the answer
	b.arrive(m)
	m.want("logs-a/0")
	b.makeTopic("logs-b", 2)
	b.makeTopic("my-logs-c", 1) // the whole name has to match
	b.arrive(m)
	m.want("logs-a/0 logs-b/0 logs-b/1")
	b.restart()
	b.deleteTopic("logs-a")
	b.arrive(m)
	m.want("logs-b/0 logs-b/1")
	other := b.native("m2")
	other.regex = "("
	wantCode(t, "a bad pattern", other.try(), protocol.InvalidRegularExpression)
	other.regex = "(?=x)" // Java's, not RE2's
	wantCode(t, "a pattern in another syntax", other.try(), protocol.InvalidRegularExpression)
	if b.find("g").consumer.members["m2"] != nil {
		t.Fatal("the refused member is in the group")
	}
}

func TestInternalTopicsCanBeSubscribedToAndCommittedOn(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	internal := &meta.Topic{Name: "__consumer_offsets", ID: [16]byte{9}, Partitions: 2}
	b.Coordinator.topics = (&mergedTopics{stored: b.view.Load, internal: []*meta.Topic{internal}}).get
	b.makeTopic("a", 1)
	if first, second := b.topics(), b.topics(); first != second {
		t.Fatal("the view changes though no topic does")
	}
	m := b.native("m1")
	m.regex = "a|__consumer.*"
	b.arrive(m)
	if m.owned.size() != 3 || !m.owned.has(internal.ID, 1) {
		t.Fatalf("assigned %v", m.owned)
	}
	wantCode(t, "commit", b.commitOne("other", "", -1, internal.Name, 1, 4), protocol.None)
	b.makeTopic("ab", 1)
	if b.topics().Named("ab") == nil || b.topics().Named(internal.Name) == nil {
		t.Fatal("the view lacks a topic")
	}
}

func TestAPatternThatNobodyUsesIsForgotten(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	first, second := b.native("m1"), b.native("m2")
	first.regex, second.regex = "a.*", "b.*"
	b.arrive(first, second)
	first.leave(-1)
	if regexes := b.find("g").consumer.regexes; len(regexes) != 1 || regexes["b.*"] == nil {
		t.Fatalf("patterns %v", regexes)
	}
}

func TestTheAssignorThatMostMembersAskForIsUsed(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 3)
	b.makeTopic("b", 3)
	first, second := b.native("m1", "a", "b").beat(), b.native("m2", "a", "b").beat()
	b.arrive(first, second)
	for _, n := range []*native{first, second} {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = 1, "g", n.id, n.epoch, -1
		req.ServerAssignor = kmsg.StringPtr("range")
		n.send(req)
	}
	b.arrive(first, second)
	first.want("a/0 a/1 b/0 b/1")
	second.want("a/2 b/2")
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups = []string{"g"}
	if name := b.ConsumerGroupDescribe(describe).Groups[0].AssignorName; name != "range" {
		t.Fatalf("assignor %s", name)
	}
}

func TestAStaticMemberKeepsItsPartitionsWhileItIsAway(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 2)
	first, second := b.native("m1", "a"), b.native("m2", "a")
	first.instance, second.instance = "i1", "i2"
	b.arrive(first, second)
	had, epoch := first.has(), second.epoch
	wantCode(t, "leave", first.leave(epochLeft), protocol.None)
	b.clock.Advance(10 * time.Second)
	second.beat()
	b.restart()
	back := b.native("m3", "a")
	back.instance = "i1"
	back.beat()
	back.want(had)
	second.beat()
	if second.epoch != epoch || back.epoch != epoch {
		t.Fatalf("epochs %d and %d after %d: there was a rebalance", second.epoch, back.epoch, epoch)
	}
	wantCode(t, "the old member", first.try(), protocol.FencedInstanceID)
	back.leave(epochLeft)
	b.clock.Advance(30 * time.Second)
	second.beat()
	b.clock.Advance(20 * time.Second) // the session of the one that is away ends
	second.beat()
	b.arrive(second)
	second.want("a/0 a/1")
}

func TestAStaticMemberJoinsAgainOnlyAfterItLeft(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	m := b.native("m1", "a")
	m.instance = "i"
	m.beat()
	m.epoch = 0 // as if the answer had been lost
	wantCode(t, "joining twice", m.try(), protocol.UnreleasedInstanceID)
	m.leave(epochLeft)
	m.epoch = 0
	m.beat()
	m.want("a/0")
}

func TestAFullConsumerGroupTakesNoMoreMembers(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.config.Consumer.MaxSize = 1
	m := b.native("m1", "a")
	m.instance = "i"
	m.beat()
	wantCode(t, "the second", b.native("m2", "a").try(), protocol.GroupMaxSizeReached)
	m.leave(epochLeft)
	back := b.native("m3", "a")
	back.instance = "i"
	back.beat()
}

func TestAConsumerGroupGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 4)
	first, second := b.native("m1", "a").beat(), b.native("m2", "a").beat()
	b.arrive(first, second)
	third := b.native("m3", "a").beat()
	b.clock.Advance(time.Second)
	third.beat() // a rebalance has begun
	b.restart()
	for _, n := range []*native{first, second, third} {
		wantCode(t, n.id, n.try(), protocol.None)
	}
	b.arrive(first, second, third)
	all := strings.Fields(first.has() + " " + second.has() + " " + third.has())
	slices.Sort(all)
	if strings.Join(all, " ") != "a/0 a/1 a/2 a/3" {
		t.Fatalf("assigned %v", all)
	}
	b.restart()
	b.clock.Advance(46 * time.Second)
	if state := b.state("g"); state != "Empty" {
		t.Fatalf("state %s after the members' sessions", state)
	}
}

func TestNothingOfAConsumerGroupChangesThatCouldNotBeCommitted(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 2)
	b.store.setFail(true)
	wantCode(t, "the first join", b.native("m0", "a").try(), protocol.CoordinatorNotAvailable)
	if b.state("g") != "" {
		t.Fatal("the group is there")
	}
	b.store.setFail(false)
	first := b.native("m1", "a").beat()
	b.store.setFail(true)
	wantCode(t, "join", b.native("m2", "a").try(), protocol.CoordinatorNotAvailable)
	wantCode(t, "leave", first.leave(-1), protocol.CoordinatorNotAvailable)
	first.beat() // nothing to commit
	b.clock.Advance(46 * time.Second)
	if state := b.state("g"); state != "Stable" {
		t.Fatalf("state %s", state)
	}
	b.store.setFail(false)
	b.clock.Advance(commitRetry)
	if state := b.state("g"); state != "Empty" {
		t.Fatalf("state %s", state)
	}
}

func TestCommitsAtAnEarlierEpochCountForPartitionsHeldSince(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 2)
	b.makeTopic("b", 1)
	commit := func(m *native, epoch int32, topic string, partition int32) protocol.ErrorCode {
		req := commitRequestOf("g", topic, partition, 1)
		req.Version, req.MemberID, req.Generation = 9, m.id, epoch
		return protocol.ErrorCode(b.OffsetCommit(req).Topics[0].Partitions[0].ErrorCode)
	}
	first := b.native("m1", "a").beat()
	early := first.epoch
	second := b.native("m2", "a").beat()
	b.arrive(first, second)
	first.want("a/0")
	wantCode(t, "held since", int16(commit(first, early, "a", 0)), protocol.None)
	wantCode(t, "given up", int16(commit(first, early, "a", 1)), protocol.StaleMemberEpoch)
	wantCode(t, "never had", int16(commit(first, early, "b", 0)), protocol.StaleMemberEpoch)
	wantCode(t, "got later", int16(commit(second, second.epoch-1, "a", 1)), protocol.StaleMemberEpoch)
	wantCode(t, "too new", int16(commit(first, first.epoch+1, "a", 0)), protocol.StaleMemberEpoch)
	wantCode(t, "current", int16(commit(first, first.epoch, "b", 0)), protocol.None)
}

func TestOffsetsOfTopicsAConsumerGroupSubscribesToAreKept(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	b.makeTopic("b", 1)
	b.groupConfig = func(_ string, c ConsumerConfig) ConsumerConfig {
		c.SessionTimeout = 30 * 24 * time.Hour
		return c
	}
	m := b.native("m1", "a").beat()
	for _, topic := range []string{"a", "b"} {
		req := commitRequestOf("g", topic, 0, 7)
		req.Version, req.MemberID, req.Generation = 9, m.id, m.epoch
		b.OffsetCommit(req)
	}
	b.clock.Advance(week + time.Hour)
	if b.committed("g", "a", 0) != 7 || b.committed("g", "b", 0) != -1 {
		t.Fatalf("offsets %d and %d", b.committed("g", "a", 0), b.committed("g", "b", 0))
	}
	m.leave(-1)
	b.clock.Advance(time.Hour)
	if b.size() != 0 || len(b.store.groups)+len(b.store.cursors) != 0 {
		t.Fatalf("%d groups left, %v, %v", b.size(), b.store.groups, b.store.cursors)
	}
}

func TestManyMembersThatJoinTogetherShareOneAssignment(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 50)
	var members []*native
	for i := range 50 {
		members = append(members, b.native(fmt.Sprint("m", i), "a").beat())
	}
	before := b.find("g").consumer.assignmentEpoch
	b.arrive(members...)
	k := b.find("g").consumer
	if k.assignmentEpoch == before || k.assignmentEpoch != k.epoch {
		t.Fatalf("assigned for %d, then %d of %d", before, k.assignmentEpoch, k.epoch)
	}
	for _, m := range members {
		if m.owned.size() != 1 {
			t.Fatalf("%s has %q", m.id, m.has())
		}
	}
}

func TestAStaleEpochIsToldInTheTermsOfTheVersion(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	m := b.native("m1", "a")
	m.beat()
	for version, want := range map[int16]protocol.ErrorCode{
		3: protocol.IllegalGeneration, 5: protocol.IllegalGeneration, 6: protocol.StaleMemberEpoch,
	} {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.Version, req.Group, req.ProducerID, req.MemberID, req.Generation = version, "g", 7, "m1", m.epoch+1
		req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{
			Topic: "a", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{kmsg.NewTxnOffsetCommitRequestTopicPartition()},
		}}
		wantCode(t, "a stale epoch", b.TxnOffsetCommit(req).Topics[0].Partitions[0].ErrorCode, want)
	}
}

func TestWhatIsBeingRevokedIsDescribedLast(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	id := b.makeTopic("a", 3)
	m := &consumerMember{assigned: make(assignment), revoking: make(assignment)}
	m.assigned.add(id, ownedPartition{number: 2})
	m.revoking.add(id, ownedPartition{number: 1})
	m.revoking.add(id, ownedPartition{number: 0})
	got := m.describe(b.topics()).Assignment.TopicPartitions
	if len(got) != 1 || !slices.Equal(got[0].Partitions, []int32{2, 0, 1}) {
		t.Fatalf("described as %+v", got)
	}
}
