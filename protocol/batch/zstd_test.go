package batch

import (
	"bytes"
	"errors"
	"strconv"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// streamed compresses as librdkafka does: the frame doesn't say how large its content is.
func streamed(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err = w.Flush(); err != nil { // so that the frame begins before its size is known
		t.Fatal(err)
	}
	if err = w.Close(); err != nil {
		t.Fatal(err)
	}
	var h zstd.Header
	if err = h.Decode(b.Bytes()); err != nil || h.HasFCS {
		t.Fatalf("frame: %v, content size there: %t", err, h.HasFCS)
	}
	return b.Bytes()
}

func TestZstdFramesOfUnknownSizeComeBack(t *testing.T) {
	t.Parallel()
	for _, numbers := range []int{1, 10, 1000, 30_000} {
		var content []byte
		for i := range numbers {
			content = strconv.AppendInt(append(content, 0, 0, 0, 1), int64(i), 10)
		}
		payload := streamed(t, content)
		if got, err := Decompress(CodecZstd, payload, len(content)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d numbers: %d bytes of %d, %v", numbers, len(got), len(content), err)
		}
		if _, err := Decompress(CodecZstd, payload, len(content)-1); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d numbers, with a limit: %v", numbers, err)
		}
	}
}

func TestZstdBlocksBoundTheMemory(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("kbroker "), 40_000) // three blocks
	payload := streamed(t, content)
	if got := zstdBound(payload); got < int64(len(content)) || got > 4*zstdBlockBytes {
		t.Errorf("bound %d for %d bytes", got, len(content))
	}
	twice := append(bytes.Clone(payload), payload...)
	if got, want := zstdBound(twice), 2*zstdBound(payload); got != want {
		t.Errorf("two frames: %d, want %d", got, want)
	}
	for n := range payload {
		if got := zstdBound(payload[:n]); got > zstdBound(payload) {
			t.Errorf("cut at %d: %d", n, got)
		}
		for _, broken := range []byte{0xff, payload[n] ^ 1} {
			b := bytes.Clone(payload)
			b[n] = broken
			if got, err := Decompress(CodecZstd, b, 1<<30); cap(got) > 64*len(content) {
				t.Errorf("byte %d is %d: %d bytes of memory, %v", n, broken, cap(got), err)
			}
		}
	}
}
