package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

const week = 7 * 24 * time.Hour

func TestCommitsThatComeWhileOneIsBeingWrittenShareTheNextWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newTestBroker(t)
		b.makeTopic("a", 20)
		release := make(chan struct{})
		b.store.mu.Lock()
		b.store.hold = release
		b.store.mu.Unlock()
		var done sync.WaitGroup
		commit := func(partition int32) {
			done.Go(func() {
				if code := b.commitOne("g", "", -1, "a", partition, int64(100+partition)); code != 0 {
					t.Errorf("code %d", code)
				}
			})
		}
		commit(0)
		synctest.Wait() // it is being written
		for p := range int32(19) {
			commit(p + 1)
		}
		synctest.Wait() // the others wait for it
		if got := b.committed("g", "a", 0); got != -1 {
			t.Errorf("offset %d can be read before it is durable", got)
		}
		close(release)
		done.Wait()
		if b.store.commits != 2 {
			t.Errorf("%d writes, want 2", b.store.commits)
		}
		for p := range int32(20) {
			if got := b.committed("g", "a", p); got != int64(100+p) {
				t.Errorf("partition %d has offset %d", p, got)
			}
		}
	})
}

func TestMemoryAndStoreAgreeAfterConcurrentCommits(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 4)
	var done sync.WaitGroup
	for worker := range 8 {
		done.Add(1)
		go func() {
			defer done.Done()
			for i := range 100 {
				group := fmt.Sprint("g", i%3)
				b.commitOne(group, "", -1, "a", int32(i%4), int64(worker*1000+i))
				if i%40 == 39 {
					if code := b.deleteGroup(group); code != protocol.None {
						t.Errorf("delete answered %d", code)
					}
				}
			}
		}()
	}
	done.Wait()
	for i := range 3 {
		group := fmt.Sprint("g", i)
		for p := range int32(4) {
			if read, stored := b.committed(group, "a", p), b.stored(group, "a", p); read != stored {
				t.Errorf("group %s partition %d: %d is read, %d is stored", group, p, read, stored)
			}
		}
	}
}

func TestAFailedWriteFailsAllCommitsInItAndNoOthers(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 3)
	wantCode(t, "first", b.commitOne("g", "", -1, "a", 0, 1), protocol.None)
	b.store.setFail(true)
	wantCode(t, "second", b.commitOne("g", "", -1, "a", 0, 2), protocol.CoordinatorNotAvailable)
	b.store.setFail(false)
	wantCode(t, "third", b.commitOne("g", "", -1, "a", 1, 3), protocol.None)
	if b.committed("g", "a", 0) != 1 || b.committed("g", "a", 1) != 3 {
		t.Fatal("what is read isn't what was answered")
	}
}

func TestMetadataIsCountedInCharacters(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	for _, c := range []struct {
		metadata string
		want     protocol.ErrorCode
	}{
		{strings.Repeat("ä", 4096), protocol.None},
		{strings.Repeat("ä", 4097), protocol.OffsetMetadataTooLarge},
		{strings.Repeat("𝄞", 2048), protocol.None}, // two characters each, as Java counts
		{strings.Repeat("𝄞", 2049), protocol.OffsetMetadataTooLarge},
	} {
		req := commitRequestOf("g", "a", 0, 1)
		req.Topics[0].Partitions[0].Metadata = &c.metadata
		wantCode(t, fmt.Sprint(len(c.metadata)), b.OffsetCommit(req).Topics[0].Partitions[0].ErrorCode, c.want)
	}
}

func TestOffsetsExpire(t *testing.T) {
	t.Parallel()
	const none, kept = -1, 7
	for _, c := range []struct {
		name string
		do   func(b *testBroker)
		want int64
	}{
		{"a simple group's, from the commit", func(b *testBroker) {
			b.commitOne("g", "", -1, "a", 0, 7)
			b.clock.Advance(week + time.Hour)
		}, none},
		{"not before", func(b *testBroker) {
			b.commitOne("g", "", -1, "a", 0, 7)
			b.clock.Advance(week - time.Hour)
		}, kept},
		{"a commit renews", func(b *testBroker) {
			b.commitOne("g", "", -1, "a", 0, 5)
			b.clock.Advance(week - time.Hour)
			b.commitOne("g", "", -1, "a", 0, 7)
			b.clock.Advance(week - time.Hour)
		}, kept},
		{"not while the group has members", func(b *testBroker) {
			ids, generation := b.stable("g", 1)
			b.commitOne("g", ids[0], generation, "a", 0, 7)
			b.keepAlive("g", ids[0], generation, 2*week)
		}, kept},
		{"from when the group became empty", func(b *testBroker) {
			ids, generation := b.stable("g", 1)
			b.commitOne("g", ids[0], generation, "a", 0, 7)
			b.keepAlive("g", ids[0], generation, 2*week)
			b.leaveAll("g", ids[0])
			b.clock.Advance(week - time.Hour)
		}, kept},
		{"a week after the group became empty", func(b *testBroker) {
			ids, generation := b.stable("g", 1)
			b.commitOne("g", ids[0], generation, "a", 0, 7)
			b.leaveAll("g", ids[0])
			b.clock.Advance(week / 2)
			b.restart()
			b.clock.Advance(week/2 + time.Hour)
		}, none},
		{"not while others than consumers are members", func(b *testBroker) {
			m := b.mustJoin("g", joinOptions{kind: "connect"})
			b.settle("g", []string{m.MemberID}, m.Generation)
			b.commitOne("g", m.MemberID, m.Generation, "a", 0, 7)
			b.keepAlive("g", m.MemberID, m.Generation, 2*week)
		}, kept},
		{"of topics nobody subscribes to any more", func(b *testBroker) {
			m := b.mustJoin("g", joinOptions{protocols: []string{"range", subscribing("b")}})
			b.settle("g", []string{m.MemberID}, m.Generation)
			b.commitOne("g", m.MemberID, m.Generation, "a", 0, 7)
			b.keepAlive("g", m.MemberID, m.Generation, week+time.Hour)
		}, none},
		{"not of topics that are subscribed to", func(b *testBroker) {
			m := b.mustJoin("g", joinOptions{protocols: []string{"range", subscribing("b", "a")}})
			b.settle("g", []string{m.MemberID}, m.Generation)
			b.commitOne("g", m.MemberID, m.Generation, "a", 0, 7)
			b.keepAlive("g", m.MemberID, m.Generation, week+time.Hour)
		}, kept},
		{"by the commit's own retention", func(b *testBroker) {
			req := commitRequestOf("g", "a", 0, 7)
			req.Version, req.RetentionTimeMillis = 3, time.Hour.Milliseconds()
			b.OffsetCommit(req)
			b.clock.Advance(time.Hour + 10*time.Minute)
		}, none},
		{"by the broker's when the commit says -1", func(b *testBroker) {
			req := commitRequestOf("g", "a", 0, 7)
			req.Version, req.RetentionTimeMillis = 3, -1
			b.OffsetCommit(req)
			b.clock.Advance(week - time.Hour)
		}, kept},
		{"a version without retention has none", func(b *testBroker) {
			req := commitRequestOf("g", "a", 0, 7)
			req.RetentionTimeMillis = 1
			b.OffsetCommit(req)
			b.clock.Advance(time.Hour)
		}, kept},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newTestBroker(t)
			b.config.RetentionCheckInterval = 10 * time.Minute
			b.makeTopic("a", 1)
			b.makeTopic("b", 1)
			c.do(b)
			if got := b.committed("g", "a", 0); got != c.want {
				t.Fatalf("offset %d, want %d", got, c.want)
			}
			if got := b.stored("g", "a", 0); got != c.want {
				t.Fatalf("offset %d stored, want %d", got, c.want)
			}
		})
	}
}

// keepAlive lets time pass with heartbeats.
func (b *testBroker) keepAlive(group, memberID string, generation int32, d time.Duration) {
	b.t.Helper()
	b.find(group).classic.members[memberID].session = 12 * time.Hour
	for ; d > 0; d -= 6 * time.Hour {
		wantCode(b.t, "heartbeat", b.beat(group, memberID, generation), protocol.None)
		b.clock.Advance(6 * time.Hour)
	}
}

// subscribing is a consumer's metadata.
func subscribing(topics ...string) string {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	return string(m.AppendTo(nil))
}

func TestOffsetsExpireThoughOthersAreBeingCommitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newTestBroker(t)
		b.makeTopic("a", 2)
		b.commitOne("g", "", -1, "a", 0, 1)
		b.clock.Advance(week - time.Minute)
		hold := b.holdCommits()
		var calls sync.WaitGroup
		calls.Go(func() { b.commitOne("g", "", -1, "a", 1, 2) })
		synctest.Wait()
		calls.Go(func() { b.clock.Advance(b.config.RetentionCheckInterval) })
		synctest.Wait()
		close(hold)
		calls.Wait()
		synctest.Wait()
		if b.committed("g", "a", 0) != -1 || b.stored("g", "a", 0) != -1 || b.committed("g", "a", 1) != 2 {
			t.Errorf("offsets %d, %d", b.committed("g", "a", 0), b.committed("g", "a", 1))
		}
	})
}

func TestAnEmptyGroupWithoutOffsetsIsForgotten(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	ids, _ := b.stable("g", 1)
	b.leaveAll("g", ids[0])
	answered(t, b.joinLater("h", joinOptions{version: 4, session: time.Minute})) // never comes back
	b.clock.Advance(10 * time.Minute)
	if b.size() != 0 || len(b.store.groups) != 0 {
		t.Fatalf("%d groups left, records %v", b.size(), b.store.groups)
	}
}

func TestADeletedTopicTakesItsOffsetsAlong(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 2)
	b.makeTopic("b", 1)
	for _, group := range []string{"g", "h"} {
		b.commitOne(group, "", -1, "a", 1, 7)
		b.commitOne(group, "", -1, "b", 0, 8)
	}
	b.deleteTopic("a")
	b.makeTopic("a", 2)
	for _, group := range []string{"g", "h"} {
		if b.committed(group, "a", 1) != -1 || b.committed(group, "b", 0) != 8 {
			t.Fatalf("group %s: %d, %d", group, b.committed(group, "a", 1), b.committed(group, "b", 0))
		}
	}
}

func TestACommitUnderWayDoesNotOutliveItsTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newTestBroker(t)
		b.makeTopic("a", 1)
		release := make(chan struct{})
		b.store.mu.Lock()
		b.store.hold = release
		b.store.mu.Unlock()
		committed := make(chan struct{})
		go func() {
			defer close(committed)
			b.commitOne("g", "", -1, "a", 0, 7)
		}()
		synctest.Wait() // it is being written
		delete(b.byName, "a")
		b.setTopics()
		b.store.deleteTopic("a")
		deleted := make(chan struct{})
		go func() {
			defer close(deleted)
			b.TopicsDeleted([]string{"a"})
		}()
		wantCode(t, "a commit after the deletion", b.commitOne("g", "", -1, "a", 0, 9), protocol.UnknownTopicOrPartition)
		close(release)
		<-committed
		<-deleted
		if b.stored("g", "a", 0) != -1 || b.committed("g", "a", 0) != -1 {
			t.Fatal("the offset is still there")
		}
	})
}

func TestOffsetDelete(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 2)
	b.makeTopic("b", 2)
	m := b.mustJoin("g", joinOptions{protocols: []string{"range", subscribing("a")}})
	b.settle("g", []string{m.MemberID}, m.Generation)
	connect := b.mustJoin("h", joinOptions{kind: "connect"})
	b.settle("h", []string{connect.MemberID}, connect.Generation)
	b.commitOne("g", m.MemberID, m.Generation, "a", 0, 1)
	b.commitOne("g", m.MemberID, m.Generation, "b", 0, 2)
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "h"
	wantCode(t, "not consumers", b.OffsetDelete(req).ErrorCode, protocol.NonEmptyGroup)
	req.Group = "g"
	for _, topic := range []string{"a", "b", "c"} {
		req.Topics = append(req.Topics, kmsg.OffsetDeleteRequestTopic{
			Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 1}, {Partition: 2}},
		})
	}
	var got []int16
	for _, topic := range b.OffsetDelete(req).Topics {
		for _, p := range topic.Partitions {
			got = append(got, p.ErrorCode)
		}
	}
	if want := fmt.Sprint([]int{86, 86, 3, 0, 0, 3, 3, 3, 3}); fmt.Sprint(got) != want {
		t.Fatalf("codes %v, want %v", got, want)
	}
	if b.committed("g", "a", 0) != 1 || b.committed("g", "b", 0) != -1 || b.stored("g", "b", 0) != -1 {
		t.Fatal("the wrong offsets were deleted")
	}
}

// sendInTxn sends an offset in a transaction and returns the code.
func (b *testBroker) sendInTxn(group string, producerID int64, topic string, partition int32, offset int64) int16 {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version, req.Group, req.ProducerID, req.Generation = 3, group, producerID, -1
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}}}
	return b.TxnOffsetCommit(req).Topics[0].Partitions[0].ErrorCode
}

func TestOffsetsOfATransactionCountOnceItIsCommitted(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		b := newTestBroker(t)
		b.makeTopic("a", 3)
		b.commitOne("g", "", -1, "a", 0, 1)
		wantCode(t, "send", b.sendInTxn("g", 7, "a", 0, 10), protocol.None)
		wantCode(t, "send", b.sendInTxn("g", 7, "a", 1, 11), protocol.None)
		wantCode(t, "send", b.sendInTxn("g", 8, "a", 2, 12), protocol.None)
		wantCode(t, "send", b.sendInTxn("h", 7, "a", 0, 13), protocol.None)
		if restarts {
			b.restart()
		}
		for p := range int32(3) {
			wantCode(t, "stable", b.fetchOne("g", "a", p, true).ErrorCode, protocol.UnstableOffsetCommit)
		}
		if b.committed("g", "a", 0) != 1 || b.committed("g", "a", 1) != -1 {
			t.Fatal("offsets of an open transaction are read")
		}
		for range 2 { // completing again changes nothing
			if err := b.CompleteTransaction(7, true); err != nil {
				t.Fatal(err)
			}
			if err := b.CompleteTransaction(8, false); err != nil {
				t.Fatal(err)
			}
		}
		if restarts {
			b.restart()
		}
		for p, want := range []int64{10, 11, -1} {
			got := b.fetchOne("g", "a", int32(p), true)
			if got.ErrorCode != 0 || got.Offset != want || b.stored("g", "a", int32(p)) != want {
				t.Fatalf("partition %d: %+v, want %d", p, got, want)
			}
		}
		if b.committed("h", "a", 0) != 13 {
			t.Fatal("the other group has no offset")
		}
	}
}

func TestATransactionThatCouldNotBeCompletedIsCompletedLater(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	b.sendInTxn("g", 7, "a", 0, 10)
	b.store.setFail(true)
	if b.CompleteTransaction(7, true) == nil {
		t.Fatal("no error")
	}
	b.store.setFail(false)
	wantCode(t, "stable", b.fetchOne("g", "a", 0, true).ErrorCode, protocol.UnstableOffsetCommit)
	if err := b.CompleteTransaction(7, true); err != nil || b.committed("g", "a", 0) != 10 {
		t.Fatalf("error %v, offset %d", err, b.committed("g", "a", 0))
	}
}

func TestOpenTransactionsDontHinderTheDeletionOfAGroup(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	b.sendInTxn("g", 7, "a", 0, 10)
	wantCode(t, "delete", int16(b.deleteGroup("g")), protocol.None)
	if err := b.CompleteTransaction(7, true); err != nil {
		t.Fatal(err)
	}
	if len(b.store.groups)+len(b.store.cursors) != 0 || b.size() != 0 {
		t.Fatalf("left: %v %v", b.store.groups, b.store.cursors)
	}
}

func TestWhatATransactionHasPendingDoesNotExpire(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	b.commitOne("g", "", -1, "a", 0, 1)
	b.sendInTxn("g", 7, "a", 0, 10)
	b.clock.Advance(2 * week)
	if b.committed("g", "a", 0) != 1 {
		t.Fatal("the offset is gone")
	}
}

// TestTheLastOfWhatWasCommittedCounts: whether in a transaction or outside, within a millisecond and over a restart.
func TestTheLastOfWhatWasCommittedCounts(t *testing.T) {
	t.Parallel()
	commit := func(offset int64) func(*testBroker) {
		return func(b *testBroker) { b.commitOne("g", "", -1, "a", 0, offset) }
	}
	send := func(producer, offset int64) func(*testBroker) {
		return func(b *testBroker) { b.sendInTxn("g", producer, "a", 0, offset) }
	}
	complete := func(producer int64) func(*testBroker) {
		return func(b *testBroker) {
			if err := b.CompleteTransaction(producer, true); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		steps []func(*testBroker)
		want  int64
	}{
		"a commit after a transaction's":      {[]func(*testBroker){send(7, 10), commit(20), complete(7)}, 20},
		"a transaction's after a commit":      {[]func(*testBroker){commit(20), send(7, 10), complete(7)}, 10},
		"between two of a transaction":        {[]func(*testBroker){send(7, 10), commit(20), send(7, 11), complete(7)}, 11},
		"two transactions, in their order":    {[]func(*testBroker){send(7, 10), send(8, 11), complete(7), complete(8)}, 11},
		"two transactions, the last one ends": {[]func(*testBroker){send(7, 10), send(8, 11), complete(8), complete(7)}, 11},
	}
	for name, test := range tests {
		for _, between := range []struct {
			name string
			do   func(*testBroker)
		}{
			{"at once", func(*testBroker) {}},
			{"a second later", func(b *testBroker) { b.clock.Advance(time.Second) }},
			{"after a restart", (*testBroker).restart},
		} {
			t.Run(name+"/"+between.name, func(t *testing.T) {
				t.Parallel()
				b := newTestBroker(t)
				b.makeTopic("a", 1)
				for _, step := range test.steps {
					step(b)
					between.do(b)
				}
				if got := b.committed("g", "a", 0); got != test.want {
					t.Errorf("offset %d, want %d", got, test.want)
				}
			})
		}
	}
}

// holdCommits makes each commit of the store wait until something is sent.
func (b *testBroker) holdCommits() chan<- struct{} {
	hold := make(chan struct{})
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.store.hold = hold
	return hold
}

func TestTransactionsGoOnWhileOthersCommitWithoutAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for what, change := range map[string]func(*testBroker) error{
			"complete": func(b *testBroker) error { return b.CompleteTransaction(7, true) },
			"send": func(b *testBroker) error {
				wantCode(b.t, "send", b.sendInTxn("g", 8, "a", 1, 11), protocol.None)
				return nil
			},
		} {
			b := newTestBroker(t)
			b.makeTopic("a", 3)
			wantCode(t, "send", b.sendInTxn("g", 7, "a", 0, 10), protocol.None)
			hold := b.holdCommits()
			var calls sync.WaitGroup
			commit := func() {
				calls.Go(func() { b.commitOne("g", "", -1, "a", 2, 1) })
				synctest.Wait()
			}
			commit() // is being written
			commit() // waits for it
			changed := false
			calls.Go(func() {
				if err := change(b); err != nil {
					t.Error(what, err)
				}
				changed = true
			})
			synctest.Wait()
			for range 2 {
				commit()
				hold <- struct{}{}
				synctest.Wait()
			}
			if !changed {
				t.Errorf("%s waits for as long as others commit", what)
			}
			close(hold)
			calls.Wait()
		}
	})
}

func TestOfTwoTransactionsTheLaterOffsetCountsThoughTheyEndTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newTestBroker(t)
		b.makeTopic("a", 2)
		wantCode(t, "send", b.sendInTxn("g", 7, "a", 0, 10), protocol.None)
		b.clock.Advance(time.Second)
		wantCode(t, "send", b.sendInTxn("g", 8, "a", 0, 20), protocol.None)
		hold := b.holdCommits()
		var calls sync.WaitGroup
		call := func(f func()) {
			calls.Go(f)
			synctest.Wait()
		}
		call(func() { b.commitOne("g", "", -1, "a", 1, 1) }) // is being written, the others gather
		for _, producerID := range []int64{8, 7} {
			call(func() {
				if err := b.CompleteTransaction(producerID, true); err != nil {
					t.Error(err)
				}
			})
		}
		close(hold)
		calls.Wait()
		if memory, store := b.committed("g", "a", 0), b.stored("g", "a", 0); memory != 20 || store != 20 {
			t.Errorf("offset %d in memory, %d in the store, want 20", memory, store)
		}
	})
}

func TestOffsetsSentWhileTheGroupIsDeletedAreInItOrNot(t *testing.T) {
	t.Parallel()
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			b := newTestBroker(t)
			b.makeTopic("a", 2)
			b.commitOne("g", "", -1, "a", 1, 1)
			hold := b.holdCommits()
			var calls sync.WaitGroup
			call := func(f func()) {
				calls.Go(f)
				synctest.Wait()
			}
			call(func() { b.commitOne("g", "", -1, "a", 1, 2) })
			call(func() { wantCode(t, "send", b.sendInTxn("g", 7, "a", 0, 10), protocol.None) })
			call(func() { wantCode(t, "delete", int16(b.deleteGroup("g")), protocol.None) })
			close(hold)
			calls.Wait()
			if err := b.CompleteTransaction(7, true); err != nil {
				t.Fatal(err)
			}
			if len(b.store.groups) != 0 {
				t.Fatalf("a record of a transaction is left that nobody completes: %q", slices.Collect(maps.Keys(b.store.groups)))
			}
			if got, want := b.committed("g", "a", 0), b.stored("g", "a", 0); got != want {
				t.Fatalf("offset %d in memory, %d in the store", got, want)
			}
		})
	}
}

func TestATransactionLeavesNothingOfACommitWhoseOutcomeWasUnknown(t *testing.T) {
	t.Parallel()
	b := newTestBroker(t)
	b.makeTopic("a", 1)
	b.store.setFail(true)
	b.store.deceive = true
	wantCode(t, "send", b.sendInTxn("g", 7, "a", 0, 10), protocol.CoordinatorNotAvailable)
	b.store.setFail(false)
	if err := b.CompleteTransaction(7, false); err != nil {
		t.Fatal(err)
	}
	b.restart()
	wantCode(t, "stable", b.fetchOne("g", "a", 0, true).ErrorCode, protocol.None)
	// The producer's next transaction, in the same epoch, must not bring the offset back.
	wantCode(t, "send", b.sendInTxn("h", 7, "a", 0, 11), protocol.None)
	if err := b.CompleteTransaction(7, true); err != nil || b.committed("g", "a", 0) != -1 {
		t.Fatalf("error %v, offset %d", err, b.committed("g", "a", 0))
	}
}

func BenchmarkOffsetCommit(b *testing.B) {
	broker := newTestBroker(b)
	broker.store.fail = func() bool { return true } // the store's work isn't counted
	broker.makeTopic("a", 10)
	broker.makeTopic("b", 10)
	broker.Coordinator.store = nullStore{}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, "g", -1
	for _, name := range []string{"a", "b"} {
		topic := kmsg.OffsetCommitRequestTopic{Topic: name}
		for p := range int32(5) {
			partition := kmsg.NewOffsetCommitRequestTopicPartition()
			partition.Partition, partition.Offset = p, 100
			topic.Partitions = append(topic.Partitions, partition)
		}
		req.Topics = append(req.Topics, topic)
	}
	b.ReportAllocs()
	for b.Loop() {
		if broker.OffsetCommit(req).Topics[0].Partitions[0].ErrorCode != 0 {
			b.Fatal("not committed")
		}
	}
}

// nullStore keeps nothing.
type nullStore struct{}

func (nullStore) Commit(*meta.Batch) error                                           { return nil }
func (nullStore) Groups(func(string, []byte) error) error                            { return nil }
func (nullStore) Cursors(func(string, meta.TopicPartition, meta.Cursor) error) error { return nil }

func BenchmarkHeartbeat(b *testing.B) {
	for _, groups := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			broker := newTestBroker(b)
			broker.Coordinator.store = nullStore{}
			for i := range groups {
				broker.commitOne(fmt.Sprint("idle", i), "", -1, "a", 0, 1)
			}
			ids, generation := broker.stable("g", 3)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				if broker.beat("g", ids[1], generation) != 0 {
					b.Fatal("not a member")
				}
			}
		})
	}
}
