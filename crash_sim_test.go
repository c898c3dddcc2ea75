package kbroker

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

var (
	crashSeeds = flag.Int("crash.seeds", 300, "how many seeds TestNothingAcknowledgedIsLostInSeededCrashes plays")
	crashFirst = flag.Uint64("crash.first", 0, "the first of them")
)

// voyage is a broker's storage, metadata and logs together, that lives through crashes on a simulated disk, beside what must be
// found in it.
//
// Operations come one after the other, with the maintenance, the syncs and the checkpoints running beside them, and a power cut
// before any operation of the disk. So a seed decides on what is done and on what a crash leaves, but not to the last bit
// on how the goroutines interleave.
type voyage struct {
	tb    testing.TB
	seed  uint64
	rng   *rand.Rand
	clock *clock.Manual
	sync  string // log.sync
	disk  *simdisk.Disk
	b     *Broker
	cut   *atomic.Int64 // operations until the power cut
	story []string
	batch int

	topics    map[string]*course // by name, as acknowledged
	creating  map[string]bool    // creations that failed: may have happened
	deleting  map[string]bool    // deletions that failed
	growing   map[string]int32   // partitions that were asked for in vain
	gone      map[storage.TopicID]string
	cursors   []map[string]int64 // what may be found of committed offsets and groups; the last is the newest
	sure      int                // of those, the newest whose change succeeded
	nextPID   int64
	lastEpoch int32
}

// course is a topic.
type course struct {
	id   storage.TopicID
	kind kind
	logs []*track
}

// kind is the cleanup of a topic.
type kind struct{ compact, retain bool }

func newVoyage(tb testing.TB, seed uint64) *voyage {
	tb.Helper()
	v := &voyage{
		tb: tb, seed: seed, rng: rand.New(rand.NewPCG(seed, 11)), clock: clock.NewManual(time.UnixMilli(1_700_000_000_000)),
		disk: simdisk.New(seed), lastEpoch: -1, topics: map[string]*course{}, creating: map[string]bool{}, deleting: map[string]bool{},
		growing: map[string]int32{}, gone: map[storage.TopicID]string{}, cursors: []map[string]int64{{}},
	}
	v.sync = []string{"every-write", "every-write", "interval", "none"}[seed%4]
	return v
}

func (v *voyage) trace(format string, args ...any) {
	v.story = append(v.story, fmt.Sprintf(format, args...))
}

func (v *voyage) fatal(format string, args ...any) {
	v.tb.Helper()
	v.tb.Fatalf("seed %d, %s: %s\n%s", v.seed, v.sync, fmt.Sprintf(format, args...), strings.Join(v.story, "\n"))
}

// chance is true once in n times.
func (v *voyage) chance(n int) bool { return v.rng.IntN(n) == 0 }

// open starts the broker. Without power the metadata store waits a while before it tries again what failed, so time goes on.
func (v *voyage) open() error {
	done := make(chan error, 1)
	go func() { done <- v.start() }()
	for {
		select {
		case err := <-done:
			return err
		default:
			runtime.Gosched()
		}
		if v.dark() {
			v.clock.Advance(500 * time.Millisecond)
		}
	}
}

// start takes the steps of a start that concern the disk.
func (v *voyage) start() error {
	o := Options{DataDir: "data", Sync: v.sync, Set: map[string]string{
		"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "500", "log.cleaner.backoff.ms": "1000",
		"log.cleaner.dedupe.buffer.size": "2097152", "log.scrub.interval.ms": "5000",
		"producer.id.expiration.ms": "2147483647", // the clock may make leaps
	}}
	c, given, err := o.configuration()
	if err != nil {
		return err
	}
	v.b = &Broker{clock: v.clock, fs: v.disk, log: zap.NewNop(), config: c}
	ctx := context.Background()
	for _, step := range []func() error{
		func() error { return v.b.lockDataDir(given) },
		func() error { return v.b.openMeta(ctx) },
		func() error { return v.b.openLogs(ctx) },
	} {
		if err = step(); err != nil {
			_ = v.b.stop.unwind(ctx)
			return err
		}
	}
	v.b.logs.Each(func(l *storage.Log) bool {
		for errors.Is(l.Err(), storage.ErrNotReady) {
			runtime.Gosched()
		}
		return true
	})
	return nil
}

// close ends what is open.
func (v *voyage) close() error { return v.b.stop.unwind(context.Background()) }

// cutAt makes the power fail before the n-th of the coming operations that change something; n < 0 is never.
func (v *voyage) cutAt(n int) {
	v.cut = new(atomic.Int64)
	left := v.cut
	if n < 0 {
		v.disk.OnOp(nil)
		return
	}
	left.Store(int64(n))
	v.disk.OnOp(func(op simdisk.Op) error {
		if op.Kind.Changes() && left.Add(-1) < 0 {
			return simdisk.ErrPowerCut
		}
		return nil
	})
}

// dark says whether the power is out, as the cut wanted it.
func (v *voyage) dark() bool { return v.cut.Load() < 0 }

// failed checks that an operation failed because the power is out.
func (v *voyage) failed(what string, err error) bool {
	v.tb.Helper()
	if err == nil {
		return false
	}
	if !v.dark() {
		v.fatal("%s: %v", what, err)
	}
	v.trace("%s: failed", what)
	return true
}

// sail plays some operations, and returns early once the power is out.
func (v *voyage) sail(operations int) {
	for i := 0; i < operations && (!v.dark() || v.chance(2)); i++ {
		switch n := v.rng.IntN(40); {
		case n < 2:
			v.create()
		case n == 2 && v.chance(2):
			v.remove()
		case n == 3:
			v.grow()
		case n < 8:
			v.commit()
		case n == 8:
			v.reserve()
		case n < 13:
			v.clock.Advance(time.Duration(v.rng.IntN(1500)) * time.Millisecond)
			v.trace("time passes")
		case n == 13:
			v.trim()
		case n == 14:
			v.resend()
		default:
			v.append()
		}
	}
}

// create makes a topic of some kind.
func (v *voyage) create() {
	kinds := []kind{{}, {retain: true}, {compact: true}, {compact: true, retain: true}}
	v.makeTopic(fmt.Sprint("t", v.rng.IntN(3)), kinds[v.rng.IntN(len(kinds))])
}

// makeTopic makes a topic as CreateTopics does, unless it is there.
func (v *voyage) makeTopic(name string, k kind) {
	if v.topics[name] != nil || v.creating[name] {
		return
	}
	configs := v.settings(k)
	made, err := v.b.meta.CreateTopics([]meta.Topic{{Name: name, Partitions: int32(1 + v.rng.IntN(2)), Configs: configs}})
	if v.failed("create "+name, err) {
		v.creating[name] = true
		return
	}
	t := made[0]
	v.settled()
	v.adopt(t, k)
	v.trace("created %s, %d partitions, %v", name, t.Partitions, configs)
	v.openPartitions(t, 0)
}

// settings are those of a topic with much going on in little space.
func (v *voyage) settings(k kind) map[string]string {
	configs := map[string]string{
		"internal.segment.bytes": fmt.Sprint(800 + v.rng.IntN(3000)), "retention.ms": "-1", "retention.bytes": "-1",
		"index.interval.bytes": []string{"0", "300", "4096"}[v.rng.IntN(3)], "min.cleanable.dirty.ratio": "0.01",
		"file.delete.delay.ms": []string{"0", "2000"}[v.rng.IntN(2)], "delete.retention.ms": []string{"0", "3000"}[v.rng.IntN(2)],
		"segment.ms": []string{"604800000", "2000"}[v.rng.IntN(2)], "cleanup.policy": "delete",
		"flush.messages": []string{"12", "9223372036854775807"}[v.rng.IntN(2)],
	}
	if k.compact {
		configs["cleanup.policy"] = "compact"
	}
	if k.retain {
		configs["retention.bytes"] = fmt.Sprint(v.rng.IntN(6000))
	}
	if k.compact && k.retain {
		configs["cleanup.policy"] = "compact,delete"
	}
	return configs
}

// adopt takes a topic in that is known to be there.
func (v *voyage) adopt(t *meta.Topic, k kind) {
	if name := v.gone[t.ID]; name != "" {
		v.fatal("topic %s got the id of %s, which was deleted", t.Name, name)
	}
	c := &course{id: t.ID, kind: k}
	for p := range t.Partitions {
		c.logs = append(c.logs, newTrack(c, t.Name, p))
	}
	v.topics[t.Name] = c
}

func (v *voyage) openPartitions(t *meta.Topic, first int32) {
	c := v.b.config.Storage(v.b.config.Topic(t.Configs))
	for p := first; p < t.Partitions; p++ {
		if _, err := v.b.logs.Open(storage.Partition{Topic: t.Name, ID: t.ID, Number: p}, c, t.EpochBase); v.failed("open", err) {
			return
		}
	}
}

// remove deletes a topic.
func (v *voyage) remove() {
	if name, c := v.anyTopic(); c != nil {
		v.removeTopic(name, c)
	}
}

// removeTopic deletes a topic as DeleteTopics does.
func (v *voyage) removeTopic(name string, c *course) {
	_, err := v.b.meta.DeleteTopics([]storage.TopicID{c.id})
	if v.failed("delete "+name, err) {
		v.deleting[name] = true
		v.alternative(func(state map[string]int64) { dropTopic(state, name) })
		return
	}
	v.change(true, func(state map[string]int64) { dropTopic(state, name) })
	v.trace("deleted %s", name)
	v.gone[c.id] = name
	delete(v.topics, name)
	v.failed("delete logs", v.b.logs.Delete(c.id))
}

func (v *voyage) anyTopic() (string, *course) {
	name := fmt.Sprint("t", v.rng.IntN(3))
	if v.deleting[name] {
		return "", nil
	}
	return name, v.topics[name]
}

// grow adds a partition as CreatePartitions does.
func (v *voyage) grow() {
	name, c := v.anyTopic()
	if c == nil || len(c.logs) > 3 {
		return
	}
	n := int32(len(c.logs))
	t, err := v.b.meta.GrowTopic(c.id, n+1)
	if v.failed("grow "+name, err) {
		v.growing[name] = n + 1
		return
	}
	v.settled()
	c.logs = append(c.logs, newTrack(c, name, n))
	v.trace("%s grew to %d partitions", name, n+1)
	v.openPartitions(t, n)
}

// commit commits an offset together with the group's record, as the coordinator does.
func (v *voyage) commit() {
	name, c := v.anyTopic()
	if c == nil {
		return
	}
	group, n := fmt.Sprint("g", v.rng.IntN(2)), v.rng.Int64N(1<<40)
	var b meta.Batch
	b.PutCursor(group, meta.TopicPartition{Topic: name}, meta.Cursor{Offset: n, Metadata: "m"})
	b.PutGroup(group, fmt.Append(nil, n))
	set := func(state map[string]int64) { state[group+"/"+name], state[group] = n, n }
	if v.failed("commit", v.b.meta.Commit(&b)) {
		v.alternative(set)
		return
	}
	v.trace("%s committed %d on %s", group, n, name)
	v.change(v.sync == "every-write", set)
}

// change notes a change of committed offsets; a durable one leaves nothing older to be found.
func (v *voyage) change(durable bool, edit func(map[string]int64)) {
	v.alternative(edit)
	v.sure = len(v.cursors) - 1
	if durable {
		v.settled()
	}
}

// alternative adds what may be found instead of what is there now.
func (v *voyage) alternative(edit func(map[string]int64)) {
	next := map[string]int64{}
	for k, n := range v.cursors[len(v.cursors)-1] {
		next[k] = n
	}
	edit(next)
	v.cursors = append(v.cursors, next)
}

// settled says that what was changed last is durable: all changes go through one log.
func (v *voyage) settled() { v.cursors, v.sure = v.cursors[len(v.cursors)-1:], 0 }

func dropTopic(state map[string]int64, topic string) {
	for key := range state {
		if strings.HasSuffix(key, "/"+topic) {
			delete(state, key)
		}
	}
}

func (v *voyage) reserve() {
	first, err := v.b.meta.ReserveProducerIDs(10)
	if v.failed("reserve", err) {
		return
	}
	if first < v.nextPID {
		v.fatal("producer ids from %d on were handed out before", first)
	}
	v.nextPID = first + 10
	v.settled()
}

// anyLog is a partition and its log; nil if there is none that can be used.
func (v *voyage) anyLog() (*track, *storage.Log) {
	_, c := v.anyTopic()
	if c == nil {
		return nil, nil
	}
	t := c.logs[v.rng.IntN(len(c.logs))]
	l, err := v.b.logs.Get(c.id, t.number)
	if err != nil && v.dark() { // it could not be opened any more
		return nil, nil
	}
	if err != nil {
		v.fatal("get %s: %v", t, err)
	}
	return t, l
}

// append writes to some partition.
func (v *voyage) append() {
	if t, l := v.anyLog(); t != nil {
		v.appendTo(t, l)
	}
}

// appendTo writes one to three batches and waits for the last one, mostly.
func (v *voyage) appendTo(t *track, l *storage.Log) {
	var last storage.Commit
	lasting := false
	for range 1 + v.rng.IntN(3) {
		b := v.makeBatch(t)
		a, err := l.Append(b, storage.AppendOptions{TransactionVerified: true})
		if v.failed("append to "+t.String(), err) {
			return
		}
		t.note(bytes.Clone(b))
		if b.LeaderEpoch() < t.epochFloor {
			v.fatal("%s: batch at %d has leader epoch %d, want at least %d", t, b.BaseOffset(), b.LeaderEpoch(), t.epochFloor)
		}
		v.trace("%s: %d..%d, epoch %d, producer %d, control %v, waits %v", t, b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(),
			b.ProducerID(), b.IsControl(), a.Commit != nil)
		last, lasting = a.Commit, a.Commit != nil
	}
	if !lasting || v.chance(6) {
		return
	}
	end := t.end()
	if err := last.Wait(context.Background()); !v.failed("sync of "+t.String(), err) {
		t.acked = max(t.acked, end)
		v.trace("%s: acknowledged %d", t, end)
	}
}

// makeBatch makes a batch of random records, or a marker. Producers 0 and 1 are idempotent, 2 and 3 transactional.
func (v *voyage) makeBatch(t *track) batch.Batch {
	v.batch++
	now := v.clock.Now().UnixMilli()
	id := int64(v.rng.IntN(8))
	m := batch.NoProducer()
	if id < 4 {
		transactional := id > 1
		if transactional && len(t.open[id]) > 0 && v.chance(2) {
			return batch.ControlBatch(id, 0, batch.Marker{Commit: v.chance(2)}, now)
		}
		m = batch.Meta{ProducerID: id, BaseSequence: t.sequence[id], Transactional: transactional}
	}
	m.BaseTimestamp = now
	m.Codec = []batch.Codec{batch.CodecNone, batch.CodecNone, batch.CodecLZ4}[v.rng.IntN(3)]
	m.Level = m.Codec.DefaultLevel()
	b := batch.NewBuilder(m)
	for i := range 1 + v.rng.IntN(4) {
		var value []byte
		if !t.course.kind.compact || !v.chance(6) {
			value = fmt.Appendf(nil, "%d.%d %0*d", v.batch, i, v.rng.IntN(150), 0)
		}
		b.Append(now+int64(v.rng.IntN(100)), fmt.Appendf(nil, "key %d", v.rng.IntN(12)), value)
	}
	out, err := b.Build()
	if err != nil {
		v.fatal("build: %v", err)
	}
	return out
}

// resend sends an idempotent producer's last batch again: it is known, and not written twice.
func (v *voyage) resend() {
	t, l := v.anyLog()
	if t == nil || v.dark() {
		return
	}
	last := t.last[0]
	if last == nil || last.BaseOffset() < l.Offsets().Start {
		return
	}
	a, err := l.Append(bytes.Clone(last), storage.AppendOptions{})
	if v.failed("resend", err) {
		return
	}
	if !a.Duplicate || a.BaseOffset != last.BaseOffset() {
		v.fatal("%s: batch at %d sent again: %+v", t, last.BaseOffset(), a)
	}
}

// trim moves the log start as DeleteRecords does.
func (v *voyage) trim() {
	t, l := v.anyLog()
	if t == nil {
		return
	}
	o := l.Offsets()
	if o.HighWatermark <= o.Start {
		return
	}
	before := o.Start + v.rng.Int64N(o.HighWatermark-o.Start+1)
	t.trimmed = max(t.trimmed, before)
	start, err := l.Trim(before)
	if v.failed("trim "+t.String(), err) {
		return
	}
	if before > o.Start {
		v.settled()
	}
	t.start = max(t.start, start)
	v.trace("%s: trimmed to %d", t, start)
}

// ends are the ways in which a round may end.
const (
	clean = iota
	killed
	crashed
	ends
	halfClosed // crashed while closing: perhaps with everything closed
)

// end notes what must last, and stops the broker in one of the ways there are. It returns which it was.
func (v *voyage) end() int {
	how := min(v.rng.IntN(ends+1), crashed)
	v.lookAll()
	if how == clean {
		err := v.close()
		if err == nil {
			if v.dark() || v.chance(2) { // what is closed needs no power
				v.disk.CutPower()
				v.disk = v.disk.Crash(v.rng)
			}
			v.trace("closed")
			return clean
		}
		v.trace("close: %v", err)
		v.disk = v.disk.Crash(v.rng)
		return halfClosed
	}
	if how == killed {
		v.disk = v.disk.Kill()
		v.trace("killed")
	} else {
		v.disk.CutPower()
		old := v.disk
		v.disk = v.disk.Crash(v.rng)
		old.OnOp(nil)
		v.trace("crashed")
	}
	_ = v.close() // only ends its goroutines
	return how
}

func (v *voyage) lookAll() {
	for _, c := range v.topics {
		for _, t := range c.logs {
			if l, err := v.b.logs.Get(c.id, t.number); err == nil {
				v.look(t, l)
			}
		}
	}
}

// look notes what could be seen of a log: nobody may find it gone.
func (v *voyage) look(t *track, l *storage.Log) {
	o := l.Offsets()
	t.start = max(t.start, o.Start)
	if v.sync == "every-write" {
		t.acked = max(t.acked, o.HighWatermark)
	}
}

// resume opens what is left, perhaps with another crash on the way, and checks it.
func (v *voyage) resume(how int) {
	unclean, intact := how == killed || how == crashed, how == killed || how == clean
	for {
		cut := -1
		if v.chance(3) {
			cut = v.rng.IntN(60)
		}
		v.cutAt(cut)
		err := v.open()
		if err == nil && !v.dark() {
			break
		}
		if err == nil {
			_ = v.close()
		} else if !v.dark() {
			v.fatal("open: %v", err)
		}
		unclean = false // it isn't known whether the start was counted
		intact = how == clean
		v.disk = v.disk.Crash(v.rng)
		v.trace("crashed while opening")
	}
	v.cutAt(-1)
	v.check(unclean, intact)
}

// Topics come and go, records are written, compacted and trimmed, offsets committed, and the power is cut or the process
// killed at any moment. What was acknowledged is there again, and nothing else.
func TestNothingAcknowledgedIsLostInSeededCrashes(t *testing.T) {
	t.Parallel()
	n := uint64(*crashSeeds) //nolint:gosec // not negative
	if testing.Short() {
		n = min(n, 60)
	}
	var next, crashes, acked atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < n && !t.Failed(); i = next.Add(1) - 1 {
				v := newVoyage(t, *crashFirst+i)
				v.cutAt(-1)
				if err := v.open(); err != nil {
					v.fatal("open: %v", err)
				}
				v.lastEpoch = v.b.meta.Epoch()
				for range 1 + v.rng.IntN(3) {
					if v.chance(2) {
						v.cutAt(v.rng.IntN(200))
					}
					v.sail(10 + v.rng.IntN(70))
					how := v.end()
					if how != clean {
						crashes.Add(1)
					}
					v.resume(how)
					acked.Add(v.records())
				}
				_ = v.close()
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds, %d crashes, %d acknowledged records found again", n, crashes.Load(), acked.Load())
	if crashes.Load() < n/2 || acked.Load() < n*10 {
		t.Error("that shows too little")
	}
}

// The power is cut before each operation of the disk there is in rolls, checkpoints, trims, the deletion of a topic that is made
// again, and a clean stop.
func TestNothingIsLostToAPowerCutBeforeAnyOperation(t *testing.T) {
	t.Parallel()
	stride := 4
	if *crashSeeds >= 1000 {
		stride = 1
	}
	for cut := 0; ; cut += stride {
		v := newVoyage(t, uint64(cut))
		v.sync = "every-write"
		v.cutAt(-1)
		if err := v.open(); err != nil {
			v.fatal("open: %v", err)
		}
		v.lastEpoch = v.b.meta.Epoch()
		v.makeTopic("t0", kind{})
		v.makeTopic("t1", kind{})
		v.fillAll(8)
		v.cutAt(cut)
		v.fillAll(8) // rolls, with their checkpoints
		v.trim()
		v.removeTopic("t0", v.topics["t0"])
		v.makeTopic("t0", kind{})
		v.fillAll(4)
		if v.dark() || v.close() != nil {
			v.disk.CutPower()
			v.lookAll()
			v.disk = v.disk.Crash(v.rng)
			v.trace("crashed")
			_ = v.close() // only ends its goroutines
			v.resume(halfClosed)
			_ = v.close()
			continue
		}
		if cut < 100 {
			t.Fatalf("only %d operations", cut)
		}
		return
	}
}

// fillAll writes to partition 0 of each topic.
func (v *voyage) fillAll(batches int) {
	for range batches {
		for _, name := range []string{"t0", "t1"} {
			if c := v.topics[name]; c != nil {
				if l, err := v.b.logs.Get(c.id, 0); err == nil {
					v.appendTo(c.logs[0], l)
				}
			}
		}
	}
}
