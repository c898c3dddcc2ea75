package producer

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
)

// model is a naive account of a log: every batch that was appended, nothing forgotten, all questions answered by looking
// through them from the start.
type model struct {
	history []appended
	waiting map[int64]sent // sent back to be verified
}

type appended struct {
	sent   sent
	base   int64
	marker bool
	commit bool
	coord  int32
}

func (a appended) last() int32 {
	return int32((int64(a.sent.seq) + int64(a.sent.n) - 1) & math.MaxInt32)
}

// current looks up what a producer's epoch is and which batches of it came since the epoch began.
func (m *model) current(id int64) (epoch int16, known bool, window []appended) {
	for _, a := range m.history {
		if a.sent.id != id {
			continue
		}
		if !known || a.sent.epoch != epoch {
			epoch, known, window = a.sent.epoch, true, nil
		}
		if !a.marker {
			window = append(window, a)
		}
	}
	return epoch, known, window
}

// openSince is the offset where a producer's open transaction began, -1 if there is none.
func (m *model) openSince(id int64) int64 {
	since := int64(-1)
	for _, a := range m.history {
		switch {
		case a.sent.id != id:
		case a.marker:
			since = -1
		case a.sent.txn && since < 0:
			since = a.base
		}
	}
	return since
}

func (m *model) coordinator(id int64) int32 {
	coord := int32(-1)
	for _, a := range m.history {
		if a.marker && a.sent.id == id {
			coord = a.coord
		}
	}
	return coord
}

func (m *model) check(s sent, o Options) (dup int64, err error) {
	epoch, known, window := m.current(s.id)
	open := m.openSince(s.id)
	if s.txn && !o.TransactionVerified && (open < 0 || epoch != s.epoch) {
		first, waits := m.waiting[s.id]
		if (!known || s.epoch >= epoch) && (!waits || s.epoch > first.epoch || s.epoch == first.epoch && s.seq < first.seq) {
			m.waiting[s.id] = s
		}
		return -1, ErrTransactionNotOpen
	}
	if known && epoch == s.epoch {
		for _, a := range window[max(len(window)-WindowSize, 0):] {
			if a.sent.seq == s.seq && a.sent.n == s.n {
				return a.base, nil
			}
		}
	}
	first, waits := m.waiting[s.id]
	switch {
	case !known && s.txn && o.TransactionV2 && s.seq != 0:
		return -1, ErrOutOfOrderSequence
	case known && s.epoch < epoch:
		return -1, ErrProducerEpoch
	case waits && s.seq > first.seq:
		return -1, ErrOutOfOrderSequence
	case !known:
		return -1, nil
	}
	want := int32(0)
	if s.epoch == epoch && len(window) > 0 {
		want = int32((int64(window[len(window)-1].last()) + 1) & math.MaxInt32)
	}
	switch {
	case s.seq != want:
		return -1, ErrOutOfOrderSequence
	case open >= 0 && !s.txn:
		return -1, ErrTransactionOpen
	}
	return -1, nil
}

func (m *model) firstUnstable(highWatermark int64) int64 {
	first := int64(math.MaxInt64)
	for i, a := range m.history {
		if !a.sent.txn || a.marker {
			continue
		}
		ended := false
		for _, b := range m.history[i:] {
			ended = ended || b.marker && b.sent.id == a.sent.id && b.base < highWatermark
		}
		if !ended {
			first = min(first, a.base)
		}
	}
	return first
}

// Random producers with few ids, epochs and sequences, so that all rules meet; the state and the model agree on each step,
// and the state goes through a checkpoint now and then.
func TestStateAgreesWithANaiveModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		l, m := newLog(t), &model{waiting: map[int64]sent{}}
		highWatermark := int64(0)
		for i := range 120 {
			if r.IntN(5) == 0 {
				modelMarker(t, r, l, m)
			} else {
				modelBatch(t, r, l, m)
			}
			if r.IntN(20) == 0 && highWatermark == l.end { // a checkpoint is of what is durable
				l.state.FirstUnstable(highWatermark)
				var err error
				if l.state, err = Decode(l.state.Encode(nil), 1000); err != nil {
					t.Fatal(err)
				}
				clear(m.waiting) // isn't kept
			}
			if r.IntN(2) == 0 {
				highWatermark = l.end
			}
			got, ok := l.state.FirstUnstable(highWatermark)
			if want := m.firstUnstable(highWatermark); got != want || ok != (want != math.MaxInt64) {
				t.Fatalf("seed %d, step %d: first unstable offset %d, want %d", seed, i, got, want)
			}
		}
	}
}

func modelBatch(t *testing.T, r *rand.Rand, l *log, m *model) {
	t.Helper()
	s := sent{id: int64(r.IntN(3)), epoch: int16(r.IntN(3)), n: 1 + r.IntN(3), txn: r.IntN(2) == 0}
	epoch, known, window := m.current(s.id)
	if known && r.IntN(4) > 0 { // mostly something that fits
		s.epoch = epoch
		s.txn = m.openSince(s.id) >= 0
		if len(window) > 0 {
			s.seq = int32((int64(window[len(window)-1].last()) + 1) & math.MaxInt32)
			if r.IntN(4) == 0 {
				old := window[r.IntN(len(window))].sent
				s.seq, s.n = old.seq, old.n
			}
		}
	}
	if r.IntN(8) == 0 {
		s.seq = []int32{0, 1, 2, math.MaxInt32 - 1, math.MaxInt32}[r.IntN(5)]
	}
	o := Options{TransactionVerified: r.IntN(2) == 0, TransactionV2: r.IntN(2) == 0}
	wantDup, wantErr := m.check(s, o)
	base := l.end
	dup, err := l.produce(s, o)
	if !errors.Is(err, wantErr) || (wantErr == nil) != (err == nil) || (dup == nil) != (wantDup < 0) || dup != nil && dup.BaseOffset != wantDup {
		t.Fatalf("%+v: duplicate %+v, %v; want duplicate of %d, %v", s, dup, err, wantDup, wantErr)
	}
	if err == nil && dup == nil {
		m.history = append(m.history, appended{sent: s, base: base})
		if s.txn {
			delete(m.waiting, s.id)
		}
	}
}

func modelMarker(t *testing.T, r *rand.Rand, l *log, m *model) {
	t.Helper()
	a := appended{sent: sent{id: int64(r.IntN(3)), epoch: int16(r.IntN(3))}, base: l.end, marker: true, commit: r.IntN(2) == 0, coord: int32(r.IntN(3))}
	epoch, known, _ := m.current(a.sent.id)
	o := Options{TransactionV2: r.IntN(2) == 0}
	var want error
	switch {
	case known && a.sent.epoch < epoch, o.TransactionV2 && a.sent.epoch == epoch && m.openSince(a.sent.id) >= 0:
		want = ErrProducerEpoch
	case a.coord < m.coordinator(a.sent.id):
		want = ErrCoordinatorEpoch
	}
	b := batch.ControlBatch(a.sent.id, a.sent.epoch, batch.Marker{Commit: a.commit, CoordinatorEpoch: a.coord}, 100)
	_, err := l.state.Check(b, o)
	if !errors.Is(err, want) || (want == nil) != (err == nil) {
		t.Fatalf("marker %+v: %v, want %v", a, err, want)
	}
	if err != nil {
		return
	}
	since := m.openSince(a.sent.id)
	m.history = append(m.history, a)
	delete(m.waiting, a.sent.id)
	done, ok := l.append(b)
	if ok != (since >= 0) {
		t.Fatalf("marker %+v: ended %+v, want a transaction from %d", a, done, since)
	}
	if !ok {
		return
	}
	stable := a.base + 1
	for id := range int64(3) {
		if o := m.openSince(id); o >= 0 {
			stable = min(stable, o)
		}
	}
	if w := (Completed{ProducerID: a.sent.id, FirstOffset: since, LastOffset: a.base, Aborted: !a.commit, LastStable: stable}); done != w {
		t.Fatalf("ended %+v, want %+v", done, w)
	}
}
