package handlers

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage"
	"github.com/kbroker/kbroker/storage/vfs"
)

// realLogs hands out the logs of a set.
type realLogs struct{ *storage.Set }

func (s realLogs) Get(id storage.TopicID, partition int32) (Log, error) {
	l, err := s.Set.Get(id, partition)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (s realLogs) Open(p storage.Partition, c storage.Config, epochBase int32) (Log, error) {
	l, err := s.Set.Open(p, c, epochBase)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// onDisk puts logs on a disk under the handlers, and makes a topic with so many partitions.
func onDisk(t *testing.T, partitions int32) *plane {
	t.Helper()
	p := newPlane(t)
	set, err := storage.OpenSet(vfs.OS(), t.TempDir(), storage.SetOptions{Clock: p.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err = set.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p.Logs = realLogs{set}
	topic, _ := p.topic("a", partitions)
	if err = p.openLogs(topic, 0); err != nil {
		t.Fatal(err)
	}
	return p
}

// complete waits for an answer if need be.
func complete(t *testing.T, r protocol.Response) protocol.Response {
	t.Helper()
	if r.Later != nil {
		return r.Later(t.Context())
	}
	return r
}

func TestRecordsComeBackFromDiskAsTheyWereSent(t *testing.T) {
	t.Parallel()
	p := onDisk(t, 1)
	var want []byte
	for i := range 20 {
		sent := records(t, 3, 100<<(i%10)) // up to 150 KB, so that some come inline and some from the file
		r := complete(t, p.produce(request(protocol.KeyProduce, 9), produceRequest(9, "a", bytes.Clone(sent))))
		got := produceAnswer(t, r, 9).Topics[0].Partitions[0]
		if got.ErrorCode != 0 || got.BaseOffset != int64(3*i) {
			t.Fatalf("produce %d: %+v", i, got)
		}
		sent.SetBaseOffset(int64(3 * i))
		sent.SetLeaderEpoch(0)
		want = append(want, sent...)
	}
	var got []byte
	for offset := int64(0); offset < 60; {
		req := fetchRequest(12, "a", 0)
		req.Topics[0].Partitions[0].FetchOffset = offset
		req.Topics[0].Partitions[0].PartitionMaxBytes = 100 << 10
		part := p.fetchNow(req).Topics[0].Partitions[0]
		if part.ErrorCode != 0 || part.HighWatermark != 60 {
			t.Fatalf("fetch from %d: code %d, high watermark %d", offset, part.ErrorCode, part.HighWatermark)
		}
		for rest := part.RecordBatches; ; {
			b, more, err := batch.Next(rest, 0)
			if err != nil {
				break // cut, or the end
			}
			got, rest, offset = append(got, b...), more, b.NextOffset()
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back of %d, or others", len(got), len(want))
	}
}

func TestFetchesOnDiskAreWokenByProduces(t *testing.T) {
	t.Parallel()
	p := onDisk(t, 4)
	var all sync.WaitGroup
	for n := range int32(4) {
		all.Go(func() {
			for offset := int64(0); offset < 50; {
				req := fetchRequest(12, "a", n)
				req.MaxWaitMillis = 60_000 // of a clock that stands still
				req.Topics[0].Partitions[0].FetchOffset = offset
				r := complete(t, p.fetch(request(protocol.KeyFetch, 12), req))
				part := fetchAnswer(t, r, 12).Topics[0].Partitions[0]
				if part.ErrorCode != 0 || len(part.RecordBatches) == 0 {
					t.Errorf("partition %d from %d: %+v", n, offset, part)
					return
				}
				offset = part.HighWatermark
			}
		})
	}
	for range 50 {
		req := produceRequest(9, "a", nil)
		req.Topics[0].Partitions = nil
		for n := range int32(4) {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions,
				kmsg.ProduceRequestTopicPartition{Partition: n, Records: records(t, 1, 10)})
		}
		body := produceAnswer(t, complete(t, p.produce(request(protocol.KeyProduce, 9), req)), 9)
		for _, part := range body.Topics[0].Partitions {
			if part.ErrorCode != 0 {
				t.Errorf("produce: %+v", part)
			}
		}
	}
	all.Wait()
}

func TestRetriedBatchesOnDiskAreAnsweredWithTheirFirstOffset(t *testing.T) {
	t.Parallel()
	p := onDisk(t, 1)
	m := batch.NoProducer()
	m.ProducerID, m.ProducerEpoch = 5, 0
	send := func(sequence int32) kmsg.ProduceResponseTopicPartition {
		m.BaseSequence = sequence
		req := produceRequest(9, "a", recordsOf(t, m, 2, 10))
		return produceAnswer(t, complete(t, p.produce(request(protocol.KeyProduce, 9), req)), 9).Topics[0].Partitions[0]
	}
	for _, c := range []struct {
		sequence int32
		code     protocol.ErrorCode
		base     int64
		time     int64
	}{
		{0, 0, 0, -1},
		{2, 0, 2, -1},
		{0, 0, 0, planeStart.UnixMilli()},
		{5, protocol.OutOfOrderSequenceNumber, -1, -1},
		{4, 0, 4, -1},
	} {
		if got := send(c.sequence); got.ErrorCode != int16(c.code) || got.BaseOffset != c.base || got.LogAppendTime != c.time {
			t.Errorf("sequence %d: %+v", c.sequence, got)
		}
	}
}
