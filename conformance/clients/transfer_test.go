package clients

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// tellerVariable is the number of a teller and that of its process, as in "1.4".
const tellerVariable = "TURMOIL_TELLER"

const (
	transferTellers    = 3
	transferPartitions = 3
	transferClosing    = "closing"
	// frozenWithin counts replaced processes that had yet to ask for the end of a transaction.
	frozenWithin = "replace within a transaction"
)

var transferTopics = [2]string{"left", "right"}

func tellerOptions(addr, teller string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(addr), kgo.TransactionalID("teller-" + teller), kgo.TransactionTimeout(10 * time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.RequestRetries(400),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	}
}

// playTeller makes transfers while it is to work. It never asks for a second producer id: a client that has failed is the end of
// the process, and one that has been replaced doesn't come back.
func playTeller(working context.Context) error {
	name := os.Getenv(tellerVariable)
	teller, _, _ := strings.Cut(name, ".")
	c, err := kgo.NewClient(tellerOptions(os.Getenv("TURMOIL_ADDR"), teller)...)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, _, err = c.ProducerID(ctx); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	tell("ready", name)
	for n := 0; working.Err() == nil; n++ {
		if err := transfer(c, fmt.Sprintf("%s.%d", name, n)); err != nil {
			return err
		}
	}
	return nil
}

// transfer makes one transfer, a debit in one topic and a credit in the other, and says how it went as soon as that is known.
func transfer(c *kgo.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit/2)
	defer cancel()
	if err := c.BeginTransaction(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	amount, from := 1+rand.IntN(100), rand.IntN(2)
	var records []*kgo.Record
	for i, sign := range []int{-1, 1} {
		records = append(records, &kgo.Record{
			Topic: transferTopics[(from+i)%2], Partition: rand.Int32N(transferPartitions),
			Value: fmt.Appendf(nil, "%s %d", id, sign*amount),
		})
	}
	tell("made", id)
	if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	tell("sent", id)
	pause(time.Duration(rand.IntN(60)) * time.Millisecond) // what freezes or dies here hasn't asked for the end
	ending, ended := "committing", "committed"
	commit := rand.IntN(4) > 0
	if !commit {
		ending, ended = "aborting", "aborted"
	}
	tell(ending, id)
	if err := c.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		return fmt.Errorf("%s: %w", ending, err)
	}
	tell(ended, id)
	return nil
}

// lastKind is the kind of the last line of before a time.
func (c *child) lastKind(before time.Time) (kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range slices.Backward(c.lines) {
		if n, err := parseNote(line); err == nil && n.at < before.UnixNano() {
			return n.kind
		}
	}
	return ""
}

// desk is the place of one teller: its processes follow one another and share a transactional id.
type desk struct {
	number int
	now    *child
	all    []*child // in the order in which they were started
}

// bank is a few desks whose tellers, and whose broker, are killed, frozen and replaced.
type bank struct {
	*turmoil
	desks []*desk
}

func newBank(t *testing.T, rng *rand.Rand) *bank {
	t.Helper()
	b := &bank{turmoil: newTurmoil(t, rng)}
	for _, topic := range transferTopics {
		makeTopicAt(t, b.addr, topic, transferPartitions)
	}
	t.Cleanup(func() {
		for _, d := range b.desks {
			for _, c := range d.all {
				c.kill()
			}
		}
	})
	for i := range transferTellers {
		d := &desk{number: i}
		b.desks = append(b.desks, d)
		b.open(d)
	}
	return b
}

// open starts a process at a desk.
func (b *bank) open(d *desk) {
	b.t.Helper()
	name := fmt.Sprintf("%d.%d", d.number, len(d.all))
	d.now = spawn(b.t, name, "teller", tellerVariable+"="+name, "TURMOIL_ADDR="+b.addr)
	d.all = append(d.all, d.now)
}

// ready waits until the desk's process has its producer id; one that has failed is followed by another.
func (b *bank) ready(d *desk) {
	b.t.Helper()
	for deadline := time.Now().Add(2 * limit); d.now.over() || !d.now.await(time.Until(deadline), d.now.ready); {
		if time.Now().After(deadline) {
			b.t.Fatalf("desk %d doesn't open:\n%s", d.number, d.now.complaints())
		}
		b.open(d)
	}
}

func (b *bank) pause(atMost time.Duration) { pause(time.Duration(b.rng.Int64N(int64(atMost)))) }

func (b *bank) befallDesk(d *desk, what string) {
	b.t.Helper()
	switch what {
	case "kill":
		d.now.kill()
		b.open(d)
	case "freeze":
		d.now.signal(syscall.SIGSTOP)
		b.pause(time.Second)
		d.now.signal(syscall.SIGCONT)
	case "replace":
		b.replace(d)
	}
	b.happened[what]++
}

// replace freezes a process, preferably one that is about to end a transaction, starts another in its place and lets the first go
// on once the other has its producer id. The first must find out that it has been replaced and end.
func (b *bank) replace(d *desk) {
	b.t.Helper()
	b.ready(d)
	zombie := d.now
	zombie.await(time.Second, func() bool { return zombie.lastKind(time.Now()) == "sent" })
	zombie.signal(syscall.SIGSTOP)
	if b.rng.IntN(3) == 0 {
		b.happen("restart the broker")
	}
	b.open(d)
	b.ready(d)
	if b.rng.IntN(3) == 0 {
		b.happen("restart the broker")
	}
	b.pause(500 * time.Millisecond)
	thawed := time.Now()
	zombie.signal(syscall.SIGCONT)
	select {
	case <-zombie.said:
	case <-time.After(limit):
		b.t.Errorf("teller %s was replaced and doesn't find out", zombie.name)
	}
	zombie.kill()
	if zombie.lastKind(thawed) == "sent" {
		b.happened[frozenWithin]++
	}
}

// trade lets things happen for a while; each kind as often as it stands in the list, in random order, and the list at least once.
func (b *bank) trade(d time.Duration) {
	b.t.Helper()
	kinds := []string{"kill", "kill", "freeze", "replace", "replace", "restart the broker"}
	for end, first := time.Now().Add(d), true; first || time.Now().Before(end); first = false {
		for _, i := range b.rng.Perm(len(kinds)) {
			if !first && time.Now().After(end) {
				return
			}
			b.pause(800 * time.Millisecond)
			for _, d := range b.desks {
				if d.now.over() {
					b.open(d)
				}
			}
			if kinds[i] == "restart the broker" {
				b.happen(kinds[i])
			} else {
				b.befallDesk(b.desks[b.rng.IntN(len(b.desks))], kinds[i])
			}
		}
	}
}

// shut lets all tellers end and puts a last record into each partition, behind all transactions.
func (b *bank) shut(ctx context.Context) {
	b.t.Helper()
	for _, d := range b.desks {
		b.ready(d)
		d.now.leave()
		c, err := kgo.NewClient(tellerOptions(b.addr, fmt.Sprint(d.number))...)
		if err != nil {
			b.t.Fatal(err)
		}
		_, _, err = c.ProducerID(ctx) // aborts what was left open
		c.Close()
		if err != nil {
			b.t.Fatalf("take over from teller %d: %v", d.number, err)
		}
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	var last []*kgo.Record
	for _, topic := range transferTopics {
		for p := range int32(transferPartitions) {
			last = append(last, &kgo.Record{Topic: topic, Partition: p, Value: []byte(transferClosing)})
		}
	}
	if err := c.ProduceSync(ctx, last...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// explain logs why processes ended.
func (b *bank) explain() {
	b.t.Helper()
	for _, d := range b.desks {
		for _, c := range d.all {
			b.t.Logf("teller %s: %.500s", c.name, c.complaints())
		}
	}
	b.t.Logf("broker: %.4000s", b.broker.complaints())
}

// note is one line of a teller.
type note struct {
	at       int64 // ns since 1970, the same clock in all processes
	kind, id string
}

func parseNote(line string) (note, error) {
	var n note
	_, err := fmt.Sscanf(line, "%d %s %s", &n.at, &n.kind, &n.id)
	return n, err
}

// ledger is what the tellers say about their transfers.
type ledger struct {
	made      int
	asked     map[string]bool // to be committed, by a teller that hadn't been replaced: no other transfer may be read
	committed map[string]bool
	aborted   map[string]bool
	refused   int // ends that were asked for by replaced tellers
}

// audit collects what a desk's tellers say. It fails if one could send records or end a transaction after the next had its
// producer id.
func (l *ledger) audit(t *testing.T, d *desk) {
	t.Helper()
	next := int64(1<<63 - 1)
	for _, c := range slices.Backward(d.all) {
		ready := next
		var made, ending int64
		for _, line := range c.lines {
			n, err := parseNote(line)
			if err != nil {
				t.Fatalf("teller %s says %q: %v", c.name, line, err)
			}
			switch n.kind {
			case "ready":
				ready = n.at
			case "made":
				l.made++
				made = n.at
			case "sent":
				if made > next {
					t.Errorf("a replaced teller could send %s", n.id)
				}
			case "committing", "aborting":
				ending = n.at
				if ending > next {
					l.refused++
				} else if n.kind == "committing" {
					l.asked[n.id] = true
				}
			case "committed", "aborted":
				if ending > next {
					t.Errorf("%s was %s %v after its teller was replaced", n.id, n.kind, time.Duration(ending-next))
				}
				map[string]map[string]bool{"committed": l.committed, "aborted": l.aborted}[n.kind][n.id] = true
			default:
				t.Errorf("teller %s says %q", c.name, line)
			}
		}
		next = min(next, ready)
	}
}

// books is what a reader of committed records has seen.
type books struct {
	amounts map[string][]int
	order   map[string][2]int // by teller and partition the last transfer: number of the process, number in it
	closed  map[string]bool
}

func (b *books) enter(t *testing.T, r *kgo.Record) {
	t.Helper()
	at := fmt.Sprintf("%s-%d", r.Topic, r.Partition)
	if string(r.Value) == transferClosing {
		b.closed[at] = true
		return
	}
	var teller, amount int
	var nth [2]int
	if _, err := fmt.Sscanf(string(r.Value), "%d.%d.%d %d", &teller, &nth[0], &nth[1], &amount); err != nil {
		t.Fatalf("record %q: %v", r.Value, err)
	}
	id, _, _ := strings.Cut(string(r.Value), " ")
	b.amounts[id] = append(b.amounts[id], amount)
	key := fmt.Sprintf("%d in %s", teller, at)
	if last, ok := b.order[key]; ok && slices.Compare(nth[:], last[:]) < 0 {
		t.Errorf("transfer %v comes after %v of teller %s", nth, last, key)
	}
	b.order[key] = nth
}

func readBooks(ctx context.Context, t *testing.T, addr string) *books {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(transferTopics[:]...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := &books{amounts: map[string][]int{}, order: map[string][2]int{}, closed: map[string]bool{}}
	for len(b.closed) < len(transferTopics)*transferPartitions {
		fs := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the end of only %v can be read: a transaction is hanging", b.closed)
		}
		for _, e := range fs.Errors() {
			if !errors.Is(e.Err, context.Canceled) {
				t.Logf("fetch %s-%d: %v", e.Topic, e.Partition, e.Err)
			}
		}
		fs.EachRecord(func(r *kgo.Record) { b.enter(t, r) })
	}
	return b
}

// check compares what was read with what the tellers say.
func (b *books) check(t *testing.T, l *ledger) {
	t.Helper()
	for id, amounts := range b.amounts {
		if len(amounts) != 2 || amounts[0]+amounts[1] != 0 {
			t.Errorf("of transfer %s the amounts %v are read", id, amounts)
		}
		if !l.asked[id] {
			t.Errorf("transfer %s is read, but its teller hasn't asked for it to be committed or had been replaced", id)
		}
		if l.aborted[id] {
			t.Errorf("transfer %s was aborted and is read", id)
		}
	}
	for id := range l.committed {
		if b.amounts[id] == nil {
			t.Errorf("transfer %s was committed and is lost", id)
		}
	}
}

// Tellers in processes of their own move amounts between two topics. They are killed, frozen and replaced, and replaced ones go on
// where they were; the broker is killed and comes back. Each transfer is whole or not there at all, as its teller was told, and a
// replaced teller can end no transaction.
func TestTransfersAreWholeWhileTellersAndBrokerComeAndGo(t *testing.T) {
	b := newBank(t, chance(t, 1))
	b.trade(*rebalanceFor)
	l := &ledger{asked: map[string]bool{}, committed: map[string]bool{}, aborted: map[string]bool{}}
	for tries := 0; b.happened[frozenWithin] == 0 && tries < 10; tries++ {
		b.replace(b.desks[0])
	}
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	b.shut(ctx)
	for _, d := range b.desks {
		l.audit(t, d)
	}
	read := readBooks(ctx, t, b.addr)
	read.check(t, l)
	t.Logf("of %d transfers %d committed, %d aborted, the others unknown to their tellers; %d read; %d ends refused to replaced tellers; %v",
		l.made, len(l.committed), len(l.aborted), len(read.amounts), l.refused, b.happened)
	if l.refused == 0 || len(l.committed) < 10 {
		t.Error("too little has happened: the test shows nothing")
	}
	if t.Failed() {
		b.explain()
	}
}
