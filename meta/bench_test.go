package meta

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kbroker/kbroker/storage"
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

// BenchmarkDeleteTopic deletes a topic that has no cursors among many that are of another: nothing is committed meanwhile.
func BenchmarkDeleteTopic(b *testing.B) {
	s, err := Open(vfs.OS(), b.TempDir(), testOptions())
	if err != nil {
		b.Fatal(err)
	}
	var batch Batch
	for group := range 1000 {
		batch.Reset()
		for p := range int32(100) {
			batch.PutCursor(fmt.Sprint("group-", group), TopicPartition{"kept", p}, Cursor{Offset: 5})
		}
		if err = s.Commit(&batch); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		b.StopTimer()
		made, makeErr := s.CreateTopics([]Topic{{Name: "gone", Partitions: 1}})
		if makeErr != nil {
			b.Fatal(makeErr)
		}
		b.StartTimer()
		if _, err = s.DeleteTopics([]storage.TopicID{made[0].ID}); err != nil {
			b.Fatal(err)
		}
	}
	if err = s.Close(); err != nil {
		b.Fatal(err)
	}
}
