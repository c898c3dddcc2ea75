package storage

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// BenchmarkFullScan opens a log whose snapshot is gone, so that all of it is read and checked; beside it the floor, which reads
// the same files through a buffer of the same size and computes a checksum over all of it. The files lie in the page cache.
func BenchmarkFullScan(b *testing.B) {
	const total = 512 << 20
	for _, size := range []int{100, 1 << 10, 16 << 10, 1 << 20} {
		w := newWorld(b, vfs.OS(), filepath.Join(b.TempDir(), "data"))
		w.config.Sync, w.config.SegmentBytes = SyncNone, 128<<20
		fillLog(b, w.open(), size, total)
		w.close()
		dir := filepath.Join(w.dir, topicsName, w.part.Topic, "0")
		b.Run(fmt.Sprintf("batch=%d/open", size), func(b *testing.B) {
			b.SetBytes(total)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				if err := os.Remove(filepath.Join(dir, snapshotName)); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				w.open()
				b.StopTimer()
				w.close()
				b.StartTimer()
			}
		})
		b.Run(fmt.Sprintf("batch=%d/floor", size), func(b *testing.B) {
			b.SetBytes(total)
			buf := make([]byte, 256<<10)
			for b.Loop() {
				checksumFiles(b, dir, buf)
			}
		})
	}
}

// fillLog appends batches of one record of a size until there are so many bytes.
func fillLog(b *testing.B, l *Log, size, total int) {
	b.Helper()
	template := benchBatch(b, size)
	for n := 0; n < total; n += len(template) {
		if _, err := l.Append(template, AppendOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// checksumFiles reads all data files of a directory and computes their checksum.
func checksumFiles(b *testing.B, dir string, buf []byte) {
	b.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+segment.SuffixData))
	if err != nil || len(names) == 0 {
		b.Fatal(len(names), err)
	}
	for _, name := range names {
		checksumFile(b, name, buf)
	}
}

func checksumFile(b *testing.B, name string, buf []byte) {
	b.Helper()
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var n int
	sum := uint32(0)
	for err == nil {
		n, err = f.Read(buf)
		sum = batch.UpdateChecksum(sum, buf[:n])
	}
	if err != io.EOF || sum == 0 {
		b.Fatal(sum, err)
	}
}
