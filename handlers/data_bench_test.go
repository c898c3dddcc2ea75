package handlers

import (
	"slices"
	"strconv"
	"testing"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage"
)

// nullLog takes everything and keeps nothing, so that a benchmark sees the handler alone.
type nullLog struct {
	*memoryLog
	next int64
}

func (l *nullLog) Append(b batch.Batch, _ storage.AppendOptions) (storage.Appended, error) {
	base := l.next
	l.next += int64(b.NumRecords())
	return storage.Appended{BaseOffset: base}, nil
}

func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{100, 16 << 10} {
		b.Run(strconv.Itoa(size)+"B", func(b *testing.B) {
			p := newPlane(b)
			topic, _ := p.topic("a", 1)
			p.Logs = oneLog{&nullLog{memoryLog: newMemoryLog()}}
			req := produceRequest(9, topic.Name, records(b, 1, size))
			body := req.AppendTo(nil)
			r := request(protocol.KeyProduce, 9)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				r.Body = body
				answer := p.Dispatch(r)
				if answer.Frame == nil {
					b.Fatal("no answer")
				}
				answer.Release()
			}
		})
	}
}

func BenchmarkFetch(b *testing.B) {
	for _, partitions := range []int32{1, 100} {
		b.Run(strconv.Itoa(int(partitions))+"partitions", func(b *testing.B) {
			p := newPlane(b)
			_, logs := p.topic("a", partitions)
			all := make([]int32, partitions)
			for i := range all {
				all[i] = int32(i)
				fill(b, logs[i], 1, 1000)
			}
			body := fetchRequest(12, "a", all...).AppendTo(nil)
			r := request(protocol.KeyFetch, 12)
			b.ReportAllocs()
			for b.Loop() {
				r.Body = slices.Clone(body)
				answer := p.Dispatch(r)
				if answer.Frame == nil {
					b.Fatal("no answer")
				}
				answer.Release()
			}
		})
	}
}

// oneLog is a set that has one log for every partition.
type oneLog struct{ log Log }

func (l oneLog) Get(storage.TopicID, int32) (Log, error) { return l.log, nil }

func (l oneLog) Open(storage.Partition, storage.Config, int32) (Log, error) { return l.log, nil }

func (l oneLog) Delete(storage.TopicID) error { return nil }
