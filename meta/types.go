package meta

import (
	"errors"

	"github.com/kbroker/kbroker/storage"
	"github.com/kbroker/kbroker/storage/vfs"
)

// Topic is a topic's definition. Values handed out by the store are shared and must not be changed.
type Topic struct {
	Name       string
	ID         storage.TopicID
	Partitions int32
	// EpochBase is the broker's start counter when the topic was made; leader epochs count from there, so that a new
	// topic's first epoch is 0.
	EpochBase int32
	// Configs holds the topic's own settings by Kafka's names, as given; what isn't there follows the broker.
	Configs   map[string]string
	CreatedMs int64
}

// Cursor is a committed offset.
type Cursor struct {
	Offset      int64
	LeaderEpoch int32 // -1 if the client gave none
	Metadata    string
	CommitMs    int64
	ExpireMs    int64 // -1: by the group's retention
}

// TopicPartition names a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// The errors of this package.
var (
	// ErrTopicExists is returned when a topic of that name is there already.
	ErrTopicExists = errors.New("topic exists")
	// ErrNoTopic is returned when a topic isn't there (any more).
	ErrNoTopic = errors.New("no such topic")
	// ErrMissing is returned when a store that must be there isn't.
	ErrMissing = errors.New("the metadata store is missing")
	// ErrSchema is returned when the store was written by a version this one doesn't understand.
	ErrSchema = errors.New("unknown schema version")
	// ErrNodeID is returned when the store belongs to a broker with another node id.
	ErrNodeID = errors.New("data directory of another broker")
	// ErrDamaged is returned when something that had been made durable can't be read any more.
	ErrDamaged = errors.New("metadata store is damaged")
	// ErrLocked is returned when the store is in use.
	ErrLocked = vfs.ErrLocked
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("metadata store is closed")
)
