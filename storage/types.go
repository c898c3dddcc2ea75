package storage

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kbroker/kbroker/storage/producer"
)

// TopicID is the 16 byte id of a topic. A topic that is deleted and made again has a new one.
type TopicID [16]byte

// String is the id in hexadecimal, as it stands in names below deleted/.
func (id TopicID) String() string { return hex.EncodeToString(id[:]) }

// Partition names one partition's log. Topic is the part of the path below topics/; names are validated before they get
// here.
type Partition struct {
	Topic  string
	ID     TopicID
	Number int32
}

// String is "topic-number", as Kafka writes it.
func (p Partition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Number) }

// SyncMode says when an append is acknowledged.
type SyncMode uint8

const (
	// SyncEveryWrite acknowledges once the commit group's fdatasync has returned. Nothing acknowledged is lost.
	SyncEveryWrite SyncMode = iota
	// SyncInterval acknowledges once written and syncs at least every Config.SyncInterval.
	SyncInterval
	// SyncNone acknowledges once written and syncs on roll.
	SyncNone
)

// Config is what a log needs to know of its topic's configuration; the handlers fill it. Durations below a millisecond
// are not used; negative values of the limits mean none.
type Config struct {
	Sync          SyncMode
	SyncInterval  time.Duration
	FlushMessages int64         // sync at least every so many records; <= 0: never for that reason
	FlushInterval time.Duration // sync at least so often; <= 0: never for that reason

	SegmentBytes       int64 // a segment rolls before it would grow beyond this
	SegmentAge         time.Duration
	SegmentJitter      time.Duration // up to so much is taken off SegmentAge, per segment
	IndexIntervalBytes int64
	IndexBytes         int64 // a segment rolls when its index has so many bytes

	RetentionAge    time.Duration // < 0: none
	RetentionBytes  int64         // < 0: none
	FileDeleteDelay time.Duration

	Compact            bool // cleanup.policy contains compact
	Delete             bool // cleanup.policy contains delete
	MinCleanableRatio  float64
	MinCompactionLag   time.Duration
	MaxCompactionLag   time.Duration
	DeleteRetention    time.Duration
	ProducerExpiration time.Duration // a producer's state is forgotten so long after its last record

	// CutUnproven lets recovery cut bad bytes at the end of a last segment whose index is missing (log.recovery.cut.unproven).
	CutUnproven bool
}

// Isolation says how far a reader may see.
type Isolation uint8

const (
	// ReadUncommitted reads up to the high watermark.
	ReadUncommitted Isolation = iota
	// ReadCommitted reads up to the last stable offset.
	ReadCommitted
)

// Offsets is a consistent view of where a log stands.
type Offsets struct {
	Start         int64 // log start offset: the first that can be read
	End           int64 // log end offset: the next to be assigned
	HighWatermark int64 // the end of what is acknowledged: in SyncEveryWrite the durable end, else the written end
	LastStable    int64 // the first offset of the earliest open transaction, or the high watermark
}

// AppendOptions says what is known of a batch beyond its bytes.
type AppendOptions struct {
	// TransactionVerified says that the coordinator vouches for the transaction the batch belongs to, so that the batch
	// may open it in this partition. Without it a transactional batch needs one that is open already, else
	// ErrTransactionNotOpen.
	TransactionVerified bool
	// TransactionV2 demands that an unknown producer starts at sequence 0, and that a marker's epoch is above that of the
	// transaction it ends (KIP-890, KIP-1228).
	TransactionV2 bool
}

// Appended says where a batch went.
type Appended struct {
	BaseOffset int64
	// Duplicate means that the producer had sent the batch before; BaseOffset is the first one's.
	Duplicate bool
	// DuplicateTimestamp is, for a duplicate, the maximum timestamp of the first batch.
	DuplicateTimestamp int64
	LogStart           int64
	// Commit is nil when the append is acknowledged already, else what to wait for.
	Commit Commit
}

// Commit is an append that waits for its commit group. Concurrent calls are allowed.
type Commit interface {
	// Done is closed when the group's sync has returned, with or without success.
	Done() <-chan struct{}
	// Err is nil if the append is durable and visible; valid after Done.
	Err() error
	// Wait waits for Done or for the context's end.
	Wait(ctx context.Context) error
}

// ReadOptions bounds a read.
type ReadOptions struct {
	Isolation Isolation
	// MaxBytes bounds the answer, which may end inside a batch. A first batch that doesn't fit is whole all the same if
	// WholeFirst is set; else there are no records, as nobody could use part of it. 0 without WholeFirst reads only the
	// offsets.
	MaxBytes   int64
	WholeFirst bool
}

// ReadResult is what a read found. Records is nil when there is nothing to read at the offset yet. It may hold less than
// MaxBytes though there is more.
type ReadResult struct {
	Offsets
	Records Records
	// Aborted lists the aborted transactions that overlap the records, by first offset; only for ReadCommitted.
	Aborted []AbortedTransaction
}

// AbortedTransaction is a producer's aborted transaction, from its first offset on.
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset int64
}

// Records is a range of verified batches in one segment, ready to be sent. It keeps the segment's file open until
// Release, also when the segment is removed or replaced meanwhile. It is used by one goroutine at a time.
type Records interface {
	// Size is the length in bytes.
	Size() int64
	// SendTo writes the range to w, by sendfile where possible.
	SendTo(w io.Writer) (int64, error)
	// AppendTo appends the bytes to dst, for ranges too small to be worth a system call of their own.
	AppendTo(dst []byte) ([]byte, error)
	// Release gives the file back; safe to call twice.
	Release()
}

// TimestampOffset is a record found by its time.
type TimestampOffset struct {
	Offset      int64
	Timestamp   int64 // ms since the Unix epoch
	LeaderEpoch int32
}

// EpochEnd is the last epoch not above the one asked for, and where it ends.
type EpochEnd struct {
	Epoch     int32 // -1 if there is none
	EndOffset int64 // -1 if there is none
}

// ProducerState is what a partition knows of one producer (DescribeProducers).
type ProducerState struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32 // -1 if it has written nothing but markers
	LastTimestamp    int64 // ms; -1 if unknown
	CoordinatorEpoch int32 // -1 before the first marker
	TxnStartOffset   int64 // -1 if no transaction is open
}

// Waiter is told when a log has moved on: its high watermark or last stable offset grew, its start moved, or it was
// closed. Advance is called without locks of the waiter's own being needed and must not block.
type Waiter interface{ Advance() }

// The errors of this package. Wrapped ones name the partition and the operation.
var (
	// ErrOffsetOutOfRange is returned when an offset lies below the log start or above the log end.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrOutOfOrderSequence is returned when a producer's batch doesn't follow its last one.
	ErrOutOfOrderSequence = producer.ErrOutOfOrderSequence
	// ErrProducerEpoch is returned when a batch has an older producer epoch than one seen before.
	ErrProducerEpoch = producer.ErrProducerEpoch
	// ErrTransactionNotOpen is returned when a transactional batch comes without an open, verified transaction.
	ErrTransactionNotOpen = producer.ErrTransactionNotOpen
	// ErrTransactionOpen is returned when a producer sends a non-transactional batch during its transaction.
	ErrTransactionOpen = producer.ErrTransactionOpen
	// ErrCoordinatorEpoch is returned when a marker comes from a transaction coordinator that has been replaced.
	ErrCoordinatorEpoch = producer.ErrCoordinatorEpoch
	// ErrBatchTooLarge is returned when a batch is larger than a segment may be.
	ErrBatchTooLarge = errors.New("batch is larger than segment.bytes")
	// ErrNotReady is returned while a log is being recovered.
	ErrNotReady = errors.New("log is being recovered")
	// ErrClosed is returned once a log has been closed or deleted.
	ErrClosed = errors.New("log is closed")
	// ErrReadOnly is returned by a log that takes no writes: a sync failed, or recovery found damage that only
	// `kbroker storage repair` may decide on. Reads go on.
	ErrReadOnly = errors.New("log takes no writes")
	// ErrDamaged is returned when the bytes asked for lie in a damaged range; see CorruptionError.
	ErrDamaged = errors.New("damaged range")
	// ErrNoSpace is returned when the disk is full; the log is as it was and takes writes again once there is space.
	ErrNoSpace = errors.New("no space left on device")
)

// CorruptionError says what was found damaged, and where.
type CorruptionError struct {
	Partition Partition
	Segment   string // file name
	Position  int64  // byte position in it
	Kind      string // what is wrong, such as "batch checksum"
}

// Error names the place.
func (e *CorruptionError) Error() string {
	return fmt.Sprintf("%s: %s at byte %d: %s", e.Partition, e.Segment, e.Position, e.Kind)
}

// Unwrap makes errors.Is(err, ErrDamaged) true.
func (e *CorruptionError) Unwrap() error { return ErrDamaged }
