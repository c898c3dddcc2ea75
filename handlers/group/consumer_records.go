package group

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// memberKey names the record of a consumer group's member.
func memberKey(group, memberID string) string {
	return groupKey(group) + partSeparator + partMember + memberID
}

// consumerRecord is a consumer group as it is kept, without its members.
type consumerRecord struct {
	epoch           int32
	assignmentEpoch int32
	metadataHash    uint64
	regexes         map[string][]string
}

// encode is the group's record after the change.
func (c *change) encode(*turn) []byte {
	return (&consumerRecord{c.epoch, c.assignmentEpoch, c.metadataHash, c.regexes}).encode()
}

func (r *consumerRecord) encode() []byte {
	e := encoder{kindConsumer, layoutVersion}
	e.int(int64(r.epoch))
	e.int(int64(r.assignmentEpoch))
	e.int(int64(r.metadataHash))
	e.int(int64(len(r.regexes)))
	for _, pattern := range slices.Sorted(maps.Keys(r.regexes)) {
		e.string(pattern)
		e.strings(r.regexes[pattern])
	}
	return e
}

func decodeConsumer(b []byte) (*consumerRecord, error) {
	d := newDecoder(b, kindConsumer)
	r := &consumerRecord{epoch: int32(d.int()), assignmentEpoch: int32(d.int()), metadataHash: uint64(d.int())}
	r.regexes = make(map[string][]string)
	for n := d.count(); n > 0 && d.err == nil; n-- {
		pattern := d.string()
		r.regexes[pattern] = d.strings()
	}
	return r, d.end()
}

// encode is the member's record.
func (m *consumerMember) encode() []byte {
	e := encoder{kindMember, layoutVersion}
	e.string(m.id)
	e.nullable(m.instance)
	e.nullable(m.rack)
	e.string(m.clientID)
	e.string(m.clientHost)
	e.int(m.rebalance.Milliseconds())
	e.strings(m.names)
	e.string(m.regex)
	e.string(m.assignor)
	m.classic.encode(&e)
	e.int(int64(m.epoch))
	e.int(int64(m.previousEpoch))
	e.int(int64(m.state))
	for _, a := range []assignment{m.assigned, m.revoking, m.target} {
		a.encode(&e)
	}
	return e
}

func decodeConsumerMember(b []byte) (*consumerMember, error) {
	d := newDecoder(b, kindMember)
	m := &consumerMember{id: d.string(), instance: d.nullable(), rack: d.nullable(), clientID: d.string(), clientHost: d.string()}
	m.rebalance = time.Duration(d.int()) * time.Millisecond
	m.names, m.regex, m.assignor = d.strings(), d.string(), d.string()
	m.classic = decodeClassicSide(d)
	m.epoch, m.previousEpoch = int32(d.int()), int32(d.int())
	state := d.int()
	if state < 0 || state > int64(memberUnreleased) {
		d.fail("state of a member")
	}
	m.state = memberState(state)
	m.assigned, m.revoking, m.target = decodeAssignment(d), decodeAssignment(d), decodeAssignment(d)
	return m, d.end()
}

// encode writes a classic member's side; nil is an empty list of protocols, which no classic member has.
func (s *classicSide) encode(e *encoder) {
	if s == nil {
		e.int(0)
		return
	}
	e.int(int64(len(s.protocols)))
	for i := range s.protocols {
		e.string(s.protocols[i].name)
		e.bytes(s.protocols[i].metadata)
	}
	e.int(s.session.Milliseconds())
}

func decodeClassicSide(d *decoder) *classicSide {
	n := d.count()
	if n == 0 {
		return nil
	}
	s := &classicSide{}
	for ; n > 0 && d.err == nil; n-- {
		s.protocols = append(s.protocols, protocolChoice{d.string(), d.bytes()})
	}
	s.session = time.Duration(d.int()) * time.Millisecond
	return s
}

func (a assignment) encode(e *encoder) {
	e.int(int64(len(a)))
	for _, topic := range a.topics() {
		*e = append(*e, topic[:]...)
		e.int(int64(len(a[topic])))
		for _, p := range a[topic] {
			e.int(int64(p.number))
			e.int(int64(p.epoch))
		}
	}
}

func decodeAssignment(d *decoder) assignment {
	a := make(assignment)
	for n := d.count(); n > 0 && d.err == nil; n-- {
		topic := d.topic()
		for m := d.count(); m > 0 && d.err == nil; m-- {
			a.add(topic, ownedPartition{int32(d.int()), int32(d.int())})
		}
	}
	return a
}

func (e *encoder) strings(list []string) {
	e.int(int64(len(list)))
	for _, s := range list {
		e.string(s)
	}
}

func (d *decoder) strings() []string {
	var list []string
	for n := d.count(); n > 0 && d.err == nil; n-- {
		list = append(list, d.string())
	}
	return list
}

func (d *decoder) topic() (id topicID) {
	if len(d.b) < len(id) {
		d.fail("topic id")
		return id
	}
	d.b = d.b[copy(id[:], d.b):]
	return id
}

// restoreConsumer is a consumer group after a restart: as it was. Its members' deadlines begin anew, and the next target
// assignment may be computed at any time.
func restoreConsumer(t *turn, g *group, r *consumerRecord, members []*consumerMember) *consumer {
	k := newConsumer(g)
	k.epoch, k.assignmentEpoch, k.metadataHash, k.regexes = r.epoch, r.assignmentEpoch, r.metadataHash, r.regexes
	slices.SortFunc(members, func(a, b *consumerMember) int { return strings.Compare(a.id, b.id) })
	for _, m := range members {
		k.file(m.id, m)
		k.extend(t, m)
		if m.state == memberUnrevoked && m.classic == nil {
			k.until(t, &k.timers[m.id].revoke, m.rebalance)
		}
		if _, resolved := k.regexes[m.regex]; m.regex != "" && !resolved {
			k.wantResolve(t, 0)
		}
	}
	return k
}
