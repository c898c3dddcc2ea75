package group

import (
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// classicState is where a classic group stands:
//
//	         first join: prepare                    everyone joined, or time is up: completeJoin
//	Empty ────────────────────────▶ PreparingRebalance ───────────────────────────────▶ CompletingRebalance
//	  ▲                               │    ▲      ▲                                        │         │
//	  │   nobody is left: becomeEmpty │    │      └────────────────────────────────────────┘         │
//	  └───────────────────────────────┘    │        a member joins, leaves or expires: prepare       │
//	  │                                    │                                                         │
//	  │                                    └───────────────────── Stable ◀───────────────────────────┘
//	  ▼                        a member joins, leaves or expires,          the leader's assignment: settle
//	Dead: deleted, or offsets  the leader rejoins: prepare
//	expired (group.dead)
//
// Kept in the store: Stable and Empty (a record of generation, members and assignments) and that a rebalance has begun (a
// mark, written before anything of it is answered, removed by the next record). So a stable group goes on after a restart
// with the same generation, members and assignments; a group that was rebalancing comes back in PreparingRebalance, its
// last stable members may still commit and are told to rejoin. The members of a generation that never became stable are
// unknown after a restart and join anew. Generations only grow, over restarts too: see [classic.next].
type classicState uint8

const (
	stateEmpty classicState = iota
	statePreparingRebalance
	stateCompletingRebalance
	stateStable
)

// String is the state's name in DescribeGroups and ListGroups.
func (s classicState) String() string {
	switch s {
	case statePreparingRebalance:
		return "PreparingRebalance"
	case stateCompletingRebalance:
		return "CompletingRebalance"
	case stateStable:
		return "Stable"
	default:
		return "Empty"
	}
}

const (
	// newMemberJoinTimeout bounds how long a member that doesn't know its id yet may wait in a join phase.
	newMemberJoinTimeout = 5 * time.Minute
	// commitRetry is when something due is tried again whose records could not be committed.
	commitRetry = time.Second
)

// classic is the membership of a group in the classic protocol. Its methods are called with the group's lock held.
type classic struct {
	group *group

	state      classicState
	generation int32
	// next is the generation that the next completed join phase gets. It is generation+1, but after a restart in a
	// rebalance more: what that rebalance led to may have been handed out.
	next         int32
	marked       int32 // the generation that the mark in the store says a rebalance leads to
	protocolType string
	protocol     string              // what this generation works by; "" before the first and when Empty
	leader       string              // member id
	topics       map[string]struct{} // that this generation of consumers subscribes to; nil when that isn't known

	order    []*member // by arrival
	members  map[string]*member
	static   map[string]*member       // by instance id
	supports map[string]int           // how many members support a protocol
	pending  map[string]time.Duration // ids given out by MEMBER_ID_REQUIRED, and until when they hold

	joining  int           // members whose join waits
	joinBy   time.Duration // end of the join phase
	initial  bool          // the join phase of an Empty group: it lasts for the initial delay
	newcomer bool          // somebody joined during the current initial delay
	delayFor time.Duration // how much longer the initial delay may become
	syncBy   time.Duration // when those who have not synced are put out

	emptySinceMs int64 // when it became Empty; 0 if it never was otherwise
}

func newClassic(g *group) *classic {
	return &classic{group: g, next: 1, members: make(map[string]*member)}
}

// deserted says that there is nobody and nobody is coming.
func (k *classic) deserted() bool {
	return k.state == stateEmpty && len(k.order) == 0 && len(k.pending) == 0
}

// insert adds a member; the first one leads, and says what the group is for.
func (k *classic) insert(m *member, protocolType string) {
	if len(k.order) == 0 {
		k.protocolType = strings.Clone(protocolType)
		k.leader = m.id
	}
	k.order = append(k.order, m)
	k.members[m.id] = m
	if m.instance != nil {
		if k.static == nil {
			k.static = make(map[string]*member)
		}
		k.static[*m.instance] = m
	}
	k.count(m, 1)
	if m.join != nil {
		k.joining++
	}
}

// remove takes a member out and answers what it waits for.
func (k *classic) remove(m *member, code protocol.ErrorCode) {
	k.answerJoin(m, joinFailed("", code))
	k.answerSync(m, syncFailed(code))
	delete(k.members, m.id)
	if m.instance != nil && k.static[*m.instance] == m {
		delete(k.static, *m.instance)
	}
	k.count(m, -1)
	for i, other := range k.order {
		if other == m {
			k.order = append(k.order[:i:i], k.order[i+1:]...)
			break
		}
	}
	if k.leader == m.id {
		k.leader = ""
		if len(k.order) > 0 {
			k.leader = k.order[0].id
		}
	}
}

// count keeps the number of members that support each protocol. A name that a member lists twice counts once.
func (k *classic) count(m *member, by int) {
	if k.supports == nil {
		k.supports = make(map[string]int)
	}
	for i := range m.protocols {
		name := m.protocols[i].name
		if repeats(m.protocols[:i], name) {
			continue
		}
		if k.supports[name] += by; k.supports[name] == 0 {
			delete(k.supports, name)
		}
	}
}

func repeats(protocols []protocolChoice, name string) bool {
	for i := range protocols {
		if protocols[i].name == name {
			return true
		}
	}
	return false
}

// choose is the protocol of a set of members: among those that all support, the one that most list first. "" if they
// have none in common.
func choose(members [][]protocolChoice) string {
	if len(members) == 0 {
		return ""
	}
	support := make(map[string]int)
	for _, protocols := range members {
		for i := range protocols {
			if !repeats(protocols[:i], protocols[i].name) {
				support[protocols[i].name]++
			}
		}
	}
	var votes []string
	for _, protocols := range members {
		for i := range protocols {
			if support[protocols[i].name] == len(members) {
				votes = append(votes, protocols[i].name)
				break
			}
		}
	}
	return mostVoted(votes)
}

// chooseProtocol is the protocol for the current members, as if one of them had other protocols.
func (k *classic) chooseProtocol(changed *member, protocols []protocolChoice) string {
	all := make([][]protocolChoice, len(k.order))
	for i, m := range k.order {
		all[i] = m.protocols
		if m == changed {
			all[i] = protocols
		}
	}
	return choose(all)
}

// rebalanceTimeout is the longest that any member wants.
func (k *classic) rebalanceTimeout() time.Duration {
	var longest time.Duration
	for _, m := range k.order {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// begin makes it durable that a rebalance begins, unless one is running. It comes before any change of membership.
func (k *classic) begin(t *turn) error {
	if k.state == statePreparingRebalance {
		return nil
	}
	return k.commitMark(t)
}

// commitMark makes it durable which generation the rebalance leads to.
func (k *classic) commitMark(t *turn) error {
	var b meta.Batch
	b.PutGroup(markKey(k.group.id), mark{k.generation, k.next}.encode())
	if err := t.c.commit(&b); err != nil {
		return err
	}
	k.group.recorded, k.marked = true, k.next
	return nil
}

// rebalance follows a change of membership: it starts a join phase, or looks whether the running one is complete. begin
// has succeeded before the change.
func (k *classic) rebalance(t *turn) {
	if k.state == statePreparingRebalance {
		k.maybeCompleteJoin(t)
		return
	}
	k.prepare(t)
}

// prepare starts a join phase.
func (k *classic) prepare(t *turn) {
	t.c.metrics.rebalances.Inc()
	k.initial = k.state == stateEmpty
	if k.state == stateCompletingRebalance {
		k.dropAssignments(t, protocol.RebalanceInProgress)
	}
	k.state, k.syncBy = statePreparingRebalance, 0
	wait := k.rebalanceTimeout()
	if k.initial {
		wait = t.cfg.InitialRebalanceDelay
		k.newcomer, k.delayFor = false, max(k.rebalanceTimeout()-wait, 0)
	}
	k.joinBy = t.now + wait
	if k.maybeCompleteJoin(t); k.state == statePreparingRebalance {
		k.group.wake(k.joinBy, t.now)
	}
}

// joinUntil sets the end of the join phase.
func (k *classic) joinUntil(t *turn, wait time.Duration) {
	k.joinBy = t.now + wait
	k.group.wake(k.joinBy, t.now)
}

// maybeCompleteJoin ends the join phase if nobody is missing. An initial delay runs its course, so that members that
// start together get into one generation.
func (k *classic) maybeCompleteJoin(t *turn) {
	complete := k.joining == len(k.order) && len(k.pending) == 0
	if k.initial {
		complete = k.joinBy <= t.now
	}
	if complete {
		k.completeJoin(t)
	}
}

// joinTimeIsUp is the end of the time for joining: an initial delay is extended when somebody joined in it.
func (k *classic) joinTimeIsUp(t *turn) {
	if k.initial && k.newcomer && k.delayFor > 0 {
		delay := min(t.cfg.InitialRebalanceDelay, k.delayFor)
		k.newcomer, k.delayFor = false, max(k.delayFor-delay, 0)
		k.joinUntil(t, delay)
		return
	}
	k.completeJoin(t)
}

// completeJoin ends the join phase with those who are there: a new generation begins and its leader is to assign.
func (k *classic) completeJoin(t *turn) {
	k.initial = false
	for _, m := range append([]*member(nil), k.order...) {
		if m.join == nil && m.instance == nil {
			k.remove(m, protocol.UnknownMemberID)
		}
	}
	if len(k.order) == 0 {
		if k.commitEmpty(t) != nil {
			k.joinUntil(t, commitRetry)
			return
		}
		k.becomeEmpty(t)
		return
	}
	if !k.electLeader() {
		// Only static members, all of them away: they have until their sessions end.
		k.joinUntil(t, max(k.rebalanceTimeout(), commitRetry))
		return
	}
	if k.marked != k.next && k.commitMark(t) != nil { // after a restart the mark has what must not be handed out again
		k.joinUntil(t, commitRetry)
		return
	}
	k.generation, k.next = k.next, k.next+1
	k.protocol = k.chooseProtocol(nil, nil)
	k.noteTopics()
	k.state, k.joinBy = stateCompletingRebalance, 0
	for _, m := range k.order {
		m.isNew, m.synced = false, false
		k.extend(t, m)
		k.answerJoin(m, k.joined(m))
	}
	k.syncBy = t.now + k.rebalanceTimeout()
	k.group.wake(k.syncBy, t.now)
}

// electLeader sees to it that the leader is a member that has joined this phase; false if nobody has.
func (k *classic) electLeader() bool {
	if leader := k.members[k.leader]; leader != nil && leader.join != nil {
		return true
	}
	for _, m := range k.order {
		if m.join != nil {
			k.leader = m.id
			return true
		}
	}
	return false
}

// commitEmpty makes it durable that nobody is left.
func (k *classic) commitEmpty(t *turn) error {
	var b meta.Batch
	empty := classicRecord{generation: k.next, protocolType: k.protocolType, emptySinceMs: t.wallMs}
	b.PutGroup(groupKey(k.group.id), empty.encode())
	b.DeleteGroup(markKey(k.group.id))
	if err := t.c.commit(&b); err != nil {
		return err
	}
	k.group.recorded = true
	return nil
}

// becomeEmpty follows commitEmpty. The generation grows here too, so that nobody who was away mistakes the next one for
// its own.
func (k *classic) becomeEmpty(t *turn) {
	k.generation, k.next = k.next, k.next+1
	k.state, k.protocol, k.leader = stateEmpty, "", ""
	k.initial, k.joinBy, k.syncBy, k.emptySinceMs = false, 0, 0, t.wallMs
	k.noteTopics()
}

// dropAssignments tells those who wait for the leader's assignment that none comes. Their sessions begin anew: they may
// have waited longer than one.
func (k *classic) dropAssignments(t *turn, code protocol.ErrorCode) {
	for _, m := range k.order {
		m.assignment = nil
		if m.sync != nil {
			k.answerSync(m, syncFailed(code))
			k.extend(t, m)
		}
	}
}

// extend begins a member's session anew.
func (k *classic) extend(t *turn, m *member) {
	m.deadline = t.now + m.session
	k.group.wake(m.deadline, t.now)
}

// abandonWaiting answers all calls that wait. Members stay, as if their connections had been lost.
func (k *classic) abandonWaiting(code protocol.ErrorCode) {
	for _, m := range k.order {
		k.answerJoin(m, joinFailed(m.id, code))
		k.answerSync(m, syncFailed(code))
	}
}

// tick does what has become due.
func (k *classic) tick(t *turn) {
	for id, until := range k.pending {
		if until <= t.now {
			delete(k.pending, id)
		}
	}
	k.expireMembers(t)
	if k.syncBy != 0 && k.syncBy <= t.now {
		k.putOutUnsynced(t)
	}
	if k.state == statePreparingRebalance {
		if k.joinBy <= t.now {
			k.joinTimeIsUp(t)
		} else {
			k.maybeCompleteJoin(t)
		}
	}
}

// nextDeadline is the earliest time at which tick has something to do; 0 for none.
func (k *classic) nextDeadline() time.Duration {
	next := k.syncBy
	earlier := func(at time.Duration) {
		if at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	earlier(k.joinBy)
	for _, until := range k.pending {
		earlier(until)
	}
	for _, m := range k.order {
		if m.isNew || (m.join == nil && m.sync == nil) {
			earlier(m.deadline)
		}
	}
	return next
}

// expireMembers removes the members whose sessions are over.
func (k *classic) expireMembers(t *turn) {
	var gone []*member
	for _, m := range k.order {
		if m.expired(t.now) {
			gone = append(gone, m)
		}
	}
	if k.putOut(t, gone, "session ended") != nil {
		for _, m := range gone {
			m.deadline = t.now + commitRetry
		}
		return
	}
	t.c.metrics.expired.Add(float64(len(gone)))
}

// putOutUnsynced removes the members that joined this generation and never asked for their assignments.
func (k *classic) putOutUnsynced(t *turn) {
	k.syncBy = 0
	var gone []*member
	for _, m := range k.order {
		if !m.synced {
			gone = append(gone, m)
		}
	}
	if k.putOut(t, gone, "no sync in time") != nil {
		k.syncBy = t.now + commitRetry
	}
}

// putOut removes members, and the others rebalance. When the last ones go from a group that isn't rebalancing it becomes
// Empty in one step. On error nothing has happened.
func (k *classic) putOut(t *turn, gone []*member, why string) error {
	if len(gone) == 0 {
		return nil
	}
	emptied := k.state != statePreparingRebalance && len(gone) == len(k.order) && len(k.pending) == 0
	commit := k.begin
	if emptied {
		commit = k.commitEmpty
	}
	if err := commit(t); err != nil {
		return err
	}
	for _, m := range gone {
		t.c.log.Debug("member put out", zap.String("group", k.group.id), zap.String("member", m.id), zap.String("why", why))
		k.remove(m, protocol.UnknownMemberID)
	}
	if emptied {
		k.becomeEmpty(t)
	} else {
		k.rebalance(t)
	}
	return nil
}
