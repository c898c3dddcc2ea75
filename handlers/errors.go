package handlers

import (
	"context"
	"errors"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// errUnknownPartition is returned when a topic has no partition of that number.
var errUnknownPartition = errors.New("no such partition")

// codeOf is the wire code of an internal error: the only place where one becomes the other. Errors that are codes already
// stay what they are; what isn't known is UnknownServerError.
func codeOf(err error) protocol.ErrorCode {
	if err == nil {
		return protocol.None
	}
	var code protocol.ErrorCode
	if errors.As(err, &code) {
		return code
	}
	for _, m := range errorCodes() {
		if errors.Is(err, m.err) {
			return m.code
		}
	}
	return protocol.UnknownServerError
}

// errorCode is one row of the map.
type errorCode struct {
	err  error
	code protocol.ErrorCode
}

func errorCodes() [18]errorCode {
	return [...]errorCode{
		{errUnknownPartition, protocol.UnknownTopicOrPartition},
		{storage.ErrOffsetOutOfRange, protocol.OffsetOutOfRange},
		{storage.ErrOutOfOrderSequence, protocol.OutOfOrderSequenceNumber},
		{storage.ErrProducerEpoch, protocol.InvalidProducerEpoch},
		// Which code it is below Produce 11 and above, the handler decides; this is the newer one (KIP-890).
		{storage.ErrTransactionNotOpen, protocol.TransactionAbortable},
		{storage.ErrTransactionOpen, protocol.InvalidTxnState},
		{storage.ErrBatchTooLarge, protocol.RecordListTooLarge},
		// Clients retry this one and refresh their metadata meanwhile.
		{storage.ErrNotReady, protocol.NotLeaderOrFollower},
		// A log that is closed belongs to a topic that was deleted, or to a broker that stops.
		{storage.ErrClosed, protocol.UnknownTopicOrPartition},
		{storage.ErrReadOnly, protocol.KafkaStorageError},
		{storage.ErrDamaged, protocol.KafkaStorageError},
		{storage.ErrNoSpace, protocol.KafkaStorageError},
		{meta.ErrTopicExists, protocol.TopicAlreadyExists},
		{meta.ErrNoTopic, protocol.UnknownTopicOrPartition},
		{meta.ErrSchema, protocol.UnknownServerError},
		{meta.ErrClosed, protocol.BrokerNotAvailable},
		{context.DeadlineExceeded, protocol.RequestTimedOut},
		{context.Canceled, protocol.RequestTimedOut},
	}
}
