package txn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
)

// The model: a few producers make transactions over a few partitions and a group, while the coordinator's process dies
// between any two of its writes, writes fail with and without effect, transactions time out, and producers of the past
// come back. In the end each transaction is whole or gone in all its partitions and in the group, as its producer was told.

// crash is what a write panics with when the process dies there.
type crash struct{}

// attempt is one transaction, as its producer knows it.
type attempt struct {
	number    int
	commit    bool // the producer has asked for a commit
	told      bool // and what it asked for was confirmed
	fenced    bool // somebody else has ended it, or will
	offsets   bool
	added     map[Partition]bool // by the producer itself, before version 2
	confirmed bool               // its end, whichever, was confirmed
}

// data is a batch or a marker in a partition's log.
type data struct {
	producer Producer
	number   int // of the attempt
	marker   bool
	commit   bool
}

// worldLog is a partition as storage has it.
type worldLog struct {
	entries []data
	epoch   map[int64]int16
	open    map[int64]bool
}

type world struct {
	t     *testing.T
	r     *rand.Rand
	clock *clock.Manual
	store *memoryStore
	ids   *counter
	logs  map[Partition]*worldLog
	// The group: what was sent in open transactions and what counts, by attempt.
	pending map[int64][]int
	counted []int
	calm    bool // no more faults
	deaths  int

	c        *Coordinator
	tasks    []func()
	version  int16
	attempts []*attempt
	clients  []*worldClient
	past     []worldPast
}

// worldClient is a producer.
type worldClient struct {
	id      string
	version int16
	p       Producer // zero before it has one
	has     bool
	open    *attempt // nil outside a transaction
	ending  bool     // its end was asked for and not confirmed
}

// worldPast is a producer that has been replaced.
type worldPast struct {
	id string
	p  Producer
}

// impatient is a clock whose pauses are over at once.
type impatient struct{ *clock.Manual }

func (impatient) NewTimer(time.Duration) clock.Timer { return over{} }

type over struct{}

func (over) C() <-chan time.Time {
	c := make(chan time.Time, 1)
	c <- time.Time{}
	return c
}
func (over) Stop() bool               { return false }
func (over) Reset(time.Duration) bool { return false }

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		t: t, r: rand.New(rand.NewPCG(seed, 99)), clock: clock.NewManual(benchStart), store: newMemoryStore(), ids: &counter{},
		logs: map[Partition]*worldLog{}, pending: map[int64][]int{},
	}
	for i := range int32(3) {
		w.logs[Partition{"a", i}] = &worldLog{epoch: map[int64]int16{}, open: map[int64]bool{}}
	}
	for i := range 3 {
		w.clients = append(w.clients, &worldClient{id: fmt.Sprint("t", i), version: []int16{0, 2, 2}[i]})
	}
	w.version = []int16{0, 2}[seed%2]
	w.store.fault = w.storeFault
	w.start()
	return w
}

func (w *world) start() {
	w.tasks = nil
	c, err := New(Options{
		Store: w.store, Logs: worldMarkers{w}, Offsets: worldMarkers{w}, IDs: w.ids, Clock: impatient{w.clock},
		Config:  func() Config { c := DefaultConfig(); c.CompletionWait = 0; return c },
		Version: func() int16 { return w.version },
		Spawn:   func(f func()) { w.tasks = append(w.tasks, f) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.c = c
}

// storeFault makes a commit fail, or the process die before or after it.
func (w *world) storeFault() (applied bool, err error) {
	if w.calm {
		return true, nil
	}
	switch w.r.IntN(30) {
	case 0:
		return true, errFake
	case 1:
		return false, errFake
	case 2:
		panic(crash{})
	default:
		return true, nil
	}
}

// alive runs something that may die halfway; then the next process starts.
func (w *world) alive(f func()) {
	defer func() {
		if dead := recover(); dead != nil {
			if _, ok := dead.(crash); !ok {
				panic(dead)
			}
			// What the dead process holds is gone: the locks with its memory.
			w.store.mu.TryLock()
			w.store.mu.Unlock()
			w.deaths++
			w.stopTimers()
			w.start()
		}
	}()
	f()
}

// stopTimers keeps the dead process's timers from firing.
func (w *world) stopTimers() {
	fresh := clock.NewManual(w.clock.Now())
	w.clock = fresh
}

// worldMarkers is the logs and the group as the coordinator sees them.
type worldMarkers struct{ w *world }

func (m worldMarkers) fault() error {
	if m.w.calm {
		return nil
	}
	switch m.w.r.IntN(25) {
	case 0:
		return errFake
	case 1:
		panic(crash{})
	default:
		return nil
	}
}

func (m worldMarkers) AppendMarker(p Partition, marker Marker) (Commit, error) {
	if err := m.fault(); err != nil {
		return nil, err
	}
	l := m.w.logs[p]
	current, known := l.epoch[marker.ProducerID]
	if known && marker.Epoch < current {
		m.w.t.Errorf("a marker of epoch %d after %d", marker.Epoch, current)
		return nil, ErrNoPartition
	}
	if marker.Version >= 2 && known && marker.Epoch == current && l.open[marker.ProducerID] {
		m.w.t.Errorf("a marker of epoch %d for a transaction of the same", marker.Epoch)
	}
	l.entries = append(l.entries, data{producer: Producer{marker.ProducerID, marker.Epoch}, marker: true, commit: marker.Commit})
	l.epoch[marker.ProducerID], l.open[marker.ProducerID] = marker.Epoch, false
	done := &heldCommit{done: make(chan struct{}), err: m.fault()}
	close(done.done)
	return done, nil
}

func (m worldMarkers) CompleteTransaction(id int64, commit bool) error {
	if err := m.fault(); err != nil {
		return err
	}
	if commit {
		m.w.counted = append(m.w.counted, m.w.pending[id]...)
	}
	delete(m.w.pending, id)
	return m.fault()
}

// step lets something happen.
func (w *world) step() {
	switch n := w.r.IntN(20); {
	case n < 5 && len(w.tasks) > 0:
		w.task(w.r.IntN(len(w.tasks)))
	case n == 5:
		w.alive(func() { w.clock.Advance(time.Duration(w.r.IntN(5000)) * time.Millisecond) })
	case n == 6 && w.r.IntN(10) == 0:
		w.alive(func() { w.clock.Advance(40 * time.Second) })
	case n == 7 && len(w.past) > 0:
		w.comeBack(w.past[w.r.IntN(len(w.past))])
	case n == 8 && w.r.IntN(6) == 0:
		w.alive(func() { panic(crash{}) })
	default:
		w.act(w.clients[w.r.IntN(len(w.clients))])
	}
}

// task runs one piece of background work.
func (w *world) task(i int) {
	f := w.tasks[i]
	w.tasks = slices.Delete(w.tasks, i, i+1)
	w.alive(f)
}

// act lets a producer do the next thing.
func (w *world) act(c *worldClient) {
	w.alive(func() {
		switch {
		case !c.has:
			w.initialize(c)
		case c.ending:
			w.end(c, c.open.commit)
		case c.open == nil || w.r.IntN(3) > 0:
			w.write(c)
		case w.r.IntN(12) == 0:
			c.has = false // a new process takes over
		default:
			w.end(c, w.r.IntN(3) > 0)
		}
	})
}

func (w *world) initialize(c *worldClient) {
	r := InitRequest{TransactionalID: c.id, TimeoutMs: 30_000, ExpectedID: NoProducerID, ExpectedEpoch: NoEpoch}
	p, code := w.c.InitProducerID(r)
	if code != protocol.None {
		return
	}
	if c.p != (Producer{}) {
		if p == c.p {
			w.t.Errorf("%s got %+v twice", c.id, p)
		}
		w.past = append(w.past, worldPast{c.id, c.p})
	}
	c.p, c.has, c.open, c.ending = p, true, nil, false
}

// write puts a batch into a partition or an offset into the group, in a transaction that begins with it if need be.
func (w *world) write(c *worldClient) {
	if c.open == nil {
		c.open = &attempt{number: len(w.attempts), added: map[Partition]bool{}}
		w.attempts = append(w.attempts, c.open)
	}
	if w.r.IntN(5) == 0 {
		w.sendOffset(c)
		return
	}
	p := Partition{"a", int32(w.r.IntN(len(w.logs)))}
	l := w.logs[p]
	if !w.add(c, p) {
		return
	}
	if !l.open[c.p.ID] || l.epoch[c.p.ID] != c.p.Epoch {
		release, ok := w.vouch(c, p)
		defer release()
		if !ok {
			return
		}
		if w.r.IntN(4) == 0 { // meanwhile
			w.clock.Advance(time.Second)
		}
	}
	if current, known := l.epoch[c.p.ID]; known && c.p.Epoch < current {
		w.lost(c)
		return
	}
	l.entries = append(l.entries, data{producer: c.p, number: c.open.number})
	l.epoch[c.p.ID], l.open[c.p.ID] = c.p.Epoch, true
}

// add puts a partition into the transaction in the way of producers before version 2.
func (w *world) add(c *worldClient, p Partition) bool {
	if c.version >= 2 || c.open.added[p] {
		return true
	}
	code := w.c.AddPartitions(AddRequest{TransactionalID: c.id, Producer: c.p, Partitions: []Partition{p}})
	if code != protocol.None {
		w.failed(c, code)
		return false
	}
	c.open.added[p] = true
	return true
}

func (w *world) sendOffset(c *worldClient) {
	if !w.add(c, Partition{OffsetsTopic, 1}) {
		return
	}
	release, ok := w.vouch(c, Partition{OffsetsTopic, 1})
	defer release()
	if ok {
		w.pending[c.p.ID] = append(w.pending[c.p.ID], c.open.number)
		c.open.offsets = true
	}
}

// vouch asks whether the transaction takes something in a partition, and adds it from version 2 on.
func (w *world) vouch(c *worldClient, p Partition) (release func(), ok bool) {
	q := VerifyRequest{AddRequest: AddRequest{
		TransactionalID: c.id, Producer: c.p, Partitions: []Partition{p}, Version: c.version,
	}, Add: c.version >= 2}
	codes, release := w.c.Verify(q)
	if codes[0] != protocol.None {
		w.failed(c, codes[0])
	}
	return release, codes[0] == protocol.None
}

// failed lets a producer that has been shut out begin again.
func (w *world) failed(c *worldClient, code protocol.ErrorCode) {
	switch code {
	case protocol.ConcurrentTransactions, protocol.CoordinatorNotAvailable, protocol.TransactionAbortable:
	default:
		w.lost(c)
	}
}

func (w *world) lost(c *worldClient) {
	if c.open != nil {
		c.open.fenced = true
	}
	c.has = false
}

func (w *world) end(c *worldClient, commit bool) {
	if c.open == nil {
		return
	}
	c.ending, c.open.commit = true, commit
	after, code := w.c.End(EndRequest{TransactionalID: c.id, Producer: c.p, Commit: commit, Version: c.version})
	switch code {
	case protocol.None:
		c.open.told, c.open.confirmed = commit, true
		c.open, c.ending = nil, false
		if c.version >= 2 {
			w.past = append(w.past, worldPast{c.id, c.p})
			c.p = after
		}
	case protocol.ConcurrentTransactions, protocol.CoordinatorNotAvailable:
	default:
		w.lost(c)
	}
}

// comeBack lets a producer of the past try to go on.
func (w *world) comeBack(z worldPast) {
	w.alive(func() {
		q := VerifyRequest{AddRequest: AddRequest{
			TransactionalID: z.id, Producer: z.p, Partitions: []Partition{{"a", 0}}, Version: 2,
		}, Add: w.r.IntN(2) == 0}
		codes, release := w.c.Verify(q)
		defer release()
		if codes[0] == protocol.None {
			w.t.Errorf("%s: a producer of the past, %+v, is vouched for", z.id, z.p)
		}
	})
}

// settle lets everything come to its end.
func (w *world) settle() {
	w.calm = true
	for range 100 {
		for len(w.tasks) > 0 {
			w.task(0)
		}
		w.clock.Advance(10 * time.Second)
	}
}

// outcome is how an attempt ended in a log: committed, aborted, open, or "" if it isn't there.
func (l *worldLog) outcome(number int) string {
	for i, e := range l.entries {
		if e.marker || e.number != number {
			continue
		}
		for _, m := range l.entries[i:] {
			if m.marker && m.producer.ID == e.producer.ID {
				return map[bool]string{true: "committed", false: "aborted"}[m.commit]
			}
		}
		return "open"
	}
	return ""
}

func (w *world) check() (commits int) {
	for _, a := range w.attempts {
		found := map[string]bool{}
		for _, l := range w.logs {
			if o := l.outcome(a.number); o != "" {
				found[o] = true
			}
		}
		if a.offsets {
			o := "aborted"
			if slices.Contains(w.counted, a.number) {
				o = "committed"
			}
			found[o] = true
		}
		if len(found) > 1 || found["open"] {
			w.t.Errorf("transaction %+v ended as %v", *a, found)
		}
		if found["committed"] {
			commits++
		}
		if len(found) > 0 && (a.told && !found["committed"] || found["committed"] && !a.commit || a.confirmed && !a.told && found["committed"]) {
			w.t.Errorf("transaction %+v ended as %v", *a, found)
		}
	}
	if len(w.pending) > 0 {
		w.t.Errorf("offsets of open transactions are left: %v", w.pending)
	}
	for id := range w.store.records {
		s, err := decode(w.store.records[id])
		if err != nil || s.Status == Ongoing || s.Status.prepared() {
			w.t.Errorf("%s is left as %+v, %v", id, s, err)
		}
	}
	return commits
}

func TestTransactionsAreAllOrNothingThroughCrashes(t *testing.T) {
	t.Parallel()
	commits, deaths := 0, 0
	for seed := range uint64(modelSeeds) {
		w := newWorld(t, seed)
		for range 150 {
			w.step()
		}
		w.settle()
		w.check()
		w.start() // what the store has leads to the same
		w.settle()
		commits += w.check()
		deaths += w.deaths
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d transactions committed, %d crashes", commits, deaths)
	if commits < modelSeeds || deaths < modelSeeds {
		t.Error("too little happened: the test shows nothing")
	}
}
