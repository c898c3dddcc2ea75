package producer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kbroker/kbroker/protocol/batch"
)

// WindowSize is how many batches of a producer are remembered: as many as a client may have in flight.
const WindowSize = 5

// None stands for an epoch, sequence, timestamp or offset that isn't there.
const None = -1

// The ways in which a batch is refused. They come wrapped, with what was expected.
var (
	// ErrOutOfOrderSequence is returned when a batch doesn't follow the producer's last one.
	ErrOutOfOrderSequence = errors.New("out of order sequence number")
	// ErrProducerEpoch is returned when a batch or a marker has an older producer epoch than one seen before.
	ErrProducerEpoch = errors.New("producer epoch is older than the current one")
	// ErrTransactionNotOpen is returned when a transactional batch comes without an open or verified transaction.
	ErrTransactionNotOpen = errors.New("transaction is not open in this partition")
	// ErrTransactionOpen is returned when a producer sends a batch outside its open transaction.
	ErrTransactionOpen = errors.New("producer has an open transaction")
	// ErrCoordinatorEpoch is returned when a marker has an older coordinator epoch than one seen before.
	ErrCoordinatorEpoch = errors.New("coordinator epoch is older than the current one")
)

// Options says what is known of a batch beyond its bytes.
type Options struct {
	// TransactionVerified says that the coordinator vouches for the batch's transaction, so that it may begin here.
	TransactionVerified bool
	// TransactionV2 demands that a transactional producer that isn't known here starts at sequence 0, and that a marker has a
	// higher epoch than the transaction it ends, so that a late one can't end the next (KIP-890, KIP-1228).
	TransactionV2 bool
}

// Entry is one batch in a producer's window.
type Entry struct {
	FirstSequence, LastSequence int32
	BaseOffset, LastOffset      int64
	MaxTimestamp                int64 // ms
}

// Completed is a transaction that a marker has ended.
type Completed struct {
	ProducerID  int64
	FirstOffset int64 // of the transaction's first batch
	LastOffset  int64 // of the marker
	Aborted     bool
	// LastStable is where the earliest transaction begins that is still open, else the offset after the marker: all
	// transactions below it have ended.
	LastStable int64
}

// Producer is what is known of one producer.
type Producer struct {
	ProducerID       int64
	Epoch            int16
	CoordinatorEpoch int32 // None before the first marker
	LastSequence     int32 // None if only markers are known
	LastTimestamp    int64 // ms, by the producer's records or the marker; None if they have none
	TxnStartOffset   int64 // None if no transaction is open
}

// State is what one partition knows of its producers. It is not safe for concurrent use.
type State struct {
	expirationMs int64
	producers    map[int64]*entry
	open         []*entry    // invariant 1
	unsettled    []Completed // ended by markers that may not be durable yet, in the markers' order
	waiting      map[int64]unverified
}

// unverified is the earliest of a producer's transactional batches that were sent back to be verified. What comes behind it
// must not get in before it does.
type unverified struct {
	epoch    int16
	sequence int32
}

// maxWaiting bounds the producers whose unverified batches are remembered; any client may send such batches.
const maxWaiting = 1024

// entry is a producer. Its window starts at the oldest batch.
type entry struct {
	Producer
	window [WindowSize]Entry
	used   int
}

// New makes the state of an empty log. Producers are forgotten expirationMs after their last record; < 0 means never.
func New(expirationMs int64) *State {
	return &State{expirationMs: expirationMs, producers: map[int64]*entry{}}
}

// SetExpiration replaces the expiration; it holds from the next Expire on.
func (s *State) SetExpiration(expirationMs int64) { s.expirationMs = expirationMs }

// Len is the number of producers known.
func (s *State) Len() int { return len(s.producers) }

// Check says whether a batch may be appended. For a duplicate it returns the batch that was stored, and no error; the
// caller answers with that and appends nothing. Batches without a producer id always pass. For a marker only the epochs are
// checked. Nothing is changed, but that a batch was sent back to be verified is remembered. Errors: ErrOutOfOrderSequence, ErrProducerEpoch, ErrTransactionNotOpen,
// ErrTransactionOpen, ErrCoordinatorEpoch; a batch that fails several checks gets the error of Kafka's first.
func (s *State) Check(b batch.Batch, o Options) (dup *Entry, err error) {
	id := b.ProducerID()
	if id < 0 {
		return nil, nil
	}
	e := s.producers[id]
	if b.IsControl() {
		return nil, checkMarker(e, b, o)
	}
	if b.IsTransactional() && !o.TransactionVerified && !e.inTransaction(b.ProducerEpoch()) {
		s.await(e, b)
		return nil, fmt.Errorf("%w: producer %d epoch %d", ErrTransactionNotOpen, id, b.ProducerEpoch())
	}
	if d := e.find(b); d != nil {
		return d, nil
	}
	if e == nil {
		if b.ProducerEpoch() < None {
			return nil, fmt.Errorf("%w: producer %d epoch %d", ErrProducerEpoch, id, b.ProducerEpoch())
		}
		if b.IsTransactional() && o.TransactionV2 && b.BaseSequence() != 0 {
			return nil, fmt.Errorf("%w: unknown producer %d starts at %d", ErrOutOfOrderSequence, id, b.BaseSequence())
		}
		return nil, s.checkWaiting(b)
	}
	if err = e.checkEpoch(b); err != nil {
		return nil, err
	}
	if err = s.checkWaiting(b); err != nil {
		return nil, err
	}
	if err = e.checkSequence(b); err != nil {
		return nil, err
	}
	if e.TxnStartOffset != None && !b.IsTransactional() {
		return nil, fmt.Errorf("%w: producer %d since offset %d", ErrTransactionOpen, id, e.TxnStartOffset)
	}
	return nil, nil
}

func checkMarker(e *entry, b batch.Batch, o Options) error {
	if e == nil {
		return nil
	}
	if err := e.checkEpoch(b); err != nil {
		return err
	}
	if o.TransactionV2 && b.ProducerEpoch() == e.Epoch && e.TxnStartOffset != None && e.Epoch != math.MaxInt16 {
		return fmt.Errorf("%w: producer %d epoch %d ended by a marker of the same", ErrProducerEpoch, e.ProducerID, e.Epoch)
	}
	m, err := batch.ParseMarker(b)
	if err != nil {
		return nil //nolint:nilerr // other control batches mean nothing to producers
	}
	if m.CoordinatorEpoch < e.CoordinatorEpoch {
		return fmt.Errorf("%w: %d after %d", ErrCoordinatorEpoch, m.CoordinatorEpoch, e.CoordinatorEpoch)
	}
	return nil
}

// await remembers a batch that was sent back to be verified.
func (s *State) await(e *entry, b batch.Batch) {
	if e != nil && b.ProducerEpoch() < e.Epoch {
		return
	}
	before, known := s.waiting[b.ProducerID()]
	if known && (b.ProducerEpoch() < before.epoch || b.ProducerEpoch() == before.epoch && b.BaseSequence() >= before.sequence) {
		return
	}
	if s.waiting == nil || len(s.waiting) >= maxWaiting {
		s.waiting = make(map[int64]unverified)
	}
	s.waiting[b.ProducerID()] = unverified{b.ProducerEpoch(), b.BaseSequence()}
}

// checkWaiting says whether an earlier batch of the producer still has to be verified and sent again.
func (s *State) checkWaiting(b batch.Batch) error {
	if len(s.waiting) == 0 {
		return nil
	}
	if first, ok := s.waiting[b.ProducerID()]; ok && b.BaseSequence() > first.sequence {
		return fmt.Errorf("%w: producer %d sends %d before %d, which was not verified",
			ErrOutOfOrderSequence, b.ProducerID(), b.BaseSequence(), first.sequence)
	}
	return nil
}

// Append takes note of a batch that has been written at an offset. If it is a marker that ended a transaction with data
// in this partition, that is returned and ok is true.
func (s *State) Append(b batch.Batch, baseOffset int64) (done Completed, ok bool) {
	if b.ProducerID() < 0 {
		return done, false
	}
	if b.IsTransactional() {
		delete(s.waiting, b.ProducerID())
	}
	if b.IsControl() {
		return s.marker(b, baseOffset)
	}
	e := s.get(b.ProducerID())
	e.add(b, baseOffset)
	if e.TxnStartOffset == None && b.IsTransactional() {
		e.TxnStartOffset = baseOffset
		s.open = append(s.open, e)
	}
	return done, false
}

// Replay takes note of a batch that is found in the log, at the offset that it has there, without any checks.
func (s *State) Replay(b batch.Batch) (done Completed, ok bool) {
	return s.Append(b, b.BaseOffset())
}

func (s *State) get(id int64) *entry {
	e, ok := s.producers[id]
	if !ok {
		e = &entry{Producer: Producer{
			ProducerID: id, Epoch: None, CoordinatorEpoch: None, LastSequence: None, LastTimestamp: None, TxnStartOffset: None,
		}}
		s.producers[id] = e
	}
	return e
}

func (s *State) marker(b batch.Batch, offset int64) (done Completed, ok bool) {
	m, err := batch.ParseMarker(b)
	if err != nil {
		return done, false
	}
	e := s.get(b.ProducerID())
	e.setEpoch(b.ProducerEpoch())
	e.CoordinatorEpoch = m.CoordinatorEpoch
	e.LastTimestamp = b.MaxTimestamp()
	if e.TxnStartOffset == None {
		return done, false
	}
	done = Completed{ProducerID: e.ProducerID, FirstOffset: e.TxnStartOffset, LastOffset: offset, Aborted: !m.Commit}
	e.TxnStartOffset = None
	s.open = slices.DeleteFunc(s.open, func(o *entry) bool { return o == e })
	done.LastStable = offset + 1
	if len(s.open) > 0 {
		done.LastStable = s.open[0].TxnStartOffset
	}
	s.unsettled = append(s.unsettled, done)
	return done, true
}

// FirstUnstable is where the earliest transaction begins that is open, or ended by a marker not below the high watermark:
// until the marker is durable, nobody may rely on how the transaction ended. Calls with a high watermark below an earlier
// call's are not allowed.
func (s *State) FirstUnstable(highWatermark int64) (offset int64, ok bool) {
	settled := 0
	for settled < len(s.unsettled) && s.unsettled[settled].LastOffset < highWatermark {
		settled++
	}
	s.unsettled = slices.Delete(s.unsettled, 0, settled)
	offset = math.MaxInt64
	if len(s.open) > 0 {
		offset = s.open[0].TxnStartOffset
	}
	for _, c := range s.unsettled {
		offset = min(offset, c.FirstOffset)
	}
	return offset, offset != math.MaxInt64
}

// Expire forgets the producers whose last record is older than the expiration, and says how many.
func (s *State) Expire(nowMs int64) int {
	if s.expirationMs < 0 {
		return 0
	}
	before := len(s.producers)
	for id, e := range s.producers {
		if e.TxnStartOffset == None && nowMs-e.LastTimestamp >= s.expirationMs {
			delete(s.producers, id)
		}
	}
	return before - len(s.producers)
}

// Producers lists all producers by id.
func (s *State) Producers() []Producer {
	list := make([]Producer, 0, len(s.producers))
	for _, e := range s.producers {
		list = append(list, e.Producer)
	}
	slices.SortFunc(list, func(a, b Producer) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return list
}

// find returns the batch in the window that b is a duplicate of.
func (e *entry) find(b batch.Batch) *Entry {
	if e == nil || e.Epoch != b.ProducerEpoch() {
		return nil
	}
	first, last := b.BaseSequence(), b.LastSequence()
	for i := range e.used {
		if w := &e.window[i]; w.FirstSequence == first && w.LastSequence == last {
			dup := *w
			return &dup
		}
	}
	return nil
}

func (e *entry) inTransaction(epoch int16) bool {
	return e != nil && e.TxnStartOffset != None && e.Epoch == epoch
}

func (e *entry) checkEpoch(b batch.Batch) error {
	if b.ProducerEpoch() < e.Epoch {
		return fmt.Errorf("%w: producer %d epoch %d after %d", ErrProducerEpoch, e.ProducerID, b.ProducerEpoch(), e.Epoch)
	}
	return nil
}

func (e *entry) checkSequence(b batch.Batch) error {
	if e.Epoch == None {
		return nil
	}
	want := int32(0) // for a new epoch, and for one of which only a marker is known
	if e.Epoch == b.ProducerEpoch() {
		want = nextSequence(e.LastSequence)
	}
	if b.BaseSequence() != want {
		return fmt.Errorf("%w: producer %d epoch %d sequence %d, expected %d",
			ErrOutOfOrderSequence, e.ProducerID, b.ProducerEpoch(), b.BaseSequence(), want)
	}
	return nil
}

// nextSequence follows a sequence, or None; sequences wrap from MaxInt32 to 0.
func nextSequence(s int32) int32 {
	if s == math.MaxInt32 {
		return 0
	}
	return s + 1
}

// setEpoch moves to another epoch, of which no batches are known.
func (e *entry) setEpoch(epoch int16) {
	if e.Epoch == epoch {
		return
	}
	e.Epoch, e.used, e.LastSequence = epoch, 0, None
}

func (e *entry) add(b batch.Batch, baseOffset int64) {
	e.setEpoch(b.ProducerEpoch())
	if e.used == WindowSize {
		copy(e.window[:], e.window[1:])
		e.used--
	}
	e.window[e.used] = Entry{
		FirstSequence: b.BaseSequence(),
		LastSequence:  b.LastSequence(),
		BaseOffset:    baseOffset,
		LastOffset:    baseOffset + int64(b.LastOffsetDelta()),
		MaxTimestamp:  b.MaxTimestamp(),
	}
	e.used++
	e.LastSequence = b.LastSequence()
	e.LastTimestamp = b.MaxTimestamp()
}
