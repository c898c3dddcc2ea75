package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// TestConsumerModel lets members of a consumer group join, subscribe anew, give up and take on partitions, leave, vanish and
// come back at random, some of them static, some by the classic protocol, so that the group is upgraded and downgraded,
// while topics are made, grown and deleted, time passes, commits to the store fail and the broker restarts. After each
// step it holds that
//
//  1. no partition is owned by two members that the group knows, as the members themselves see it;
//  2. a member's epoch doesn't go back while it stays, and the group's never does;
//  3. the offset that is read is the one of the last commit that was answered with success;
//  4. a restart changes nothing;
//  5. the books are right: who holds what, static members, timer.
//
// At the end, when the members that are there are left in peace, all of them arrive, and every partition of the topics
// that they subscribe to is owned by one that does.
func TestConsumerModel(t *testing.T) {
	t.Parallel()
	seeds := 600
	if raceDetector || testing.Short() {
		seeds = 100
	}
	const shards = 4
	for shard := range shards {
		t.Run(fmt.Sprint("shard", shard), func(t *testing.T) {
			t.Parallel()
			for seed := shard; seed < seeds && !t.Failed(); seed += shards {
				runConsumerModel(t, uint64(seed))
			}
		})
	}
}

// partitionPlace is a partition as clients see it.
type partitionPlace struct {
	topic  topicID
	number int32
}

type consumerClient struct {
	name     string
	instance string
	memberID string
	epoch    int32
	owned    map[partitionPlace]bool
	assigned map[partitionPlace]bool // what it is to own; nil when it does
	sent     string                  // what it owned when it last said so
	names    []string
	regex    string
	assignor string
	changed  bool // has to say what it subscribes to
	in       bool

	classic *classicClient // nil when it speaks KIP-848
}

type consumerModel struct {
	*testBroker
	seed    uint64
	rand    *rand.Rand
	clients []*consumerClient
	log     []string
	next    int
	offsets map[string]int64
	failing time.Time
	highest int32
}

func runConsumerModel(t *testing.T, seed uint64) {
	t.Helper()
	m := &consumerModel{testBroker: newTestBroker(t), seed: seed, rand: rand.New(rand.NewPCG(seed, 2)), offsets: map[string]int64{}}
	if m.rand.IntN(3) == 0 {
		m.config.Consumer.AssignmentInterval = 0
	}
	m.makeTopic("a1", int32(1+m.rand.IntN(4)))
	m.makeTopic("a2", int32(1+m.rand.IntN(4)))
	for i := range 2 + m.rand.IntN(4) {
		c := &consumerClient{name: fmt.Sprint("c", i)}
		switch m.rand.IntN(6) {
		case 0, 1:
			c.instance = fmt.Sprint("i", i)
		case 2, 3:
			c.classic = &classicClient{}
		}
		m.choose(c)
		m.clients = append(m.clients, c)
	}
	for range 120 {
		m.step()
		m.check()
	}
	m.end()
}

func (m *consumerModel) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *consumerModel) fatal(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("seed %d: %s\n%s", m.seed, fmt.Sprintf(format, args...), strings.Join(m.log, "\n"))
}

func (m *consumerModel) choose(c *consumerClient) {
	c.names, c.regex, c.assignor = nil, "", []string{"", "uniform", "range"}[m.rand.IntN(3)]
	kind := m.rand.IntN(5)
	if c.classic != nil {
		kind = 1 + m.rand.IntN(4) // it has no patterns
	}
	switch kind {
	case 0:
		c.regex = []string{"a.*", "b.*", "[ab]1"}[m.rand.IntN(3)]
	case 1:
		c.names = []string{"a1"}
	case 2:
		c.names = []string{"a2", "b1"}
	default:
		c.names = []string{"a1", "a2"}
	}
	c.changed = true
}

func (m *consumerModel) step() {
	c := m.clients[m.rand.IntN(len(m.clients))]
	m.hear()
	switch n := m.rand.IntN(100); {
	case n < 60 && c.classic != nil:
		m.proceed(c)
	case n < 15:
		m.obey(c)
	case n < 60:
		m.beatConsumer(c, m.rand.IntN(4) > 0)
	case n < 66:
		m.commitConsumer(c)
	case n < 72:
		m.choose(c)
		m.note("%s subscribes to %v %q", c.name, c.names, c.regex)
	case n < 77:
		m.leaveConsumer(c)
	case n < 80:
		m.note("%s vanishes", c.name)
		c.in, c.memberID, c.owned, c.assigned = false, "", nil, nil
		if c.classic != nil {
			c.classic = &classicClient{}
		}
	case n < 83:
		m.changeTopics()
	case n < 94:
		d := time.Duration(m.rand.IntN(3000)) * time.Millisecond
		if m.rand.IntN(12) == 0 {
			d *= 20
		}
		m.note("%v pass", d)
		m.pass(d)
	case n < 97:
		m.restartConsumers()
	default:
		m.failing = m.clock.Now().Add(time.Duration(m.rand.IntN(3000)) * time.Millisecond)
		m.note("commits fail")
		m.store.setFail(true)
	}
}

func (m *consumerModel) pass(d time.Duration) {
	m.clock.Advance(d)
	if !m.failing.IsZero() && !m.clock.Now().Before(m.failing) {
		m.store.setFail(false)
		m.failing = time.Time{}
	}
}

func (m *consumerModel) changeTopics() {
	name := []string{"a1", "a2", "b1"}[m.rand.IntN(3)]
	topic := m.byName[name]
	switch {
	case topic == nil:
		m.note("topic %s is made", name)
		m.makeTopic(name, int32(1+m.rand.IntN(3)))
	case m.rand.IntN(2) == 0 && topic.Partitions < 6:
		m.note("topic %s grows", name)
		m.growTopic(name, topic.Partitions+1)
	default:
		m.note("topic %s is deleted", name)
		m.deleteTopic(name)
		maps.DeleteFunc(m.offsets, func(key string, _ int64) bool { return strings.HasPrefix(key, name+"/") })
	}
}

// obey lets a client finish what its last assignment asks for: until then it goes on reading what it had.
func (m *consumerModel) obey(c *consumerClient) {
	if c.assigned != nil {
		c.owned, c.assigned = c.assigned, nil
		m.note("%s has come to own %s", c.name, c.ownedText())
	}
}

// beatConsumer lets a client join or heartbeat; it says what it owns when that is different from what it said last, or now
// and then, as clients do.
func (m *consumerModel) beatConsumer(c *consumerClient, terse bool) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.RebalanceTimeoutMillis = 1, "g", -1
	if c.instance != "" {
		req.InstanceID = &c.instance
	}
	if !c.in {
		if c.memberID == "" || m.rand.IntN(3) > 0 {
			m.next++
			c.memberID = fmt.Sprint(c.name, "-", m.next)
		}
		c.epoch, c.owned, c.assigned, c.changed = 0, map[partitionPlace]bool{}, nil, true
	}
	req.MemberID, req.MemberEpoch = c.memberID, c.epoch
	owned := c.ownedText()
	if c.epoch == 0 || c.changed || owned != c.sent || !terse {
		req.Topics = c.ownedTopics()
	}
	if c.epoch == 0 {
		req.RebalanceTimeoutMillis = 20_000
	}
	if c.changed {
		req.SubscribedTopicNames, req.SubscribedTopicRegex = append([]string{}, c.names...), &c.regex
		if c.assignor != "" {
			req.ServerAssignor = &c.assignor
		}
	}
	if req.Topics != nil {
		c.sent = owned
	}
	answer := m.ConsumerGroupHeartbeat(Client{ID: c.name, Host: "/h"}, req)
	m.note("%s: heartbeat of %s at %d owning %s (said %v) answers %d, epoch %d, %+v", c.name, c.memberID, req.MemberEpoch, owned,
		req.Topics != nil, answer.ErrorCode, answer.MemberEpoch, answer.Assignment)
	m.beatAnswered(c, req, answer)
}

func (m *consumerModel) beatAnswered(c *consumerClient, req *kmsg.ConsumerGroupHeartbeatRequest, answer *kmsg.ConsumerGroupHeartbeatResponse) {
	switch protocol.ErrorCode(answer.ErrorCode) {
	case protocol.None:
	case protocol.UnknownMemberID, protocol.FencedMemberEpoch, protocol.FencedInstanceID, protocol.GroupIDNotFound:
		c.in, c.owned, c.assigned = false, nil, nil
		return
	case protocol.UnreleasedInstanceID:
		c.in, c.owned, c.assigned = false, nil, nil
		return
	case protocol.CoordinatorNotAvailable:
		if m.failing.IsZero() {
			m.fatal("no coordinator though commits succeed")
		}
		return
	default:
		m.fatal("%s: code %d %s", c.name, answer.ErrorCode, *answer.ErrorMessage)
	}
	if req.MemberEpoch > 0 && answer.MemberEpoch < c.epoch {
		m.fatal("%s: epoch %d after %d", c.name, answer.MemberEpoch, c.epoch)
	}
	c.in, c.epoch, c.changed = true, answer.MemberEpoch, false
	if answer.Assignment == nil {
		return
	}
	assigned := map[partitionPlace]bool{}
	for _, topic := range answer.Assignment.Topics {
		for _, number := range topic.Partitions {
			assigned[partitionPlace{topic.TopicID, number}] = true
		}
	}
	c.assigned = assigned
	if req.MemberEpoch == 0 || m.rand.IntN(2) == 0 {
		m.obey(c)
	}
}

func (c *consumerClient) ownedTopics() []kmsg.ConsumerGroupHeartbeatRequestTopic {
	a := make(assignment)
	for p := range c.owned {
		a.add(p.topic, ownedPartition{number: p.number})
	}
	topics := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, topic := range a.topics() {
		topics = append(topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic, Partitions: a.numbers(topic)})
	}
	return topics
}

func (c *consumerClient) ownedText() string {
	var texts []string
	for p := range c.owned {
		texts = append(texts, fmt.Sprintf("%x/%d", p.topic[:2], p.number))
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

func (m *consumerModel) leaveConsumer(c *consumerClient) {
	if c.classic != nil {
		m.leaveByClassic(c)
		return
	}
	if !c.in {
		return
	}
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", c.memberID, -1
	if c.instance != "" {
		req.InstanceID = &c.instance
		if m.rand.IntN(2) == 0 {
			req.MemberEpoch = epochLeft
		}
	}
	answer := m.ConsumerGroupHeartbeat(Client{}, req)
	m.note("%s leaves with %d: %d", c.name, req.MemberEpoch, answer.ErrorCode)
	c.in, c.memberID, c.owned, c.assigned = false, "", nil, nil
}

func (m *consumerModel) commitConsumer(c *consumerClient) {
	for p := range c.owned {
		topic := m.view.Load().WithID(p.topic)
		if topic == nil || !c.in {
			continue
		}
		m.next++
		req := commitRequestOf("g", topic.Name, p.number, int64(m.next))
		req.Version, req.MemberID, req.Generation = 9, c.memberID, c.epoch
		if c.classic != nil {
			req.Version, req.Generation = 8, c.classic.generation
		}
		code := protocol.ErrorCode(m.OffsetCommit(req).Topics[0].Partitions[0].ErrorCode)
		m.note("%s: commit of %s/%d at epoch %d answers %d", c.name, topic.Name, p.number, c.epoch, code)
		if code == protocol.None {
			m.offsets[fmt.Sprint(topic.Name, "/", p.number)] = int64(m.next)
		}
		return
	}
}

func (m *consumerModel) restartConsumers() {
	before := m.bookOf()
	m.note("restart")
	m.restart()
	for _, c := range m.clients {
		if c.classic != nil {
			c.classic.join, c.classic.sync = nil, nil
		}
	}
	if after := m.bookOf(); after != before {
		m.fatal("after the restart\n%s\nbefore\n%s", after, before)
	}
}

// bookOf writes down all that is kept of the group.
func (m *consumerModel) bookOf() string {
	g := m.find("g")
	if g == nil || g.consumer == nil {
		return ""
	}
	k := g.consumer
	var s strings.Builder
	fmt.Fprintf(&s, "epoch %d, assigned %d, hash %d, regexes %v\n", k.epoch, k.assignmentEpoch, k.metadataHash, k.regexes)
	for _, member := range k.inOrder() {
		fmt.Fprintf(&s, "%x\n", member.encode())
	}
	return s.String()
}

func (m *consumerModel) check() {
	for key, want := range m.offsets {
		name, number, _ := strings.Cut(key, "/")
		if got := m.committed("g", name, int32(number[0]-'0')); got != want {
			m.fatal("%s: offset %d is read, %d was committed", key, got, want)
		}
		break
	}
	g := m.find("g")
	if g == nil {
		return
	}
	epoch, complaint := int32(0), ""
	known := func(string) bool { return false }
	switch {
	case g.consumer != nil:
		epoch, complaint = g.consumer.epoch, g.consumer.audit()
		known = func(id string) bool { return g.consumer.members[id] != nil }
	case g.classic != nil:
		epoch, complaint = g.classic.next-1, g.classic.audit(m.turn().now)
		known = func(id string) bool { return g.classic.members[id] != nil }
	}
	if complaint != "" {
		m.fatal("%s", complaint)
	}
	if epoch < m.highest {
		m.fatal("group epoch or generation %d after %d", epoch, m.highest)
	}
	m.highest = epoch
	owners := map[partitionPlace]string{}
	for _, c := range m.clients {
		if !c.in || !known(c.memberID) {
			continue
		}
		for p := range c.owned {
			if owners[p] != "" {
				m.fatal("%x/%d is owned by %s and %s", p.topic[:2], p.number, owners[p], c.name)
			}
			owners[p] = c.name
		}
	}
}

// audit says what is wrong with the books.
func (k *consumer) audit() string {
	holders, static := map[freePartition]int{}, 0
	for id, m := range k.members {
		if m.id != id || k.timers[id] == nil || m.instance != nil && k.static[*m.instance] != m {
			return "member " + id + " is filed wrong"
		}
		if m.instance != nil {
			static++
		}
		for _, a := range []assignment{m.assigned, m.revoking} {
			a.each(func(topic topicID, p ownedPartition) { holders[freePartition{topic, p.number}]++ })
		}
		if m.epoch > k.assignmentEpoch || k.assignmentEpoch > k.epoch {
			return fmt.Sprintf("member epoch %d, assignment epoch %d, group epoch %d", m.epoch, k.assignmentEpoch, k.epoch)
		}
		if m.state == memberUnrevoked != (len(m.revoking) > 0) {
			return fmt.Sprintf("member %s in state %d gives up %v", id, m.state, m.revoking)
		}
	}
	for place, n := range holders {
		if n > 1 {
			return fmt.Sprintf("%x/%d is held %d times", place.topic, place.number, n)
		}
	}
	due := k.nextDeadline()
	switch {
	case !maps.Equal(holders, k.holders):
		return fmt.Sprintf("holders %v, booked %v", holders, k.holders)
	case len(k.static) != static, len(k.timers) != len(k.members):
		return fmt.Sprintf("static %d/%d, timers %d/%d", static, len(k.static), len(k.members), len(k.timers))
	case due != 0 && (k.group.wakeAt == 0 || k.group.wakeAt > due):
		return fmt.Sprintf("the timer is set for %v, the next deadline is %v", k.group.wakeAt, due)
	}
	return ""
}

// end leaves the members in peace, and they arrive.
func (m *consumerModel) end() {
	m.store.setFail(false)
	m.failing = time.Time{}
	m.note("peace")
	m.pass(time.Minute) // those that are gone expire
	for range 60 {
		for _, c := range m.clients {
			m.hear()
			if c.classic != nil {
				m.proceed(c)
			} else {
				m.beatConsumer(c, true)
				m.obey(c)
			}
			m.hear()
			m.check()
		}
		m.pass(700 * time.Millisecond)
	}
	if state := m.state("g"); state != "Stable" {
		m.fatal("state %s in peace", state)
	}
	owners := map[partitionPlace]string{}
	for _, c := range m.clients {
		if c.in {
			for p := range c.owned {
				owners[p] = c.name
			}
		}
	}
	for _, topic := range m.view.Load().All() {
		if !m.find("g").subscribes(topic.Name) {
			continue
		}
		for number := range topic.Partitions {
			if owners[partitionPlace{topic.ID, number}] == "" {
				m.fatal("nobody owns %s/%d", topic.Name, number)
			}
			delete(owners, partitionPlace{topic.ID, number})
		}
	}
	if len(owners) > 0 {
		m.fatal("owned though nobody subscribes: %v", owners)
	}
}
