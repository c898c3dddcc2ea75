package txn

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
)

var errFake = errors.New("the fake fails")

// memoryStore keeps what is committed. Before it does, fault may return an error; applied says whether the changes count
// all the same. It may also panic, which is a crash.
type memoryStore struct {
	mu      sync.Mutex
	records map[string][]byte
	commits int
	fault   func() (applied bool, err error)
}

func newMemoryStore() *memoryStore { return &memoryStore{records: map[string][]byte{}} }

func (s *memoryStore) Commit(b *meta.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits++
	applied := true
	var err error
	if s.fault != nil {
		applied, err = s.fault()
	}
	if applied {
		if replayErr := b.Replay(changes{s}); replayErr != nil {
			return replayErr
		}
	}
	return err
}

func (s *memoryStore) Transactions(yield func(id string, record []byte) error) error {
	for id, record := range s.records {
		if err := yield(id, record); err != nil {
			return err
		}
	}
	return nil
}

// changes applies a batch.
type changes struct{ s *memoryStore }

func (c changes) PutCursor(string, meta.TopicPartition, meta.Cursor) { panic("not a transaction") }
func (c changes) DeleteCursor(string, meta.TopicPartition)           { panic("not a transaction") }
func (c changes) PutGroup(string, []byte)                            { panic("not a transaction") }
func (c changes) DeleteGroup(string)                                 { panic("not a transaction") }
func (c changes) DeleteTransaction(id string)                        { delete(c.s.records, id) }
func (c changes) PutTransaction(id string, record []byte) {
	c.s.records[id] = append([]byte(nil), record...)
}

// counter hands out producer ids, also across coordinators.
type counter struct {
	mu   sync.Mutex
	next int64
	err  error
}

func (c *counter) Next() (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.next++
	return c.next, nil
}

// memoryLogs remembers markers, and opens what is to be waited for if held is set.
type memoryLogs struct {
	mu      sync.Mutex
	markers map[Partition][]Marker
	gone    map[Partition]bool
	err     error
	held    bool
	pending []*heldCommit
}

type heldCommit struct {
	done chan struct{}
	err  error
}

func (c *heldCommit) Done() <-chan struct{} { return c.done }
func (c *heldCommit) Err() error            { return c.err }

func newMemoryLogs() *memoryLogs {
	return &memoryLogs{markers: map[Partition][]Marker{}, gone: map[Partition]bool{}}
}

func (l *memoryLogs) AppendMarker(p Partition, m Marker) (Commit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone[p] {
		return nil, ErrNoPartition
	}
	if l.err != nil {
		return nil, l.err
	}
	l.markers[p] = append(l.markers[p], m)
	if l.held {
		c := &heldCommit{done: make(chan struct{})}
		l.pending = append(l.pending, c)
		return c, nil
	}
	return nil, nil
}

func (l *memoryLogs) of(p Partition) []Marker {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Marker(nil), l.markers[p]...)
}

func (l *memoryLogs) settle(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.pending {
		c.err = err
		close(c.done)
	}
	l.pending = nil
}

// memoryOffsets remembers how transactions ended.
type memoryOffsets struct {
	mu    sync.Mutex
	ended map[int64][]bool
	err   error
}

func (o *memoryOffsets) CompleteTransaction(id int64, commit bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	o.ended[id] = append(o.ended[id], commit)
	return nil
}

// bench is a coordinator on fakes, whose background work runs when the test says so.
type bench struct {
	t       *testing.T
	clock   *clock.Manual
	store   *memoryStore
	logs    *memoryLogs
	offsets *memoryOffsets
	ids     *counter
	config  Config
	version int16
	tasks   chan func()
	*Coordinator
}

var benchStart = time.UnixMilli(1_700_000_000_000)

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		t: t, clock: clock.NewManual(benchStart), store: newMemoryStore(), logs: newMemoryLogs(),
		offsets: &memoryOffsets{ended: map[int64][]bool{}}, ids: &counter{}, config: DefaultConfig(), version: 2,
	}
	b.config.CompletionWait = 0
	b.restart()
	return b
}

// restart makes the coordinator that would come after a crash.
func (b *bench) restart() {
	b.t.Helper()
	b.tasks = make(chan func(), 1000)
	tasks := b.tasks
	c, err := New(Options{
		Store: b.store, Logs: b.logs, Offsets: b.offsets, IDs: b.ids, Clock: b.clock,
		Config: func() Config { return b.config }, Version: func() int16 { return b.version },
		Spawn: func(f func()) { tasks <- f },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.Coordinator = c
}

// work runs the background work there is.
func (b *bench) work() {
	for {
		select {
		case f := <-b.tasks:
			f()
		default:
			return
		}
	}
}

func (b *bench) init(id string) Producer {
	b.t.Helper()
	p, code := b.InitProducerID(InitRequest{TransactionalID: id, TimeoutMs: 60_000, ExpectedID: NoProducerID, ExpectedEpoch: NoEpoch})
	if code != protocol.None {
		b.t.Fatalf("InitProducerID: %v", code)
	}
	return p
}

func (b *bench) add(id string, p Producer, partitions ...Partition) {
	b.t.Helper()
	if code := b.AddPartitions(AddRequest{TransactionalID: id, Producer: p, Partitions: partitions}); code != protocol.None {
		b.t.Fatalf("AddPartitions: %v", code)
	}
}

func (b *bench) end(id string, p Producer, commit bool, version int16) Producer {
	b.t.Helper()
	after, code := b.End(EndRequest{TransactionalID: id, Producer: p, Commit: commit, Version: version})
	if code != protocol.None {
		b.t.Fatalf("End: %v", code)
	}
	return after
}

func (b *bench) state(id string) State {
	b.t.Helper()
	d, code := b.Describe(id)
	if code != protocol.None {
		b.t.Fatalf("Describe: %v", code)
	}
	return d.State
}

// stored is the state in the store.
func (b *bench) stored(id string) State {
	b.t.Helper()
	b.store.mu.Lock()
	record := maps.Clone(b.store.records)[id]
	b.store.mu.Unlock()
	s, err := decode(record)
	if err != nil {
		b.t.Fatal(fmt.Errorf("%q: %w", id, err))
	}
	return s
}

func part(topic string, number int32) Partition { return Partition{topic, number} }
