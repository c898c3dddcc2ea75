package batch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Codec is a compression of a batch's records, as in the attributes.
type Codec uint8

// The codecs of the record format.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

// The levels at which Kafka compresses unless told otherwise (compression.gzip.level, .lz4.level, .zstd.level).
const (
	DefaultGzipLevel = -1
	DefaultLZ4Level  = 9
	DefaultZstdLevel = 3
)

var (
	// ErrCodec is returned for codecs that the record format doesn't define.
	ErrCodec = errors.New("unknown compression codec")
	// ErrCompressed is returned when compressed records can't be decompressed.
	ErrCompressed = errors.New("records don't decompress")
	// ErrTooLarge is returned when decompressed records would be larger than the bound given.
	ErrTooLarge = errors.New("decompressed records are too large")
)

// String is the codec's name, as in compression.type.
func (c Codec) String() string {
	switch c {
	case CodecNone:
		return "none"
	case CodecGzip:
		return "gzip"
	case CodecSnappy:
		return "snappy"
	case CodecLZ4:
		return "lz4"
	case CodecZstd:
		return "zstd"
	default:
		return fmt.Sprintf("codec %d", uint8(c))
	}
}

// Known says whether the record format defines the codec.
func (c Codec) Known() bool { return c <= CodecZstd }

// DefaultLevel is the level at which Kafka compresses by default; 0 for codecs without levels.
func (c Codec) DefaultLevel() int {
	switch c {
	case CodecGzip:
		return DefaultGzipLevel
	case CodecLZ4:
		return DefaultLZ4Level
	case CodecZstd:
		return DefaultZstdLevel
	default:
		return 0
	}
}

// Decompress returns the records in a payload, at most limit bytes; more is [ErrTooLarge], found before memory for more
// than limit is taken. Data that doesn't decompress is [ErrCompressed], an undefined codec [ErrCodec]. The result of
// CodecNone is the payload itself.
func Decompress(codec Codec, payload []byte, limit int) ([]byte, error) {
	return DecompressInto(nil, codec, payload, limit)
}

// DecompressInto is [Decompress] into the memory of scratch, whose contents are lost, as far as that suffices.
func DecompressInto(scratch []byte, codec Codec, payload []byte, limit int) ([]byte, error) {
	if limit < 0 {
		limit = 0
	}
	dst := scratch[:0]
	switch codec {
	case CodecNone:
		if len(payload) > limit {
			return nil, ErrTooLarge
		}
		return payload, nil
	case CodecGzip:
		return gunzip(dst, payload, limit)
	case CodecSnappy:
		return unsnappy(dst, payload, limit)
	case CodecLZ4:
		return unlz4(dst, payload, limit)
	case CodecZstd:
		return unzstd(dst, payload, limit)
	default:
		return nil, fmt.Errorf("%w: %d", ErrCodec, uint8(codec))
	}
}

// Compress appends the compressed payload to dst. Level is Kafka's for the codec; levels out of its range count as the
// nearest one. The result is what Kafka's clients read: Snappy is framed as the Java client frames it.
func Compress(dst []byte, codec Codec, level int, payload []byte) ([]byte, error) {
	switch codec {
	case CodecNone:
		return append(dst, payload...), nil
	case CodecGzip:
		return gzipped(dst, level, payload)
	case CodecSnappy:
		return snappied(dst, payload), nil
	case CodecLZ4:
		return lz4ed(dst, level, payload)
	case CodecZstd:
		return zstdEncoder(zstd.EncoderLevelFromZstd(level)).EncodeAll(payload, dst), nil
	default:
		return nil, fmt.Errorf("%w: %d", ErrCodec, uint8(codec))
	}
}

func compressedError(codec Codec, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrCompressed, codec, err)
}

// gunzipper is a reusable gzip decoder.
type gunzipper struct {
	src bytes.Reader
	gz  gzip.Reader
}

// The pools below share memory of encoders and decoders, never state: each is reset before use.
var (
	gunzippers = sync.Pool{New: func() any { return new(gunzipper) }}
	gzippers   [gzip.BestCompression - gzip.DefaultCompression + 1]sync.Pool
)

func gunzip(dst, payload []byte, limit int) ([]byte, error) {
	d, _ := gunzippers.Get().(*gunzipper)
	defer gunzippers.Put(d)
	d.src.Reset(payload)
	defer d.src.Reset(nil)
	if err := d.gz.Reset(&d.src); err != nil {
		return nil, compressedError(CodecGzip, err)
	}
	return readAll(dst, &d.gz, CodecGzip, guessSize(payload, limit), limit)
}

// readAll reads to the end, growing dst as needed but never beyond limit and one byte.
func readAll(dst []byte, r io.Reader, codec Codec, guess, limit int) ([]byte, error) {
	dst = grow(dst, guess)
	for {
		if len(dst) == cap(dst) {
			dst = grow(dst, min(2*cap(dst), limit+1))
		}
		n, err := r.Read(dst[len(dst):min(cap(dst), limit+1)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > limit:
			return nil, ErrTooLarge
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return nil, compressedError(codec, err)
		}
	}
}

// guessSize is the first size to try for decompressed data: at least 1, at most limit+1.
func guessSize(payload []byte, limit int) int {
	const ratio, least = 4, 4 << 10
	return min(max(len(payload)*ratio, least), limit+1)
}

// grow makes dst's capacity at least n.
func grow(dst []byte, n int) []byte {
	if cap(dst) >= n {
		return dst
	}
	grown := make([]byte, len(dst), n)
	copy(grown, dst)
	return grown
}

// appendWriter is an io.Writer on a slice.
type appendWriter struct{ b []byte }

func (w *appendWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

func gzipped(dst []byte, level int, payload []byte) ([]byte, error) {
	level = min(max(level, gzip.DefaultCompression), gzip.BestCompression)
	if level == gzip.NoCompression { // not a level of Kafka's
		level = gzip.BestSpeed
	}
	pool := &gzippers[level-gzip.DefaultCompression]
	out := appendWriter{b: dst}
	w, ok := pool.Get().(*gzip.Writer)
	if ok {
		w.Reset(&out)
	} else {
		var err error
		if w, err = gzip.NewWriterLevel(&out, level); err != nil {
			return nil, fmt.Errorf("make gzip writer: %w", err)
		}
	}
	defer func() {
		w.Reset(nil)
		pool.Put(w)
	}()
	if _, err := w.Write(payload); err != nil {
		return nil, fmt.Errorf("gzip records: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("gzip records: %w", err)
	}
	return out.b, nil
}

// maxZstdWindowBytes is the largest window that Kafka's zstd takes. Decoding doesn't allocate it.
const maxZstdWindowBytes = 128 << 20

// zstdDecoder is made at its first use; it may be used concurrently, and then decodes as many at a time as there are CPUs.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(maxZstdWindowBytes))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
})

var (
	zstdEncodersMu sync.Mutex
	zstdEncoders   = map[zstd.EncoderLevel]*zstd.Encoder{}
)

// zstdEncoder is made at its level's first use; it may be used concurrently.
func zstdEncoder(level zstd.EncoderLevel) *zstd.Encoder {
	zstdEncodersMu.Lock()
	defer zstdEncodersMu.Unlock()
	e, ok := zstdEncoders[level]
	if !ok {
		var err error
		if e, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderCRC(false)); err != nil {
			panic(err) // the options are constants
		}
		zstdEncoders[level] = e
	}
	return e
}

// unzstd decodes into dst's capacity and tries again with more if that doesn't suffice: a frame need not say how large its
// content is, nor does what it says have to be true.
func unzstd(dst, payload []byte, limit int) ([]byte, error) {
	size := guessSize(payload, limit)
	var h zstd.Header
	if err := h.Decode(payload); err == nil && h.HasFCS {
		if h.FrameContentSize > uint64(limit) {
			return nil, ErrTooLarge
		}
		size = max(int(h.FrameContentSize), 1)
	}
	bound := zstdBound(payload)
	for {
		dst = grow(dst, size)
		out, err := zstdDecoder().DecodeAll(payload, dst[:0:min(cap(dst), limit+1)])
		switch {
		case err == nil && len(out) <= limit:
			return out, nil
		case err == nil:
			return nil, ErrTooLarge
		case !zstdOutOfSpace(err) || int64(cap(dst)) >= bound:
			return nil, compressedError(CodecZstd, err)
		case cap(dst) > limit:
			return nil, ErrTooLarge
		}
		size = min(2*cap(dst), limit+1)
	}
}

// zstdOutOfSpace says whether the decoder may have failed only because the memory it was given didn't suffice. It has an
// error for that, but its assembly says the same in words that it uses for broken blocks too.
func zstdOutOfSpace(err error) bool {
	return errors.Is(err, zstd.ErrDecoderSizeExceeded) || strings.HasPrefix(err.Error(), "output bigger than max block size")
}

// zstdBlockBytes is the most that one block holds.
const zstdBlockBytes = 128 << 10

// zstdBound is the most that the blocks of a payload can hold, by their headers (RFC 8878, 3.1.1.2), in bytes. More than
// that is never needed, so that broken data doesn't make memory grow.
func zstdBound(payload []byte) int64 {
	const headerBytes = 3
	bound := int64(0)
	for {
		var h zstd.Header
		if h.Decode(payload) != nil {
			return bound
		}
		skip := h.HeaderSize
		if h.Skippable {
			skip += int(h.SkippableSize)
		}
		for last := h.Skippable; !last; {
			if skip+headerBytes > len(payload) {
				return bound
			}
			b := payload[skip:]
			header := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
			last = header&1 != 0
			size := int(header >> 3)
			skip += headerBytes
			if header>>1&3 == 1 { // one byte, repeated
				skip++
			} else {
				skip += size
			}
			bound += zstdBlockBytes
		}
		if h.HasCheckSum {
			skip += 4
		}
		if skip > len(payload) {
			return bound
		}
		payload = payload[skip:]
	}
}
