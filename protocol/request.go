package protocol

import (
	"context"
	"io"
	"net/netip"
	"sync/atomic"
	"time"
)

// RequestHeader is the header that precedes every request body (versions 1 and 2 of the schema; version 2 adds tagged
// fields, which are skipped).
type RequestHeader struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string // "" when null; see ClientIDNull
	ClientIDNull  bool
}

// Conn is what is known of the connection a request came in on. It is made by the server and lives as long as the
// connection. All fields but Software are constant; methods may be called concurrently.
type Conn struct {
	ID        uint64 // unique in the life of the process
	Listener  string // name of the listener that accepted it, such as "PLAINTEXT"
	Local     netip.AddrPort
	Peer      netip.AddrPort
	Principal string // "User:ANONYMOUS" until authenticated

	software atomic.Pointer[Software]
}

// Software is what a client says of itself in ApiVersions 3 and later (KIP-511).
type Software struct{ Name, Version string }

// SetSoftware records what the client said of itself.
func (c *Conn) SetSoftware(s Software) { c.software.Store(&s) }

// Software returns what the client said of itself, or the zero value.
func (c *Conn) Software() Software {
	if s := c.software.Load(); s != nil {
		return *s
	}
	return Software{}
}

// Request is one request frame on its way from the server to a handler.
type Request struct {
	Header RequestHeader
	// Body is everything after the header. It aliases the connection's pooled frame: it and every slice decoded from
	// it are valid only until Dispatch returns. Whoever keeps bytes longer copies them.
	Body     []byte
	Conn     *Conn
	Received time.Time
}

// Response is what a handler gives back for a request. The zero value is not a response: set one of Frame, Later,
// NoAnswer or Close.
type Response struct {
	// Frame is the start of the answer, beginning with the four bytes of its length. When Parts is empty it is the whole
	// answer.
	Frame []byte
	// Parts follow Frame on the wire in order. The length in Frame counts them.
	Parts []Part
	// Release, when not nil, is called once, after the answer has been written or dropped. It gives buffers and file
	// references back.
	Release func()

	// Later, when not nil, says that the answer isn't there yet: the server calls it, on another goroutine than the one
	// that reads the connection, and sends what it returns (which has no Later of its own). It may block. Its context
	// ends when the peer disconnects or the server drains; it then returns soon, with an answer if there is one to give.
	Later func(context.Context) Response
	// Overlap lets the next request of the connection start while Later runs, if that one is a Produce too.
	Overlap bool

	// NoAnswer means that nothing is sent for this request (Produce with acks 0).
	NoAnswer bool
	// Close means that the connection is closed instead of an answer.
	Close bool
	// Reason says for the log why the connection is closed; nil is a quiet close.
	Reason error
	// ErrorCode is the answer's first error, for metrics; 0 if none.
	ErrorCode ErrorCode
}

// AddRelease makes Release call f as well, after what it did before.
func (r *Response) AddRelease(f func()) {
	before := r.Release
	if before == nil {
		r.Release = f
		return
	}
	r.Release = func() {
		before()
		f()
	}
}

// Part is one piece of an answer: bytes, or a range of a file.
type Part struct {
	Bytes []byte
	File  FileRange // nil when Bytes is used
}

// FileRange is a range of a file that goes out as it is. Its bytes have been verified before it was handed out.
type FileRange interface {
	// Size is the length in bytes.
	Size() int64
	// SendTo writes the whole range to w, by sendfile where w and the file allow it. It returns the bytes written; less
	// than Size only with an error.
	SendTo(w io.Writer) (int64, error)
}
