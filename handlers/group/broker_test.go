package group

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol/clock"
)

// testBroker is a coordinator with all that is around it: a clock that stands still, a store in memory, topics.
type testBroker struct {
	*Coordinator
	t      testing.TB
	store  *memoryStore
	clock  *clock.Manual
	config Config
	byName map[string]*meta.Topic
	view   atomic.Pointer[meta.Topics]
	random *rand.ChaCha8
}

var testStart = time.UnixMilli(1_700_000_000_000)

func newTestBroker(tb testing.TB) *testBroker {
	tb.Helper()
	b := &testBroker{
		t: tb, store: newMemoryStore(), clock: clock.NewManual(testStart), config: DefaultConfig(),
		byName: make(map[string]*meta.Topic), random: rand.NewChaCha8([32]byte{1}),
	}
	b.config.InitialRebalanceDelay = 0
	b.setTopics()
	b.restart()
	tb.Cleanup(func() { b.Close() })
	return b
}

// restart makes a new coordinator of what the store holds, as after a crash.
func (b *testBroker) restart() {
	b.t.Helper()
	if b.Coordinator != nil {
		b.Coordinator.Close()
	}
	c, err := New(Options{
		Store: b.store, Clock: b.clock, Logger: zap.NewNop(), Config: func() Config { return b.config },
		Topics: b.view.Load, Random: b.random,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.Coordinator = c
}

func (b *testBroker) makeTopic(name string, partitions int32) [16]byte {
	topic := &meta.Topic{Name: name, Partitions: partitions}
	for i := range topic.ID {
		topic.ID[i] = byte(b.random.Uint64())
	}
	topic.ID[0] &= 0x7f
	b.byName[name] = topic
	b.store.mu.Lock()
	delete(b.store.deleted, name)
	b.store.mu.Unlock()
	b.setTopics()
	return topic.ID
}

func (b *testBroker) growTopic(name string, partitions int32) {
	grown := *b.byName[name]
	grown.Partitions = partitions
	b.byName[name] = &grown
	b.setTopics()
}

func (b *testBroker) deleteTopic(name string) {
	delete(b.byName, name)
	b.setTopics()
	b.store.deleteTopic(name)
	b.TopicsDeleted([]string{name})
}

func (b *testBroker) setTopics() {
	b.view.Store(meta.NewTopics(slices.Collect(maps.Values(b.byName))))
}
