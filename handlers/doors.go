package handlers

import (
	"context"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage"
)

// Log is one partition's log. Concurrent calls are allowed. *storage.Log implements it.
type Log interface {
	// Append writes one validated batch: it gets the next offset and the current leader epoch, written into its bytes, which
	// are not kept after the call. Errors: storage.ErrOutOfOrderSequence, ErrProducerEpoch, ErrTransactionNotOpen,
	// ErrTransactionOpen, ErrBatchTooLarge, ErrReadOnly, ErrNoSpace, ErrNotReady, ErrClosed, or of the disk.
	Append(b batch.Batch, o storage.AppendOptions) (storage.Appended, error)
	// Read finds whole batches from the one that contains offset. At the end of what may be read it returns no records and
	// no error. Errors: storage.ErrOffsetOutOfRange (with the offsets in the result), ErrDamaged, ErrNotReady, ErrClosed.
	Read(offset int64, o storage.ReadOptions) (storage.ReadResult, error)
	// Offsets tells where the log stands; zeros while it is being recovered.
	Offsets() storage.Offsets
	// LeaderEpoch is the epoch that the next append gets.
	LeaderEpoch() int32
	// OffsetForTime finds the first record whose timestamp is at least ms, below what the isolation lets see.
	OffsetForTime(ms int64, i storage.Isolation) (o storage.TimestampOffset, found bool, err error)
	// MaxTimestamp finds the first record with the largest timestamp.
	MaxTimestamp(i storage.Isolation) (o storage.TimestampOffset, found bool, err error)
	// EpochEnd is the largest epoch not above the one given that the log knows, and the offset where it ends. The current
	// epoch ends at the log end; an epoch below all is answered with itself and where the first one starts, one above the
	// current with -1, -1.
	EpochEnd(epoch int32) storage.EpochEnd
	// EpochAt is the leader epoch of the record at an offset, or of the last one for the log end; -1 if unknown.
	EpochAt(offset int64) int32
	// Trim moves the log start offset up to before; it is durable when the call returns. It returns the new start.
	Trim(before int64) (start int64, err error)
	// Producers lists what is known of the producers that wrote here.
	Producers() []storage.ProducerState
	// Watch tells w whenever the log moves on, until stop is called.
	Watch(w storage.Waiter) (stop func())
	// Size is the length of all segments' data in bytes.
	Size() int64
	// SetConfig replaces the configuration; it holds from the next append on.
	SetConfig(c storage.Config)
}

// Logs is the set of logs on this broker. Concurrent calls are allowed.
type Logs interface {
	// Get returns a log that has been opened, or storage.ErrClosed. A log still being recovered is returned too; its
	// methods answer storage.ErrNotReady.
	Get(id storage.TopicID, partition int32) (Log, error)
	// Open opens or makes the log of a partition. It makes no files before the first append.
	Open(p storage.Partition, c storage.Config, epochBase int32) (Log, error)
	// Delete closes the logs of a topic and moves their directories out of the way; the bytes are removed later.
	Delete(id storage.TopicID) error
}

// Meta is the metadata store. Concurrent calls are allowed. *meta.Store implements it.
type Meta interface {
	// ClusterID is the cluster's id: 22 characters of URL base64. It never changes.
	ClusterID() string
	// Topics is an immutable view of the topics as they are now.
	Topics() *meta.Topics
	// CreateTopics makes topics durable and visible, all or none; meta.ErrTopicExists. The store sets ID, EpochBase and
	// CreatedMs and returns the topics as stored, in order.
	CreateTopics(all []meta.Topic) ([]*meta.Topic, error)
	// DeleteTopics removes topics, their partitions' records and all cursors on them, all or none; meta.ErrNoTopic.
	DeleteTopics(ids []storage.TopicID) ([]*meta.Topic, error)
	// GrowTopic sets a larger number of partitions.
	GrowTopic(id storage.TopicID, partitions int32) (*meta.Topic, error)
	// SetTopicConfigs replaces the topic's own settings.
	SetTopicConfigs(id storage.TopicID, configs map[string]string) (*meta.Topic, error)
	// ReserveProducerIDs makes a block of n producer ids durable as handed out and returns the first.
	ReserveProducerIDs(n int64) (int64, error)
}

// Lifecycle is the context that ends when the broker shuts down; handlers that start work of their own tie it to it.
type Lifecycle interface{ Context() context.Context }
