package storage

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs"
)

// benchBatch is a batch of one record of about size bytes.
func benchBatch(b *testing.B, size int) batch.Batch {
	b.Helper()
	builder := batch.NewBuilder(batch.NoProducer())
	builder.Append(startTime.UnixMilli(), nil, make([]byte, size))
	out, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func BenchmarkAppend(b *testing.B) {
	for _, mode := range []struct {
		name string
		mode SyncMode
	}{{"every-write", SyncEveryWrite}, {"interval", SyncInterval}, {"none", SyncNone}} {
		for _, size := range []int{100, 1 << 10, 16 << 10} {
			for _, appenders := range []int{1, 16, 64} {
				b.Run(fmt.Sprintf("%s/%dB/%dx", mode.name, size, appenders), func(b *testing.B) {
					benchmarkAppend(b, mode.mode, size, appenders)
				})
			}
		}
	}
}

func benchmarkAppend(b *testing.B, mode SyncMode, size, appenders int) {
	b.Helper()
	w := newWorld(b, vfs.OS(), filepath.Join(b.TempDir(), "data"))
	w.config.Sync = mode
	l := w.open()
	template := benchBatch(b, size)
	b.SetBytes(int64(len(template)))
	b.ReportAllocs()
	b.ResetTimer()
	work := make(chan struct{}, appenders)
	var wg sync.WaitGroup
	for range appenders {
		wg.Go(func() {
			mine := append(batch.Batch(nil), template...)
			for range work {
				a, err := l.Append(mine, AppendOptions{})
				if err == nil && a.Commit != nil {
					<-a.Commit.Done()
					err = a.Commit.Err()
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	b.StopTimer()
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10} {
		w := newWorld(b, vfs.OS(), filepath.Join(b.TempDir(), "data"))
		w.config.Sync = SyncNone
		l := w.open()
		template := benchBatch(b, size)
		const total = 64 << 20
		for n := 0; n < total; n += len(template) {
			if _, err := l.Append(template, AppendOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		end := l.Offsets().End
		b.Run(fmt.Sprintf("tail/%dB", size), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				benchRead(b, l, end-1, 64<<10)
			}
		})
		b.Run(fmt.Sprintf("middle/%dB", size), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				benchRead(b, l, int64(i)*7919%end, 64<<10)
			}
		})
		w.close()
		l = w.open()
		b.Run(fmt.Sprintf("after a restart/%dB", size), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				benchRead(b, l, int64(i)*7919%end, 64<<10)
			}
		})
		w.close()
	}
}

func benchRead(b *testing.B, l *Log, offset, maxBytes int64) {
	b.Helper()
	r, err := l.Read(offset, ReadOptions{MaxBytes: maxBytes, WholeFirst: true})
	if err != nil || r.Records == nil {
		b.Fatal(offset, err)
	}
	n, err := r.Records.SendTo(io.Discard)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(n)
	r.Records.Release()
}
