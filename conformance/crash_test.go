package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var crashFor = flag.Duration("crash.for", 6*time.Second, "how long TestNothingAcknowledgedIsLostToSIGKILL goes on")

// place is where a record was acknowledged to be.
type place struct {
	partition int32
	offset    int64
}

// oracle remembers what the broker has acknowledged.
type oracle struct {
	mu        sync.Mutex
	acked     map[string]place // by value
	committed map[string]int64 // last acknowledged commit, by group
	attempted map[string]int64 // last commit sent, by group
}

// Sixteen idempotent producers and four groups work while the broker is killed again and again. In the end each
// acknowledged record is where it was said to be, none is there twice, each producer's are in order, and no commit has gone
// back.
func TestNothingAcknowledgedIsLostToSIGKILL(t *testing.T) {
	for _, mode := range []string{"every-write", "interval", "none"} {
		t.Run(mode, func(t *testing.T) { crashRounds(t, mode, *crashFor/3) })
	}
}

func crashRounds(t *testing.T, mode string, length time.Duration) {
	t.Helper()
	const partitions, writers, groups = 4, 16, 4
	p := startProcess(t, "--sync", mode)
	topic := name(t, "t")
	admin := kadm.NewClient(client(t, p.addr))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if _, err := admin.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	o := newOracle()
	stop := o.load(ctx, t, p.addr, topic, writers, groups)
	rng := rand.New(rand.NewPCG(1, uint64(len(mode))))
	rounds := 0
	for end := time.Now().Add(length); time.Now().Before(end); rounds++ {
		<-time.After(time.Duration(100+rng.IntN(500)) * time.Millisecond)
		p.kill()
		p.start()
	}
	stop()
	p.kill()
	p.start()
	o.check(ctx, t, p.addr, topic, partitions)
	t.Logf("%s: %d kills, %d records acknowledged", mode, rounds, len(o.acked))
	if len(o.acked) < 100 {
		t.Fatalf("only %d records were acknowledged: the test shows nothing", len(o.acked))
	}
}

func newOracle() *oracle {
	return &oracle{acked: map[string]place{}, committed: map[string]int64{}, attempted: map[string]int64{}}
}

// load has so many producers write and groups commit until stop, which waits for them.
func (o *oracle) load(ctx context.Context, t *testing.T, addr, topic string, writers, groups int) (stop func()) {
	t.Helper()
	working, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() { o.write(working, t, addr, topic, w) })
	}
	for g := range groups {
		wg.Go(func() { o.commit(working, t, addr, topic, fmt.Sprint("g", g)) })
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// write produces numbered values until told to stop, a few at a time.
func (o *oracle) write(ctx context.Context, t *testing.T, addr, topic string, writer int) {
	t.Helper()
	c := client(t, addr, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	partition := int32(writer % 4)
	for n := 0; ctx.Err() == nil; n += 5 {
		var rs []*kgo.Record
		for i := range 5 {
			rs = append(rs, &kgo.Record{Partition: partition, Value: fmt.Appendf(nil, "%d:%d", writer, n+i)})
		}
		// Not bounded by ctx: a record given up while in flight could be written all the same.
		results := c.ProduceSync(context.Background(), rs...)
		o.mu.Lock()
		for _, r := range results {
			var unanswered *kgo.ErrFirstReadEOF // the library gives up on a connection that never answered anything
			if errors.As(r.Err, &unanswered) {
				continue
			}
			if r.Err != nil {
				t.Errorf("writer %d: %v", writer, r.Err)
				continue
			}
			o.acked[string(r.Record.Value)] = place{r.Record.Partition, r.Record.Offset}
		}
		o.mu.Unlock()
	}
}

// commit commits growing offsets until told to stop.
func (o *oracle) commit(ctx context.Context, t *testing.T, addr, topic, group string) {
	t.Helper()
	admin := kadm.NewClient(client(t, addr))
	for n := int64(1); ctx.Err() == nil; n++ {
		o.mu.Lock()
		o.attempted[group] = n
		o.mu.Unlock()
		var offsets kadm.Offsets
		offsets.AddOffset(topic, 0, n, -1)
		resp, err := admin.CommitOffsets(ctx, group, offsets)
		if err == nil {
			err = resp.Error()
		}
		if err == nil {
			o.mu.Lock()
			o.committed[group] = n
			o.mu.Unlock()
		}
	}
}

// check reads everything back.
func (o *oracle) check(ctx context.Context, t *testing.T, addr, topic string, partitions int) {
	t.Helper()
	seen := o.readAll(ctx, t, addr, topic, partitions)
	for value, at := range o.acked {
		if got, ok := seen[value]; !ok {
			t.Errorf("record %s, acknowledged at %+v, is lost", value, at)
		} else if got != at {
			t.Errorf("record %s, acknowledged at %+v, is at %+v", value, at, got)
		}
	}
	admin := kadm.NewClient(client(t, addr))
	for group, want := range o.committed {
		resp, err := admin.FetchOffsets(ctx, group)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := resp.Lookup(topic, 0)
		if got.At < want || got.At > o.attempted[group] {
			t.Errorf("group %s: offset %d, last acknowledged %d, last sent %d", group, got.At, want, o.attempted[group])
		}
	}
}

// readAll returns where each value is, and fails on one that is there twice or behind a later one of its writer.
func (o *oracle) readAll(ctx context.Context, t *testing.T, addr, topic string, partitions int) map[string]place {
	t.Helper()
	admin := kadm.NewClient(client(t, addr))
	ends, err := admin.ListEndOffsets(ctx, topic)
	for err != nil || ends.Error() != nil { // a partition that is still being recovered says so
		if ctx.Err() != nil {
			t.Fatalf("end offsets: %v, %v", err, ends.Error())
		}
		ends, err = admin.ListEndOffsets(ctx, topic)
	}
	left := 0
	ends.Each(func(e kadm.ListedOffset) { left += int(e.Offset) })
	c := client(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen, last := map[string]place{}, map[string]int{}
	for left > 0 {
		fs := c.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("read back: %v, %d left of %d partitions", err, left, partitions)
		}
		fs.EachRecord(func(r *kgo.Record) {
			left--
			value := string(r.Value)
			if at, twice := seen[value]; twice {
				t.Errorf("record %s is there twice: at %+v and %d", value, at, r.Offset)
			}
			seen[value] = place{r.Partition, r.Offset}
			writer, number, _ := strings.Cut(value, ":")
			n, err := strconv.Atoi(number)
			if err != nil || n < last[writer] {
				t.Errorf("record %s comes after %d of its writer", value, last[writer])
			}
			last[writer] = n
		})
	}
	return seen
}
