package txn

import (
	"math"

	"github.com/kbroker/kbroker/protocol"
)

// The functions here decide: from a state and a request they make the next state, or say with which code the request is
// answered. They change nothing.

// versionTwo is the transaction version with a new epoch for each transaction (KIP-890).
const versionTwo int16 = 2

// supportsEpochBump says whether a transaction version gives each transaction an epoch of its own.
func supportsEpochBump(version int16) bool { return version >= versionTwo }

// expected is the producer id and epoch that a producer believes to have (KIP-360).
type expected struct {
	id    int64
	epoch int16
	given bool
}

// checkInit says whether InitProducerId may go on. fence is true if there is a transaction that must be aborted first.
func (s *State) checkInit(want expected) (fence bool, code protocol.ErrorCode) {
	if want.given && s.Epoch != NoEpoch && want.id != s.ProducerID &&
		(want.id != s.PreviousID || want.epoch < lastUsableEpoch) {
		return false, protocol.ProducerFenced
	}
	switch {
	case s.Status.prepared():
		return false, protocol.ConcurrentTransactions
	case s.Status == Ongoing:
		return true, protocol.None
	default:
		return false, protocol.None
	}
}

// rotates says that InitProducerId needs a new producer id, as the current one has no epoch left.
func (s *State) rotates(want expected) bool {
	return s.exhausted() && (!want.given || want.epoch == s.Epoch)
}

// rotated is the state with a new producer id.
func (s *State) rotated(id int64, timeoutMs int32, want expected, nowMs int64) State {
	next := s.initialized(timeoutMs, nowMs)
	next.ProducerID, next.Epoch, next.LastEpoch = id, 0, NoEpoch
	if want.given {
		next.LastEpoch = s.Epoch
	}
	return next
}

// bumped is the state with the next epoch, or with the same one for a producer that asks again.
func (s *State) bumped(timeoutMs int32, want expected, nowMs int64) (State, protocol.ErrorCode) {
	next := s.initialized(timeoutMs, nowMs)
	switch {
	case !want.given:
		next.Epoch, next.LastEpoch = s.Epoch+1, NoEpoch
	case s.Epoch == NoEpoch || want.epoch == s.Epoch:
		next.Epoch, next.LastEpoch = s.Epoch+1, s.Epoch
	case want.epoch != s.LastEpoch:
		return State{}, protocol.ProducerFenced
	}
	return next, protocol.None
}

func (s *State) initialized(timeoutMs int32, nowMs int64) State {
	next := s.change(nowMs)
	next.Status, next.TimeoutMs, next.Partitions, next.StartMs = Empty, timeoutMs, nil, noTime
	return next
}

// checkProducer says whether id and epoch are the current ones.
func (s *State) checkProducer(id int64, epoch int16) protocol.ErrorCode {
	switch {
	case id != s.ProducerID:
		return protocol.InvalidProducerIDMapping
	case epoch != s.Epoch:
		return protocol.ProducerFenced
	default:
		return protocol.None
	}
}

// checkAdd says whether a producer may put partitions into its transaction.
func (s *State) checkAdd(id int64, epoch int16) protocol.ErrorCode {
	code := s.checkProducer(id, epoch)
	if code == protocol.None && s.Status.prepared() {
		code = protocol.ConcurrentTransactions
	}
	return code
}

// added is the state with more partitions in its transaction, which begins if there was none.
func (s *State) added(more []Partition, version int16, nowMs int64) State {
	next := s.change(nowMs)
	if s.Status != Ongoing {
		next.StartMs = nowMs
	}
	next.Status, next.Partitions, next.Version = Ongoing, s.with(more), version
	return next
}

// checkEnd says what EndTxn does: with None and ends the transaction is to be ended; with None alone the answer is that it
// has been, with the producer's id and epoch as they are.
func (s *State) checkEnd(id int64, epoch int16, commit bool, version int16) (ends bool, code protocol.ErrorCode) {
	if supportsEpochBump(version) {
		return s.checkEndV2(id, epoch, commit)
	}
	if code = s.checkProducer(id, epoch); code != protocol.None {
		return false, code
	}
	switch {
	case s.Status == Ongoing:
		return true, protocol.None
	case s.Status == outcome(commit, CompleteCommit, CompleteAbort):
		return false, protocol.None
	case s.Status == outcome(commit, PrepareCommit, PrepareAbort):
		return false, protocol.ConcurrentTransactions
	default:
		return false, protocol.InvalidTxnState
	}
}

func outcome(commit bool, ifSo, ifNot Status) Status {
	if commit {
		return ifSo
	}
	return ifNot
}

// checkEndV2 tells a repeated request from the next one by the epoch:
//
//	                 abort, epoch before   abort, epoch      commit, epoch before   commit, epoch
//	Empty            PRODUCER_FENCED       ends              PRODUCER_FENCED        INVALID_TXN_STATE
//	CompleteAbort    None                  ends              INVALID_TXN_STATE      INVALID_TXN_STATE
//	CompleteCommit   INVALID_TXN_STATE     ends              None                   INVALID_TXN_STATE
func (s *State) checkEndV2(id int64, epoch int16, commit bool) (ends bool, code protocol.ErrorCode) {
	rotated := id == s.PreviousID && epoch == lastUsableEpoch && s.Epoch == 0
	again := rotated || int32(s.Epoch) == int32(epoch)+1
	if id != s.ProducerID && !rotated {
		return false, protocol.InvalidProducerIDMapping
	}
	switch {
	case s.Status == Ongoing && epoch == s.Epoch:
		return true, protocol.None
	case s.Status == Empty && epoch == s.Epoch, s.Status.completed() && epoch == s.Epoch && !again:
		if commit {
			return false, protocol.InvalidTxnState
		}
		return true, protocol.None
	case s.Status.prepared() && !rotated && again:
		if s.Status == outcome(commit, PrepareCommit, PrepareAbort) {
			return false, protocol.ConcurrentTransactions
		}
		return false, protocol.InvalidTxnState
	case s.Status.completed() && again:
		if s.Status == outcome(commit, CompleteCommit, CompleteAbort) {
			return false, protocol.None
		}
		return false, protocol.InvalidTxnState
	default:
		return false, protocol.ProducerFenced
	}
}

// needsID says that the state takes a new producer id when its transaction ends.
func (s *State) needsID(version int16) bool { return supportsEpochBump(version) && s.exhausted() }

// ended is the state with the transaction decided. nextID is a new producer id where needsID says so.
func (s *State) ended(commit bool, version int16, nextID, nowMs int64) State {
	next := s.change(nowMs)
	next.Status = outcome(commit, PrepareCommit, PrepareAbort)
	if s.Status != Ongoing {
		next.StartMs, next.Partitions = nowMs, nil
	}
	next.NextID, next.Version = nextID, version
	if supportsEpochBump(version) {
		next.LastEpoch = s.Epoch
		next.Epoch = nextEpoch(s.Epoch)
	}
	return next
}

// fenced is the state with the transaction aborted by the coordinator, which shuts the producer out by the next epoch.
func (s *State) fenced(version int16, nextID, nowMs int64) State {
	next := s.ended(false, version, nextID, nowMs)
	if !supportsEpochBump(version) {
		next.Epoch, next.LastEpoch = nextEpoch(s.Epoch), NoEpoch
	}
	return next
}

// nextEpoch is one more; the last one of all stays.
func nextEpoch(epoch int16) int16 {
	if epoch == math.MaxInt16 {
		return epoch
	}
	return epoch + 1
}

// complete is the state once all markers are written.
func (s *State) complete(nowMs int64) State {
	next := s.change(nowMs)
	next.Status = CompleteAbort
	if s.Status == PrepareCommit {
		next.Status = CompleteCommit
	}
	next.ProducerID, next.Epoch = s.after()
	next.NextID, next.Partitions = NoProducerID, nil
	return next
}

// after is the producer id and epoch that hold once the prepared transaction is complete.
func (s *State) after() (id int64, epoch int16) {
	if supportsEpochBump(s.Version) && s.NextID != NoProducerID {
		return s.NextID, 0
	}
	return s.ProducerID, s.Epoch
}
