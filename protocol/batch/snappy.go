package batch

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/klauspost/compress/s2"
)

// The framing that the Java client puts around Snappy blocks, of the xerial library: a header of magic, version and lowest
// compatible version, then blocks, each led by its length in four bytes. Other clients send that, or one bare block.
const (
	xerialHeaderSize = 16
	xerialBlockBytes = 32 << 10
)

var (
	xerialMagic  = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}
	xerialHeader = append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)

	errXerial = errors.New("bad framing")
)

func snappied(dst, payload []byte) []byte {
	dst = append(dst, xerialHeader...)
	for len(payload) > 0 {
		block := payload[:min(len(payload), xerialBlockBytes)]
		payload = payload[len(block):]
		at := len(dst)
		dst = grow(dst, max(at+4+s2.MaxEncodedLen(len(block)), min(2*cap(dst), at+4+len(payload)*2)))
		encoded := s2.EncodeSnappy(dst[at+4:cap(dst)], block)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(encoded)))
		dst = dst[:len(dst)+len(encoded)]
	}
	return dst
}

func unsnappy(dst, payload []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(payload, xerialMagic) {
		return snappyBlock(dst, payload, limit)
	}
	for len(payload) > 0 {
		if bytes.HasPrefix(payload, xerialMagic) { // also in the middle: framed streams can be put behind each other
			if len(payload) < xerialHeaderSize {
				return nil, compressedError(CodecSnappy, errXerial)
			}
			payload = payload[xerialHeaderSize:]
			continue
		}
		if len(payload) < 4 {
			return nil, compressedError(CodecSnappy, errXerial)
		}
		size := uint64(binary.BigEndian.Uint32(payload))
		payload = payload[4:]
		if size > uint64(len(payload)) {
			return nil, compressedError(CodecSnappy, errXerial)
		}
		var err error
		if dst, err = snappyBlock(dst, payload[:size], limit); err != nil {
			return nil, err
		}
		payload = payload[size:]
	}
	return dst, nil
}

// snappyBlock appends one decoded block to dst.
func snappyBlock(dst, block []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, compressedError(CodecSnappy, err)
	}
	if n > limit-len(dst) {
		return nil, ErrTooLarge
	}
	// A block of b bytes never holds more than 64 for every 3: longer claims are lies and get no memory.
	if n > len(block)*maxSnappyRatio {
		return nil, compressedError(CodecSnappy, s2.ErrCorrupt)
	}
	at := len(dst)
	if cap(dst) < at+n {
		dst = grow(dst, max(at+n, min(2*cap(dst), limit)))
	}
	if _, err = s2.Decode(dst[at:at+n:at+n], block); err != nil {
		return nil, compressedError(CodecSnappy, err)
	}
	return dst[:at+n], nil
}

// maxSnappyRatio is above what a Snappy block can hold per byte: its densest element copies 64 bytes and takes 3.
const maxSnappyRatio = 64
