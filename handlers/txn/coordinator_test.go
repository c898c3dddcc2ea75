package txn

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
)

func TestTransactionOfEachVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []int16{0, 2} {
		b := newBench(t)
		p := b.init("t")
		if p != (Producer{1, 0}) {
			t.Fatalf("producer %+v", p)
		}
		b.add("t", p, part("a", 1), part("a", 0), part(OffsetsTopic, 3))
		if s := b.stored("t"); s.Status != Ongoing || s.StartMs != benchStart.UnixMilli() || len(s.Partitions) != 3 {
			t.Errorf("stored %+v", s)
		}
		after := b.end("t", p, true, version)
		want := Producer{1, version / 2}
		if after != want {
			t.Errorf("version %d: %+v, want %+v", version, after, want)
		}
		if s := b.stored("t"); s.Status != PrepareCommit {
			t.Errorf("decided, yet stored %+v", s)
		}
		b.work()
		marker := Marker{ProducerID: 1, Epoch: want.Epoch, Commit: true, Version: version}
		for number := range int32(2) {
			if got := b.logs.of(part("a", number)); !reflect.DeepEqual(got, []Marker{marker}) {
				t.Errorf("version %d, partition %d: %+v, want %+v", version, number, got, marker)
			}
		}
		if got := b.offsets.ended[1]; !reflect.DeepEqual(got, []bool{true}) {
			t.Errorf("offsets ended as %v", got)
		}
		if s := b.state("t"); s.Status != CompleteCommit || len(s.Partitions) != 0 || s.Epoch != want.Epoch {
			t.Errorf("%+v", s)
		}
		b.clock.Advance(settleAfter)
		if s := b.stored("t"); s.Status != CompleteCommit {
			t.Errorf("settled as %+v", s)
		}
	}
}

func TestTransactionWithoutOffsetsIsCompleteAtOnceWhereMarkersAre(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.init("t")
	for range 3 {
		b.add("t", p, part("a", 0))
		p = b.end("t", p, true, 2)
		if s := b.state("t"); s.Status != CompleteCommit {
			t.Fatalf("%+v", s)
		}
	}
	if len(b.tasks) != 0 {
		t.Errorf("%d tasks left", len(b.tasks))
	}
	if b.store.commits != 1+3*2 { // init; add and decide
		t.Errorf("%d commits", b.store.commits)
	}
	b.clock.Advance(settleAfter)
	if b.store.commits != 8 || b.stored("t").Status != CompleteCommit {
		t.Errorf("%d commits, stored %+v", b.store.commits, b.stored("t"))
	}
}

func TestDecidedTransactionsAreFinishedAfterARestart(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		b := newBench(t)
		b.logs.err = errFake
		p := b.init("t")
		b.add("t", p, part("a", 0), part(OffsetsTopic, 0))
		b.end("t", p, commit, 0)
		b.restart() // the work of the one before is never done
		b.logs.err = nil
		if s := b.state("t"); !s.Status.prepared() {
			t.Fatalf("%+v", s)
		}
		b.work()
		if s := b.state("t"); !s.Status.completed() || (s.Status == CompleteCommit) != commit {
			t.Errorf("%+v", s)
		}
		if got := b.logs.of(part("a", 0)); len(got) != 1 || got[0].Commit != commit {
			t.Errorf("markers %+v", got)
		}
		b.Coordinator.Close()
		if s := b.stored("t"); !s.Status.completed() {
			t.Errorf("closed as %+v", s)
		}
	}
}

func TestMarkersWaitForWhatWasVouchedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.init("t")
	q := VerifyRequest{AddRequest: AddRequest{TransactionalID: "t", Producer: p, Partitions: []Partition{{"a", 0}}, Version: 2}, Add: true}
	codes, release := b.Verify(q)
	if codes[0] != protocol.None {
		t.Fatal(codes)
	}
	after := b.end("t", p, true, 2)
	finished := make(chan struct{})
	go func() {
		b.work()
		close(finished)
	}()
	q.Producer = after
	if codes, again := b.Verify(q); codes[0] != protocol.ConcurrentTransactions {
		t.Errorf("vouched for while the last transaction ends: %v", codes)
	} else {
		again()
	}
	if got := b.logs.of(part("a", 0)); len(got) != 0 {
		t.Errorf("a marker before the batch: %+v", got)
	}
	release()
	<-finished
	if got := b.logs.of(part("a", 0)); len(got) != 1 {
		t.Errorf("markers %+v", got)
	}
	if codes, again := b.Verify(q); codes[0] != protocol.None {
		t.Errorf("the next transaction: %v", codes)
	} else {
		again()
	}
}

func TestVerifyWithoutAdding(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.init("t")
	q := VerifyRequest{AddRequest: AddRequest{TransactionalID: "t", Producer: p, Partitions: []Partition{{"a", 0}, {"a", 1}}}}
	verify := func(q VerifyRequest) []protocol.ErrorCode {
		codes, release := b.Verify(q)
		release()
		return codes
	}
	all := func(c protocol.ErrorCode) []protocol.ErrorCode { return []protocol.ErrorCode{c, c} }
	if got := verify(q); !reflect.DeepEqual(got, all(protocol.TransactionAbortable)) {
		t.Errorf("nothing added: %v", got)
	}
	b.add("t", p, part("a", 1))
	if got := verify(q); !reflect.DeepEqual(got, []protocol.ErrorCode{protocol.TransactionAbortable, protocol.None}) {
		t.Errorf("one added: %v", got)
	}
	none := q
	none.TransactionalID = ""
	if got := verify(none); !reflect.DeepEqual(got, all(protocol.InvalidRequest)) {
		t.Errorf("an empty id: %v", got)
	}
	for want, change := range map[protocol.ErrorCode]func(*VerifyRequest){
		protocol.InvalidProducerIDMapping: func(q *VerifyRequest) { q.Producer.ID++ },
		protocol.ProducerFenced:           func(q *VerifyRequest) { q.Producer.Epoch++ },
	} {
		bad := q
		change(&bad)
		if got := verify(bad); !reflect.DeepEqual(got, all(want)) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	b.work()
	b.end("t", p, true, 0)
	if got := verify(q); !reflect.DeepEqual(got, all(protocol.TransactionAbortable)) {
		t.Errorf("ended: %v", got)
	}
}

func TestTimedOutTransactionsAreAbortedAndFenced(t *testing.T) {
	t.Parallel()
	for _, version := range []int16{0, 1, 2} {
		b := newBench(t)
		b.version = version
		p := b.init("t") // 60 s
		b.add("t", p, part("a", 0))
		idle := b.init("idle")
		b.clock.Advance(60 * time.Second)
		if s := b.state("t"); s.Status != Ongoing {
			t.Fatalf("too early: %+v", s)
		}
		b.clock.Advance(10 * time.Second)
		b.work()
		if s := b.state("t"); s.Status != CompleteAbort || s.Epoch != 1 {
			t.Errorf("version %d: %+v", version, s)
		}
		if got := b.logs.of(part("a", 0)); len(got) != 1 || got[0].Commit || got[0].Epoch != 1 {
			t.Errorf("version %d: markers %+v", version, got)
		}
		if _, code := b.End(EndRequest{TransactionalID: "t", Producer: p, Commit: true}); code != protocol.ProducerFenced {
			t.Errorf("version %d: the producer isn't fenced: %v", version, code)
		}
		if next := b.init("t"); next != (Producer{p.ID, 2}) {
			t.Errorf("version %d: next %+v", version, next)
		}
		if got := b.state("idle"); got.Epoch != idle.Epoch || got.Status != Empty {
			t.Errorf("idle: %+v", got)
		}
	}
}

// TestTheClustersVersionIsThatOfItsOwnAbortsOnly has the codes and epochs that Kafka 4.4 answers at each level of
// transaction.version, set while it runs.
func TestTheClustersVersionIsThatOfItsOwnAbortsOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, level := range []int16{2, 1, 0, 2} {
		b.version = level
		id, a := fmt.Sprint("t", b.ids.next), part(fmt.Sprint("a", b.ids.next), 0)
		codes := func(what string, got, want protocol.ErrorCode) {
			if t.Helper(); got != want {
				t.Errorf("level %d, %s: %v, want %v", level, what, got, want)
			}
		}
		end := func(p Producer, commit bool, version int16) protocol.ErrorCode {
			_, code := b.End(EndRequest{TransactionalID: id, Producer: p, Commit: commit, Version: version})
			return code
		}
		again := InitRequest{TransactionalID: id, TimeoutMs: 60_000, ExpectedID: NoProducerID, ExpectedEpoch: NoEpoch}

		old := b.init(id) // a client of transactions v1
		b.add(id, old, a)
		codes("end", end(old, true, 0), protocol.None)
		codes("end again", end(old, true, 0), protocol.None)
		codes("end otherwise", end(old, false, 0), protocol.InvalidTxnState)
		b.add(id, old, a)
		_, code := b.InitProducerID(again)
		codes("init", code, protocol.ConcurrentTransactions)
		p := b.init(id)
		codes("fenced", end(old, true, 0), protocol.ProducerFenced)
		again.ExpectedID, again.ExpectedEpoch = old.ID, old.Epoch+1
		_, code = b.InitProducerID(again)
		codes("init with an epoch between", code, protocol.ProducerFenced)

		b.add(id, p, a) // one of v2, whatever the level
		after := b.end(id, p, true, 2)
		b.add(id, after, a)
		again.ExpectedID, again.ExpectedEpoch = NoProducerID, NoEpoch
		_, code = b.InitProducerID(again)
		codes("init", code, protocol.ConcurrentTransactions)
		last := b.init(id)
		codes("fenced", end(after, false, 2), protocol.ProducerFenced)

		if p != (Producer{old.ID, 2}) || after != (Producer{old.ID, 3}) || last != (Producer{old.ID, 5}) {
			t.Errorf("level %d: producers %v, %v, %v", level, p, after, last)
		}
		own := level / 2 * 2 // 1 is as 0
		if want := []Marker{
			{old.ID, 0, true, 0}, {old.ID, 1, false, own}, {old.ID, 3, true, 2}, {old.ID, 4, false, own},
		}; !slices.Equal(withVersionOf(b.logs.of(a)), want) {
			t.Errorf("level %d: markers %+v, want %+v", level, b.logs.of(a), want)
		}
	}
}

// withVersionOf makes the versions before 2 one, as they are for markers.
func withVersionOf(markers []Marker) []Marker {
	for i := range markers {
		markers[i].Version = markers[i].Version / 2 * 2
	}
	return markers
}

func TestInitProducerIDAbortsWhatIsOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.init("t")
	b.add("t", p, part("a", 0))
	r := InitRequest{TransactionalID: "t", TimeoutMs: 1, ExpectedID: NoProducerID, ExpectedEpoch: NoEpoch}
	if got, code := b.InitProducerID(r); code != protocol.ConcurrentTransactions || got != noProducer() {
		t.Errorf("%+v, %v", got, code)
	}
	b.work()
	if got := b.init("t"); got != (Producer{p.ID, 2}) {
		t.Errorf("%+v", got)
	}
	if got := b.logs.of(part("a", 0)); len(got) != 1 || got[0].Commit || got[0].Epoch != 1 {
		t.Errorf("markers %+v", got)
	}
}

func TestProducerIDsAreReplacedWhenEpochsAreUsedUp(t *testing.T) {
	t.Parallel()
	exhaust := func(b *bench, id string) Producer {
		e := b.find(id)
		e.state.Epoch = lastUsableEpoch
		e.mu.Unlock()
		return Producer{e.state.ProducerID, lastUsableEpoch}
	}
	t.Run("by init", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.init("t")
		exhaust(b, "t")
		if got := b.init("t"); got != (Producer{2, 0}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("by init with what is known", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.init("t")
		p := exhaust(b, "t")
		r := InitRequest{TransactionalID: "t", TimeoutMs: 1, ExpectedID: p.ID, ExpectedEpoch: p.Epoch}
		for range 2 { // the second is a repetition: the answer got lost
			if got, code := b.InitProducerID(r); code != protocol.None || got != (Producer{2, 0}) {
				t.Errorf("%+v, %v", got, code)
			}
		}
	})
	t.Run("by end", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.init("t")
		p := exhaust(b, "t")
		b.add("t", p, part("a", 0))
		for range 2 {
			if got := b.end("t", p, true, 2); got != (Producer{2, 0}) {
				t.Errorf("%+v", got)
			}
		}
		if got := b.logs.of(part("a", 0)); len(got) != 1 || got[0].Epoch != math.MaxInt16 || got[0].ProducerID != p.ID {
			t.Errorf("markers %+v", got)
		}
	})
	t.Run("by fencing", func(t *testing.T) {
		t.Parallel()
		for version, want := range map[int16]Producer{0: {2, 0}, 2: {2, 1}} {
			b := newBench(t)
			b.version = version
			b.init("t")
			p := exhaust(b, "t")
			b.add("t", p, part("a", 0))
			r := InitRequest{TransactionalID: "t", TimeoutMs: 1, ExpectedID: NoProducerID, ExpectedEpoch: NoEpoch}
			if _, code := b.InitProducerID(r); code != protocol.ConcurrentTransactions {
				t.Fatal(code)
			}
			if got := b.init("t"); got != want {
				t.Errorf("version %d: %+v, want %+v", version, got, want)
			}
			if got := b.logs.of(part("a", 0)); len(got) != 1 || got[0].Epoch != math.MaxInt16 {
				t.Errorf("version %d: markers %+v", version, got)
			}
		}
	})
}

func TestInitRequestsAreChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for timeout, want := range map[int32]protocol.ErrorCode{
		-1: protocol.InvalidTransactionTimeout, 0: protocol.InvalidTransactionTimeout,
		900_001: protocol.InvalidTransactionTimeout, 900_000: protocol.None, 1: protocol.None,
	} {
		r := InitRequest{TransactionalID: "t", TimeoutMs: timeout, ExpectedID: NoProducerID, ExpectedEpoch: NoEpoch}
		if _, code := b.InitProducerID(r); code != want {
			t.Errorf("timeout %d: %v", timeout, code)
		}
		r.TransactionalID = ""
		if _, code := b.InitProducerID(r); code != protocol.InvalidRequest {
			t.Errorf("no id: %v", code)
		}
	}
}

func TestFailedCommitsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{true, false} {
		b := newBench(t)
		fail := func() { b.store.fault = func() (bool, error) { return applied, errFake } }
		heal := func() { b.store.fault = nil }
		fail()
		r := InitRequest{TransactionalID: "t", TimeoutMs: 60_000, ExpectedID: NoProducerID, ExpectedEpoch: NoEpoch}
		if _, code := b.InitProducerID(r); code != protocol.CoordinatorNotAvailable {
			t.Fatal(code)
		}
		if _, code := b.Describe("t"); code != protocol.TransactionalIDNotFound {
			t.Errorf("an id that was never given: %v", code)
		}
		heal()
		p := b.init("t")
		b.add("t", p, part("a", 0))
		fail()
		if _, code := b.End(EndRequest{TransactionalID: "t", Producer: p, Commit: true}); code != protocol.CoordinatorNotAvailable {
			t.Fatal(code)
		}
		if got := b.logs.of(part("a", 0)); len(got) != 0 || b.state("t").Status != Ongoing {
			t.Errorf("decided though not stored: %+v, %+v", got, b.state("t"))
		}
		// The store may have the decision. Nobody is vouched for before it has been told better.
		q := VerifyRequest{AddRequest: AddRequest{TransactionalID: "t", Producer: p, Partitions: []Partition{{"a", 0}}}}
		if codes, release := b.Verify(q); codes[0] != protocol.CoordinatorNotAvailable {
			t.Errorf("vouched for: %v", codes)
		} else {
			release()
		}
		heal()
		if codes, release := b.Verify(q); codes[0] != protocol.None || b.stored("t").Status != Ongoing {
			t.Errorf("%v, stored %+v", codes, b.stored("t"))
		} else {
			release()
		}
		b.end("t", p, false, 0)
		if got := b.logs.of(part("a", 0)); len(got) != 1 || got[0].Commit {
			t.Errorf("markers %+v", got)
		}
	}
}

func TestMarkersAreTriedUntilTheyAreWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.init("t")
	b.logs.err, b.offsets.err = errFake, errFake
	b.add("t", p, part("a", 0), part("b", 0), part(OffsetsTopic, 0))
	b.logs.gone[part("b", 0)] = true
	b.end("t", p, true, 0)
	finished := make(chan struct{})
	go func() {
		b.work()
		close(finished)
	}()
	for n := 0; ; n++ {
		if n == 3 {
			b.logs.mu.Lock()
			b.logs.err, b.logs.held = nil, true
			b.logs.mu.Unlock()
		}
		if n == 6 {
			b.offsets.mu.Lock()
			b.offsets.err = nil
			b.offsets.mu.Unlock()
		}
		if n == 4 {
			b.logs.settle(errFake) // the first one doesn't become durable
		} else {
			b.logs.settle(nil)
		}
		b.clock.Advance(lastRetryPause)
		select {
		case <-finished:
			if got := b.logs.of(part("a", 0)); len(got) == 0 || len(b.offsets.ended[p.ID]) != 1 {
				t.Errorf("markers %+v, offsets %v", got, b.offsets.ended)
			}
			if s := b.state("t"); s.Status != CompleteCommit {
				t.Errorf("%+v", s)
			}
			return
		default:
		}
	}
}

func TestAnIdleIDExpires(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.config.IDExpiration = 3 * time.Hour
	b.init("idle")
	p := b.init("busy")
	b.clock.Advance(2 * time.Hour)
	b.add("busy", p, part("a", 0))
	b.end("busy", p, true, 0)
	b.clock.Advance(2 * time.Hour)
	if _, code := b.Describe("idle"); code != protocol.TransactionalIDNotFound {
		t.Errorf("idle: %v", code)
	}
	if b.store.records["idle"] != nil || b.store.records["busy"] == nil || b.size() != 1 {
		t.Errorf("%d ids; stored %v", b.size(), b.store.records)
	}
	if got := b.init("idle"); got.Epoch != 0 || got.ID == 1 {
		t.Errorf("made again as %+v", got)
	}
}

func TestAnOpenTransactionDoesNotExpire(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.config.IDExpiration, b.config.AbortInterval = time.Hour, 1000*time.Hour
	b.add("t", b.init("t"), part("a", 0))
	b.clock.Advance(5 * time.Hour)
	if s := b.state("t"); s.Status != Ongoing {
		t.Errorf("%+v", s)
	}
}

func TestListIsFiltered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.init("a")
	b.add("b", b.init("b"), part("x", 0))
	list := b.List(func(d *Description) bool { return d.Status == Ongoing })
	if len(list) != 1 || list[0].TransactionalID != "b" || list[0].ProducerID != 2 {
		t.Errorf("%+v", list)
	}
	if list = b.List(func(*Description) bool { return true }); len(list) != 2 {
		t.Errorf("%+v", list)
	}
}

func TestDamagedRecordStopsTheStart(t *testing.T) {
	t.Parallel()
	store := newMemoryStore()
	store.records["t"] = []byte{9}
	_, err := New(Options{
		Store: store, Logs: newMemoryLogs(), Offsets: &memoryOffsets{}, IDs: &counter{}, Clock: clock.NewManual(benchStart),
	})
	if err == nil {
		t.Error("it started")
	}
	if _, err = New(Options{}); err == nil {
		t.Error("it started without dependencies")
	}
}

// Producers of many ids at once, with the real order of things: goroutines, waits for completion, late settling.
func TestManyProducersAtOnce(t *testing.T) {
	t.Parallel()
	store, logs := newMemoryStore(), newMemoryLogs()
	c, err := New(Options{
		Store: store, Logs: logs, Offsets: &memoryOffsets{ended: map[int64][]bool{}}, IDs: &counter{}, Clock: realClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	const each = 50
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { manyTransactions(t, c, fmt.Sprint("t", i/2), each) })
	}
	wg.Wait()
	c.Close()
	for id := range store.records {
		if s, err := decode(store.records[id]); err != nil || !s.Status.completed() && s.Status != Empty && s.Status != Ongoing {
			t.Errorf("%s: %+v, %v", id, s, err)
		}
	}
}

// manyTransactions makes transactions, beginning again whenever another producer of the id has fenced it.
func manyTransactions(t *testing.T, c *Coordinator, id string, n int) {
	t.Helper()
	p, code := Producer{}, protocol.ProducerFenced
	for done := 0; done < n; {
		if code != protocol.None {
			p, code = c.InitProducerID(InitRequest{TransactionalID: id, TimeoutMs: 1000, ExpectedID: NoProducerID, ExpectedEpoch: NoEpoch})
			if code != protocol.None && code != protocol.ConcurrentTransactions {
				t.Errorf("init: %v", code)
				return
			}
			done++
			continue
		}
		var codes []protocol.ErrorCode
		var release func()
		codes, release = c.Verify(VerifyRequest{
			AddRequest: AddRequest{TransactionalID: id, Producer: p, Partitions: []Partition{{"a", int32(done % 3)}}, Version: 2}, Add: true,
		})
		release()
		if code = codes[0]; code == protocol.None {
			p, code = c.End(EndRequest{TransactionalID: id, Producer: p, Commit: done%2 == 0, Version: 2})
		}
		done++
	}
}

// realClock is the system's.
type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }
func (realClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return realTimer{time.AfterFunc(d, f)}
}
func (realClock) NewTimer(d time.Duration) clock.Timer { return realTimer{time.NewTimer(d)} }

type realTimer struct{ *time.Timer }

func (t realTimer) C() <-chan time.Time { return t.Timer.C }
