package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxPooledBytes is the largest buffer that is kept for reuse, so that a rare large answer doesn't pin its memory.
	maxPooledBytes = 1 << 20
	// newBufferBytes is what a new buffer starts with.
	newBufferBytes = 4 << 10
)

// ErrResponseTooLarge is the reason for closing a connection whose answer doesn't fit a frame.
var ErrResponseTooLarge = errors.New("answer is larger than a frame can be")

// buffers holds *[]byte. Only memory is shared through it, never contents: each user starts at length 0.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, newBufferBytes)
	return &b
}}

// pooled is a buffer on loan.
type pooled struct{ b *[]byte }

func getBuffer() pooled {
	b, _ := buffers.Get().(*[]byte)
	return pooled{b}
}

// put gives the buffer back, grown as buf may be.
func (p pooled) put(buf []byte) {
	if cap(buf) > maxPooledBytes {
		return
	}
	*p.b = buf[:0]
	buffers.Put(p.b)
}

// EncodeResponse frames an answer: length, correlation id, an empty section of tagged fields where the header has one, and
// the body in the version that is set in it, which is the request's in all cases but one (an ApiVersions that isn't
// supported is answered in version 0). The frame lies in a pooled buffer, which Release gives back.
func EncodeResponse(r *Request, body kmsg.Response) Response {
	loan := getBuffer()
	buf := appendResponseHeader((*loan.b)[:0], r, body.Key(), body.GetVersion())
	buf = body.AppendTo(buf)
	release := func() { loan.put(buf) }
	if !finishFrame(buf, 0) {
		release()
		return tooLarge(r)
	}
	return Response{Frame: buf, Release: release, ErrorCode: FirstError(body)}
}

// appendResponseHeader leaves room for the length.
func appendResponseHeader(dst []byte, r *Request, key, version int16) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Header.CorrelationID))
	if ResponseHeaderFlexible(key, version) {
		dst = append(dst, 0)
	}
	return dst
}

// finishFrame writes the length of a frame of which more bytes follow elsewhere. It is false when that is too long.
func finishFrame(frame []byte, more int64) bool {
	size := int64(len(frame)) - 4 + more
	if size > math.MaxInt32 {
		return false
	}
	binary.BigEndian.PutUint32(frame, uint32(size))
	return true
}

func tooLarge(r *Request) Response {
	return Response{Close: true, Reason: fmt.Errorf("key %d version %d: %w", r.Header.Key, r.Header.Version, ErrResponseTooLarge)}
}
