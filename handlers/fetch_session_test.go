package handlers

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
)

// sessionRequest is a Fetch in a session that doesn't wait.
func sessionRequest(version int16, id, epoch int32, topic string, partitions ...int32) *kmsg.FetchRequest {
	req := fetchRequest(version, topic, partitions...)
	req.MaxWaitMillis, req.SessionID, req.SessionEpoch = 0, id, epoch
	if len(partitions) == 0 {
		req.Topics = nil
	}
	return req
}

// told lists the partitions in an answer.
func told(body *kmsg.FetchResponse) []int32 {
	var all []int32
	for i := range body.Topics {
		for j := range body.Topics[i].Partitions {
			all = append(all, body.Topics[i].Partitions[j].Partition)
		}
	}
	return all
}

func TestFetchSessionTellsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 3)
	first := p.fetchNow(sessionRequest(12, 0, 0, "a", 0, 1, 2))
	id := first.SessionID
	if id == 0 || !equal(told(first), []int32{0, 1, 2}) {
		t.Fatalf("full: %+v", first)
	}
	epoch := int32(0)
	next := func(change func(*kmsg.FetchRequest), partitions ...int32) *kmsg.FetchResponse {
		t.Helper()
		epoch++
		req := sessionRequest(12, id, epoch, "a", partitions...)
		if change != nil {
			change(req)
		}
		body := p.fetchNow(req)
		if body.ErrorCode != 0 || body.SessionID != id {
			t.Fatalf("epoch %d: %+v", epoch, body)
		}
		return body
	}
	if got := told(next(nil)); len(got) != 0 {
		t.Errorf("nothing new: %v", got)
	}
	fill(t, logs[1], 1, 10)
	if got := told(next(nil)); !equal(got, []int32{1}) {
		t.Errorf("after an append: %v", got)
	}
	at := func(offset int64) func(*kmsg.FetchRequest) {
		return func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].FetchOffset = offset }
	}
	if got := told(next(at(1), 1)); len(got) != 0 {
		t.Errorf("after moving on: %v", got)
	}
	if _, err := logs[1].Trim(1); err != nil {
		t.Fatal(err)
	}
	if got := told(next(nil)); !equal(got, []int32{1}) {
		t.Errorf("after the start moved: %v", got)
	}
	forget := func(r *kmsg.FetchRequest) {
		r.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "a", Partitions: []int32{0}}}
	}
	fill(t, logs[0], 1, 10)
	fill(t, logs[2], 1, 10)
	if got := told(next(forget)); !equal(got, []int32{2}) {
		t.Errorf("after forgetting one: %v", got)
	}
	p.noLeaks(logs...)
}

func TestFetchSessionRepeatsErrorsAndSaysWhenTheyAreGone(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.topic("a", 1)
	id := p.fetchNow(sessionRequest(12, 0, 0, "b", 0)).SessionID
	for epoch := int32(1); epoch < 3; epoch++ {
		if got := p.fetchNow(sessionRequest(12, id, epoch, "")); len(told(got)) != 1 || got.Topics[0].Partitions[0].ErrorCode != 3 {
			t.Errorf("epoch %d: %+v", epoch, got)
		}
	}
	p.topic("b", 1)
	if got := p.fetchNow(sessionRequest(12, id, 3, "")); len(told(got)) != 1 || got.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("once it is there: %+v", got)
	}
	if got := p.fetchNow(sessionRequest(12, id, 4, "")); len(told(got)) != 0 {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestFetchSessionLetsPartitionsTakeTurns(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 3)
	for _, l := range logs {
		fill(t, l, 1, 10)
	}
	limited := func(epoch, id int32, partitions ...int32) *kmsg.FetchResponse {
		req := sessionRequest(12, id, epoch, "a", partitions...)
		req.MaxBytes = 1
		return p.fetchNow(req)
	}
	withRecords := func(body *kmsg.FetchResponse) int32 {
		for i, n := range sizes(body) {
			if n > 0 {
				return told(body)[i]
			}
		}
		return -1
	}
	body := limited(0, 0, 0, 1, 2)
	got := []int32{withRecords(body)}
	for epoch := int32(1); epoch < 5; epoch++ {
		got = append(got, withRecords(limited(epoch, body.SessionID)))
	}
	if !equal(got, []int32{0, 1, 2, 0, 1}) {
		t.Errorf("records came from %v", got)
	}
}

func TestFetchSessionErrors(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	topic, _ := p.topic("a", 1)
	id := p.fetchNow(sessionRequest(12, 0, 0, "a", 0)).SessionID
	refused := func(req *kmsg.FetchRequest, code protocol.ErrorCode) {
		t.Helper()
		if body := p.fetchNow(req); body.ErrorCode != int16(code) || body.SessionID != 0 || len(body.Topics) != 0 {
			t.Errorf("got %+v, want code %d", body, code)
		}
	}
	refused(sessionRequest(12, id+1, 1, ""), protocol.FetchSessionIDNotFound)
	refused(sessionRequest(12, id, 2, ""), protocol.InvalidFetchSessionEpoch)
	byID := sessionRequest(13, id, 1, "", 0)
	byID.Topics[0].TopicID = topic.ID
	refused(byID, protocol.FetchSessionTopicIDError)
	if body := p.fetchNow(sessionRequest(12, id, 1, "")); body.ErrorCode != 0 || body.SessionID != id {
		t.Errorf("the session didn't live on: %+v", body)
	}
	if body := p.fetchNow(sessionRequest(12, id, -1, "a", 0)); body.ErrorCode != 0 || body.SessionID != 0 || len(told(body)) != 1 {
		t.Errorf("final: %+v", body)
	}
	refused(sessionRequest(12, id, 2, ""), protocol.FetchSessionIDNotFound)
}

func TestFetchSessionThatForgetsAllAnswersTheRequestWithoutOne(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.topic("a", 1)
	id := p.fetchNow(sessionRequest(12, 0, 0, "a", 0)).SessionID
	req := sessionRequest(12, id, 1, "a", 0)
	req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "a", Partitions: []int32{0}}}
	if body := p.fetchNow(req); body.ErrorCode != 0 || body.SessionID != 0 || len(told(body)) != 1 {
		t.Errorf("got %+v", body)
	}
	if body := p.fetchNow(sessionRequest(12, id, 2, "")); body.ErrorCode != int16(protocol.FetchSessionIDNotFound) {
		t.Errorf("the session lives on: %+v", body)
	}
}

func TestFetchSessionThatMovedOnWhileAFetchWaited(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 1)
	id := p.fetchNow(sessionRequest(12, 0, 0, "a", 0)).SessionID
	waiting := sessionRequest(12, id, 1, "")
	waiting.MaxWaitMillis = 500
	wait := p.fetchLater(t.Context(), waiting)
	if body := p.fetchNow(sessionRequest(12, id, 2, "")); body.ErrorCode != 0 {
		t.Fatalf("second: %+v", body)
	}
	fill(t, logs[0], 1, 10)
	if body := wait(); body.ErrorCode != int16(protocol.InvalidFetchSessionEpoch) {
		t.Errorf("first: %+v", body)
	}
	p.noLeaks(logs...)
}

func TestFetchSessionOfADeletedTopic(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	topic, _ := p.topic("a", 1)
	req := sessionRequest(13, 0, 0, "", 0)
	req.Topics[0].TopicID = topic.ID
	id := p.fetchNow(req).SessionID
	if _, err := p.store.DeleteTopics([]storage.TopicID{topic.ID}); err != nil {
		t.Fatal(err)
	}
	code := func(epoch int32) protocol.ErrorCode {
		body := p.fetchNow(sessionRequest(13, id, epoch, ""))
		if len(body.Topics) != 1 || body.Topics[0].TopicID != topic.ID {
			t.Fatalf("got %+v", body)
		}
		return protocol.ErrorCode(body.Topics[0].Partitions[0].ErrorCode)
	}
	if got := code(1); got != protocol.UnknownTopicOrPartition {
		t.Errorf("deleted: %d", got)
	}
	if _, err := p.store.CreateTopic(meta.Topic{Name: "a", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if got := code(2); got != protocol.InconsistentTopicID {
		t.Errorf("made again: %d", got)
	}
}

func TestFetchSessionsAreBounded(t *testing.T) {
	t.Parallel()
	p := newPlane(t, "max.incremental.fetch.session.cache.slots", "2")
	p.topic("a", 4)
	start := func(partitions ...int32) int32 {
		return p.fetchNow(sessionRequest(12, 0, 0, "a", partitions...)).SessionID
	}
	alive := func(id, epoch int32) bool { return p.fetchNow(sessionRequest(12, id, epoch, "")).ErrorCode == 0 }
	small, large := start(0), start(0, 1, 2)
	if start(0) != 0 {
		t.Fatal("a third session though there are two slots")
	}
	p.clock.Advance(sessionEviction)
	if !alive(small, 1) || !alive(large, 1) {
		t.Fatal("a session ended though it had the right")
	}
	p.clock.Advance(time.Millisecond)
	if id := start(0); id != 0 {
		t.Fatal("a small session took the slot of one as small")
	}
	if id := start(0, 1); id == 0 || alive(small, 2) || !alive(large, 2) {
		t.Fatal("a larger session didn't take the slot of the smaller one")
	}
	p.clock.Advance(2 * sessionEviction)
	if id := start(0); id == 0 {
		t.Fatal("the slot of an unused session wasn't taken")
	}
	if n := p.data.sessions.count(); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

func TestFetchSessionEpochsWrapToOne(t *testing.T) {
	t.Parallel()
	for epoch, want := range map[int32]int32{1: 2, math.MaxInt32 - 1: math.MaxInt32, math.MaxInt32: 1} {
		if got := nextSessionEpoch(epoch); got != want {
			t.Errorf("after %d: %d, want %d", epoch, got, want)
		}
	}
}

func TestFetchAnswersAPartitionThatComesTwiceOnce(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 2)
	fill(t, logs[0], 1, 10)
	req := fetchRequest(12, "a", 0, 1, 0)
	if got := told(p.fetchNow(req)); !equal(got, []int32{0, 1}) {
		t.Errorf("got %v", got)
	}
	p.noLeaks(logs...)
}

func TestFetchSessionsAreBoundedByTheirPartitions(t *testing.T) {
	t.Parallel()
	s := newFetchSessions(clock.NewManual(planeStart), 10)
	large := &fetchSession{size: maxSessionPartitions - 1}
	if s.add(large) == noSession {
		t.Fatal("no room for the first")
	}
	if s.add(&fetchSession{size: 2}) != noSession {
		t.Error("room for two more partitions")
	}
	small := &fetchSession{size: 1}
	if s.add(small) == noSession {
		t.Error("no room for one more partition")
	}
	if s.resize(small, 2) || s.get(small.id) != nil {
		t.Error("a session that grew beyond the bound lives on")
	}
	s.remove(large.id)
	if s.mu.partitions != 0 || s.count() != 0 {
		t.Errorf("%d partitions in %d sessions left", s.mu.partitions, s.count())
	}
}

func TestFetchSessionsAreShownInMetrics(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	r := prometheus.NewRegistry()
	if err := p.data.register(r); err != nil {
		t.Fatal(err)
	}
	p.topic("a", 1)
	req := fetchRequest(12, "a", 0)
	req.SessionEpoch, req.MaxWaitMillis = 0, 0
	p.fetchNow(req)
	found, err := r.Gather()
	if err != nil || len(found) != 1 || found[0].GetMetric()[0].GetGauge().GetValue() != 1 {
		t.Errorf("got %v, %v", found, err)
	}
	if p.data.register(r) == nil {
		t.Error("registered twice")
	}
}
