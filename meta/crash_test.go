package meta

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// player makes random changes to a store and remembers what the store held after each.
//
// All changes go through one log, so what a crash leaves must be what the store held at some moment: after the last change
// that had to be durable, or later. A change that failed may have happened or not.
type player struct {
	t       *testing.T
	rng     *rand.Rand
	clock   *clock.Manual
	options Options
	disk    *simdisk.Disk
	store   *Store

	states   []string // what may be found, oldest first
	nextPID  int64    // all below may have been handed out
	lastEnds int32    // the start counter
}

func newPlayer(t *testing.T, seed uint64) *player {
	t.Helper()
	p := &player{t: t, rng: seeded(seed), clock: clock.NewManual(time.UnixMilli(0)), disk: simdisk.New(seed), lastEnds: -1}
	p.options = Options{Clock: p.clock, NodeID: 1}
	switch seed % 3 {
	case 1:
		p.options.Durability = SyncInterval(time.Second)
	case 2:
		p.options.Durability = SyncNever()
	}
	p.states = []string{""}
	return p
}

// start opens the store and checks what is in it.
func (p *player) start() bool {
	s, err := Open(p.disk, testDir, p.options)
	if err != nil {
		p.t.Errorf("open: %v", err)
		return false
	}
	p.store = s
	if s.Epoch() <= p.lastEnds {
		p.t.Errorf("start counter %d after an unclean end, was %d", s.Epoch(), p.lastEnds)
	}
	p.lastEnds = s.Epoch()
	found := dump(p.t, s)
	for _, state := range p.states {
		if state == found {
			p.states = []string{found}
			return true
		}
	}
	p.t.Errorf("found\n%s\nwhich is none of\n%s", found, strings.Join(p.states, "\n---\n"))
	return false
}

// settled says that from now on nothing older than the present state may be found.
func (p *player) settled() { p.states = p.states[len(p.states)-1:] }

// change makes one random change. It reports false once the store fails.
func (p *player) change() bool {
	var err error
	lasting := true
	topics := p.store.Topics().All()
	var topic *Topic
	if len(topics) > 0 {
		topic = topics[p.rng.IntN(len(topics))]
	}
	switch kind := p.rng.IntN(12); {
	case kind == 0 || topic == nil:
		name := fmt.Sprint("topic", p.rng.IntN(20))
		if p.store.Topics().Named(name) != nil {
			return true
		}
		_, err = createTopic(p.store, Topic{Name: name, Partitions: 2, Configs: map[string]string{"a": name}})
	case kind == 1:
		_, err = deleteTopic(p.store, topic.ID)
	case kind == 2:
		_, err = p.store.GrowTopic(topic.ID, topic.Partitions+1)
	case kind == 3:
		err = p.store.SetLogStart(topic.ID, 0, p.rng.Int64N(1000))
	case kind == 4:
		var first int64
		if first, err = p.store.ReserveProducerIDs(10); err == nil {
			if first < p.nextPID {
				p.t.Errorf("producer ids from %d on were handed out before", first)
			}
			p.nextPID = first + 10
		}
	case kind == 5:
		err = p.store.PutConfig("broker", fmt.Sprint(p.rng.IntN(3)), map[string]string{"x": fmt.Sprint(p.rng.IntN(9))})
	default:
		lasting = p.options.Durability == SyncAlways()
		err = p.store.Commit(p.batch(topic.Name))
	}
	if err == nil {
		p.states = append(p.states, dump(p.t, p.store))
		if lasting {
			p.settled()
		}
	}
	return err == nil
}

// batch makes changes of the coordinators.
func (p *player) batch(topic string) *Batch {
	b := new(Batch)
	for range 1 + p.rng.IntN(5) {
		group := fmt.Sprint("g", p.rng.IntN(6))
		tp := TopicPartition{topic, int32(p.rng.IntN(2))}
		switch p.rng.IntN(6) {
		case 0:
			b.DeleteCursor(group, tp)
		case 1:
			b.PutGroup(group, make([]byte, p.rng.IntN(3000)))
		case 2:
			b.PutTransaction(group, []byte{byte(p.rng.IntN(256))})
		case 3:
			b.DeleteGroup(group)
		default:
			b.PutCursor(group, tp, Cursor{Offset: p.rng.Int64N(1 << 40), Metadata: strings.Repeat("m", p.rng.IntN(50))})
		}
	}
	return b
}

// failedChange adds what may be found after a change that failed: what would be there if all bytes that were written
// survived.
func (p *player) failedChange() {
	s, err := Open(p.disk.Snapshot(), testDir, p.options)
	if err != nil {
		p.t.Errorf("open a copy: %v", err)
		return
	}
	defer s.Close() //nolint:errcheck // a copy
	p.states = append(p.states, dump(p.t, s))
}

// end stops the store in one of the ways there are.
func (p *player) end() {
	switch p.rng.IntN(4) {
	case 0:
		if err := p.store.Close(); err == nil {
			p.settled()
			p.lastEnds-- // may be the same again
			return
		}
		p.disk = p.disk.Kill()
	case 1:
		p.disk = p.disk.Kill()
		p.settled()
	default:
		p.disk = p.disk.Crash(p.rng)
	}
	_ = p.store.Close() // only ends its work
}

func TestRandomChangesSurviveWhatTheyMust(t *testing.T) {
	t.Parallel()
	for seed := range seeds(1000) {
		p := newPlayer(t, seed)
		for range 3 {
			if !p.start() {
				t.Fatalf("seed %d", seed)
			}
			for range p.rng.IntN(12) {
				if !p.change() {
					t.Fatalf("seed %d: a change failed", seed)
				}
				if p.rng.IntN(6) == 0 {
					p.clock.Advance(time.Second)
					if p.options.Durability != SyncNever() {
						p.settled()
					}
				}
			}
			p.end()
		}
	}
}

// cutPower cuts the power after so many operations that change something.
func cutPower(disk *simdisk.Disk, left int) {
	var mu sync.Mutex
	disk.OnOp(func(op simdisk.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.Changes() {
			left--
		}
		if left < 0 {
			return simdisk.ErrPowerCut
		}
		return nil
	})
}

func TestPowerCutBeforeAnyOperationLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	for seed := range seeds(300) {
		p := newPlayer(t, seed)
		for range 2 {
			if !p.start() {
				t.Fatalf("seed %d", seed)
			}
			cutPower(p.disk, p.rng.IntN(60))
			for range 20 {
				if !p.change() {
					break
				}
			}
			_ = p.store.Close()
			p.lastEnds = -1 // that may have come to pass
			p.failedChange()
			p.disk = p.disk.Crash(p.rng)
		}
	}
}

func TestPowerCutWhileOpeningLosesNothing(t *testing.T) {
	t.Parallel()
	filled := simdisk.New(1)
	s := open(t, filled, testOptions())
	mustCreate(t, s, "a")
	want := dump(t, s)
	for name, before := range map[string]*simdisk.Disk{"new": simdisk.New(1), "filled": filled.Kill()} {
		for cut := 0; ; cut += int(60 / seeds(60)) {
			disk := before.Snapshot()
			cutPower(disk, cut)
			s, err := Open(disk, testDir, testOptions())
			if err == nil {
				_ = s.Close()
				if cut < 10 {
					t.Fatalf("%s: the power wasn't cut", name)
				}
				break
			}
			disk = disk.Crash(seeded(uint64(cut)))
			if s, err = Open(disk, testDir, testOptions()); err != nil {
				t.Fatalf("%s, cut before operation %d: %v", name, cut, err)
			}
			if got := dump(t, s); name == "filled" && got != want {
				t.Fatalf("cut before operation %d: found\n%s\nwant\n%s", cut, got, want)
			}
			_ = s.Close()
		}
	}
}

func TestFailingOperationsHangNothing(t *testing.T) {
	t.Parallel()
	faults := []error{syscall.EIO, syscall.ENOSPC, &simdisk.ShortWrite{Bytes: 10, Err: syscall.ENOSPC}}
	for seed := range seeds(300) {
		p := newPlayer(t, seed)
		if !p.start() {
			t.Fatalf("seed %d", seed)
		}
		left, length := p.rng.IntN(40), 1+p.rng.IntN(20)
		var mu sync.Mutex
		p.disk.OnOp(func(op simdisk.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if !op.Kind.Changes() {
				return nil
			}
			if left--; left < 0 && left >= -length {
				return faults[seed%uint64(len(faults))]
			}
			return nil
		})
		failed := false
		for range 20 {
			if !p.change() {
				failed = true
				p.clock.Advance(time.Minute) // time for the store to recover
			}
		}
		p.disk.OnOp(nil)
		p.clock.Advance(time.Minute)
		if _, err := p.store.ReserveProducerIDs(1); err != nil {
			t.Fatalf("seed %d: the store doesn't recover: %v", seed, err)
		}
		if failed {
			p.states = append(p.states, dump(t, p.store)) // what failed before may be in it
			p.settled()
		}
		p.disk = p.disk.Crash(p.rng)
		_ = p.store.Close()
		if !p.start() {
			t.Fatalf("seed %d", seed)
		}
		_ = p.store.Close()
	}
}
