package handlers

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
)

// memoryLog is a log in memory for tests of the handlers. Appends are acknowledged at once, or by acknowledge if held is
// set. The fields in lower case are set before use.
type memoryLog struct {
	mu       sync.Mutex
	epoch    int32
	start    int64
	batches  []batch.Batch
	visible  int64
	held     bool
	holding  []*memoryCommit
	waiters  map[*storage.Waiter]storage.Waiter
	open     int // records handed out and not released
	reads    int
	failNext error
	readErr  error
	openTxn  map[int64]bool
	options  []storage.AppendOptions
	stable   int64 // last stable offset, -1 for the high watermark
}

func newMemoryLog() *memoryLog {
	return &memoryLog{waiters: map[*storage.Waiter]storage.Waiter{}, openTxn: map[int64]bool{}, stable: -1}
}

func (l *memoryLog) end() int64 {
	if n := len(l.batches); n > 0 {
		return l.batches[n-1].NextOffset()
	}
	return l.start
}

func (l *memoryLog) Append(b batch.Batch, o storage.AppendOptions) (storage.Appended, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.options = append(l.options, o)
	if err := l.failNext; err != nil {
		l.failNext = nil
		return storage.Appended{}, err
	}
	if b.IsTransactional() {
		if !l.openTxn[b.ProducerID()] && !o.TransactionVerified {
			return storage.Appended{}, storage.ErrTransactionNotOpen
		}
		l.openTxn[b.ProducerID()] = true
	}
	c := slices.Clone(b)
	c.SetBaseOffset(l.end())
	c.SetLeaderEpoch(l.epoch)
	l.batches = append(l.batches, c)
	a := storage.Appended{BaseOffset: c.BaseOffset(), LogStart: l.start}
	if l.held {
		m := &memoryCommit{done: make(chan struct{}), end: c.NextOffset()}
		l.holding = append(l.holding, m)
		a.Commit = m
		return a, nil
	}
	l.show(c.NextOffset())
	return a, nil
}

// show moves the high watermark and wakes the waiters. The caller holds l.mu.
func (l *memoryLog) show(end int64) {
	l.visible = end
	for _, w := range l.waiters {
		w.Advance()
	}
}

// acknowledge ends the syncs that are held.
func (l *memoryLog) acknowledge(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.holding {
		c.err = err
		if err == nil {
			l.show(c.end)
		}
		close(c.done)
	}
	l.holding = nil
}

func (l *memoryLog) Read(offset int64, o storage.ReadOptions) (storage.ReadResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	res := storage.ReadResult{Offsets: l.offsets()}
	if l.readErr != nil {
		return res, l.readErr
	}
	if offset < l.start || offset > l.end() {
		return res, storage.ErrOffsetOutOfRange
	}
	limit := l.visible
	if o.Isolation == storage.ReadCommitted {
		limit = res.LastStable
	}
	var found []byte
	first := 0
	for _, b := range l.batches {
		if b.NextOffset() <= offset || b.BaseOffset() >= limit {
			continue
		}
		if first == 0 {
			first = len(b)
		}
		found = append(found, b...)
	}
	size := o.MaxBytes
	if o.WholeFirst {
		size = max(size, int64(first))
	}
	found = found[:min(int64(len(found)), size)]
	if len(found) > 0 {
		l.open++
		res.Records = &memoryRecords{log: l, b: found}
	}
	return res, nil
}

func (l *memoryLog) offsets() storage.Offsets {
	o := storage.Offsets{Start: l.start, End: l.end(), HighWatermark: l.visible, LastStable: l.visible}
	if l.stable >= 0 {
		o.LastStable = l.stable
	}
	return o
}

func (l *memoryLog) Offsets() storage.Offsets {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.offsets()
}

func (l *memoryLog) LeaderEpoch() int32 { return l.epoch }

func (l *memoryLog) OffsetForTime(int64, storage.Isolation) (o storage.TimestampOffset, found bool, err error) {
	return o, false, nil
}

func (l *memoryLog) MaxTimestamp(storage.Isolation) (o storage.TimestampOffset, found bool, err error) {
	return o, false, nil
}

func (l *memoryLog) EpochEnd(epoch int32) storage.EpochEnd {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch < 0 || epoch > l.epoch {
		return storage.EpochEnd{Epoch: -1, EndOffset: -1}
	}
	if epoch == l.epoch {
		return storage.EpochEnd{Epoch: epoch, EndOffset: l.end()}
	}
	found := storage.EpochEnd{Epoch: epoch, EndOffset: l.start}
	for _, b := range l.batches {
		if b.LeaderEpoch() <= epoch {
			found = storage.EpochEnd{Epoch: b.LeaderEpoch(), EndOffset: b.NextOffset()}
		}
	}
	return found
}

func (l *memoryLog) EpochAt(offset int64) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batches {
		if offset < b.NextOffset() {
			return b.LeaderEpoch()
		}
	}
	return -1
}

func (l *memoryLog) Trim(before int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = max(l.start, before)
	return l.start, nil
}

func (l *memoryLog) Producers() []storage.ProducerState { return nil }

func (l *memoryLog) Watch(w storage.Waiter) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := &w
	l.waiters[key] = w
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiters, key)
	}
}

func (l *memoryLog) Size() int64 { return 0 }

func (l *memoryLog) SetConfig(storage.Config) {}

// held says how many records have not been released, and how many waiters there are.
func (l *memoryLog) leaks() (records, waiters int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, len(l.waiters)
}

type memoryCommit struct {
	done chan struct{}
	end  int64
	err  error
}

func (c *memoryCommit) Done() <-chan struct{} { return c.done }
func (c *memoryCommit) Err() error            { return c.err }
func (c *memoryCommit) Wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

type memoryRecords struct {
	log  *memoryLog
	b    []byte
	gone bool
}

func (r *memoryRecords) Size() int64 { return int64(len(r.b)) }

func (r *memoryRecords) SendTo(w io.Writer) (int64, error) { return io.Copy(w, bytes.NewReader(r.b)) }

func (r *memoryRecords) AppendTo(dst []byte) ([]byte, error) { return append(dst, r.b...), nil }

func (r *memoryRecords) Release() {
	if r.gone {
		return
	}
	r.gone = true
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.log.open--
}

// memoryStore is the metadata and the logs of a test.
type memoryStore struct {
	mu        sync.Mutex
	topics    *meta.Topics
	logs      map[storage.TopicID][]*memoryLog
	nextID    int64
	reserve   int
	deletions int // commits that deleted topics
}

func newMemoryStore() *memoryStore {
	return &memoryStore{topics: meta.NewTopics(nil), logs: map[storage.TopicID][]*memoryLog{}}
}

func (s *memoryStore) ClusterID() string { return "AAAAAAAAAAAAAAAAAAAAAA" }

func (s *memoryStore) Topics() *meta.Topics {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topics
}

func (s *memoryStore) CreateTopic(t meta.Topic) (*meta.Topic, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextID++
	binary.BigEndian.PutUint64(t.ID[8:], uint64(s.nextID))
	s.topics = meta.NewTopics(append(slices.Clone(s.topics.All()), &t))
	for range t.Partitions {
		s.logs[t.ID] = append(s.logs[t.ID], newMemoryLog())
	}
	return &t, nil
}

func (s *memoryStore) DeleteTopics(ids []storage.TopicID) ([]*meta.Topic, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deletions++
	var gone []*meta.Topic
	for _, id := range ids {
		found := s.topics.WithID(id)
		if found == nil {
			return nil, meta.ErrNoTopic
		}
		gone = append(gone, found)
	}
	s.topics = meta.NewTopics(slices.DeleteFunc(slices.Clone(s.topics.All()), func(t *meta.Topic) bool { return slices.Contains(gone, t) }))
	return gone, nil
}

func (s *memoryStore) GrowTopic(storage.TopicID, int32) (*meta.Topic, error) {
	return nil, meta.ErrNoTopic
}

func (s *memoryStore) SetTopicConfigs(storage.TopicID, map[string]string) (*meta.Topic, error) {
	return nil, meta.ErrNoTopic
}

func (s *memoryStore) ReserveProducerIDs(n int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserve++
	first := s.nextID * 1000
	s.nextID += n
	return first, nil
}

// memoryLogs is the logs of a memoryStore.
type memoryLogs struct{ *memoryStore }

func (s memoryLogs) Get(id storage.TopicID, partition int32) (Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.logs[id]; int(partition) < len(all) {
		return all[partition], nil
	}
	return nil, storage.ErrClosed
}

func (s memoryLogs) Open(p storage.Partition, _ storage.Config, _ int32) (Log, error) {
	return s.Get(p.ID, p.Number)
}

func (s memoryLogs) Delete(id storage.TopicID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.logs, id)
	return nil
}

// plane is handlers over a memoryStore.
type plane struct {
	*Handlers
	t     testing.TB
	store *memoryStore
	clock *clock.Manual
}

var planeStart = time.UnixMilli(1_700_000_000_000)

// newPlane makes handlers with the given settings of the broker: name and value in turn.
func newPlane(tb testing.TB, settings ...string) *plane {
	tb.Helper()
	properties := map[string]string{}
	for i := 0; i < len(settings); i += 2 {
		properties[settings[i]] = settings[i+1]
	}
	c, err := config.Static(properties)
	if err != nil {
		tb.Fatal(err)
	}
	s := newMemoryStore()
	levels, err := NewFeatures(nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	p := &plane{t: tb, store: s, clock: clock.NewManual(planeStart)}
	p.Handlers = &Handlers{Deps: Deps{
		Transactions: noTransactions{}, Features: levels,
		NodeID: 1, Meta: s, Logs: memoryLogs{s}, Config: c, Clock: p.clock, Logger: zap.NewNop(), Lifecycle: tb.Context(),
		Endpoints: func(string) (string, int32, bool) { return "broker", 9092, true },
	}}
	p.internal = newInternalTopics(s.ClusterID(), 1, 1)
	if p.table, err = newTable(rows()); err != nil {
		tb.Fatal(err)
	}
	p.data = newDataPlane(&p.Deps, c.Int("max.incremental.fetch.session.cache.slots"))
	return p
}

// topic makes a topic, with settings as name and value in turn.
func (p *plane) topic(name string, partitions int32, settings ...string) (*meta.Topic, []*memoryLog) {
	p.t.Helper()
	configs := map[string]string{}
	for i := 0; i < len(settings); i += 2 {
		configs[settings[i]] = settings[i+1]
	}
	t, err := p.store.CreateTopic(meta.Topic{Name: name, Partitions: partitions, Configs: configs})
	if err != nil {
		p.t.Fatal(err)
	}
	return t, p.store.logs[t.ID]
}

func request(key, version int16) *protocol.Request {
	return &protocol.Request{
		Header: protocol.RequestHeader{Key: key, Version: version, CorrelationID: 7, ClientID: "test"},
		Conn:   &protocol.Conn{Listener: "PLAINTEXT"},
	}
}

// frame puts an answer together as the server would and releases it.
func frame(tb testing.TB, r protocol.Response) []byte {
	tb.Helper()
	if r.Close || r.NoAnswer || r.Later != nil {
		tb.Fatalf("not an answer: %+v", r)
	}
	all := slices.Clone(r.Frame)
	for _, p := range r.Parts {
		if p.File == nil {
			all = append(all, p.Bytes...)
			continue
		}
		var b bytes.Buffer
		if _, err := p.File.SendTo(&b); err != nil {
			tb.Fatal(err)
		}
		all = append(all, b.Bytes()...)
	}
	if r.Release != nil {
		r.Release()
	}
	if size := int(binary.BigEndian.Uint32(all)); size != len(all)-4 {
		tb.Fatalf("frame says %d bytes, has %d", size, len(all)-4)
	}
	return all
}

// answer decodes an answer into body, whose version is set.
func answer[B kmsg.Response](tb testing.TB, r protocol.Response, body B) B {
	tb.Helper()
	b := frame(tb, r)[8:]
	if body.IsFlexible() {
		b = b[1:]
	}
	if err := body.ReadFrom(b); err != nil {
		tb.Fatal(err)
	}
	return body
}

// records is a batch of so many records of size bytes.
func records(tb testing.TB, count, size int) batch.Batch {
	tb.Helper()
	return recordsOf(tb, batch.NoProducer(), count, size)
}

func recordsOf(tb testing.TB, m batch.Meta, count, size int) batch.Batch {
	tb.Helper()
	b := batch.NewBuilder(m)
	for range count {
		b.Append(planeStart.UnixMilli(), []byte("k"), make([]byte, size))
	}
	out, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// fill appends a batch.
func fill(tb testing.TB, l *memoryLog, count, size int) {
	tb.Helper()
	if _, err := l.Append(records(tb, count, size), storage.AppendOptions{}); err != nil {
		tb.Fatal(err)
	}
}
