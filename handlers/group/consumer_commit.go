package group

import "github.com/kbroker/kbroker/protocol"

// versionMemberEpoch is the first version of OffsetCommit that knows member epochs, versionTxnMemberEpoch that of
// TxnOffsetCommit.
const (
	versionMemberEpoch    = 9
	versionTxnMemberEpoch = 6
)

// stale is the code for an epoch that isn't the member's, in the terms of its protocol.
func (m *consumerMember) stale() protocol.ErrorCode {
	if m.classic != nil {
		return protocol.IllegalGeneration
	}
	return protocol.StaleMemberEpoch
}

// staleFor is the same for a commit.
func (m *consumerMember) staleFor(r *commitRequest) protocol.ErrorCode {
	if r.transactional && r.version < versionTxnMemberEpoch {
		return protocol.IllegalGeneration
	}
	return m.stale()
}

// checkCommit says whether the sender may commit. A member whose epoch has moved on may still commit for the partitions
// that it has had since the epoch it names.
func (k *consumer) checkCommit(r *commitRequest) protocol.ErrorCode {
	if r.generation < 0 && (len(k.members) == 0 || r.transactional && r.memberID == "" && r.instance == nil) {
		return protocol.None
	}
	m := k.members[r.memberID]
	switch {
	case m == nil:
		return protocol.UnknownMemberID
	case !r.transactional && m.classic == nil && r.version < versionMemberEpoch:
		return protocol.UnsupportedVersion
	case r.generation > m.epoch:
		return m.staleFor(r)
	case r.generation < m.epoch:
		r.each = func(topic topicID, partition int32) protocol.ErrorCode {
			p, found := m.assigned.find(topic, partition)
			if !found {
				p, found = m.revoking.find(topic, partition)
			}
			if !found || r.generation < p.epoch {
				return m.staleFor(r)
			}
			return protocol.None
		}
	}
	return protocol.None
}
