package handlers

import (
	"context"
	"errors"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage"
	"github.com/kbroker/kbroker/storage/vfs"
)

// errUnknownPartition is returned when a topic has no partition of that number.
var errUnknownPartition = errors.New("no such partition")

// wireError is an error with a text for the client, or with an empty one where Kafka gives none.
type wireError struct {
	code protocol.ErrorCode
	text string
}

// Error is the text, or the code's name.
func (e *wireError) Error() string {
	if e.text == "" {
		return e.code.String()
	}
	return e.text
}

// Unwrap is the code.
func (e *wireError) Unwrap() error { return e.code }

// textOf is what a client is told beside the code: the text of an error that was made for it, else the code's name, since
// errors of the disk name paths; nil for no error.
func textOf(err error) *string {
	if err == nil {
		return nil
	}
	var wire *wireError
	if errors.As(err, &wire) {
		if wire.text == "" {
			return nil
		}
		return &wire.text
	}
	code := codeOf(err)
	text := code.String()
	if code == protocol.KafkaStorageError {
		text = "The broker's disk is full or fails, or damage was found on it; the broker's log says more."
	}
	return &text
}

// codeOf is the wire code of an internal error: the only place where one becomes the other. Errors that are codes already
// stay what they are; an error of the operating system is one of the disk, and what isn't known is UnknownServerError.
func codeOf(err error) protocol.ErrorCode {
	if err == nil {
		return protocol.None
	}
	var code protocol.ErrorCode
	if errors.As(err, &code) {
		return code
	}
	var fault *batch.ValidationError
	if errors.As(err, &fault) {
		return faultCode(fault.Kind)
	}
	for _, m := range errorCodes() {
		if errors.Is(err, m.err) {
			return m.code
		}
	}
	if vfs.IsSystem(err) {
		return protocol.KafkaStorageError
	}
	return protocol.UnknownServerError
}

// faultCode is the wire code for what is wrong with records from a producer.
func faultCode(k batch.Kind) protocol.ErrorCode {
	switch k {
	case batch.KindCorrupt:
		return protocol.CorruptMessage
	case batch.KindInvalidRecord:
		return protocol.InvalidRecord
	case batch.KindTooLarge:
		return protocol.MessageTooLarge
	case batch.KindInvalidTimestamp:
		return protocol.InvalidTimestamp
	case batch.KindUnsupportedCompression:
		return protocol.UnsupportedCompressionType
	case batch.KindTransactionalID:
		return protocol.TransactionalIDAuthFailed
	case batch.KindUnreadable:
		return protocol.UnknownServerError
	default:
		return protocol.UnknownServerError
	}
}

// errorCode is one row of the map.
type errorCode struct {
	err  error
	code protocol.ErrorCode
}

func errorCodes() [21]errorCode {
	return [...]errorCode{
		{errUnknownPartition, protocol.UnknownTopicOrPartition},
		{errInternalTopic, protocol.InvalidTopicException},
		{storage.ErrOffsetOutOfRange, protocol.OffsetOutOfRange},
		{storage.ErrOutOfOrderSequence, protocol.OutOfOrderSequenceNumber},
		{storage.ErrProducerEpoch, protocol.InvalidProducerEpoch},
		// Which code it is below Produce 11 and above, the handler decides; this is the newer one (KIP-890).
		{storage.ErrTransactionNotOpen, protocol.TransactionAbortable},
		{storage.ErrCoordinatorEpoch, protocol.TransactionCoordinatorFenced},
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
		{meta.ErrDamaged, protocol.KafkaStorageError},
		{meta.ErrClosed, protocol.BrokerNotAvailable},
		{context.DeadlineExceeded, protocol.RequestTimedOut},
		{context.Canceled, protocol.RequestTimedOut},
	}
}
