package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// entry is a record that was written, and how its transaction ended.
type entry struct {
	key, value []byte // nil is null
	timestamp  int64
	producer   int64 // -1: none
	aborted    bool
}

// keeper writes to a compacted log and knows what must be found in it.
type keeper struct {
	tb    testing.TB
	rng   *rand.Rand
	eye   *rand.Rand // for what reads
	disk  *simdisk.Disk
	world *world
	log   *Log
	seed  int

	limits   compactionLimits
	entries  map[int64]*entry // by offset
	sequence map[int64]int32
	open     map[int64][]int64 // offsets of the open transaction, by producer
	passes   int
}

// transactional producers have odd ids.
func (k *keeper) transactional(id int64) bool { return id%2 == 1 }

func newKeeper(tb testing.TB, seed uint64) *keeper {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	k := &keeper{
		tb: tb, rng: rng, eye: rand.New(rand.NewPCG(seed, 8)), disk: simdisk.New(seed), entries: map[int64]*entry{}, sequence: map[int64]int32{},
		open: map[int64][]int64{}, limits: compactionLimits{MapBytes: 1 << 20, MapLoad: 0.9, Pace: func(int) error { return nil }},
	}
	if rng.IntN(3) == 0 {
		k.limits.MapBytes = 64 * 24 // 57 keys
	}
	k.world = newWorld(tb, k.disk, "data")
	k.world.closeMayFail = true
	if err := errors.Join(k.disk.MkdirAll("data", 0o755), k.disk.SyncDir(".")); err != nil {
		tb.Fatal(err)
	}
	c := &k.world.config
	c.Compact, c.Delete = true, false
	c.MinCleanableRatio = 0
	c.SegmentBytes = int64(1000 + rng.IntN(6000))
	c.IndexIntervalBytes = []int64{0, 200, 1000, 4096}[rng.IntN(4)]
	c.DeleteRetention = time.Duration(rng.IntN(20)) * time.Second
	c.ProducerExpiration = -1
	k.log = k.world.open()
	return k
}

// write appends one batch of random records, or a marker. It returns false if the log takes nothing more.
func (k *keeper) write() bool {
	k.seed++
	now := k.world.clock.Now().UnixMilli()
	id := int64(k.rng.IntN(8)) - 1
	if id > 3 {
		id = -1
	}
	if id >= 0 && k.transactional(id) && len(k.open[id]) > 0 && k.rng.IntN(2) == 0 {
		return k.finish(id, now)
	}
	m := batch.NoProducer()
	if id >= 0 {
		m = batch.Meta{ProducerID: id, BaseSequence: k.sequence[id], Transactional: k.transactional(id)}
	}
	m.BaseTimestamp = now
	m.Codec = batch.Codec(k.rng.IntN(5))
	m.Level = m.Codec.DefaultLevel()
	if k.rng.IntN(5) == 0 {
		m.AppendTime, m.MaxTimestamp = true, now
	}
	builder := batch.NewBuilder(m)
	var list []*entry
	for i := range 1 + k.rng.IntN(6) {
		e := &entry{timestamp: now + int64(k.rng.IntN(2000)), producer: id}
		if m.AppendTime {
			e.timestamp = now
		}
		if k.rng.IntN(12) > 0 {
			e.key = fmt.Appendf(nil, "key %d", k.rng.IntN(40))
		}
		if k.rng.IntN(6) > 0 || e.key == nil {
			e.value = fmt.Appendf(nil, "value %d.%d %0*d", k.seed, i, k.rng.IntN(150), 0)
		}
		builder.Append(e.timestamp, e.key, e.value)
		list = append(list, e)
	}
	b, err := builder.Build()
	if err != nil {
		k.tb.Fatal(err)
	}
	if !k.append(b) {
		return false
	}
	for i, e := range list {
		k.entries[b.BaseOffset()+int64(i)] = e
		if id >= 0 && k.transactional(id) {
			k.open[id] = append(k.open[id], b.BaseOffset()+int64(i))
		}
	}
	if id >= 0 {
		k.sequence[id] = b.LastSequence() + 1
	}
	return true
}

// finish ends a transaction.
func (k *keeper) finish(id, now int64) bool {
	commit := k.rng.IntN(2) == 0
	if !k.append(batch.ControlBatch(id, 0, batch.Marker{Commit: commit}, now)) {
		return false
	}
	for _, o := range k.open[id] {
		k.entries[o].aborted = !commit
	}
	delete(k.open, id)
	return true
}

func (k *keeper) append(b batch.Batch) bool {
	a, err := k.log.Append(b, AppendOptions{TransactionVerified: true})
	if err == nil {
		err = a.Commit.Wait(context.Background())
	}
	if err != nil {
		if !errors.Is(err, simdisk.ErrPowerCut) && !errors.Is(err, ErrReadOnly) {
			k.tb.Fatal(err)
		}
		return false
	}
	return true
}

// compact makes one pass if there is something to do.
func (k *keeper) compact() error {
	plan, _ := k.log.planCompaction(k.world.clock.Now())
	if !plan.due {
		return nil
	}
	k.passes++
	return k.log.compact(context.Background(), plan, k.limits)
}

// seen is a record as a consumer sees it.
type seen struct {
	offset int64
	entry
}

// consume reads everything as a consumer does that reads only what is committed.
func (k *keeper) consume() (records []seen, batches []batch.Batch) {
	k.tb.Helper()
	offset := k.log.Offsets().Start
	aborted := map[int64]bool{}
	for {
		r, err := k.log.Read(offset, ReadOptions{MaxBytes: int64(200 + k.eye.IntN(4000)), WholeFirst: true, Isolation: ReadCommitted})
		if err != nil {
			k.tb.Fatal(err)
		}
		if r.Records == nil {
			return records, batches
		}
		all, err := r.Records.AppendTo(nil)
		r.Records.Release()
		if err != nil {
			k.tb.Fatal(err)
		}
		coming := r.Aborted
		clear(aborted)
		for len(all) > 0 {
			b, rest, err := batch.Next(all, 0)
			if err != nil {
				break
			}
			if err := b.VerifyChecksum(); err != nil {
				k.tb.Fatal(err)
			}
			for len(coming) > 0 && coming[0].FirstOffset <= b.LastOffset() {
				aborted[coming[0].ProducerID] = true
				coming = coming[1:]
			}
			batches = append(batches, bytes.Clone(b))
			offset, all = b.NextOffset(), rest
			if b.IsControl() {
				if m, err := batch.ParseMarker(b); err == nil && !m.Commit {
					delete(aborted, b.ProducerID())
				}
				continue
			}
			if b.IsTransactional() && aborted[b.ProducerID()] {
				continue
			}
			records = append(records, k.records(b)...)
		}
	}
}

func (k *keeper) records(b batch.Batch) []seen {
	k.tb.Helper()
	rs, err := b.Records(1 << 20)
	if err != nil {
		k.tb.Fatal(err)
	}
	defer rs.Release()
	var list []seen
	for rs.Next() {
		r := rs.Record()
		s := seen{offset: b.BaseOffset() + int64(r.OffsetDelta), entry: entry{
			key: bytes.Clone(r.Key), value: bytes.Clone(r.Value), timestamp: b.BaseTimestamp() + r.TimestampDelta, producer: b.ProducerID(),
		}}
		if b.IsAppendTime() {
			s.timestamp = b.MaxTimestamp()
		}
		list = append(list, s)
	}
	if rs.Err() != nil {
		k.tb.Fatal(rs.Err())
	}
	return list
}

// check compares what a consumer sees with what was written.
func (k *keeper) check() {
	k.tb.Helper()
	records, _ := k.consume()
	stable := k.log.Offsets().LastStable
	want, latest := map[string]string{}, map[string]int64{}
	for _, o := range slices.Sorted(maps.Keys(k.entries)) {
		e := k.entries[o]
		if o >= stable || e.aborted || e.key == nil {
			continue
		}
		latest[string(e.key)] = o
		delete(want, string(e.key))
		if e.value != nil {
			want[string(e.key)] = string(e.value)
		}
	}
	got, there := map[string]string{}, map[int64]bool{}
	last := int64(-1)
	for _, r := range records {
		e := k.entries[r.offset]
		if e == nil || e.aborted || r.offset <= last || !bytes.Equal(e.key, r.key) || (e.key == nil) != (r.key == nil) ||
			!bytes.Equal(e.value, r.value) || (e.value == nil) != (r.value == nil) || e.timestamp != r.timestamp {
			k.tb.Fatalf("record at %d is %q=%q at %d (after %d), want %+v", r.offset, r.key, r.value, r.timestamp, last, e)
		}
		last = r.offset
		there[r.offset] = true
		if r.key == nil {
			continue
		}
		delete(got, string(r.key))
		if r.value != nil {
			got[string(r.key)] = string(r.value)
		}
	}
	if !maps.Equal(got, want) {
		k.tb.Fatalf("got %v\nwant %v", got, want)
	}
	for o, e := range k.entries {
		switch {
		case there[o] || e.aborted || o >= stable || o < k.log.Offsets().Start:
		case e.key == nil:
			k.tb.Fatalf("record at %d, which has no key, is gone", o)
		case latest[string(e.key)] == o && e.value != nil:
			k.tb.Fatalf("record at %d is the latest of its key, and gone", o)
		}
	}
	k.checkProducers()
}

// checkProducers compares what the log knows of the producers.
func (k *keeper) checkProducers() {
	k.tb.Helper()
	for _, p := range k.log.Producers() {
		if want := k.sequence[p.ProducerID] - 1; p.LastSequence != want {
			k.tb.Fatalf("producer %d stands at sequence %d, want %d", p.ProducerID, p.LastSequence, want)
		}
		if open := p.TxnStartOffset >= 0; open != (len(k.open[p.ProducerID]) > 0) {
			k.tb.Fatalf("producer %d: transaction open %v", p.ProducerID, open)
		}
	}
}

// reopen opens the log on what a crash or a kill left of the disk, and at times without what the last run noted.
func (k *keeper) reopen(disk *simdisk.Disk) {
	k.tb.Helper()
	k.world.close()
	k.disk, k.world.fs = disk, disk
	k.world.epoch++
	for _, name := range []string{snapshotName, epochsName} {
		if k.rng.IntN(6) == 0 {
			_ = disk.Remove("data/topics/orders/0/" + name)
		}
	}
	k.log = k.world.open()
	if err := k.log.Err(); err != nil {
		k.tb.Fatal(err)
	}
	names, err := disk.List("data/topics/orders/0")
	if err != nil {
		k.tb.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, swapSuffix) || strings.HasSuffix(name, segment.TempSuffix) {
			k.tb.Fatalf("%s is left over", name)
		}
	}
	report, err := Verify(disk, "data")
	if err != nil || !report.Sound() {
		k.tb.Fatal(err, report)
	}
}

func TestCompactionKeepsTheLatestRecordOfEachKey(t *testing.T) {
	t.Parallel()
	passes := 0
	for seed := range seeds(400) {
		k := newKeeper(t, uint64(seed))
		for range 2 + k.rng.IntN(4) {
			for range 10 + k.rng.IntN(60) {
				k.write()
			}
			k.world.clock.Advance(time.Duration(k.rng.IntN(15)) * time.Second)
			if err := k.compact(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
			k.guard(seed, k.check)
			if k.rng.IntN(3) == 0 {
				k.guard(seed, func() {
					k.reopen(k.disk.Kill())
					k.check()
				})
			}
		}
		passes += k.passes
		k.world.close()
	}
	if passes < seeds(400) {
		t.Errorf("only %d passes", passes)
	}
}

// guard says which seed it was if something fails.
func (k *keeper) guard(seed int, f func()) {
	defer func() {
		if k.tb.Failed() {
			k.tb.Logf("seed %d", seed)
		}
	}()
	f()
}

func TestCompactionSurvivesACrashBeforeEveryOperation(t *testing.T) {
	t.Parallel()
	crashes := 0
	for seed := range seeds(16) {
		for at := 0; ; at++ {
			k := newKeeper(t, uint64(seed))
			k.limits.MapBytes = []int64{1 << 20, 64 * 24}[seed%2]
			for range 2 {
				for range 40 {
					k.write()
				}
				k.world.clock.Advance(10 * time.Second)
				if len(k.world.starts) == 0 && seed%3 == 0 {
					_ = k.compact()
				}
			}
			var left atomic.Int64
			left.Store(int64(at))
			k.disk.OnOp(func(op simdisk.Op) error {
				if op.Kind.Changes() && left.Add(-1) < 0 {
					return simdisk.ErrPowerCut
				}
				return nil
			})
			err := k.compact()
			k.disk.OnOp(nil)
			k.guard(seed, func() {
				if k.rng.IntN(2) == 0 && err == nil {
					k.reopen(k.disk.Kill())
				} else {
					k.reopen(k.disk.Crash(k.rng))
				}
				k.check()
				if again := k.compact(); again != nil {
					t.Fatal(again)
				}
				k.check()
				k.reopen(k.disk.Crash(k.rng))
				k.check()
			})
			k.world.close()
			if err == nil {
				break
			}
			crashes++
		}
	}
	if crashes < 15 && !testing.Short() {
		t.Errorf("only %d crashes", crashes)
	}
}
