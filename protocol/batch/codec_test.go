package batch

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

var codecs = []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4, CodecZstd}

// samples are payloads of every size that matters to a codec, compressible and not.
func samples() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	return map[string][]byte{
		"one byte":     {7},
		"short":        []byte("hello, hello, hello"),
		"64 KiB":       bytes.Repeat([]byte("0123456789abcdef"), 4<<10),
		"64 KiB and 1": bytes.Repeat([]byte("x"), 64<<10+1),
		"random":       random(200_000),
		"mixed":        append(random(50_000), bytes.Repeat([]byte{0}, 100_000)...),
	}
}

func TestCompressedComesBack(t *testing.T) {
	t.Parallel()
	levels := map[Codec][]int{
		CodecNone: {0}, CodecSnappy: {0}, CodecGzip: {-1, 1, 9, 0, 99},
		CodecLZ4: {9, 1, 8, 17, -5}, CodecZstd: {3, 1, 22, -131072},
	}
	for name, payload := range samples() {
		for _, codec := range codecs {
			t.Run(fmt.Sprintf("%s/%s", name, codec), func(t *testing.T) {
				t.Parallel()
				for _, level := range levels[codec] {
					out, err := Compress([]byte("before"), codec, level, payload)
					if err != nil {
						t.Fatalf("level %d: %v", level, err)
					}
					out, ok := bytes.CutPrefix(out, []byte("before"))
					if !ok {
						t.Fatalf("level %d: what was there before is gone", level)
					}
					back, err := Decompress(codec, out, len(payload))
					if err != nil || !bytes.Equal(back, payload) {
						t.Fatalf("level %d: %d bytes back, want %d; %v", level, len(back), len(payload), err)
					}
					if _, err = Decompress(codec, out, len(payload)-1); !errors.Is(err, ErrTooLarge) {
						t.Errorf("level %d: a bound one byte too small: %v", level, err)
					}
				}
			})
		}
	}
}

// What other libraries make of our output, and we of theirs.
func TestCodecsAgreeWithOtherLibraries(t *testing.T) {
	t.Parallel()
	theirs := map[Codec]func(*testing.T, []byte) []byte{
		CodecGzip: func(t *testing.T, b []byte) []byte {
			t.Helper()
			var out bytes.Buffer
			w := gzip.NewWriter(&out)
			_, _ = w.Write(b)
			_ = w.Close()
			return out.Bytes()
		},
		CodecSnappy: func(_ *testing.T, b []byte) []byte { return xerial.Encode(nil, b) },
		CodecLZ4: func(_ *testing.T, b []byte) []byte {
			var out bytes.Buffer
			w := lz4.NewWriter(&out)
			_ = w.Apply(lz4.BlockChecksumOption(true), lz4.ChecksumOption(true), lz4.SizeOption(uint64(len(b))), lz4.BlockSizeOption(lz4.Block1Mb))
			_, _ = w.Write(b)
			_ = w.Close()
			return out.Bytes()
		},
		CodecZstd: func(_ *testing.T, b []byte) []byte {
			var out bytes.Buffer
			w, _ := zstd.NewWriter(&out)
			_, _ = w.Write(b)
			_ = w.Close()
			return out.Bytes()
		},
	}
	read := map[Codec]func([]byte) ([]byte, error){
		CodecGzip: func(b []byte) ([]byte, error) {
			r, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				return nil, err
			}
			return io.ReadAll(r)
		},
		CodecSnappy: xerial.Decode,
		CodecLZ4:    func(b []byte) ([]byte, error) { return io.ReadAll(lz4.NewReader(bytes.NewReader(b))) },
		CodecZstd: func(b []byte) ([]byte, error) {
			r, err := zstd.NewReader(bytes.NewReader(b))
			if err != nil {
				return nil, err
			}
			defer r.Close()
			return io.ReadAll(r)
		},
	}
	for name, payload := range samples() {
		for codec, encode := range theirs {
			t.Run(fmt.Sprintf("%s/%s", name, codec), func(t *testing.T) {
				t.Parallel()
				got, err := Decompress(codec, encode(t, payload), 1<<20)
				if err != nil || !bytes.Equal(got, payload) {
					t.Errorf("theirs: %d bytes, want %d; %v", len(got), len(payload), err)
				}
				ours, err := Compress(nil, codec, codec.DefaultLevel(), payload)
				if err != nil {
					t.Fatal(err)
				}
				if got, err = read[codec](ours); err != nil || !bytes.Equal(got, payload) {
					t.Errorf("ours: %d bytes, want %d; %v", len(got), len(payload), err)
				}
			})
		}
	}
}

func TestSnappyIsReadFramedAndBare(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte("snappy "), 20_000)
	framed, err := Compress(nil, CodecSnappy, 0, want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(framed, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")) {
		t.Errorf("framing starts with %x", framed[:16])
	}
	for name, b := range map[string][]byte{"framed": framed, "bare": s2.EncodeSnappy(nil, want)} {
		if got, bad := Decompress(CodecSnappy, b, 1<<20); bad != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), bad)
		}
	}
	got, err := Decompress(CodecSnappy, append(bytes.Clone(framed), framed...), 1<<20)
	if err != nil || len(got) != 2*len(want) {
		t.Errorf("two streams behind each other: %d bytes, %v", len(got), err)
	}
}

func TestDecompressRefusesWhatIsNotCompressed(t *testing.T) {
	t.Parallel()
	frame, err := Compress(nil, CodecLZ4, 9, []byte(strings.Repeat("lz4 ", 100)))
	if err != nil {
		t.Fatal(err)
	}
	edit := func(at int, v byte) []byte {
		b := bytes.Clone(frame)
		b[at] = v
		b[6] = byte(xxHash32(b[4:6]) >> 8)
		return b
	}
	tests := []struct {
		name    string
		codec   Codec
		payload []byte
		want    error
	}{
		{"gzip garbage", CodecGzip, []byte("not gzip at all"), ErrCompressed},
		{"snappy garbage", CodecSnappy, []byte("not snappy at all"), ErrCompressed},
		{"lz4 garbage", CodecLZ4, []byte("nope"), ErrCompressed},
		{"zstd garbage", CodecZstd, []byte("not zstd at all"), ErrCompressed},
		{"gzip empty", CodecGzip, nil, ErrCompressed},
		{"snappy empty", CodecSnappy, nil, ErrCompressed},
		{"lz4 empty", CodecLZ4, nil, ErrCompressed},
		{"xerial header cut", CodecSnappy, xerialMagic, ErrCompressed},
		{"xerial block beyond the end", CodecSnappy, append(bytes.Clone(xerialHeader), 0xff, 0xff, 0xff, 0xff), ErrCompressed},
		{"xerial length cut", CodecSnappy, append(bytes.Clone(xerialHeader), 0, 0), ErrCompressed},
		{"snappy that claims 4 GiB", CodecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}, ErrTooLarge},
		{"snappy that claims more than it can hold", CodecSnappy, []byte{0x80, 0x80, 0x20, 0}, ErrCompressed},
		{"lz4 with dependent blocks", CodecLZ4, edit(4, 0x40), ErrCompressed},
		{"lz4 with a dictionary", CodecLZ4, edit(4, 0x61), ErrCompressed},
		{"lz4 of another version", CodecLZ4, edit(4, 0xa0), ErrCompressed},
		{"lz4 with an undefined block size", CodecLZ4, edit(5, 0x30), ErrCompressed},
		{"lz4 with a bad descriptor checksum", CodecLZ4, append(append(bytes.Clone(frame[:6]), 0x81), frame[7:]...), ErrCompressed},
		{"lz4 without an end", CodecLZ4, frame[:len(frame)-4], ErrCompressed},
		{"codec 5", 5, nil, ErrCodec},
		{"codec 7", 7, nil, ErrCodec},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Decompress(tt.codec, tt.payload, 1<<20); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
	if _, err := Compress(nil, 5, 0, nil); !errors.Is(err, ErrCodec) {
		t.Errorf("compress with codec 5: %v", err)
	}
	if _, err := Decompress(CodecLZ4, append(bytes.Clone(frame), "more"...), 1<<20); err != nil {
		t.Errorf("lz4 with bytes behind the end: %v", err)
	}
}

// Not parallel: it measures what is allocated.
func TestDecompressionBombsAreRefusedWithoutTheirMemory(t *testing.T) {
	const size, limit = 16 << 20, 256 << 10
	payload := make([]byte, size)
	for _, codec := range codecs[1:] {
		bomb, err := Compress(nil, codec, codec.DefaultLevel(), payload)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Decompress(codec, bomb, limit); !errors.Is(err, ErrTooLarge) { // warm the pools up
			t.Errorf("%s: %v", codec, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Decompress(codec, bomb, limit)
		runtime.ReadMemStats(&after)
		perRun := after.TotalAlloc - before.TotalAlloc
		if perRun > 8*limit {
			t.Errorf("%s: %d bytes allocated for a bound of %d", codec, perRun, limit)
		}
	}
}

func TestXXHash32(t *testing.T) {
	t.Parallel()
	// From the reference implementation's sanity checks, seed 0.
	for in, want := range map[string]uint32{
		"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff,
		"Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxHash32([]byte(in)); got != want {
			t.Errorf("%q: %08x, want %08x", in, got, want)
		}
	}
}

// No payload makes a decoder panic, or return more than the bound.
func FuzzDecompress(f *testing.F) {
	for _, codec := range codecs {
		out, err := Compress(nil, codec, codec.DefaultLevel(), []byte(strings.Repeat("seed ", 50)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(codec), out, uint16(1000))
	}
	f.Add(uint8(CodecLZ4), binary.LittleEndian.AppendUint32(nil, lz4Magic), uint16(10))
	f.Fuzz(func(t *testing.T, codec uint8, payload []byte, limit uint16) {
		out, err := Decompress(Codec(codec), payload, int(limit))
		switch {
		case err == nil && len(out) > int(limit):
			t.Fatalf("%d bytes, at most %d asked for", len(out), limit)
		case err != nil && !errors.Is(err, ErrCodec) && !errors.Is(err, ErrCompressed) && !errors.Is(err, ErrTooLarge):
			t.Fatalf("unexpected error %v", err)
		}
	})
}

func BenchmarkDecompress(b *testing.B) {
	payload := bytes.Repeat([]byte("some json {\"like\": \"this\"}, "), 1000)
	for _, codec := range codecs[1:] {
		in, err := Compress(nil, codec, codec.DefaultLevel(), payload)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(codec.String(), func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			var scratch []byte
			for b.Loop() {
				if scratch, err = DecompressInto(scratch, codec, in, 1<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
