package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// voyage is a log that lives through crashes, beside an oracle of what must be there.
type voyage struct {
	tb    testing.TB
	rng   *rand.Rand
	disk  *simdisk.Disk
	world *world
	log   *Log

	oracle   []written // by offset
	acked    int64     // offsets below are acknowledged, and durable in the mode
	start    int64     // durable log start
	sequence map[int64]int32
	inTxn    map[int64]bool
	seed     int
	story    []string
}

func (v *voyage) trace(format string, args ...any) {
	v.story = append(v.story, fmt.Sprintf(format, args...))
}

// written is a batch that was handed to the log.
type written struct {
	bytes batch.Batch
	epoch int32
}

func newVoyage(tb testing.TB, seed uint64) *voyage {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	v := &voyage{
		tb: tb, rng: rng, disk: simdisk.New(seed), sequence: map[int64]int32{}, inTxn: map[int64]bool{},
	}
	v.world = newWorld(tb, v.disk, "data")
	v.world.closeMayFail = true
	if err := v.disk.MkdirAll("data", 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := v.disk.SyncDir("."); err != nil {
		tb.Fatal(err)
	}
	c := &v.world.config
	c.SegmentBytes = int64(1000 + rng.IntN(6000))
	c.IndexIntervalBytes = []int64{0, 200, 1000, 4096}[rng.IntN(4)]
	c.IndexBytes = []int64{320, 1024, 1 << 20}[rng.IntN(3)]
	c.Sync = []SyncMode{SyncEveryWrite, SyncEveryWrite, SyncInterval, SyncNone}[rng.IntN(4)]
	c.FlushMessages = []int64{0, 10}[rng.IntN(2)]
	c.ProducerExpiration = -1
	return v
}

// sail plays some operations and returns when the power is out or they are over.
func (v *voyage) sail(operations int) {
	for range operations {
		switch n := v.rng.IntN(20); {
		case n < 14:
			v.append()
		case n == 14:
			v.world.clock.Advance(time.Duration(v.rng.IntN(1500)) * time.Millisecond)
		case n == 15:
			v.trim()
		case n == 16 && v.rng.IntN(3) == 0:
			v.log.mu.Lock()
			if v.log.mu.phase == ready && !v.log.mu.checkpointing {
				v.log.mu.checkpointing = true
				v.world.set.background(v.log.checkpoint)
			}
			v.log.mu.Unlock()
		default:
			v.read()
		}
	}
}

// append writes one to three batches and waits for the last one, mostly.
func (v *voyage) append() {
	var last Commit
	var end int64
	for range 1 + v.rng.IntN(3) {
		b := v.batch()
		a, err := v.log.Append(b, AppendOptions{TransactionVerified: true})
		if err != nil {
			if !errors.Is(err, simdisk.ErrPowerCut) && !errors.Is(err, ErrReadOnly) {
				v.tb.Fatalf("append: %v", err)
			}
			// What reached the disk of it may turn up, though nobody was told.
			return
		}
		v.oracle = append(v.oracle, written{bytes: bytes.Clone(b), epoch: b.LeaderEpoch()})
		v.note(b)
		v.trace("append %d..%d, waits %v", b.BaseOffset(), b.LastOffset(), a.Commit != nil)
		if a.Commit != nil {
			last, end = a.Commit, b.NextOffset()
		}
	}
	if last == nil || v.rng.IntN(6) == 0 {
		return
	}
	if err := last.Wait(context.Background()); err == nil {
		v.acked = max(v.acked, end)
		v.trace("acknowledged %d", end)
	}
}

func (v *voyage) batch() batch.Batch {
	v.seed++
	m := batch.NoProducer()
	timestamp := v.world.clock.Now().UnixMilli() + int64(v.rng.IntN(100))
	if id := int64(v.rng.IntN(6)); id < 3 {
		transactional := id == 2
		v.learn(id)
		if transactional && v.inTxn[id] && v.rng.IntN(3) == 0 {
			return batch.ControlBatch(id, 0, batch.Marker{Commit: v.rng.IntN(2) == 0}, timestamp)
		}
		m = batch.Meta{ProducerID: id, BaseSequence: v.sequence[id], Transactional: transactional}
	}
	b := batch.NewBuilder(m)
	for i := range 1 + v.rng.IntN(4) {
		b.Append(timestamp, nil, fmt.Appendf(nil, "%d.%d %0*d", v.seed, i, v.rng.IntN(200), 0))
	}
	out, err := b.Build()
	if err != nil {
		v.tb.Fatal(err)
	}
	return out
}

// learn asks the log how a producer goes on, once a trim may have taken what it knew.
func (v *voyage) learn(id int64) {
	if v.start == 0 {
		return
	}
	for _, p := range v.log.Producers() {
		if p.ProducerID == id {
			v.sequence[id], v.inTxn[id] = p.LastSequence+1, p.TxnStartOffset >= 0
		}
	}
}

func (v *voyage) note(b batch.Batch) {
	id := b.ProducerID()
	switch {
	case id < 0:
	case b.IsControl():
		v.inTxn[id] = false
	default:
		v.sequence[id] = b.LastSequence() + 1
		v.inTxn[id] = b.IsTransactional()
	}
}

func (v *voyage) trim() {
	o := v.log.Offsets()
	if o.HighWatermark <= o.Start || v.world.config.Sync != SyncEveryWrite {
		return
	}
	before := o.Start + v.rng.Int64N(o.HighWatermark-o.Start+1)
	if start, err := v.log.Trim(before); err == nil {
		v.start = max(v.start, start)
	}
}

func (v *voyage) read() {
	o := v.log.Offsets()
	if o.HighWatermark > o.Start {
		_, _ = tryReadEverything(v.log, o.Start+v.rng.Int64N(o.HighWatermark-o.Start))
	}
}

// restart opens the log on another disk and checks everything against the oracle. durable is the offset below which
// nothing may be missing.
func (v *voyage) restart(disk *simdisk.Disk, durable int64) {
	v.world.close()
	v.disk = disk
	v.world.fs = disk
	v.world.epoch++
	v.log = v.world.open()
	if err := v.log.Err(); err != nil {
		v.tb.Fatalf("after the crash: %v", err)
	}
	o := v.log.Offsets()
	v.start = v.world.starts[v.world.part]
	if o.Start != v.start {
		v.tb.Fatalf("log start %d, want %d", o.Start, v.start)
	}
	if o.End < durable {
		v.tb.Fatalf("log end %d, though %d was acknowledged", o.End, durable)
	}
	v.compare(o)
	v.forget(o.End)
	v.acked = o.End
	report, err := Verify(v.disk, "data")
	if err != nil || !report.Sound() {
		v.tb.Fatalf("verify: %v %v", err, report)
	}
}

// compare reads everything and compares it with what was written.
func (v *voyage) compare(o Offsets) {
	got := readEverything(v.tb, v.log, o.Start)
	i := 0
	for i < len(v.oracle) && v.oracle[i].bytes.NextOffset() <= o.Start {
		i++
	}
	for _, b := range got {
		if i == len(v.oracle) || !bytes.Equal(b, v.oracle[i].bytes) {
			v.tb.Fatalf("batch at %d is not what was written", b.BaseOffset())
		}
		if e := v.log.EpochAt(b.BaseOffset()); e != v.oracle[i].epoch {
			v.tb.Fatalf("epoch at %d is %d, want %d", b.BaseOffset(), e, v.oracle[i].epoch)
		}
		i++
	}
	if n := len(got); n > 0 && got[n-1].NextOffset() != o.End {
		v.tb.Fatalf("last batch ends at %d, the log at %d", got[n-1].NextOffset(), o.End)
	}
}

// forget drops what the crash took from the oracle, and makes the producers go on from what is left.
func (v *voyage) forget(end int64) {
	n := len(v.oracle)
	for n > 0 && v.oracle[n-1].bytes.NextOffset() > end {
		n--
	}
	v.oracle = v.oracle[:n]
	v.sequence, v.inTxn = map[int64]int32{}, map[int64]bool{}
	for _, w := range v.oracle {
		v.note(w.bytes)
	}
	if v.start > 0 {
		return
	}
	for _, p := range v.log.Producers() {
		if want := v.sequence[p.ProducerID] - 1; p.LastSequence != want {
			v.tb.Fatalf("producer %d stands at sequence %d, want %d", p.ProducerID, p.LastSequence, want)
		}
		if open := p.TxnStartOffset >= 0; open != v.inTxn[p.ProducerID] {
			v.tb.Fatalf("producer %d: transaction open %v, want %v", p.ProducerID, open, v.inTxn[p.ProducerID])
		}
	}
}

// cutAt makes the power fail at one of the next changing operations.
func (v *voyage) cutAt(n int) {
	var left atomic.Int64
	left.Store(int64(n))
	v.disk.OnOp(func(op simdisk.Op) error {
		if op.Kind.Changes() && left.Add(-1) < 0 {
			return simdisk.ErrPowerCut
		}
		return nil
	})
}

func TestAcknowledgedBatchesSurviveSeededCrashes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(2000) {
		v := newVoyage(t, uint64(seed))
		v.log = v.world.open()
		for range 1 + v.rng.IntN(4) {
			v.round(seed)
		}
		v.world.close()
	}
}

// round sails until a crash, a kill or a clean stop, and checks what is left.
func (v *voyage) round(seed int) {
	defer func() {
		if v.tb.Failed() {
			v.tb.Logf("seed %d, sync mode %d\n%s", seed, v.world.config.Sync, strings.Join(v.story, "\n"))
		}
	}()
	if v.rng.IntN(2) == 0 {
		v.disk.OnOp(nil)
	} else {
		v.cutAt(v.rng.IntN(120))
	}
	v.sail(5 + v.rng.IntN(40))
	durable := v.acked
	if v.world.config.Sync == SyncEveryWrite {
		durable = max(durable, v.log.Offsets().HighWatermark) // what could be seen is as good as acknowledged
	}
	how := v.rng.IntN(4)
	v.trace("round ends %d, acked %d, log %+v, err %v", how, v.acked, v.log.Offsets(), v.log.Err())
	switch how {
	case 0:
		v.disk.OnOp(nil)
		if v.log.Err() == nil {
			all := v.log.Offsets().End
			v.world.close()
			v.restart(v.disk.Kill(), all)
			return
		}
		v.restart(v.disk.Crash(v.rng), durable)
	case 1:
		end := v.log.Offsets().HighWatermark
		if v.log.Err() != nil {
			v.restart(v.disk.Crash(v.rng), durable)
			return
		}
		v.restart(v.disk.Kill(), end)
	default:
		v.restart(v.disk.Crash(v.rng), durable)
	}
}
