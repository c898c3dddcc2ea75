package batch

import (
	"fmt"
	"strings"
)

// Kind is what is wrong with records a producer sent, so far as the answer depends on it.
type Kind uint8

const (
	// KindCorrupt means bytes that are no batch, or a checksum that doesn't match (CORRUPT_MESSAGE).
	KindCorrupt Kind = iota + 1
	// KindInvalidRecord means a sound batch that says something it may not (INVALID_RECORD).
	KindInvalidRecord
	// KindTooLarge means more bytes than max.message.bytes, or than the broker decompresses (MESSAGE_TOO_LARGE).
	KindTooLarge
	// KindUnreadable means records that can't be decompressed or assigned offsets (UNKNOWN_SERVER_ERROR).
	KindUnreadable
	// KindInvalidTimestamp means records whose time the topic doesn't take (INVALID_TIMESTAMP).
	KindInvalidTimestamp
	// KindUnsupportedCompression means a codec that this version of the request doesn't know (UNSUPPORTED_COMPRESSION_TYPE).
	KindUnsupportedCompression
	// KindTransactionalID means a transactional batch in a request without a transactional id
	// (TRANSACTIONAL_ID_AUTHORIZATION_FAILED).
	KindTransactionalID
)

// RecordError is what is wrong with one record of a batch.
type RecordError struct {
	Index   int32 // from 0
	Message string
}

// ValidationError is returned by [Validate].
type ValidationError struct {
	Kind Kind
	// LogReached says whether Kafka finds the fault in the log rather than before it: then the answer has the partition's
	// log start offset, else -1.
	LogReached bool
	// Early says that Kafka finds the fault before it asks whether the batch's transaction is open.
	Early bool
	// Message is the answer's error_message, "" for null.
	Message string
	// RecordErrors are the answer's record_errors, in order, the first maxRecordErrors of them.
	RecordErrors []RecordError
	// Detail says for the broker's log what is wrong.
	Detail string
	// Cause is the error behind it, or nil.
	Cause error
}

// maxRecordErrors bounds the memory that one bad batch can make an answer take.
const maxRecordErrors = 10_000

// Error says what is wrong.
func (e *ValidationError) Error() string {
	what := e.Detail
	if what == "" {
		what = e.Message
	}
	if e.Cause != nil {
		return fmt.Sprintf("invalid batch: %s: %v", what, e.Cause)
	}
	return "invalid batch: " + what
}

// silent takes the message for the client away.
func (e *ValidationError) silent() *ValidationError {
	if e.Detail == "" {
		e.Detail = e.Message
	}
	e.Message = ""
	return e
}

// Unwrap returns the cause.
func (e *ValidationError) Unwrap() error { return e.Cause }

// invalid is the fault of a batch that reached the log and may not be what it is.
func invalid(format string, args ...any) *ValidationError {
	return &ValidationError{Kind: KindInvalidRecord, LogReached: true, Detail: fmt.Sprintf(format, args...)}
}

// faults collects what is wrong with single records.
type faults struct {
	total      int
	timestamps bool // at least one is about a timestamp
	list       []RecordError
}

func (f *faults) add(index int32, timestamp bool, message string) {
	f.total++
	f.timestamps = f.timestamps || timestamp
	if len(f.list) < maxRecordErrors {
		f.list = append(f.list, RecordError{Index: index, Message: message})
	}
}

// err is nil if there are none. The messages are Kafka's, since tools show them.
func (f *faults) err() *ValidationError {
	if f.total == 0 {
		return nil
	}
	e := &ValidationError{Kind: KindInvalidRecord, LogReached: true, RecordErrors: f.list}
	if f.timestamps {
		e.Kind = KindInvalidTimestamp
		e.Message = "One or more records have been rejected due to invalid timestamp"
		return e
	}
	const shown = 3
	var first []string
	for _, r := range f.list[:min(len(f.list), shown)] {
		first = append(first, fmt.Sprintf("RecordError(batchIndex=%d, message='%s')", r.Index, r.Message))
	}
	e.Message = fmt.Sprintf("One or more records have been rejected due to %d record errors in total, "+
		"and only showing the first three errors at most: [%s]", f.total, strings.Join(first, ", "))
	return e
}
