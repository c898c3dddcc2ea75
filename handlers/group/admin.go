package group

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// versionDescribeNotFound is the first version of DescribeGroups that answers GROUP_ID_NOT_FOUND; before, such a group is
// only Dead.
const versionDescribeNotFound = 6

const stateDead = "Dead"

// DescribeGroups describes classic groups. Authorized operations are for the caller to fill in.
func (c *Coordinator) DescribeGroups(req *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	answer := kmsg.NewPtrDescribeGroupsResponse()
	answer.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(req.Groups))
	for i, id := range req.Groups {
		answer.Groups[i] = c.describe(req.Version, id)
	}
	return answer
}

func (c *Coordinator) describe(version int16, id string) kmsg.DescribeGroupsResponseGroup {
	d := kmsg.NewDescribeGroupsResponseGroup()
	d.Group, d.State = id, stateDead
	d.Members = []kmsg.DescribeGroupsResponseGroupMember{}
	g := c.lock(id)
	if g == nil {
		if version >= versionDescribeNotFound {
			d.ErrorCode = int16(protocol.GroupIDNotFound)
			d.ErrorMessage = kmsg.StringPtr("Group " + id + " not found.")
		}
		return d
	}
	defer g.mu.Unlock()
	switch {
	case g.consumer != nil:
		if version >= versionDescribeNotFound {
			d.ErrorCode = int16(protocol.GroupIDNotFound)
			d.ErrorMessage = kmsg.StringPtr("Group " + id + " is not a classic group.")
		}
	case g.classic != nil:
		g.classic.describe(&d)
	default:
		d.State = stateEmpty.String()
	}
	return d
}

// describe fills in the members. What they work by is only shown when it holds; assignments stay until there are others.
func (k *classic) describe(d *kmsg.DescribeGroupsResponseGroup) {
	d.State, d.ProtocolType = k.state.String(), k.protocolType
	if k.state == stateStable {
		d.Protocol = k.protocol
	}
	for _, m := range k.order {
		member := kmsg.NewDescribeGroupsResponseGroupMember()
		member.MemberID, member.InstanceID = m.id, m.instance
		member.ClientID, member.ClientHost = m.clientID, m.clientHost
		member.ProtocolMetadata, member.MemberAssignment = []byte{}, append([]byte{}, m.assignment...)
		if k.state == stateStable {
			member.ProtocolMetadata = m.metadata(k.protocol)
		}
		d.Members = append(d.Members, member)
	}
}

// ListGroups lists all groups, or those of some states and types. Filters ignore case, and space around states.
func (c *Coordinator) ListGroups(req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	answer := kmsg.NewPtrListGroupsResponse()
	answer.Groups = []kmsg.ListGroupsResponseGroup{}
	states, types := make(filter), make(filter)
	for _, state := range req.StatesFilter {
		states.add(strings.TrimSpace(state))
	}
	for _, kind := range req.TypesFilter {
		types.add(kind)
	}
	for _, g := range c.all() {
		if listed, ok := g.list(); ok && states.takes(listed.GroupState) && types.takes(listed.GroupType) {
			answer.Groups = append(answer.Groups, listed)
		}
	}
	return answer
}

// list is the group's entry; false when it is dead.
func (g *group) list() (kmsg.ListGroupsResponseGroup, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	listed := kmsg.NewListGroupsResponseGroup()
	listed.Group, listed.GroupState, listed.GroupType = g.id, stateEmpty.String(), "classic"
	switch {
	case g.consumer != nil:
		listed.ProtocolType, listed.GroupState, listed.GroupType = consumerProtocolType, g.consumer.stateName(), "consumer"
	case g.classic != nil:
		listed.ProtocolType, listed.GroupState = g.classic.protocolType, g.classic.state.String()
	}
	return listed, !g.dead
}

// filter is a set of values in lower case; an empty one takes all.
type filter map[string]struct{}

func (f filter) add(value string) { f[strings.ToLower(value)] = struct{}{} }

func (f filter) takes(value string) bool {
	_, ok := f[strings.ToLower(value)]
	return ok || len(f) == 0
}

// DeleteGroups deletes groups that have no members, with their offsets. Open transactions don't hinder it. A
// group that is named several times is answered once.
func (c *Coordinator) DeleteGroups(req *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	answer := kmsg.NewPtrDeleteGroupsResponse()
	answer.Groups = make([]kmsg.DeleteGroupsResponseGroup, 0, len(req.Groups))
	done := make(map[string]bool, len(req.Groups))
	for _, id := range req.Groups {
		if !done[id] {
			done[id] = true
			answer.Groups = append(answer.Groups, kmsg.DeleteGroupsResponseGroup{Group: id, ErrorCode: int16(c.deleteGroup(id))})
		}
	}
	return answer
}

func (c *Coordinator) deleteGroup(id string) protocol.ErrorCode {
	g := c.lock(id)
	if g == nil {
		return protocol.GroupIDNotFound
	}
	defer g.mu.Unlock()
	if !g.empty() {
		return protocol.NonEmptyGroup
	}
	o := &g.offsets
	o.mu.Lock()
	o.quiet()
	if c.erase(g, o.all()) != nil {
		return protocol.CoordinatorNotAvailable
	}
	return protocol.None
}

// erase removes offsets and everything else that is kept of a group, and buries it. No commit can be under way: the caller
// holds g.mu and g.offsets.mu and has waited. The latter is released.
func (c *Coordinator) erase(g *group, cursors []meta.TopicPartition) error {
	o := &g.offsets
	err := o.write(c, func(r *round) {
		b := &r.batch
		for _, tp := range cursors {
			b.DeleteCursor(g.id, tp)
		}
		for producerID := range o.txns {
			b.DeleteGroup(txnKey(g.id, producerID))
		}
		if g.recorded {
			b.DeleteGroup(groupKey(g.id))
			b.DeleteGroup(markKey(g.id))
		}
	}, func() {
		for producerID := range o.txns {
			c.txns.remove(producerID, g.id)
		}
		o.topics, o.txns = nil, nil
	})
	if err == nil {
		c.bury(g)
	}
	return err
}

// all lists everything committed. The caller holds o.mu.
func (o *offsets) all() []meta.TopicPartition {
	var all []meta.TopicPartition
	for name, list := range o.topics {
		for _, p := range list {
			all = append(all, meta.TopicPartition{Topic: name, Partition: p.partition})
		}
	}
	return all
}
