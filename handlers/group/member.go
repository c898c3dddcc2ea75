package group

import (
	"bytes"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// protocolChoice is one way of assigning that a member supports, with what it says about itself for it. The broker never
// interprets the metadata, but for consumers' subscriptions.
type protocolChoice struct {
	name     string
	metadata []byte
}

// member is a member of a classic group.
type member struct {
	id         string
	instance   *string // static membership (KIP-345)
	clientID   string
	clientHost string
	session    time.Duration
	rebalance  time.Duration
	protocols  []protocolChoice // by preference
	assignment []byte

	join *waiter[*kmsg.JoinGroupResponse] // while it waits for the join phase to end
	sync *waiter[*kmsg.SyncGroupResponse] // while it waits for the leader's assignment

	deadline time.Duration // when its session ends, unless it waits
	isNew    bool          // has not been answered its first join; then waiting doesn't stop the deadline
	synced   bool          // has asked for its assignment in this generation
}

// update takes over what the member says in a join. What client it is stays as it was told first.
func (m *member) update(r *joinRequest) {
	m.session, m.rebalance = r.sessionTimeout(), r.rebalanceTimeout()
	m.protocols = keepProtocols(r.Protocols)
}

// expired says that the member's session is over. A member whose call waits here is alive, but a new one may have gone
// without anybody noticing: it can't heartbeat before it knows its id.
func (m *member) expired(now time.Duration) bool {
	if !m.isNew && (m.join != nil || m.sync != nil) {
		return false
	}
	return m.deadline <= now
}

// metadata is what the member says for a protocol; nil if it doesn't support it.
func (m *member) metadata(name string) []byte {
	for i := range m.protocols {
		if m.protocols[i].name == name {
			return m.protocols[i].metadata
		}
	}
	return nil
}

// says reports whether a request repeats the member's protocols exactly.
func (m *member) says(protocols []kmsg.JoinGroupRequestProtocol) bool {
	if len(m.protocols) != len(protocols) {
		return false
	}
	for i := range protocols {
		if m.protocols[i].name != protocols[i].Name || !bytes.Equal(m.protocols[i].metadata, protocols[i].Metadata) {
			return false
		}
	}
	return true
}

// keepProtocols copies a request's protocols.
func keepProtocols(protocols []kmsg.JoinGroupRequestProtocol) []protocolChoice {
	kept := make([]protocolChoice, len(protocols))
	for i := range protocols {
		kept[i] = protocolChoice{strings.Clone(protocols[i].Name), keepBytes(protocols[i].Metadata)}
	}
	return kept
}

// keepBytes copies b; the copy is never nil.
func keepBytes(b []byte) []byte { return append(make([]byte, 0, len(b)), b...) }

// keepString copies a nullable string.
func keepString(s *string) *string {
	if s == nil {
		return nil
	}
	kept := strings.Clone(*s)
	return &kept
}
