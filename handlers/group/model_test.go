package group

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// TestModel lets clients join, sync, commit, leave, vanish and come back at random, with time passing, commits to the store
// failing and the broker restarting between, and holds after each step that
//
//  1. a partition has one owner in a generation, whoever asks and whenever;
//  2. a generation that is new is above all that have been handed out before;
//  3. every call is answered within the group's timeouts;
//  4. the offset that is read is the one of the last commit that was answered with success;
//  5. a group that is stable stays so over a restart, with its members;
//  6. the machine's books are right: counts, leader, timer.
func TestModel(t *testing.T) {
	t.Parallel()
	seeds := 2000
	if raceDetector || testing.Short() {
		seeds = 300
	}
	const shards = 4
	for shard := range shards {
		t.Run(fmt.Sprint("shard", shard), func(t *testing.T) {
			t.Parallel()
			for seed := shard; seed < seeds && !t.Failed(); seed += shards {
				runModel(t, uint64(seed))
			}
		})
	}
}

const (
	modelPartitions = 5
	modelSteps      = 150
	modelPatience   = 4 * time.Minute // the longest rebalance timeout twice, and what failing commits add
)

type modelClient struct {
	name       string
	instance   string
	version    int16
	metadata   string
	memberID   string
	generation int32
	leader     bool
	members    []kmsg.JoinGroupResponseMember
	owned      string
	stable     bool // has its assignment of the generation
	join       *waiter[*kmsg.JoinGroupResponse]
	sync       *waiter[*kmsg.SyncGroupResponse]
	since      time.Time // when the call that waits began
}

type model struct {
	*testBroker
	seed    uint64
	rand    *rand.Rand
	clients []*modelClient
	log     []string
	highest int32
	settled int32             // the last generation in which anybody was assigned anything
	leaders map[int32]string  // of generations, but for static ones, which change their ids
	owners  map[string]string // generation and partition to owner
	offsets map[int32]int64   // committed
	next    int64
	failing time.Time
}

func runModel(t *testing.T, seed uint64) {
	t.Helper()
	m := &model{
		testBroker: newTestBroker(t), seed: seed, rand: rand.New(rand.NewPCG(seed, 1)),
		leaders: map[int32]string{}, owners: map[string]string{}, offsets: map[int32]int64{},
	}
	m.config.InitialRebalanceDelay = time.Duration(m.rand.IntN(3)) * time.Second
	m.makeTopic("a", modelPartitions)
	for i := range 2 + m.rand.IntN(4) {
		c := &modelClient{name: fmt.Sprint("c", i), version: []int16{3, 4, 5, 9}[m.rand.IntN(4)], metadata: "m"}
		if c.version >= 5 && m.rand.IntN(3) == 0 {
			c.instance = fmt.Sprint("i", i)
		}
		m.clients = append(m.clients, c)
	}
	for range modelSteps {
		m.step()
		m.observe()
		m.check()
		if t.Failed() {
			return
		}
	}
	m.end()
}

func (m *model) fatal(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("seed %d: %s\n%s", m.seed, fmt.Sprintf(format, args...), strings.Join(m.log, "\n"))
}

func (m *model) note(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

func (m *model) step() {
	c := m.clients[m.rand.IntN(len(m.clients))]
	switch n := m.rand.IntN(100); {
	case n < 45:
		m.proceed(c)
	case n < 60:
		m.beatModel(c)
	case n < 72:
		m.commitModel(c)
	case n < 78:
		m.note("%s leaves", c.name)
		if c.memberID != "" && m.leaveAll("g", c.memberID)[0] == 0 {
			*c = modelClient{name: c.name, instance: c.instance, version: c.version, metadata: c.metadata}
		}
	case n < 81:
		m.note("%s forgets who it is", c.name)
		*c = modelClient{name: c.name, instance: c.instance, version: c.version, metadata: c.metadata}
	case n < 83:
		c.metadata += "'"
		m.note("%s changes its metadata", c.name)
	case n < 94:
		d := time.Duration(m.rand.IntN(8000)) * time.Millisecond
		if m.rand.IntN(10) == 0 {
			d *= 6
		}
		m.note("%v pass", d)
		m.advance(d)
	case n < 97:
		m.restartModel()
	default:
		m.failing = m.clock.Now().Add(time.Duration(m.rand.IntN(5000)) * time.Millisecond)
		m.note("commits fail for %v", m.failing.Sub(m.clock.Now()))
		m.store.setFail(true)
	}
}

// advance lets time pass in small steps, so that answers are noticed when they come.
func (m *model) advance(d time.Duration) {
	for d > 0 {
		step := min(d, 500*time.Millisecond)
		m.clock.Advance(step)
		d -= step
		if !m.failing.IsZero() && !m.clock.Now().Before(m.failing) {
			m.store.setFail(false)
			m.failing = time.Time{}
		}
		m.observe()
		for _, c := range m.clients {
			if (c.join != nil || c.sync != nil) && m.clock.Now().Sub(c.since) > modelPatience {
				m.fatal("%s waits since %v", c.name, m.clock.Now().Sub(c.since))
			}
		}
	}
}

// proceed lets a client do what its place in the protocol asks for.
func (m *model) proceed(c *modelClient) {
	switch {
	case c.join != nil || c.sync != nil: // it waits
		if m.rand.IntN(10) == 0 {
			m.note("%s hangs up", c.name)
			c.join, c.sync = nil, nil
		}
	case c.generation > 0 && !c.stable && m.rand.IntN(8) > 0:
		var assignments []string
		if c.leader {
			assignments = m.assign(c)
		}
		m.note("%s syncs in %d", c.name, c.generation)
		c.sync, c.since = m.syncLater("g", c.memberID, c.generation, assignments...), m.clock.Now()
	case c.stable && m.rand.IntN(6) > 0: // content
	default:
		m.note("%s joins as %q", c.name, c.memberID)
		c.join = m.joinLater("g", joinOptions{
			version: c.version, memberID: c.memberID, instance: c.instance, client: c.name, protocols: []string{"range", c.metadata},
			session: time.Duration(6+m.rand.IntN(20)) * time.Second, rebalance: time.Duration(5+m.rand.IntN(40)) * time.Second,
		})
		c.since, c.stable, c.generation = m.clock.Now(), false, 0
	}
}

// assign deals the partitions to the members that the leader was told of; sometimes it forgets some.
func (m *model) assign(c *modelClient) []string {
	owned := make([]string, len(c.members))
	for p := range modelPartitions {
		owned[p%len(owned)] += string(rune('0' + p))
	}
	var assignments []string
	for i := range c.members {
		if m.rand.IntN(20) > 0 {
			assignments = append(assignments, c.members[i].MemberID, owned[i])
		}
	}
	return assignments
}

// observe takes the answers that have come.
func (m *model) observe() {
	for _, c := range m.clients {
		if c.join != nil {
			select {
			case answer := <-c.join.ch:
				c.join = nil
				m.joinAnswered(c, answer)
			default:
			}
		}
		if c.sync != nil {
			select {
			case answer := <-c.sync.ch:
				c.sync = nil
				m.syncAnswered(c, answer)
			default:
			}
		}
	}
}

func (m *model) joinAnswered(c *modelClient, answer *kmsg.JoinGroupResponse) {
	m.note("%s: join answers %d, generation %d, id %s", c.name, answer.ErrorCode, answer.Generation, answer.MemberID)
	switch protocol.ErrorCode(answer.ErrorCode) {
	case protocol.None:
		k := m.find("g").classic
		if answer.Generation != k.generation {
			m.fatal("%s: generation %d answered, the group's is %d", c.name, answer.Generation, k.generation)
		}
		if answer.Generation < m.highest {
			m.fatal("%s: generation %d after %d", c.name, answer.Generation, m.highest)
		}
		m.highest = answer.Generation
		if leader := answer.LeaderID; !strings.HasPrefix(leader, "i") {
			if led := m.leaders[answer.Generation]; led != "" && led != leader {
				m.fatal("generation %d is led by %s and %s", answer.Generation, led, leader)
			}
			m.leaders[answer.Generation] = leader
		}
		c.memberID, c.generation, c.stable = answer.MemberID, answer.Generation, false
		c.leader = answer.LeaderID == answer.MemberID && !answer.SkipAssignment
		c.members = answer.Members
		if c.leader && len(c.members) == 0 {
			m.fatal("%s leads nobody", c.name)
		}
	case protocol.MemberIDRequired:
		c.memberID = answer.MemberID
	case protocol.UnknownMemberID, protocol.FencedInstanceID:
		c.memberID = ""
	case protocol.CoordinatorNotAvailable, protocol.RebalanceInProgress:
	default:
		m.fatal("%s: join answered %d", c.name, answer.ErrorCode)
	}
}

func (m *model) syncAnswered(c *modelClient, answer *kmsg.SyncGroupResponse) {
	m.note("%s: sync of %d answers %d %s", c.name, c.generation, answer.ErrorCode, answer.MemberAssignment)
	switch protocol.ErrorCode(answer.ErrorCode) {
	case protocol.None:
		c.owned, c.stable = string(answer.MemberAssignment), true
		m.settled = max(m.settled, c.generation)
		m.own(c)
	case protocol.UnknownMemberID, protocol.FencedInstanceID:
		c.memberID, c.generation = "", 0
	case protocol.RebalanceInProgress, protocol.IllegalGeneration:
		c.generation = 0
	case protocol.CoordinatorNotAvailable:
	default:
		m.fatal("%s: sync answered %d", c.name, answer.ErrorCode)
	}
}

// own notes who owns what.
func (m *model) own(c *modelClient) {
	owner := c.memberID
	if c.instance != "" {
		owner = c.instance // its assignment goes over to its next member id
	}
	for _, p := range c.owned {
		key := fmt.Sprint(c.generation, "/", string(p))
		if m.owners[key] != "" && m.owners[key] != owner {
			m.fatal("partition %s is owned by %s and %s", key, m.owners[key], owner)
		}
		m.owners[key] = owner
	}
}

func (m *model) beatModel(c *modelClient) {
	if !c.stable {
		return
	}
	code := protocol.ErrorCode(m.beat("g", c.memberID, c.generation))
	m.note("%s: heartbeat in %d answers %d", c.name, c.generation, code)
	switch code {
	case protocol.None:
	case protocol.RebalanceInProgress:
		c.stable = false
		c.generation = 0
	case protocol.IllegalGeneration:
		c.stable, c.generation = false, 0
	case protocol.UnknownMemberID, protocol.FencedInstanceID:
		c.stable, c.generation, c.memberID = false, 0, ""
	default:
		m.fatal("%s: heartbeat answered %d", c.name, code)
	}
}

func (m *model) commitModel(c *modelClient) {
	if !c.stable || c.owned == "" {
		return
	}
	p := int32(c.owned[m.rand.IntN(len(c.owned))] - '0')
	m.next++
	code := m.commitOne("g", c.memberID, c.generation, "a", p, m.next)
	m.note("%s: commit of %d at %d answers %d", c.name, p, m.next, code)
	if code != 0 {
		return
	}
	if c.generation < m.settled {
		m.fatal("%s commits in generation %d, %d is assigned", c.name, c.generation, m.settled)
	}
	m.offsets[p] = m.next
}

func (m *model) restartModel() {
	state, members, generation := m.state("g"), "", int32(0)
	if state == "Stable" {
		members, generation = m.book()
	}
	m.note("restart while %s", state)
	for _, c := range m.clients {
		c.join, c.sync = nil, nil
	}
	m.restart()
	if state != "Stable" {
		return
	}
	after, generationAfter := m.book()
	if m.state("g") != "Stable" || after != members || generationAfter != generation {
		m.fatal("after the restart %s in %d with %s, before in %d with %s", m.state("g"), generationAfter, after, generation, members)
	}
}

// book is the members with their assignments.
func (m *model) book() (members string, generation int32) {
	k := m.find("g").classic
	for _, member := range k.order {
		members += fmt.Sprintf("%s=%s ", member.id, member.assignment)
	}
	return members + "led by " + k.leader, k.generation
}

func (m *model) check() {
	p := m.rand.Int32N(modelPartitions)
	want, found := m.offsets[p]
	if !found {
		want = -1
	}
	if got := m.committed("g", "a", p); got != want {
		m.fatal("partition %d: offset %d is read, %d was committed", p, got, want)
	}
	g := m.find("g")
	if g == nil || g.classic == nil {
		return
	}
	if complaint := g.classic.audit(m.turn().now); complaint != "" {
		m.fatal("%s", complaint)
	}
}

// audit says what is wrong with the books.
func (k *classic) audit(now time.Duration) string {
	joining, static := 0, 0
	supports := map[string]int{}
	for _, m := range k.order {
		if m.join != nil {
			joining++
		}
		if m.instance != nil {
			static++
		}
		if k.members[m.id] != m || m.instance != nil && k.static[*m.instance] != m {
			return "member " + m.id + " is filed wrong"
		}
		for _, p := range m.protocols {
			supports[p.name]++
		}
		if m.sync != nil && k.state != stateCompletingRebalance {
			return "a sync waits in state " + k.state.String()
		}
	}
	due := k.nextDeadline()
	switch {
	case joining != k.joining, len(k.members) != len(k.order), len(k.static) != static, fmt.Sprint(supports) != fmt.Sprint(k.supports):
		return fmt.Sprintf("counts: joining %d/%d, members %d/%d, static %d/%d, supports %v/%v", joining, k.joining,
			len(k.members), len(k.order), len(k.static), static, supports, k.supports)
	case joining > 0 && k.state != statePreparingRebalance:
		return "a join waits in state " + k.state.String()
	case len(k.order) > 0 && k.members[k.leader] == nil:
		return "the leader " + k.leader + " is no member"
	case len(k.order) > 0 && k.state == stateEmpty, len(k.order) == 0 && (k.state == stateStable || k.state == stateCompletingRebalance):
		return fmt.Sprintf("%d members in state %s", len(k.order), k.state)
	case k.next <= k.generation:
		return fmt.Sprintf("generation %d comes after %d", k.next, k.generation)
	case due != 0 && (k.group.wakeAt == 0 || k.group.wakeAt > due):
		return fmt.Sprintf("at %v the timer is set for %v, the next deadline is %v", now, k.group.wakeAt, due)
	}
	return ""
}

// end lets everybody go and all time run out.
func (m *model) end() {
	m.store.setFail(false)
	m.note("everybody goes")
	m.advance(5 * time.Second)
	for range 30 {
		m.advance(20 * time.Second)
		m.check()
	}
	for _, c := range m.clients {
		if c.join != nil || c.sync != nil {
			m.fatal("%s still waits", c.name)
		}
	}
	if s := m.state("g"); s != "Empty" && s != "" {
		m.fatal("state %s after everybody has gone", s)
	}
}
