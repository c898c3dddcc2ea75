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
	"github.com/twmb/franz-go/pkg/kmsg"
)

var transferFor = flag.Duration("transfer.for", 6*time.Second, "how long the tests of transfers go on")

const transferPartitions = 3

// ledger remembers how transfers ended, as their tellers were told.
type ledger struct {
	mu        sync.Mutex
	committed map[string]bool
	aborted   map[string]bool
	made      int
}

func (l *ledger) note(into map[string]bool, transfers []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range transfers {
		into[id] = true
	}
}

// teller moves amounts between two topics, each transfer a debit and a credit in one transaction.
type teller struct {
	t      *testing.T
	addr   string
	topics [2]string
	name   string
	l      *ledger
	r      *rand.Rand
	c      *kgo.Client
	n      int
	zombie *abandoned // a predecessor that hasn't ended its transaction
}

// abandoned is a client that a new one with the same transactional id has replaced.
type abandoned struct {
	c         *kgo.Client
	transfers []string
	replaced  bool
}

func (w *teller) connect() {
	w.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(w.addr), kgo.TransactionalID(w.name), kgo.TransactionTimeout(700*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.MetadataMinAge(20*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	if err != nil {
		w.t.Error(err)
		return
	}
	w.c = c
}

// work makes transactions until told to stop.
func (w *teller) work(ctx context.Context) {
	w.connect()
	for ctx.Err() == nil {
		if !w.transaction(ctx) {
			w.c.Close()
			w.connect()
		}
	}
	w.c.Close()
	if w.zombie != nil {
		w.zombie.c.Close()
	}
}

// transaction makes one transaction with a few transfers. It says whether the client is still good.
func (w *teller) transaction(ctx context.Context) bool {
	// Not bounded by ctx: what is given up while in flight could happen all the same.
	limit, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := w.c.BeginTransaction(); err != nil {
		// The library has given its producer up: it does so when a connection ends before it has answered anything. What is
		// committed and what is read shows whether that was harmless.
		w.t.Logf("%s: begin: %v", w.name, err)
		return false
	}
	transfers, sound := w.transfer(limit)
	switch {
	case sound && w.zombie == nil && w.r.IntN(40) == 0:
		w.zombie = &abandoned{c: w.c, transfers: transfers}
		w.connect()
		return true
	case sound && ctx.Err() == nil && w.r.IntN(150) == 0: // too long for the coordinator's patience
		<-time.After(1200 * time.Millisecond)
	}
	commit := sound && w.r.IntN(4) > 0
	err := w.c.EndTransaction(limit, kgo.TransactionEndTry(commit))
	switch {
	case err == nil && commit:
		w.l.note(w.l.committed, transfers)
		w.wake()
	case err == nil, !commit:
		w.l.note(w.l.aborted, transfers)
	}
	return err == nil
}

// transfer sends the records of a few transfers.
func (w *teller) transfer(ctx context.Context) (transfers []string, sound bool) {
	var rs []*kgo.Record
	for range 1 + w.r.IntN(3) {
		id := fmt.Sprintf("%s:%d", w.name, w.n)
		w.n++
		transfers = append(transfers, id)
		amount := 1 + w.r.IntN(100)
		from := w.r.IntN(2)
		for i, sign := range []int{-1, 1} {
			rs = append(rs, &kgo.Record{
				Topic: w.topics[(from+i)%2], Partition: int32(w.r.IntN(transferPartitions)),
				Value: fmt.Appendf(nil, "%s:%d", id, sign*amount),
			})
		}
	}
	w.l.mu.Lock()
	w.l.made += len(transfers)
	w.l.mu.Unlock()
	return transfers, w.c.ProduceSync(ctx, rs...).FirstErr() == nil
}

// wake lets a replaced predecessor try to commit, once this client has committed something itself.
func (w *teller) wake() {
	z := w.zombie
	if z == nil {
		return
	}
	if !z.replaced { // the transaction that has just ended was the first
		z.replaced = true
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := z.c.EndTransaction(ctx, kgo.TryCommit); err == nil {
		w.t.Errorf("%s: a producer that has been replaced has committed %v", w.name, z.transfers)
	}
	w.l.note(w.l.aborted, z.transfers)
	z.c.Close()
	w.zombie = nil
}

// books is what a reader of committed records has seen.
type books struct {
	sums  map[string]int // by transfer
	parts map[string]int // records by transfer
	order map[string]int // last transfer by teller, topic and partition
	ends  map[topicPartition]bool
	sum   int
}

// topicPartition is a partition of a topic.
type topicPartition struct {
	topic     string
	partition int32
}

const closing = "closing"

// read reads committed records until it has seen the closing record of each partition.
func (b *books) read(ctx context.Context, t *testing.T, c *kgo.Client) error {
	t.Helper()
	for len(b.ends) < 2*transferPartitions {
		fs := c.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, e := range fs.Errors() {
			if !errors.Is(e.Err, context.Canceled) {
				t.Logf("fetch %s-%d: %v", e.Topic, e.Partition, e.Err)
			}
		}
		fs.EachRecord(func(r *kgo.Record) { b.enter(t, r) })
	}
	return nil
}

func (b *books) enter(t *testing.T, r *kgo.Record) {
	t.Helper()
	if string(r.Value) == closing {
		b.ends[topicPartition{r.Topic, r.Partition}] = true
		return
	}
	parts := strings.Split(string(r.Value), ":")
	if len(parts) != 3 {
		t.Errorf("record %q", r.Value)
		return
	}
	id := parts[0] + ":" + parts[1]
	n, _ := strconv.Atoi(parts[1])
	amount, _ := strconv.Atoi(parts[2])
	b.sums[id] += amount
	b.parts[id]++
	b.sum += amount
	at := fmt.Sprint(parts[0], r.Topic, r.Partition)
	if last, seen := b.order[at]; seen && n < last {
		t.Errorf("transfer %s comes after %d in %s-%d", id, last, r.Topic, r.Partition)
	}
	b.order[at] = n
}

func newBooks() *books {
	return &books{sums: map[string]int{}, parts: map[string]int{}, order: map[string]int{}, ends: map[topicPartition]bool{}}
}

// check compares what was read with what the tellers were told.
func (b *books) check(t *testing.T, l *ledger) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.sum != 0 {
		t.Errorf("the sum is %d", b.sum)
	}
	for id, n := range b.parts {
		switch {
		case n != 2 || b.sums[id] != 0:
			t.Errorf("transfer %s: %d records with sum %d", id, n, b.sums[id])
		case l.aborted[id]:
			t.Errorf("transfer %s was aborted and is read", id)
		}
	}
	for id := range l.committed {
		if b.parts[id] == 0 {
			t.Errorf("transfer %s was committed and is lost", id)
		}
	}
}

// Tellers move amounts between two topics while the broker is killed again and again, tellers are replaced in the midst of
// a transaction and come back, and transactions are left to time out. Readers of committed records see each transfer whole
// or not at all, none twice, none that was aborted, and each teller's in order.
func TestTransfersAreWholeThroughSIGKILL(t *testing.T) {
	for _, mode := range []string{"every-write", "none"} {
		for _, version := range []int16{2, 1} {
			t.Run(fmt.Sprintf("%s-v%d", mode, version), func(t *testing.T) {
				transferRounds(t, mode, version, *transferFor/4)
			})
		}
	}
}

func transferRounds(t *testing.T, mode string, version int16, length time.Duration) {
	t.Helper()
	p := startProcess(t, "--sync", mode, "--set", "transaction.abort.timed.out.transaction.cleanup.interval.ms=200")
	topics := [2]string{name(t, "a"), name(t, "b")}
	admin := kadm.NewClient(client(t, p.addr))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if _, err := admin.CreateTopics(ctx, transferPartitions, 1, nil, topics[:]...); err != nil {
		t.Fatal(err)
	}
	setTransactionVersion(ctx, t, p.addr, version)
	l := &ledger{committed: map[string]bool{}, aborted: map[string]bool{}}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var tellers, readers sync.WaitGroup
	for i := range 4 {
		w := &teller{t: t, addr: p.addr, topics: topics, name: fmt.Sprint("teller", i), l: l, r: rand.New(rand.NewPCG(uint64(i), 7))}
		tellers.Go(func() { w.work(working) })
	}
	during := newBooks()
	reader := committedReader(t, p.addr, topics)
	readers.Go(func() {
		if err := during.read(ctx, t, reader); err != nil {
			t.Errorf("the reader that came along: %v", err)
		}
	})
	rng := rand.New(rand.NewPCG(1, uint64(len(mode))))
	kills := 0
	for end := time.Now().Add(length); time.Now().Before(end); kills++ {
		<-time.After(time.Duration(150+rng.IntN(600)) * time.Millisecond)
		p.kill()
		p.start()
	}
	stop()
	tellers.Wait()
	p.kill()
	p.start()
	closeBooks(ctx, t, p.addr, topics)
	after := newBooks()
	if err := after.read(ctx, t, committedReader(t, p.addr, topics)); err != nil {
		t.Fatalf("read back: %v; a transaction is hanging:\n%s", err, p.text())
	}
	readers.Wait()
	after.check(t, l)
	during.check(t, l)
	t.Logf("%d kills; of %d transfers %d committed, %d aborted, the others not known to their tellers; %d read",
		kills, l.made, len(l.committed), len(l.aborted), len(after.parts))
	if len(l.committed) < 20 {
		t.Error("too few transfers: the test shows nothing")
	}
}

// setTransactionVersion sets the version that clients go by.
func setTransactionVersion(ctx context.Context, t *testing.T, addr string, version int16) {
	t.Helper()
	if version == 2 {
		return // the default
	}
	req := featureChange("transaction.version", version)
	resp, err := req.RequestWith(ctx, client(t, addr))
	if err != nil || resp.ErrorCode != 0 {
		t.Fatalf("set transaction.version: %v, %+v", err, resp)
	}
}

func committedReader(t *testing.T, addr string, topics [2]string) *kgo.Client {
	t.Helper()
	return client(t, addr, kgo.ConsumeTopics(topics[:]...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
}

// closeBooks puts a record at the end of each partition.
func closeBooks(ctx context.Context, t *testing.T, addr string, topics [2]string) {
	t.Helper()
	c := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var rs []*kgo.Record
	for _, topic := range topics {
		for i := range int32(transferPartitions) {
			rs = append(rs, &kgo.Record{Topic: topic, Partition: i, Value: []byte(closing)})
		}
	}
	if err := c.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// Movers read numbers from one topic and write them to another, with the offsets in the transaction, while the broker is
// killed again and again. Each number arrives exactly once.
func TestEachRecordIsMovedOnceThroughSIGKILL(t *testing.T) {
	p := startProcess(t, "--set", "transaction.abort.timed.out.transaction.cleanup.interval.ms=200", "--set", "group.initial.rebalance.delay.ms=0")
	topics := [2]string{name(t, "in"), name(t, "out")}
	admin := kadm.NewClient(client(t, p.addr))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if _, err := admin.CreateTopics(ctx, transferPartitions, 1, nil, topics[:]...); err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var movers, writer sync.WaitGroup
	numbers := 0
	writer.Go(func() { numbers = writeNumbers(working, t, p.addr, topics[0]) })
	moving, halt := context.WithCancel(ctx)
	defer halt()
	group := name(t, "g")
	for i := range 2 {
		movers.Go(func() { move(moving, t, p.addr, topics, group, fmt.Sprint(group, i)) })
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for end := time.Now().Add(*transferFor / 2); time.Now().Before(end); {
		<-time.After(time.Duration(300+rng.IntN(700)) * time.Millisecond)
		p.kill()
		p.start()
	}
	stop()
	writer.Wait()
	c := client(t, p.addr, kgo.ConsumeTopics(topics[1]), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
	seen := map[string]int{}
	readUntil := func(all func() bool) {
		t.Helper()
		for !all() {
			fs := c.PollFetches(ctx)
			if ctx.Err() != nil {
				t.Fatalf("%d of %d numbers have arrived\n%s", len(seen), numbers, p.text())
			}
			fs.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
		}
	}
	readUntil(func() bool { return len(seen) >= numbers })
	halt()
	movers.Wait()
	closeBooks(ctx, t, p.addr, topics)
	readUntil(func() bool { return seen[closing] == transferPartitions }) // what has arrived twice is before that
	delete(seen, closing)
	for value, n := range seen {
		if n != 1 {
			t.Errorf("number %s has arrived %d times", value, n)
		}
	}
	if len(seen) != numbers || numbers < 100 {
		t.Errorf("%d numbers have arrived of %d, of which there should be hundreds", len(seen), numbers)
	}
	t.Logf("%d numbers", numbers)
}

// writeNumbers writes numbers until told to stop and says how many.
func writeNumbers(ctx context.Context, t *testing.T, addr, topic string) int {
	t.Helper()
	c := client(t, addr, kgo.DefaultProduceTopic(topic))
	n := 0
	for ; ctx.Err() == nil; n += 10 {
		var rs []*kgo.Record
		for i := range 10 {
			rs = append(rs, kgo.StringRecord(strconv.Itoa(n+i)))
		}
		if err := c.ProduceSync(context.Background(), rs...).FirstErr(); err != nil {
			t.Errorf("write numbers: %v", err)
		}
		<-time.After(2 * time.Millisecond)
	}
	return n
}

// move moves records until told to stop.
func move(ctx context.Context, t *testing.T, addr string, topics [2]string, group, id string) {
	t.Helper()
	for ctx.Err() == nil {
		s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(addr), kgo.TransactionalID(id), kgo.ConsumerGroup(group),
			kgo.ConsumeTopics(topics[0]), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DefaultProduceTopic(topics[1]), kgo.TransactionTimeout(3*time.Second),
			kgo.FetchMaxWait(200*time.Millisecond), kgo.MetadataMinAge(20*time.Millisecond),
			kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
		if err != nil {
			t.Error(err)
			return
		}
		for moveSome(ctx, s) {
		}
		s.Close()
	}
}

// moveSome makes one transaction. It says whether the session is still good.
func moveSome(ctx context.Context, s *kgo.GroupTransactSession) bool {
	fs := s.PollRecords(ctx, 100)
	if ctx.Err() != nil {
		return false
	}
	if fs.NumRecords() == 0 {
		return true
	}
	if err := s.Begin(); err != nil {
		return false
	}
	limit, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	e := kgo.AbortingFirstErrPromise(s.Client())
	fs.EachRecord(func(r *kgo.Record) { s.Produce(limit, kgo.SliceRecord(r.Value), e.Promise()) })
	_, err := s.End(limit, kgo.TransactionEndTry(e.Err() == nil))
	return err == nil
}

func featureChange(feature string, level int16) *kmsg.UpdateFeaturesRequest {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = feature, level, 2
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	return req
}
