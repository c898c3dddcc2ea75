package group

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// idleGroupBytes is what an idle group may take: one that had members, has none, and keeps a few offsets.
const idleGroupBytes = 2048

func TestIdleGroupsAreSmall(t *testing.T) { //nolint:paralleltest // it measures memory
	const groups = 1000
	b := newTestBroker(t)
	b.makeTopic("a", 3)
	for i := range groups {
		id := fmt.Sprint("group-", i)
		ids, generation := b.stable(id, 1)
		for p := range int32(3) {
			wantCode(t, "commit", b.commitOne(id, ids[0], generation, "a", p, 1), 0)
		}
		b.leaveAll(id, ids[0])
	}
	b.Coordinator.Close()
	var without, with runtime.MemStats
	b.Coordinator = nil
	runtime.GC()
	runtime.ReadMemStats(&without)
	b.restart()
	runtime.GC()
	runtime.ReadMemStats(&with)
	each := (int64(with.HeapAlloc) - int64(without.HeapAlloc)) / groups
	t.Logf("%d bytes per idle group", each)
	if b.size() != groups || each > idleGroupBytes {
		t.Fatalf("%d groups, %d bytes each", b.size(), each)
	}
}

func BenchmarkRebalanceOf100Members(b *testing.B) {
	broker := newTestBroker(b)
	broker.Coordinator.store = nullStore{}
	ids, _ := broker.stable("g", 100)
	for b.Loop() {
		joins := make([]*waiter[*kmsg.JoinGroupResponse], len(ids))
		for i, id := range ids { // the leader first
			joins[i] = broker.joinLater("g", joinOptions{memberID: id})
		}
		var generation int32
		for _, w := range joins {
			generation = joined(b, w).Generation
		}
		broker.settle("g", ids, generation)
	}
}

func BenchmarkConsumerHeartbeat(b *testing.B) {
	for _, members := range []int{1, 1000} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			broker := newTestBroker(b)
			broker.Coordinator.store = nullStore{}
			broker.config.Consumer.AssignmentInterval = 0
			broker.makeTopic("a", 1000)
			var m *native
			for i := range members {
				m = broker.native(fmt.Sprint("m", i), "a").beat()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				m.beat()
			}
		})
	}
}
