package handlers

import (
	"crypto/sha256"
	"errors"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage"
)

// The topics that Kafka keeps its coordinators' records in. This broker keeps those in its metadata store, yet clients
// and tools expect the topics to be there: they exist with as many partitions as configured, and empty logs.
const (
	offsetsTopic      = "__consumer_offsets"
	transactionsTopic = "__transaction_state"
)

// errInternalTopic is returned for writes to a topic that only the broker may write to.
var errInternalTopic = errors.New("internal topic")

// internalTopics holds the topics that exist only in name. It doesn't change once made.
type internalTopics struct{ all []*meta.Topic }

// newInternalTopics makes the topics. Their ids follow from the cluster's, so that they stay the same without being
// stored.
func newInternalTopics(clusterID string, offsetsPartitions, transactionPartitions int32) internalTopics {
	return internalTopics{all: []*meta.Topic{
		internalTopic(clusterID, offsetsTopic, offsetsPartitions, map[string]string{
			"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600",
		}),
		internalTopic(clusterID, transactionsTopic, transactionPartitions, map[string]string{
			"cleanup.policy": "compact", "compression.type": "uncompressed", "min.insync.replicas": "2",
			"segment.bytes": "104857600", "unclean.leader.election.enable": "false",
		}),
	}}
}

// configuredInternalTopics makes the topics as the broker's settings want them.
func configuredInternalTopics(clusterID string, c *config.Broker) internalTopics {
	all := newInternalTopics(clusterID,
		int32(c.Int("offsets.topic.num.partitions")), int32(c.Int("transaction.state.log.num.partitions")))
	offsets, transactions := all.named(offsetsTopic).Configs, all.named(transactionsTopic).Configs
	offsets["segment.bytes"] = c.String("offsets.topic.segment.bytes")
	transactions["segment.bytes"] = c.String("transaction.state.log.segment.bytes")
	transactions["min.insync.replicas"] = c.String("transaction.state.log.min.isr")
	return all
}

// InternalTopics lists the topics that exist only in name, for those who must know them beside the stored ones: groups can
// subscribe to them.
func InternalTopics(clusterID string, c *config.Broker) []*meta.Topic {
	return configuredInternalTopics(clusterID, c).all
}

func internalTopic(clusterID, name string, partitions int32, configs map[string]string) *meta.Topic {
	t := &meta.Topic{Name: name, Partitions: partitions, Configs: configs}
	sum := sha256.Sum256([]byte(clusterID + "/" + name))
	copy(t.ID[:], sum[:])
	return t
}

// named returns the internal topic of that name, or nil.
func (i internalTopics) named(name string) *meta.Topic {
	for _, t := range i.all {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// withID returns the internal topic of that id, or nil.
func (i internalTopics) withID(id storage.TopicID) *meta.Topic {
	for _, t := range i.all {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// has says whether t is one of the internal topics.
func (i internalTopics) has(t *meta.Topic) bool {
	for _, other := range i.all {
		if t == other {
			return true
		}
	}
	return false
}

// allTopics lists the internal topics, then the others by name.
func (h *Handlers) allTopics() []*meta.Topic {
	stored := h.Meta.Topics().All()
	all := make([]*meta.Topic, 0, len(stored)+len(h.internal.all))
	return append(append(all, h.internal.all...), stored...)
}

// emptyLog is the log of an internal topic's partition: nothing is in it, and nothing can be written to it. Being
// without state, all partitions share one.
type emptyLog struct{}

var _ Log = emptyLog{}

// Append refuses.
func (emptyLog) Append(batch.Batch, storage.AppendOptions) (storage.Appended, error) {
	return storage.Appended{}, errInternalTopic
}

// Read finds nothing at offset 0, the log's end, and no other offset.
func (emptyLog) Read(offset int64, _ storage.ReadOptions) (storage.ReadResult, error) {
	if offset != 0 {
		return storage.ReadResult{}, storage.ErrOffsetOutOfRange
	}
	return storage.ReadResult{}, nil
}

// Offsets are all 0.
func (emptyLog) Offsets() storage.Offsets { return storage.Offsets{} }

// LeaderEpoch is 0, as if the leader had never changed.
func (emptyLog) LeaderEpoch() int32 { return 0 }

// OffsetForTime finds nothing.
func (emptyLog) OffsetForTime(int64, storage.Isolation) (o storage.TimestampOffset, found bool, err error) {
	return o, false, nil
}

// MaxTimestamp finds nothing.
func (emptyLog) MaxTimestamp(storage.Isolation) (o storage.TimestampOffset, found bool, err error) {
	return o, false, nil
}

// EpochEnd knows that epoch 0 has no records yet.
func (emptyLog) EpochEnd(epoch int32) storage.EpochEnd {
	if epoch != 0 {
		return storage.EpochEnd{Epoch: -1, EndOffset: -1}
	}
	return storage.EpochEnd{}
}

// EpochAt knows no record.
func (emptyLog) EpochAt(int64) int32 { return -1 }

// Trim can't move the start of an empty log.
func (emptyLog) Trim(before int64) (start int64, err error) {
	if before != 0 {
		return 0, storage.ErrOffsetOutOfRange
	}
	return 0, nil
}

// Producers knows none.
func (emptyLog) Producers() []storage.ProducerState { return nil }

// Watch never tells anything, since nothing moves.
func (emptyLog) Watch(storage.Waiter) (stop func()) { return func() {} }

// Size is 0.
func (emptyLog) Size() int64 { return 0 }

// SetConfig has nothing to do.
func (emptyLog) SetConfig(storage.Config) {}
