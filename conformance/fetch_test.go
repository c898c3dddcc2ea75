package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestHighWatermarkIsTheNextOffset(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	if p := fetch(t, c, topic, 0); p.ErrorCode != 0 || p.HighWatermark != 0 || p.LogStartOffset != 0 || p.LastStableOffset != 0 {
		t.Fatalf("empty log: %+v", p)
	}
	mustProduce(t, c, topic, plain("a", "b", "c"))
	p := fetch(t, c, topic, 0)
	if p.HighWatermark != 3 || p.LastStableOffset != 3 || p.LogStartOffset != 0 {
		t.Fatalf("high watermark %d, last stable %d, start %d", p.HighWatermark, p.LastStableOffset, p.LogStartOffset)
	}
	if p.PreferredReadReplica != -1 {
		t.Fatalf("preferred read replica %d, want -1", p.PreferredReadReplica)
	}
	if end := fetch(t, c, topic, 3); end.ErrorCode != 0 || len(end.RecordBatches) != 0 {
		t.Fatalf("at the end: error %d, %d bytes", end.ErrorCode, len(end.RecordBatches))
	}
	if beyond := fetch(t, c, topic, 4); beyond.ErrorCode != 1 || beyond.HighWatermark != -1 {
		t.Fatalf("beyond the end: error %d, high watermark %d", beyond.ErrorCode, beyond.HighWatermark)
	}
}

// Strict decoders tell a null list from an empty one, and lax clients drop what an unasked-for list names.
func TestAbortedTransactionsAreAListOnlyForReadCommitted(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	mustProduce(t, c, topic, plain("a"))
	for level, null := range map[int8]bool{0: true, 1: false} {
		req := fetchRequest(topic, 0, 0)
		req.IsolationLevel = level
		p := ask[*kmsg.FetchResponse](c, req, 12).Topics[0].Partitions[0]
		if (p.AbortedTransactions == nil) != null || len(p.AbortedTransactions) != 0 || len(p.RecordBatches) == 0 {
			t.Errorf("isolation %d: list null is %v, %d bytes", level, p.AbortedTransactions == nil, len(p.RecordBatches))
		}
	}
}

func TestFetchWaitsForMinBytesOrMaxWait(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	req := fetchRequest(topic, 0, 0)
	req.MaxWaitMillis = 300
	begin := time.Now()
	ask[*kmsg.FetchResponse](c, req, 12)
	if waited := time.Since(begin); waited < 290*time.Millisecond {
		t.Fatalf("answered after %v, before max_wait", waited)
	}

	req.MaxWaitMillis = int32(answerLimit / time.Millisecond)
	id := c.send(req, 12)
	writer := dial(t)
	mustProduce(t, writer, topic, plain("x"))
	resp, ok := c.receive(req, id).(*kmsg.FetchResponse)
	if !ok || len(records(t, resp.Topics[0].Partitions[0].RecordBatches)) != 1 {
		t.Fatalf("got %+v", resp)
	}

	req.MinBytes, req.MaxWaitMillis = 1<<20, 200
	begin = time.Now()
	ask[*kmsg.FetchResponse](c, req, 12)
	if waited := time.Since(begin); waited < 190*time.Millisecond {
		t.Fatalf("answered after %v with less than min_bytes", waited)
	}
}

// KIP-74: the whole answer and each partition are bounded, but the first batch always comes whole.
func TestAnswersAreBoundedButTheFirstBatchIsWhole(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 4)
	c := dial(t)
	for p := range int32(4) {
		for range 10 {
			ask[*kmsg.ProduceResponse](c, produceRequest(topic, p, -1, plain(strings.Repeat("x", 10000)).bytes()), 9)
		}
	}
	req := fetchRequest(topic, 0, 0)
	for p := int32(1); p < 4; p++ {
		fp := req.Topics[0].Partitions[0]
		fp.Partition = p
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, fp)
	}
	size := func(resp *kmsg.FetchResponse) (total, largest int) {
		for _, p := range resp.Topics[0].Partitions {
			total += len(p.RecordBatches)
			largest = max(largest, len(p.RecordBatches))
		}
		return total, largest
	}
	req.MaxBytes = 50000
	if total, _ := size(ask[*kmsg.FetchResponse](c, req, 12)); total == 0 || total > 50000 {
		t.Errorf("max_bytes 50000: %d bytes", total)
	}
	req.MaxBytes = 50 << 20
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].PartitionMaxBytes = 25000
	}
	if _, largest := size(ask[*kmsg.FetchResponse](c, req, 12)); largest == 0 || largest > 25000 {
		t.Errorf("partition_max_bytes 25000: %d bytes", largest)
	}
	req.MaxBytes = 100
	resp := ask[*kmsg.FetchResponse](c, req, 12)
	if total, _ := size(resp); total < 10000 || total > 12000 {
		t.Errorf("max_bytes 100: %d bytes, want one whole batch", total)
	}
}

func TestFetchFromTheMiddleOfABatchReturnsTheBatch(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	mustProduce(t, c, topic, plain("a", "b", "c"))
	mustProduce(t, c, topic, plain("d"))
	got := records(t, fetch(t, c, topic, 1).RecordBatches)
	if len(got) != 4 || got[0].offset != 0 {
		t.Fatalf("got %d records from offset %d", len(got), got[0].offset)
	}
}

func TestFetchSessions(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 2)
	c := dial(t)
	full := fetchRequest(topic, 0, 0)
	full.SessionEpoch, full.MaxWaitMillis = 0, 0
	other := full.Topics[0].Partitions[0]
	other.Partition = 1
	full.Topics[0].Partitions = append(full.Topics[0].Partitions, other)
	first := ask[*kmsg.FetchResponse](c, full, 12)
	if first.SessionID == 0 || len(first.Topics) != 1 || len(first.Topics[0].Partitions) != 2 {
		t.Fatalf("full fetch: session %d, %+v", first.SessionID, first.Topics)
	}
	next := func(id, epoch int32) *kmsg.FetchResponse {
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes, req.SessionID, req.SessionEpoch = 50<<20, id, epoch
		return ask[*kmsg.FetchResponse](c, req, 12)
	}
	if idle := next(first.SessionID, 1); idle.ErrorCode != 0 || len(idle.Topics) != 0 {
		t.Fatalf("nothing changed, yet %+v", idle)
	}
	ask[*kmsg.ProduceResponse](c, produceRequest(topic, 1, -1, plain("x").bytes()), 9)
	changed := next(first.SessionID, 2)
	if len(changed.Topics) != 1 || len(changed.Topics[0].Partitions) != 1 || changed.Topics[0].Partitions[0].Partition != 1 {
		t.Fatalf("one partition changed, yet %+v", changed.Topics)
	}
	if code := next(first.SessionID, 9).ErrorCode; code != 71 {
		t.Errorf("wrong epoch: error %d, want 71", code)
	}
	if code := next(123456789, 1).ErrorCode; code != 70 {
		t.Errorf("unknown session: error %d, want 70", code)
	}
}

func listOffset(t *testing.T, topic string, ts int64, isolation int8) kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Timestamp, rp.CurrentLeaderEpoch = ts, -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	p := ask[*kmsg.ListOffsetsResponse](dial(t), req, 7).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		t.Fatalf("ListOffsets %d: error %d", ts, p.ErrorCode)
	}
	return p
}

func TestOffsetsByTimeAreExact(t *testing.T) {
	t.Parallel()
	for _, codec := range []int{none, gz, snap, lz, zst} {
		topic := name(t, "t")
		createTopic(t, topic, 1)
		c := dial(t)
		times := [][]int64{{100, 200, 300}, {250, 150}, {500, 400, 600}}
		for _, ts := range times {
			b := batch{codec: codec}
			for _, at := range ts {
				b.records = append(b.records, record{ts: at, value: []byte("v")})
			}
			mustProduce(t, c, topic, b)
		}
		for _, q := range []struct{ ask, offset, ts int64 }{
			{0, 0, 100},
			{100, 0, 100},
			{101, 1, 200},
			{200, 1, 200},
			{201, 2, 300},
			{300, 2, 300},
			{301, 5, 500},
			{501, 7, 600},
			{601, -1, -1},
			{-2, 0, -1},
			{-1, 8, -1},
			{-3, 7, 600},
		} {
			if got := listOffset(t, topic, q.ask, 0); got.Offset != q.offset || got.Timestamp != q.ts {
				t.Errorf("codec %d, time %d: offset %d at %d, want %d at %d", codec, q.ask, got.Offset, got.Timestamp, q.offset, q.ts)
			}
		}
	}
}

func TestOffsetsOfAnEmptyLog(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	for _, q := range []struct{ ask, offset, ts int64 }{{-1, 0, -1}, {-2, 0, -1}, {-3, -1, -1}, {5, -1, -1}} {
		for _, isolation := range []int8{0, 1} {
			if got := listOffset(t, topic, q.ask, isolation); got.Offset != q.offset || got.Timestamp != q.ts {
				t.Errorf("time %d: offset %d at %d, want %d at %d", q.ask, got.Offset, got.Timestamp, q.offset, q.ts)
			}
		}
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	mustProduce(t, dial(t), topic, plain("a", "b"))
	epoch := listOffset(t, topic, 0, 0).LeaderEpoch
	for _, replica := range []int32{-1, -2} {
		for _, c := range []struct {
			name           string
			current, asked int32
			code           int16
			wantEpoch      int32
			wantEnd        int64
		}{
			{"no fencing", -1, epoch, 0, epoch, 2},
			{"current epoch", epoch, epoch, 0, epoch, 2},
			{"newer current epoch", epoch + 7, epoch, 75, -1, -1},
			{"unknown epoch", -1, epoch + 5, 0, -1, -1},
		} {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.ReplicaID = replica
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.CurrentLeaderEpoch, rp.LeaderEpoch = c.current, c.asked
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			p := ask[*kmsg.OffsetForLeaderEpochResponse](dial(t), req, 4).Topics[0].Partitions[0]
			if p.ErrorCode != c.code || p.LeaderEpoch != c.wantEpoch || p.EndOffset != c.wantEnd {
				t.Errorf("%s: error %d, epoch %d, end %d", c.name, p.ErrorCode, p.LeaderEpoch, p.EndOffset)
			}
		}
	}
}
