package txn

import (
	"math"
	"reflect"
	"testing"

	"github.com/kbroker/kbroker/protocol"
)

// The table of KIP-890 for a repeated and for the next EndTxn, and what comes before it.
func TestEndIsToldFromItsRepetition(t *testing.T) {
	t.Parallel()
	const before, current, after = 4, 5, 6
	tests := []struct {
		status  Status
		epoch   int16
		commit  bool
		version int16
		ends    bool
		code    protocol.ErrorCode
	}{
		{Empty, before, false, 2, false, protocol.ProducerFenced},
		{Empty, before, true, 2, false, protocol.ProducerFenced},
		{Empty, current, false, 2, true, protocol.None},
		{Empty, current, true, 2, false, protocol.InvalidTxnState},
		{CompleteAbort, before, false, 2, false, protocol.None},
		{CompleteAbort, before, true, 2, false, protocol.InvalidTxnState},
		{CompleteAbort, current, false, 2, true, protocol.None},
		{CompleteAbort, current, true, 2, false, protocol.InvalidTxnState},
		{CompleteCommit, before, false, 2, false, protocol.InvalidTxnState},
		{CompleteCommit, before, true, 2, false, protocol.None},
		{CompleteCommit, current, false, 2, true, protocol.None},
		{CompleteCommit, current, true, 2, false, protocol.InvalidTxnState},
		{CompleteCommit, after, true, 2, false, protocol.ProducerFenced},
		{Ongoing, current, true, 2, true, protocol.None},
		{Ongoing, before, true, 2, false, protocol.ProducerFenced},
		{Ongoing, after, true, 2, false, protocol.ProducerFenced},
		{PrepareCommit, before, true, 2, false, protocol.ConcurrentTransactions},
		{PrepareCommit, before, false, 2, false, protocol.InvalidTxnState},
		{PrepareCommit, current, true, 2, false, protocol.ProducerFenced},
		{PrepareAbort, before, false, 2, false, protocol.ConcurrentTransactions},
		{PrepareAbort, before, true, 2, false, protocol.InvalidTxnState},

		{Empty, current, true, 0, false, protocol.InvalidTxnState},
		{Empty, current, false, 0, false, protocol.InvalidTxnState},
		{Empty, before, false, 0, false, protocol.ProducerFenced},
		{Ongoing, current, false, 0, true, protocol.None},
		{CompleteCommit, current, true, 0, false, protocol.None},
		{CompleteCommit, current, false, 0, false, protocol.InvalidTxnState},
		{CompleteCommit, before, true, 0, false, protocol.ProducerFenced},
		{CompleteAbort, current, false, 0, false, protocol.None},
		{CompleteAbort, current, true, 0, false, protocol.InvalidTxnState},
		{PrepareCommit, current, true, 0, false, protocol.ConcurrentTransactions},
		{PrepareCommit, current, false, 0, false, protocol.InvalidTxnState},
		{PrepareAbort, current, false, 0, false, protocol.ConcurrentTransactions},
	}
	for _, tt := range tests {
		s := State{Status: tt.status, ProducerID: 9, PreviousID: 9, NextID: NoProducerID, Epoch: current, LastEpoch: before}
		ends, code := s.checkEnd(9, tt.epoch, tt.commit, tt.version)
		if ends != tt.ends || code != tt.code {
			t.Errorf("%v, epoch %d, commit %v, version %d: %v, %v; want %v, %v",
				tt.status, tt.epoch, tt.commit, tt.version, ends, code, tt.ends, tt.code)
		}
		if _, code = s.checkEnd(8, tt.epoch, tt.commit, tt.version); code != protocol.InvalidProducerIDMapping {
			t.Errorf("another producer: %v", code)
		}
	}
}

func TestEndThatGotANewProducerIDIsKnownAgain(t *testing.T) {
	t.Parallel()
	s := State{Status: CompleteCommit, ProducerID: 10, PreviousID: 9, NextID: NoProducerID, Epoch: 0, LastEpoch: lastUsableEpoch}
	if ends, code := s.checkEnd(9, lastUsableEpoch, true, 2); ends || code != protocol.None {
		t.Errorf("%v, %v", ends, code)
	}
	if _, code := s.checkEnd(9, lastUsableEpoch, false, 2); code != protocol.InvalidTxnState {
		t.Errorf("the other way: %v", code)
	}
	if _, code := s.checkEnd(9, lastUsableEpoch-1, true, 2); code != protocol.InvalidProducerIDMapping {
		t.Errorf("another epoch: %v", code)
	}
}

func TestExpectedEpochs(t *testing.T) {
	t.Parallel()
	given := func(id int64, epoch int16) expected { return expected{id, epoch, true} }
	tests := map[string]struct {
		epoch, last         int16
		want                expected
		check               protocol.ErrorCode
		bump                protocol.ErrorCode
		nextEpoch, nextLast int16
	}{
		"none":               {5, 4, expected{}, 0, 0, 6, NoEpoch},
		"right":              {5, 4, given(9, 5), 0, 0, 6, 5},
		"asked before":       {5, 4, given(9, 4), 0, 0, 5, 4},
		"old":                {5, 4, given(9, 3), 0, protocol.ProducerFenced, 0, 0},
		"ahead":              {5, 4, given(9, 6), 0, protocol.ProducerFenced, 0, 0},
		"another id":         {5, 4, given(3, 5), protocol.ProducerFenced, 0, 6, 5},
		"previous, not last": {0, lastUsableEpoch, given(8, 17), protocol.ProducerFenced, protocol.ProducerFenced, 0, 0},
		"previous, last":     {0, lastUsableEpoch, given(8, lastUsableEpoch), 0, 0, 0, lastUsableEpoch},
		"new":                {NoEpoch, NoEpoch, given(3, 77), 0, 0, 0, NoEpoch},
	}
	for name, tt := range tests {
		s := State{ProducerID: 9, PreviousID: 8, Epoch: tt.epoch, LastEpoch: tt.last}
		fence, code := s.checkInit(tt.want)
		if fence || code != tt.check {
			t.Errorf("%s: checked as %v, %v", name, fence, code)
		}
		next, code := s.bumped(1000, tt.want, 1)
		if code != tt.bump || code == protocol.None && (next.Epoch != tt.nextEpoch || next.LastEpoch != tt.nextLast) {
			t.Errorf("%s: %v, %+v", name, code, next)
		}
	}
}

func TestInitDuringATransaction(t *testing.T) {
	t.Parallel()
	for status, want := range map[Status]struct {
		fence bool
		code  protocol.ErrorCode
	}{
		Empty: {}, CompleteAbort: {}, CompleteCommit: {}, Ongoing: {true, protocol.None},
		PrepareAbort: {false, protocol.ConcurrentTransactions}, PrepareCommit: {false, protocol.ConcurrentTransactions},
	} {
		s := State{Status: status, ProducerID: 9, Epoch: 1}
		if fence, code := s.checkInit(expected{}); fence != want.fence || code != want.code {
			t.Errorf("%v: %v, %v", status, fence, code)
		}
	}
}

func TestFencing(t *testing.T) {
	t.Parallel()
	s := State{Status: Ongoing, ProducerID: 9, NextID: NoProducerID, Epoch: 5, LastEpoch: 4, StartMs: 7, Partitions: []Partition{{"a", 0}}}
	for version, last := range map[int16]int16{0: NoEpoch, 1: NoEpoch, 2: 5} {
		next := s.fenced(version, NoProducerID, 8)
		if next.Status != PrepareAbort || next.Epoch != 6 || next.LastEpoch != last || next.StartMs != 7 || len(next.Partitions) != 1 {
			t.Errorf("version %d: %+v", version, next)
		}
	}
	s.Epoch = math.MaxInt16
	if next := s.fenced(2, 10, 8); next.Epoch != math.MaxInt16 || next.NextID != 10 {
		t.Errorf("at the last epoch: %+v", next)
	}
	done := s.fenced(2, 10, 8)
	if done = done.complete(9); done.ProducerID != 10 || done.Epoch != 0 || done.NextID != NoProducerID || done.PreviousID != 9 {
		t.Errorf("then: %+v", done)
	}
}

func TestPartitionsAreAddedInOrderAndOnce(t *testing.T) {
	t.Parallel()
	var s State
	first := s.added([]Partition{{"b", 1}, {"a", 3}, {"b", 0}}, 0, 5)
	second := first.added([]Partition{{"b", 1}, {"a", 2}}, 2, 6)
	if want := []Partition{{"a", 3}, {"b", 0}, {"b", 1}}; !reflect.DeepEqual(first.Partitions, want) {
		t.Errorf("%v, want %v", first.Partitions, want)
	}
	if want := []Partition{{"a", 2}, {"a", 3}, {"b", 0}, {"b", 1}}; !reflect.DeepEqual(second.Partitions, want) {
		t.Errorf("%v, want %v", second.Partitions, want)
	}
	if first.StartMs != 5 || second.StartMs != 5 || second.UpdateMs != 6 {
		t.Errorf("started %d and %d, updated %d", first.StartMs, second.StartMs, second.UpdateMs)
	}
	if !second.hasAll([]Partition{{"a", 2}, {"b", 1}}) || second.hasAll([]Partition{{"a", 2}, {"c", 1}}) {
		t.Error("what the transaction has is told wrong")
	}
}

func TestStatusNames(t *testing.T) {
	t.Parallel()
	for s := Empty; s <= CompleteAbort; s++ {
		if got, known := StatusNamed(s.String()); got != s || !known {
			t.Errorf("%v is read back as %v, %v", s, got, known)
		}
	}
	for name, want := range map[string]bool{"Dead": true, "PrepareEpochFence": true, "ongoing": false, "": false} {
		if s, known := StatusNamed(name); known != want || known && s <= CompleteAbort {
			t.Errorf("%q: %v, %v", name, s, known)
		}
	}
}
