package group

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// classicClient is the classic side of a client in the consumer model. It gives up everything when it rejoins, as the eager
// assignors do.
type classicClient struct {
	generation int32
	settled    string // the topics as they were when it assigned; a leader rejoins when they change
	leader     bool
	members    []kmsg.JoinGroupResponseMember
	join       *waiter[*kmsg.JoinGroupResponse]
	sync       *waiter[*kmsg.SyncGroupResponse]
	since      time.Time
}

// proceed lets a classic client do what is next.
func (m *consumerModel) proceed(c *consumerClient) {
	k := c.classic
	switch {
	case k.join != nil || k.sync != nil:
		if waited := m.clock.Now().Sub(k.since); waited > 3*time.Minute {
			m.fatal("%s waits since %v", c.name, waited)
		}
	case k.generation == 0 || c.changed || k.leader && c.owned != nil && k.settled != m.topicsNow():
		c.in, c.owned, c.changed = true, nil, false
		m.note("%s joins as %q", c.name, c.memberID)
		k.join, k.since = m.joinLater("g", joinOptions{
			version: 4, memberID: c.memberID, client: c.name, rebalance: 20 * time.Second, session: 30 * time.Second,
			protocols: []string{"range", subscribing(c.names...)},
		}), m.clock.Now()
	case c.owned == nil:
		var assignments []string
		if k.leader {
			k.settled = m.topicsNow()
			assignments = m.assignTopics(k.members)
		}
		m.note("%s syncs in %d", c.name, k.generation)
		k.sync, k.since = m.syncLater("g", c.memberID, k.generation, assignments...), m.clock.Now()
	default:
		code := m.beat("g", c.memberID, k.generation)
		m.note("%s: heartbeat in %d answers %d", c.name, k.generation, code)
		m.refused(c, protocol.ErrorCode(code))
	}
}

// topicsNow tells one view of the topics from another.
func (m *consumerModel) topicsNow() string {
	var s strings.Builder
	for _, topic := range m.view.Load().All() {
		s.WriteString(topic.Name)
		s.Write(topic.ID[:])
		s.WriteByte(byte(topic.Partitions))
	}
	return s.String()
}

// assignTopics deals the partitions out as a leader does.
func (m *consumerModel) assignTopics(members []kmsg.JoinGroupResponseMember) []string {
	var parties []*assignable
	for i := range members {
		said, _ := subscription(members[i].ProtocolMetadata)
		parties = append(parties, &assignable{
			id: members[i].MemberID, topics: topicsOf(&consumerMember{names: keepNames(said.Topics)}, nil, m.view.Load()),
		})
	}
	assignRanges(parties)
	var assignments []string
	for i, p := range parties {
		assignments = append(assignments, p.id, string(embed(p.next, members[i].ProtocolMetadata, m.view.Load())))
	}
	return assignments
}

// hear takes the answers that have come for classic clients.
func (m *consumerModel) hear() {
	for _, c := range m.clients {
		if c.classic == nil {
			continue
		}
		if w := c.classic.join; w != nil {
			select {
			case answer := <-w.ch:
				c.classic.join = nil
				m.heardJoin(c, answer)
			default:
			}
		}
		if w := c.classic.sync; w != nil {
			select {
			case answer := <-w.ch:
				c.classic.sync = nil
				m.heardSync(c, answer)
			default:
			}
		}
	}
}

func (m *consumerModel) heardJoin(c *consumerClient, answer *kmsg.JoinGroupResponse) {
	m.note("%s: join answers %d, generation %d, id %s", c.name, answer.ErrorCode, answer.Generation, answer.MemberID)
	if protocol.ErrorCode(answer.ErrorCode) == protocol.MemberIDRequired {
		c.memberID = answer.MemberID
		return
	}
	if answer.ErrorCode != 0 {
		m.refused(c, protocol.ErrorCode(answer.ErrorCode))
		return
	}
	k := c.classic
	c.memberID, k.generation, k.members = answer.MemberID, answer.Generation, answer.Members
	k.leader = answer.LeaderID == answer.MemberID
}

func (m *consumerModel) heardSync(c *consumerClient, answer *kmsg.SyncGroupResponse) {
	m.note("%s: sync answers %d %q", c.name, answer.ErrorCode, answer.MemberAssignment)
	if answer.ErrorCode != 0 {
		m.refused(c, protocol.ErrorCode(answer.ErrorCode))
		return
	}
	c.owned = map[partitionPlace]bool{}
	var given kmsg.ConsumerMemberAssignment
	if len(answer.MemberAssignment) > 0 && given.ReadFrom(answer.MemberAssignment) != nil {
		m.fatal("%s: assignment %q", c.name, answer.MemberAssignment)
	}
	for _, topic := range given.Topics {
		if there := m.view.Load().Named(topic.Topic); there != nil {
			for _, number := range topic.Partitions {
				c.owned[partitionPlace{there.ID, number}] = true
			}
		}
	}
}

// refused draws the conclusions of a code.
func (m *consumerModel) refused(c *consumerClient, code protocol.ErrorCode) {
	switch code {
	case protocol.None:
	case protocol.RebalanceInProgress, protocol.IllegalGeneration:
		c.classic.generation = 0
		if code == protocol.IllegalGeneration {
			c.owned = nil
		}
	case protocol.UnknownMemberID:
		c.classic.generation, c.memberID, c.owned = 0, "", nil
	case protocol.CoordinatorNotAvailable:
	default:
		m.fatal("%s: code %d", c.name, code)
	}
}

func (m *consumerModel) leaveByClassic(c *consumerClient) {
	if c.memberID == "" {
		return
	}
	code := m.leaveAll("g", c.memberID)[0]
	m.note("%s leaves: %d", c.name, code)
	if code == 0 {
		c.in, c.memberID, c.owned = false, "", nil
		c.classic = &classicClient{}
	}
}
