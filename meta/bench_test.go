package meta

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kbroker/kbroker/storage/vfs"
)

func BenchmarkOpenNew(b *testing.B) {
	root := b.TempDir()
	for i := 0; b.Loop(); i++ {
		benchmarkOpen(b, filepath.Join(root, fmt.Sprint(i)))
	}
}

func BenchmarkOpenAgain(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		benchmarkOpen(b, dir)
	}
}

func benchmarkOpen(b *testing.B, dir string) {
	b.Helper()
	s, err := Open(vfs.OS(), dir, testOptions())
	if err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if err = s.Close(); err != nil {
		b.Fatal(err)
	}
	b.StartTimer()
}

func BenchmarkCommitCursor(b *testing.B) {
	for name, durability := range durabilities() {
		for _, committers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/%d", name, committers), func(b *testing.B) {
				o := testOptions()
				o.Durability = durability
				s, err := Open(vfs.OS(), b.TempDir(), o)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.SetParallelism(committers)
				b.RunParallel(func(pb *testing.PB) {
					var batch Batch
					for n := int64(0); pb.Next(); n++ {
						batch.Reset()
						batch.PutCursor("some-group", TopicPartition{"some-topic", int32(n % 100)}, Cursor{Offset: n})
						if commitErr := s.Commit(&batch); commitErr != nil {
							b.Error(commitErr)
							return
						}
					}
				})
				if err = s.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
