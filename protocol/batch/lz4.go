package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/pierrec/lz4/v4"
)

// LZ4 frames as Kafka's clients write and read them (https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md):
//
//	4  magic
//	1  FLG: bits 7-6 version 01, 5 blocks are independent, 4 block checksums, 3 content size, 2 content checksum
//	1  BD: bits 6-4 largest block size
//	8  content size, if FLG says so
//	1  second byte of the descriptor's xxHash-32
//	   blocks: length (4, little-endian, top bit: stored), data, checksum (4) if FLG says so
//	4  zeros; then a content checksum if FLG says so, which Kafka doesn't look at
//
// The frame is read here rather than by the lz4 package so that blocks are decoded straight into the result and refused as
// Kafka's reader refuses them: dependent blocks, dictionaries and reserved bits are errors, bytes behind the end are not.
const (
	lz4Magic       = 0x184D2204
	lz4Version     = 0x40
	lz4Independent = 0x20
	lz4BlockSum    = 0x10
	lz4ContentSize = 0x08
	lz4Reserved    = 0x03
	lz4VersionMask = 0xC0
	lz4Stored      = 1 << 31

	lz4BlockBytes = 64 << 10
	lz4BlockCode  = 4 << 4

	// maxLZ4Ratio is above what a block can hold per byte: one more byte lengthens a match by 255.
	maxLZ4Ratio = 256
)

var errLZ4Frame = errors.New("bad frame")

func lz4FrameError(what string) error {
	return compressedError(CodecLZ4, fmt.Errorf("%w: %s", errLZ4Frame, what))
}

// lz4Frame is what a frame's descriptor says.
type lz4Frame struct {
	blockBytes int
	blockSum   bool
}

func unlz4(dst, payload []byte, limit int) ([]byte, error) {
	f, rest, err := cutLZ4Descriptor(payload)
	if err != nil {
		return nil, err
	}
	for {
		if len(rest) < 4 {
			return nil, lz4FrameError("no end mark")
		}
		size := binary.LittleEndian.Uint32(rest)
		rest = rest[4:]
		if size == 0 {
			return dst, nil
		}
		stored := size&lz4Stored != 0
		size &^= lz4Stored
		if uint64(size) > uint64(f.blockBytes) || uint64(size) > uint64(len(rest)) {
			return nil, lz4FrameError("block length")
		}
		block := rest[:size]
		rest = rest[size:]
		if f.blockSum {
			if len(rest) < 4 || binary.LittleEndian.Uint32(rest) != xxHash32(block) {
				return nil, lz4FrameError("block checksum")
			}
			rest = rest[4:]
		}
		if dst, err = lz4Block(dst, block, stored, f.blockBytes, limit); err != nil {
			return nil, err
		}
	}
}

func cutLZ4Descriptor(b []byte) (f lz4Frame, rest []byte, err error) {
	if len(b) < 7 || binary.LittleEndian.Uint32(b) != lz4Magic {
		return f, nil, lz4FrameError("magic")
	}
	b = b[4:]
	flg, bd := b[0], b[1]
	if flg&lz4VersionMask != lz4Version || flg&lz4Reserved != 0 || flg&lz4Independent == 0 {
		return f, nil, lz4FrameError("flags")
	}
	code := bd >> 4
	if bd&0x8f != 0 || code < 4 {
		return f, nil, lz4FrameError("block size")
	}
	size := 2
	if flg&lz4ContentSize != 0 {
		size += 8
	}
	if len(b) <= size || b[size] != byte(xxHash32(b[:size])>>8) {
		return f, nil, lz4FrameError("descriptor checksum")
	}
	return lz4Frame{blockBytes: 1 << (2*code + 8), blockSum: flg&lz4BlockSum != 0}, b[size+1:], nil
}

// lz4Block appends one decoded block to dst.
func lz4Block(dst, block []byte, stored bool, blockBytes, limit int) ([]byte, error) {
	at := len(dst)
	if stored {
		if len(block) > limit-at {
			return nil, ErrTooLarge
		}
		return append(dst, block...), nil
	}
	need := min(blockBytes, len(block)*maxLZ4Ratio)
	room := min(need, limit-at)
	if cap(dst) < at+room {
		dst = grow(dst, max(at+room, min(2*cap(dst), limit)))
	}
	n, err := lz4.UncompressBlock(block, dst[at:at+room])
	switch {
	case err == nil:
		return dst[:at+n], nil
	case room < need: // the decoder doesn't tell a lack of room from other faults
		return nil, ErrTooLarge
	default:
		return nil, compressedError(CodecLZ4, err)
	}
}

// lz4ed appends a frame of blocks of 64 KiB without checksums, which is what the Java client writes. At Kafka's default
// level, and only there, that one uses its fast compressor; so does this.
func lz4ed(dst []byte, level int, payload []byte) ([]byte, error) {
	flg, bd := byte(lz4Version|lz4Independent), byte(lz4BlockCode)
	dst = binary.LittleEndian.AppendUint32(dst, lz4Magic)
	dst = append(dst, flg, bd, byte(xxHash32([]byte{flg, bd})>>8))
	for len(payload) > 0 {
		block := payload[:min(len(payload), lz4BlockBytes)]
		payload = payload[len(block):]
		at := len(dst)
		dst = grow(dst, max(at+4+len(block), min(2*cap(dst), at+4+len(payload)*2)))
		// Room for less than the block itself: what doesn't shrink is stored.
		room := dst[at+4 : at+4+len(block)-1]
		n, err := lz4CompressBlock(block, room, level)
		if err != nil || n == 0 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(len(block))|lz4Stored)
			dst = append(dst, block...)
			continue
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
		dst = dst[:len(dst)+n]
	}
	return append(dst, 0, 0, 0, 0), nil
}

func lz4CompressBlock(src, dst []byte, level int) (int, error) {
	if level == DefaultLZ4Level {
		return lz4.CompressBlock(src, dst, nil)
	}
	// The package's levels are search depths: 1<<9 for level 1 up to 1<<17 for level 9.
	level = min(max(level, 1), 9)
	return lz4.CompressBlockHC(src, dst, lz4.Level1<<(level-1), nil, nil)
}

// The primes of xxHash-32 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).
const (
	xxPrime1 = 2654435761
	xxPrime2 = 2246822519
	xxPrime3 = 3266489917
	xxPrime4 = 668265263
	xxPrime5 = 374761393
)

// xxHash32 is xxHash-32 with seed 0.
func xxHash32(b []byte) uint32 {
	h := uint32(xxPrime5)
	n := uint32(len(b))
	if len(b) >= 16 {
		h, b = xxStripes(b)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*xxPrime3, 17) * xxPrime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxPrime5, 11) * xxPrime1
	}
	h = (h ^ h>>15) * xxPrime2
	h = (h ^ h>>13) * xxPrime3
	return h ^ h>>16
}

// xxStripes consumes b in stripes of 16 bytes and returns what is left.
func xxStripes(b []byte) (h uint32, rest []byte) {
	seed := uint32(0)
	lanes := [4]uint32{seed + xxPrime1, seed + xxPrime2, seed, seed - xxPrime1}
	lanes[0] += xxPrime2
	for ; len(b) >= 16; b = b[16:] {
		for i := range lanes {
			in := binary.LittleEndian.Uint32(b[4*i:])
			lanes[i] = bits.RotateLeft32(lanes[i]+in*xxPrime2, 13) * xxPrime1
		}
	}
	return bits.RotateLeft32(lanes[0], 1) + bits.RotateLeft32(lanes[1], 7) +
		bits.RotateLeft32(lanes[2], 12) + bits.RotateLeft32(lanes[3], 18), b
}
