package handlers

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// fetchRequest asks for partitions from offset 0, without a session.
func fetchRequest(version int16, topic string, partitions ...int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = version, 500, 1, 1<<20
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic}}
	for _, n := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = n, 1<<20
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	return req
}

func fetchAnswer(tb testing.TB, r protocol.Response, version int16) *kmsg.FetchResponse {
	tb.Helper()
	body := kmsg.NewPtrFetchResponse()
	body.Version = version
	return answer(tb, r, body)
}

// fetchNow asks and expects an answer at once.
func (p *plane) fetchNow(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	p.t.Helper()
	return fetchAnswer(p.t, p.fetch(request(protocol.KeyFetch, req.Version), req), req.Version)
}

// fetchLater asks and lets the fetch wait; the function gets the answer.
func (p *plane) fetchLater(ctx context.Context, req *kmsg.FetchRequest) func() *kmsg.FetchResponse {
	p.t.Helper()
	r := p.fetch(request(protocol.KeyFetch, req.Version), req)
	if r.Later == nil {
		p.t.Fatal("answered at once")
	}
	answered := make(chan protocol.Response)
	go func() { answered <- r.Later(ctx) }()
	p.clock.AwaitPending(1)
	return func() *kmsg.FetchResponse { return fetchAnswer(p.t, <-answered, req.Version) }
}

// sizes are the bytes of records in an answer, by partition.
func sizes(body *kmsg.FetchResponse) []int {
	var all []int
	for i := range body.Topics {
		for j := range body.Topics[i].Partitions {
			all = append(all, len(body.Topics[i].Partitions[j].RecordBatches))
		}
	}
	return all
}

func equal[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (p *plane) noLeaks(logs ...*memoryLog) {
	p.t.Helper()
	for i, l := range logs {
		if records, waiters := l.leaks(); records != 0 || waiters != 0 {
			p.t.Errorf("log %d: %d records not released, %d waiters left", i, records, waiters)
		}
	}
	if n := p.clock.Pending(); n != 0 {
		p.t.Errorf("%d timers left", n)
	}
}

func TestFetchKeepsItsLimits(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 3)
	for _, l := range logs {
		fill(t, l, 1, 300)
		fill(t, l, 1, 300)
	}
	one := len(logs[0].batches[0])
	for name, c := range map[string]struct {
		total, partition int32
		want             []int
	}{
		"no limit reached":                        {1 << 20, 1 << 20, []int{2 * one, 2 * one, 2 * one}},
		"first batch whole, nothing else":         {1, 1 << 20, []int{one, 0, 0}},
		"zero":                                    {0, 1 << 20, []int{one, 0, 0}},
		"a later batch may be cut":                {int32(one + 100), 1 << 20, []int{one + 100, 0, 0}},
		"a first batch isn't cut":                 {int32(2*one + 100), 1 << 20, []int{2 * one, 0, 0}},
		"each partition has its limit":            {1 << 20, int32(one + 5), []int{one + 5, one + 5, one + 5}},
		"only the first may exceed a partition's": {1 << 20, 10, []int{one, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			req := fetchRequest(12, "a", 0, 1, 2)
			req.MaxBytes = c.total
			for i := range req.Topics[0].Partitions {
				req.Topics[0].Partitions[i].PartitionMaxBytes = c.partition
			}
			if got := sizes(p.fetchNow(req)); !equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	p.noLeaks(logs...)
}

func TestFetchIsBoundedByTheFilesThatMayBeOpen(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 2)
	for _, l := range logs {
		fill(t, l, 1, 200)
	}
	logs[1].readErr = fmt.Errorf("open: %w", syscall.EMFILE)
	got := p.fetchNow(fetchRequest(12, "a", 0, 1)).Topics[0].Partitions
	if len(got[0].RecordBatches) == 0 || len(got[1].RecordBatches) != 0 || got[1].ErrorCode != 0 || got[1].HighWatermark != 1 {
		t.Errorf("behind others: %d bytes, then %+v", len(got[0].RecordBatches), got[1])
	}
	if got = p.fetchNow(fetchRequest(12, "a", 1)).Topics[0].Partitions; got[0].ErrorCode != int16(protocol.KafkaStorageError) {
		t.Errorf("first: error %d", got[0].ErrorCode)
	}
	p.noLeaks(logs...)
}

func TestFetchIsBoundedByTheBroker(t *testing.T) {
	t.Parallel()
	p := newPlane(t, "fetch.max.bytes", "1024")
	_, logs := p.topic("a", 2)
	fill(t, logs[0], 1, 800)
	fill(t, logs[1], 1, 800)
	got := sizes(p.fetchNow(fetchRequest(12, "a", 0, 1)))
	if !equal(got, []int{len(logs[0].batches[0]), 0}) {
		t.Errorf("got %v", got)
	}
}

func TestFetchSendsLargeRangesFromTheFile(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 3)
	fill(t, logs[0], 1, 100)
	fill(t, logs[1], 1, 5*inlineFetchBytes)
	fill(t, logs[2], 1, 100)
	r := p.fetch(request(protocol.KeyFetch, 12), fetchRequest(12, "a", 0, 1, 2))
	files := 0
	for _, part := range r.Parts {
		if part.File != nil {
			files++
		}
	}
	if files != 1 {
		t.Errorf("%d ranges from files, want 1", files)
	}
	if open, _ := logs[1].leaks(); open != 1 {
		t.Errorf("%d records held while the answer is on its way, want 1", open)
	}
	for i, n := range sizes(fetchAnswer(t, r, 12)) {
		if n != len(logs[i].batches[0]) {
			t.Errorf("partition %d: %d bytes, want %d", i, n, len(logs[i].batches[0]))
		}
	}
	p.noLeaks(logs...)
}

func TestFetchWaits(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	later := func(p *plane, _ []*memoryLog) { p.clock.Advance(500 * time.Millisecond) }
	for name, c := range map[string]struct {
		ctx  context.Context
		min  int32
		then func(p *plane, logs []*memoryLog)
		want []bool // has records
	}{
		"for an append":          {t.Context(), 1, func(p *plane, l []*memoryLog) { fill(p.t, l[1], 1, 10) }, []bool{false, true}},
		"until its time is over": {t.Context(), 1, later, []bool{false, false}},
		"until the broker stops": {stopped, 1, func(*plane, []*memoryLog) { stop() }, []bool{false, false}},
		"until enough has come": {t.Context(), 600, func(p *plane, l []*memoryLog) {
			fill(p.t, l[0], 1, 200)
			fill(p.t, l[1], 1, 200)
			fill(p.t, l[1], 1, 200)
		}, []bool{true, true}},
		"and gives what there is when its time is over": {t.Context(), 600, func(p *plane, l []*memoryLog) {
			fill(p.t, l[0], 1, 200)
			later(p, l)
		}, []bool{true, false}},
		"until a log can't be read": {t.Context(), 1, func(_ *plane, l []*memoryLog) {
			l[0].mu.Lock()
			defer l[0].mu.Unlock()
			l[0].readErr = storage.ErrDamaged
			l[0].show(l[0].visible)
		}, []bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t)
			_, logs := p.topic("a", 2)
			req := fetchRequest(12, "a", 0, 1)
			req.MinBytes = c.min
			wait := p.fetchLater(c.ctx, req)
			c.then(p, logs)
			var got []bool
			for _, n := range sizes(wait()) {
				got = append(got, n > 0)
			}
			if !equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			p.noLeaks(logs...)
		})
	}
}

func TestFetchSeesWhatCameBeforeItWatched(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 1)
	r := p.fetch(request(protocol.KeyFetch, 12), fetchRequest(12, "a", 0))
	if r.Later == nil {
		t.Fatal("answered at once")
	}
	fill(t, logs[0], 1, 10)
	if got := sizes(fetchAnswer(t, r.Later(t.Context()), 12)); got[0] == 0 {
		t.Error("no records")
	}
	p.noLeaks(logs...)
}

func TestFetchHoldsNoFilesWhileItWaits(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 1)
	fill(t, logs[0], 1, 10)
	req := fetchRequest(12, "a", 0)
	req.MinBytes = 10000
	wait := p.fetchLater(t.Context(), req)
	if open, _ := logs[0].leaks(); open != 0 {
		t.Errorf("%d records held", open)
	}
	p.clock.Advance(time.Second)
	if got := sizes(wait()); got[0] == 0 {
		t.Error("no records")
	}
}

func TestFetchLooksOnlyAtLogsThatMoved(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 2)
	req := fetchRequest(12, "a", 0, 1)
	req.MinBytes = 10000
	wait := p.fetchLater(t.Context(), req)
	before := logs[1].reads
	for range 5 {
		fill(t, logs[0], 1, 10)
	}
	if logs[1].reads != before {
		t.Errorf("the quiet log was read %d times", logs[1].reads-before)
	}
	p.clock.Advance(time.Second)
	wait()
}

func TestFetchDoesNotWait(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*kmsg.FetchRequest){
		"without time":            func(r *kmsg.FetchRequest) { r.MaxWaitMillis = 0 },
		"for nothing":             func(r *kmsg.FetchRequest) { r.MinBytes = 0 },
		"without partitions":      func(r *kmsg.FetchRequest) { r.Topics = nil },
		"with an error":           func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].FetchOffset = 5 },
		"for unknown topics only": func(r *kmsg.FetchRequest) { r.Topics[0].Topic = "no" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t)
			p.topic("a", 1)
			req := fetchRequest(12, "a", 0)
			change(req)
			p.fetchNow(req)
		})
	}
}

func TestFetchWaitsBesideAnUnknownTopic(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.topic("a", 1)
	wait := p.fetchLater(t.Context(), fetchRequest(12, "a", 0, 9))
	p.clock.Advance(time.Second)
	got := wait().Topics[0].Partitions
	if got[0].ErrorCode != 0 || got[1].ErrorCode != int16(protocol.UnknownTopicOrPartition) {
		t.Errorf("got %+v", got)
	}
}

func TestFetchErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version int16
		change  func(*kmsg.FetchRequest)
		code    protocol.ErrorCode
		aborted bool // an empty list rather than null
		leader  bool
	}{
		"unknown partition": {12, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].Partition = 7 }, protocol.UnknownTopicOrPartition, true, false},
		"out of range":      {12, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].FetchOffset = 9 }, protocol.OffsetOutOfRange, false, false},
		"negative limit":    {12, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].PartitionMaxBytes = -1 }, protocol.UnknownServerError, false, false},
		"old epoch":         {12, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 2 }, protocol.FencedLeaderEpoch, false, false},
		"old epoch, new client": {
			16, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 2 },
			protocol.FencedLeaderEpoch, false, true,
		},
		"new epoch":             {16, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 4 }, protocol.UnknownLeaderEpoch, false, false},
		"a replica":             {12, func(r *kmsg.FetchRequest) { r.ReplicaID = 2 }, protocol.NotLeaderOrFollower, false, false},
		"a replica, new client": {16, func(r *kmsg.FetchRequest) { r.ReplicaState.ID = 2 }, protocol.NotLeaderOrFollower, false, true},
		"fetched epoch above the log's": {
			12, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].LastFetchedEpoch = 4 },
			protocol.OffsetOutOfRange, false, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t)
			topic, logs := p.topic("a", 1)
			logs[0].epoch = 3
			fill(t, logs[0], 1, 10)
			req := fetchRequest(c.version, "a", 0)
			req.Topics[0].TopicID = topic.ID
			c.change(req)
			body := p.fetchNow(req)
			got := body.Topics[0].Partitions[0]
			if got.ErrorCode != int16(c.code) || got.HighWatermark != -1 || got.LastStableOffset != -1 || got.LogStartOffset != -1 ||
				got.RecordBatches == nil || len(got.RecordBatches) > 0 || (got.AbortedTransactions != nil) != c.aborted {
				t.Errorf("got %+v, want code %d", got, c.code)
			}
			if (got.CurrentLeader.LeaderEpoch == 3) != c.leader ||
				(len(body.Brokers) == 1) != (c.leader && c.code == protocol.FencedLeaderEpoch) {
				t.Errorf("leader %+v, brokers %v", got.CurrentLeader, body.Brokers)
			}
			p.noLeaks(logs...)
		})
	}
}

func TestFetchLooksAtALimitOnlyWhereThereIsSomethingToRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		offset         int64
		partition, all int32
		code           protocol.ErrorCode
	}{
		"something":                  {0, -1, 1000, protocol.UnknownServerError},
		"something, limit of all":    {0, 1000, -1, protocol.UnknownServerError},
		"at the end":                 {1, -1, 1000, protocol.None},
		"at the end, limit of all":   {1, 1000, -1, protocol.None},
		"beyond the end":             {2, -1, 1000, protocol.OffsetOutOfRange},
		"something, no bytes wanted": {0, 0, 0, protocol.None},
	} {
		p := newPlane(t)
		_, logs := p.topic("a", 1)
		fill(t, logs[0], 1, 10)
		req := fetchRequest(12, "a", 0)
		req.MaxBytes, req.MaxWaitMillis = c.all, 0
		req.Topics[0].Partitions[0].FetchOffset, req.Topics[0].Partitions[0].PartitionMaxBytes = c.offset, c.partition
		if got := p.fetchNow(req).Topics[0].Partitions[0]; got.ErrorCode != int16(c.code) {
			t.Errorf("%s: %+v", name, got)
		}
		p.noLeaks(logs...)
	}
}

func TestFetchAnswersWhatIsMissingLast(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.topic("a", 2)
	req := fetchRequest(12, "a", 7, 1, 8, 0)
	req.MaxWaitMillis = 0
	req.Topics = append(fetchRequest(12, "no", 0).Topics, req.Topics...)
	body := p.fetchNow(req)
	var got []string
	for _, t := range body.Topics {
		for _, q := range t.Partitions {
			got = append(got, fmt.Sprintf("%s %d %d", t.Topic, q.Partition, q.ErrorCode))
		}
	}
	if want := []string{"a 1 0", "a 0 0", "no 0 3", "a 7 3", "a 8 3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFetchOfAnUnknownIsolationLevel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version   int16
		partition int32
		code      protocol.ErrorCode
		topics    int
	}{
		"by name":            {12, 0, protocol.UnknownServerError, 1},
		"by id":              {13, 0, protocol.UnknownServerError, 0},
		"of nothing to read": {12, 7, protocol.None, 1},
	} {
		p := newPlane(t)
		topic, logs := p.topic("a", 1)
		fill(t, logs[0], 1, 10)
		req := fetchRequest(c.version, "a", c.partition)
		req.Topics[0].TopicID = topic.ID
		req.SessionID, req.SessionEpoch, req.IsolationLevel = 77, -1, 7
		body := p.fetchNow(req)
		if body.ErrorCode != int16(c.code) || len(body.Topics) != c.topics || (body.SessionID == 77) != (c.code != 0) {
			t.Errorf("%s: %+v", name, body)
		}
		p.noLeaks(logs...)
	}
}

func TestFetchTellsWhereTheLogDiverges(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 1)
	fill(t, logs[0], 2, 10)
	logs[0].epoch = 3
	fill(t, logs[0], 2, 10)
	for name, c := range map[string]struct {
		epoch       int32
		offset      int64
		wantEpoch   int32
		wantEnd     int64
		wantRecords bool
	}{
		"same history":             {0, 1, -1, -1, true},
		"at the end of an epoch":   {0, 2, -1, -1, true},
		"beyond the end of one":    {0, 3, 0, 2, false},
		"an epoch that isn't here": {2, 2, 0, 2, false},
		"the current epoch":        {3, 4, -1, -1, false},
		"beyond the log":           {3, 5, 3, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			req := fetchRequest(12, "a", 0)
			req.MaxWaitMillis = 0
			req.Topics[0].Partitions[0].LastFetchedEpoch, req.Topics[0].Partitions[0].FetchOffset = c.epoch, c.offset
			got := p.fetchNow(req).Topics[0].Partitions[0]
			if got.ErrorCode != 0 || got.DivergingEpoch.Epoch != c.wantEpoch || got.DivergingEpoch.EndOffset != c.wantEnd ||
				(len(got.RecordBatches) > 0) != c.wantRecords {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestFetchReadCommitted(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 1)
	fill(t, logs[0], 1, 10)
	fill(t, logs[0], 1, 10)
	logs[0].stable = 1
	req := fetchRequest(12, "a", 0)
	if got := p.fetchNow(req).Topics[0].Partitions[0]; got.AbortedTransactions != nil || len(got.RecordBatches) != 2*len(logs[0].batches[0]) {
		t.Errorf("uncommitted: %+v", got)
	}
	req.IsolationLevel = 1
	got := p.fetchNow(req).Topics[0].Partitions[0]
	if got.AbortedTransactions == nil || len(got.RecordBatches) != len(logs[0].batches[0]) || got.LastStableOffset != 1 || got.HighWatermark != 2 {
		t.Errorf("committed: %+v", got)
	}
	req.IsolationLevel = 2
	body := p.fetchNow(req)
	if body.ErrorCode != -1 || body.Topics[0].Partitions[0].ErrorCode != -1 {
		t.Errorf("unknown level: %+v", body)
	}
}
