package storage

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
)

// dirtyLog makes a log of some bytes in batches of about 16 KiB, with half of the records superseded.
func dirtyLog(b *testing.B, size, record int, codec batch.Codec) (*world, *Log) {
	b.Helper()
	w := osWorld(b)
	c := &w.config
	c.Sync, c.Compact, c.Delete, c.MinCleanableRatio, c.SegmentBytes = SyncNone, true, false, 0, 16<<20
	l := w.open()
	value := make([]byte, record)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range value {
		value[i] = byte(rng.IntN(64))
	}
	keys := size / record / 2
	m := batch.NoProducer()
	m.Codec, m.Level = codec, codec.DefaultLevel()
	builder := batch.NewBuilder(m)
	var key [8]byte
	for n := 0; n < 2*keys; {
		builder.Reset(m)
		for builder.SizeBytes() < 16<<10 && n < 2*keys {
			binary.BigEndian.PutUint64(key[:], uint64(n%keys))
			value[rng.IntN(record)] = byte(n)
			builder.Append(int64(n), key[:], value)
			n++
		}
		out, err := builder.Build()
		if err != nil {
			b.Fatal(err)
		}
		if _, err = l.Append(out, AppendOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.rollIf(func(*segment.Segment) bool { return true }); err != nil {
		b.Fatal(err)
	}
	return w, l
}

func BenchmarkCompaction(b *testing.B) {
	const size = 64 << 20
	for _, record := range []int{100, 1000} {
		for _, codec := range []batch.Codec{batch.CodecNone, batch.CodecLZ4, batch.CodecZstd} {
			b.Run(fmt.Sprintf("record=%d/codec=%s", record, codec), func(b *testing.B) {
				b.SetBytes(size)
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					w, l := dirtyLog(b, size, record, codec)
					plan, _ := l.planCompaction(w.clock.Now())
					b.StartTimer()
					limits := compactionLimits{MapBytes: 128 << 20, MapLoad: 0.9, Pace: func(int) error { return nil }}
					if err := l.compact(b.Context(), plan, limits); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					w.close()
					b.StartTimer()
				}
			})
		}
	}
}

// BenchmarkScrub reads what lies in the page cache: it is what rereading costs in computing.
func BenchmarkScrub(b *testing.B) {
	const size = 64 << 20
	w, l := dirtyLog(b, size, 1000, batch.CodecNone)
	defer w.close()
	b.SetBytes(l.Size())
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		for _, s := range l.mu.segments[:len(l.mu.segments)-1] {
			if err := s.Batches(nil, func(batch.Batch) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	}
}
