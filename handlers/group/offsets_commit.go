package group

import (
	"strings"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// versionGroupNotFound is the first version of OffsetCommit that may answer GROUP_ID_NOT_FOUND.
const versionGroupNotFound = 9

// newOffset is an offset on its way into a group.
type newOffset struct {
	tp     meta.TopicPartition
	cursor meta.Cursor
}

// commitRequest is what OffsetCommit and TxnOffsetCommit have in common.
type commitRequest struct {
	group         string
	memberID      string
	instance      *string
	generation    int32 // or member epoch
	version       int16
	transactional bool
	retentionMs   int64 // -1: the group's

	// each, when not nil, decides about a single partition.
	each func(topic topicID, partition int32) protocol.ErrorCode
}

// OffsetCommit commits offsets, those of a request in one write, and returns once they are as durable as the store makes
// them. The answer has the request's partitions in their order. Whether partitions exist is for the caller to check; that
// a topic is gone is noticed here too, since it may go while the request is on its way.
func (c *Coordinator) OffsetCommit(req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	r := commitRequest{
		group: req.Group, memberID: req.MemberID, instance: req.InstanceID, generation: req.Generation,
		version:     req.Version,
		retentionMs: -1,
	}
	if req.Version >= 2 && req.Version <= 4 {
		r.retentionMs = req.RetentionTimeMillis
	}
	answer := kmsg.NewPtrOffsetCommitResponse()
	answer.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		from, to := &req.Topics[i], &answer.Topics[i]
		to.Topic, to.TopicID = from.Topic, from.TopicID
		to.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(from.Partitions))
		for j := range from.Partitions {
			to.Partitions[j].Partition = from.Partitions[j].Partition
		}
	}
	g, code := c.lockForCommit(&r)
	if code != protocol.None {
		failCommit(answer, code)
		return answer
	}
	if c.commitOffsets(g, &r, req, answer) != nil {
		failCommit(answer, protocol.CoordinatorNotAvailable)
	}
	return answer
}

// failCommit gives all partitions that have no error yet a code.
func failCommit(answer *kmsg.OffsetCommitResponse, code protocol.ErrorCode) {
	for i := range answer.Topics {
		for j := range answer.Topics[i].Partitions {
			if p := &answer.Topics[i].Partitions[j]; p.ErrorCode == 0 {
				p.ErrorCode = int16(code)
			}
		}
	}
}

// lockForCommit finds the group and checks that the sender may commit. The group is returned with g.mu and
// g.offsets.mu held.
func (c *Coordinator) lockForCommit(r *commitRequest) (*group, protocol.ErrorCode) {
	g := c.lock(r.group)
	if g == nil {
		if code := r.codeWithoutGroup(); code != protocol.None {
			return nil, code
		}
		g = c.lockOrMake(r.group)
	}
	if code := g.checkCommit(r); code != protocol.None {
		g.mu.Unlock()
		return nil, code
	}
	g.offsets.mu.Lock()
	return g, protocol.None
}

// codeWithoutGroup decides about a commit to a group that isn't there: without a generation it comes from an admin tool or
// a consumer that assigns itself, and makes the group.
func (r *commitRequest) codeWithoutGroup() protocol.ErrorCode {
	switch {
	case r.generation < 0:
		return protocol.None
	case !r.transactional && r.version >= versionGroupNotFound:
		return protocol.GroupIDNotFound
	default:
		return protocol.IllegalGeneration
	}
}

// checkCommit asks the membership machine. A commit prolongs the member's session.
func (g *group) checkCommit(r *commitRequest) protocol.ErrorCode {
	switch {
	case g.consumer != nil:
		return g.consumer.checkCommit(r)
	case g.classic != nil:
		return g.classic.checkCommit(g.c, r)
	case r.generation < 0:
		return protocol.None
	default: // offsets only: there are no members
		return protocol.UnknownMemberID
	}
}

func (k *classic) checkCommit(c *Coordinator, r *commitRequest) protocol.ErrorCode {
	switch {
	case r.generation < 0 && k.state == stateEmpty:
		return protocol.None
	case r.generation >= 0 || r.memberID != "" || r.instance != nil:
		if code := k.check(r.memberID, r.instance); code != protocol.None {
			return code
		}
		if r.generation != k.generation {
			return protocol.IllegalGeneration
		}
	case !r.transactional:
		return protocol.UnknownMemberID
	}
	if r.transactional {
		return protocol.None
	}
	if k.state == stateCompletingRebalance {
		return protocol.RebalanceInProgress
	}
	k.extend(c.turn(), k.members[r.memberID])
	return protocol.None
}

// commitOffsets takes the offsets that are sound. The caller holds g.mu and g.offsets.mu; both are released.
func (c *Coordinator) commitOffsets(g *group, r *commitRequest, req *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse) error {
	g.mu.Unlock()
	o := &g.offsets
	cfg, nowMs := c.config(), c.clock.Now().UnixMilli()
	expireMs := int64(-1)
	if r.retentionMs >= 0 {
		expireMs = nowMs + r.retentionMs
	}
	topics := c.topics()
	var taken []newOffset
	for i := range req.Topics {
		from := &req.Topics[i]
		topic := topics.Named(from.Topic)
		for j := range from.Partitions {
			p := &from.Partitions[j]
			cursor := meta.Cursor{
				Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, ExpireMs: expireMs,
				CommitMs: o.timeOutside(from.Topic, p.Partition, nowMs),
			}
			code := r.allows(topic, p.Partition)
			if code == protocol.None {
				cursor.Metadata, code = keepMetadata(p.Metadata, cfg.OffsetMetadataMax)
			}
			answer.Topics[i].Partitions[j].ErrorCode = int16(code)
			if code == protocol.None {
				taken = append(taken, newOffset{meta.TopicPartition{Topic: from.Topic, Partition: p.Partition}, cursor})
			}
		}
	}
	if len(taken) == 0 {
		o.mu.Unlock()
		g.tidy()
		return nil
	}
	err := o.write(c, func(r *round) {
		for i := range taken {
			r.batch.PutCursor(g.id, taken[i].tp, taken[i].cursor)
		}
		r.taken = append(r.taken, taken)
	}, func() {
		for i := range taken {
			o.set(taken[i].tp.Topic, taken[i].tp.Partition, taken[i].cursor)
		}
	})
	if err == nil {
		c.metrics.offsetCommits.Add(float64(len(taken)))
	}
	return err
}

// allows says whether an offset of a partition may be committed; topic is nil if it is gone.
func (r *commitRequest) allows(topic *meta.Topic, partition int32) protocol.ErrorCode {
	switch {
	case topic == nil:
		return protocol.UnknownTopicOrPartition
	case r.each != nil:
		return r.each(topic.ID, partition)
	default:
		return protocol.None
	}
}

// keepMetadata copies a commit's metadata. Its length counts in characters as Java has them.
func keepMetadata(metadata *string, limit int) (string, protocol.ErrorCode) {
	if metadata == nil {
		return "", protocol.None
	}
	if len(*metadata) > limit && len(utf16.Encode([]rune(*metadata))) > limit {
		return "", protocol.OffsetMetadataTooLarge
	}
	return strings.Clone(*metadata), protocol.None
}
