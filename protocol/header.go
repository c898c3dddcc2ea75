package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// ErrHeader is returned when a request's header can't be read.
var ErrHeader = errors.New("malformed request header")

// minHeaderSize is what every header has: key, version and correlation id.
const minHeaderSize = 8

// maxVarintBytes is the longest encoding of an unsigned 32-bit varint that Kafka takes.
const maxVarintBytes = 5

// ParseRequestHeader reads the header of a request frame, whose length field has been taken off, and returns what follows
// it. The body aliases the frame; the header doesn't.
//
//	2  key
//	2  version
//	4  correlation id
//	2  length of the client id, below 0 for null; then its bytes, which need not be UTF-8
//	-  tagged fields, in flexible versions: count, then tag, length and bytes of each; all are skipped
//
// When brokers don't have the key, or not in that version, only the first three fields are read and the body is what
// follows them: the caller refuses it. Errors wrap [ErrHeader].
func ParseRequestHeader(frame []byte) (h RequestHeader, body []byte, err error) {
	if len(frame) < minHeaderSize {
		return h, nil, fmt.Errorf("%w: %d bytes", ErrHeader, len(frame))
	}
	h.Key = int16(binary.BigEndian.Uint16(frame))
	h.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))
	h.ClientIDNull = true
	body = frame[minHeaderSize:]
	if a, ok := Lookup(h.Key); !ok || !a.Accepts(h.Version) {
		return h, body, nil
	}
	id, body, err := cutClientID(body)
	if err != nil {
		return h, nil, err
	}
	if id != nil {
		h.ClientID, h.ClientIDNull = strings.ToValidUTF8(string(id), "\uFFFD"), false
	}
	if RequestHeaderFlexible(h.Key, h.Version) {
		if body, err = skipTags(body); err != nil {
			return h, nil, err
		}
	}
	return h, body, nil
}

// cutClientID returns nil for a null client id.
func cutClientID(b []byte) (id, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, fmt.Errorf("%w: no client id", ErrHeader)
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n < 0 {
		return nil, b, nil
	}
	if n > len(b) {
		return nil, nil, fmt.Errorf("%w: client id of %d bytes in %d", ErrHeader, n, len(b))
	}
	return b[:n:n], b[n:], nil
}

// skipTags skips a section of tagged fields. Each takes at least two bytes, so that the bytes bound the loop.
func skipTags(b []byte) ([]byte, error) {
	count, b, err := cutUvarint(b)
	if err != nil {
		return nil, err
	}
	for ; count > 0; count-- {
		if _, b, err = cutUvarint(b); err != nil {
			return nil, err
		}
		var size uint32
		if size, b, err = cutUvarint(b); err != nil {
			return nil, err
		}
		if uint64(size) > uint64(len(b)) {
			return nil, fmt.Errorf("%w: tagged field of %d bytes in %d", ErrHeader, size, len(b))
		}
		b = b[size:]
	}
	return b, nil
}

// cutUvarint reads an unsigned varint of at most 32 bits.
func cutUvarint(b []byte) (v uint32, rest []byte, err error) {
	for i := 0; i < len(b) && i < maxVarintBytes; i++ {
		v |= uint32(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return v, b[i+1:], nil
		}
	}
	return 0, nil, fmt.Errorf("%w: bad varint", ErrHeader)
}
