package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// errFrameSize is the reason for closing a connection whose next frame has a length that isn't taken.
var errFrameSize = errors.New("frame length out of range")

// errGone says that the connection was closed while its reader waited for memory or for its turn.
var errGone = errors.New("connection is closing")

const (
	lengthBytes = 4

	// growFactor is how fast the memory for a large frame grows with the bytes that have come. A frame no larger than one
	// that the connection has sent before is made room for at once.
	growFactor = 4

	// maxProven bounds the size that a connection is trusted with from its earlier frames.
	maxProven = 1 << maxClassBits
)

// frameReader cuts the bytes of a connection into frames, in place: one read may bring several, and nothing is copied but
// the part of a frame that a read ended in.
//
// The invariants: (1) A length is checked before it sizes anything. (2) Beyond the base buffer memory grows only once the
// bytes before have come, and is taken from the budget of frames. (3) A connection without bytes holds no buffer, one with
// a part of a frame no more than it needs. (4) Of a frame larger than the base buffer no byte beyond its end is read.
type frameReader struct {
	conn   net.Conn
	raw    syscall.RawConn // nil if there is no descriptor to read from
	server *Server
	done   <-chan struct{} // closed when the connection is to end

	// beforeGrow is asked before a frame gets memory beyond the base buffer; it sees the frame as far as it is there.
	beforeGrow func(frame []byte) error
	// parked is told when the connection waits for bytes; partial says whether a frame has begun.
	parked func(partial bool, size int)

	buf        *buffer // nil, or what holds start to end
	start, end int
	proven     int
	hold       hold

	tryRead func(fd uintptr) bool // what raw.Read calls
	n       int
	err     error
}

// init sets up the ways to read.
func (r *frameReader) init() {
	if c, ok := r.conn.(syscall.Conn); ok && rawReads {
		if raw, err := c.SyscallConn(); err == nil {
			r.raw = raw
		}
	}
	r.tryRead = r.readNow
}

// next returns the next frame without its length, valid until consumed is called. The errors are those of the
// connection, io.EOF between two frames, errFrameSize and errGone.
func (r *frameReader) next() ([]byte, error) {
	for {
		size, known, err := r.frameSize()
		if err != nil {
			return nil, err
		}
		if known && r.end-r.start-lengthBytes >= size {
			frame := r.buf.b[r.start+lengthBytes : r.start+lengthBytes+size : r.start+lengthBytes+size]
			r.start += lengthBytes + size
			r.proven = min(max(size, r.proven), maxProven)
			return frame, nil
		}
		if err = r.room(lengthBytes + size); err != nil {
			return nil, err
		}
		if err = r.fill(lengthBytes + size); err != nil {
			return nil, err
		}
	}
}

// consumed says that the last frame isn't needed any more.
func (r *frameReader) consumed() {
	if r.start == r.end {
		r.start, r.end = 0, 0
		if r.buf != nil && len(r.buf.b) > baseBytes {
			r.drop()
		}
	}
}

// buffered says whether a whole frame is there.
func (r *frameReader) buffered() bool {
	size, known, err := r.frameSize()
	return err == nil && known && r.end-r.start-lengthBytes >= size
}

// frameSize is the length of the frame that begins at start, if that much is there.
func (r *frameReader) frameSize() (size int, known bool, err error) {
	if r.end-r.start < lengthBytes {
		return 0, false, nil
	}
	n := int32(binary.BigEndian.Uint32(r.buf.b[r.start:]))
	if n <= 0 || int(n) > r.server.opts.MaxRequestBytes {
		return 0, false, fmt.Errorf("%w: %d%s", errFrameSize, n, lookalike(uint32(n)))
	}
	return int(n), true, nil
}

// lookalike says what a length was probably meant as, for those who connect with something else.
func lookalike(n uint32) string {
	switch {
	case n == 0x47455420 || n == 0x504f5354 || n == 0x48454144: // "GET ", "POST", "HEAD"
		return " (an HTTP request?)"
	case n>>16 == 0x1603:
		return " (a TLS handshake on a plaintext listener?)"
	default:
		return ""
	}
}

// room makes place for more bytes of a frame of need bytes, length included.
func (r *frameReader) room(need int) error {
	if r.buf == nil || r.start+need <= len(r.buf.b) && r.end < len(r.buf.b) {
		return nil
	}
	if r.start > 0 {
		r.end = copy(r.buf.b, r.buf.b[r.start:r.end])
		r.start = 0
	}
	if r.end < len(r.buf.b) {
		return nil
	}
	return r.grow(need)
}

// grow takes a larger buffer for a frame that fills the present one.
func (r *frameReader) grow(need int) error {
	size := min(need, growFactor*len(r.buf.b))
	if need <= r.proven+lengthBytes {
		size = need
	}
	size = max(size, min(baseBytes, classBytes(need)))
	if classBytes(size) > baseBytes {
		if err := r.beforeGrow(r.buf.b[r.start+lengthBytes : r.end]); err != nil {
			return err
		}
		if !r.server.frames.acquire(r.done, &r.hold, int64(classBytes(size))-r.hold.bytes) {
			return errGone
		}
	}
	r.move(size)
	return nil
}

// move puts what is there into a buffer of another size.
func (r *frameReader) move(size int) {
	to := r.server.pool.get(size)
	r.end = copy(to.b, r.buf.b[r.start:r.end])
	r.start = 0
	r.server.pool.put(r.buf)
	r.buf = to
}

// drop gives the buffer back.
func (r *frameReader) drop() {
	if r.buf != nil {
		r.server.pool.put(r.buf)
		r.buf = nil
	}
	r.start, r.end = 0, 0
	r.server.frames.release(&r.hold)
}

// fill reads once, waiting for bytes. need is the length of the frame that has begun, as far as it is known.
func (r *frameReader) fill(need int) error {
	r.n, r.err = 0, nil
	if r.raw == nil {
		r.fillCopying(need)
	} else if err := r.raw.Read(r.tryRead); err != nil {
		return err
	}
	r.end += r.n
	if r.err != nil || r.n > 0 {
		return r.err
	}
	return io.EOF
}

// fillCopying reads from a connection that can't be asked whether it has bytes; so it keeps a small buffer meanwhile.
func (r *frameReader) fillCopying(need int) {
	if r.buf == nil {
		r.buf = r.server.pool.get(1)
	}
	r.parked(r.end > r.start, need)
	r.n, r.err = r.conn.Read(r.free())
	if r.n > 0 {
		r.err = nil
	}
}

// readNow reads what is there. It is false when there is nothing yet; the buffer is then given back or made small.
func (r *frameReader) readNow(fd uintptr) bool {
	switch {
	case r.buf == nil:
		r.buf = r.server.pool.get(baseBytes)
	case len(r.buf.b) < baseBytes:
		r.move(baseBytes)
	}
	n, again, err := readDescriptor(int(fd), r.free())
	if again {
		r.shrink()
		return false
	}
	r.n, r.err = n, err
	return true
}

// free is where the next bytes go.
func (r *frameReader) free() []byte {
	size, known, err := r.frameSize()
	if err == nil && known && lengthBytes+size > baseBytes {
		return r.buf.b[r.end:min(len(r.buf.b), r.start+lengthBytes+size)]
	}
	return r.buf.b[r.end:]
}

// shrink gives up memory that a waiting connection doesn't need.
func (r *frameReader) shrink() {
	size, _, _ := r.frameSize()
	r.parked(r.end > r.start, lengthBytes+size)
	switch {
	case r.start == r.end:
		r.drop()
	case len(r.buf.b) <= baseBytes && classBytes(r.end-r.start) < len(r.buf.b):
		r.move(r.end - r.start)
	}
}
