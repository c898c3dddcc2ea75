package group

import (
	"slices"
	"strings"
	"sync"

	"github.com/kbroker/kbroker/meta"
)

// offsets is what a group has committed. Reads are answered from memory. Writes are made in rounds: while one round is
// being written to the store the next one gathers, so that a round costs one write however many commits are in it, and
// what memory holds is applied in the order in which the store got it.
type offsets struct {
	mu        sync.Mutex
	topics    map[string]topicOffsets
	txns      map[int64]*txnOffsets // of open transactions, by producer id
	gathering *round
	writing   *round
}

// topicOffsets are the offsets of a topic by partition.
type topicOffsets []partitionOffset

type partitionOffset struct {
	partition int32
	cursor    meta.Cursor
}

// round is a number of changes that are written together.
type round struct {
	batch meta.Batch
	apply []func()
	// taken are the offsets that it commits, and producers those of whose transactions' offsets it changes something.
	taken     [][]newOffset
	producers []int64
	start     chan struct{} // closed when it is this round's turn; nil if it doesn't have to wait
	done      chan struct{} // closed when it is over; nil as long as nobody waits for it
	err       error         // once done
}

// rounds keeps rounds that nobody but their leader knew of.
type rounds struct{ sync.Pool }

func (p *rounds) get() *round {
	if r, ok := p.Get().(*round); ok {
		return r
	}
	return &round{}
}

func (p *rounds) put(r *round) {
	if r.done != nil {
		return
	}
	r.batch.Reset()
	clear(r.apply)
	clear(r.taken)
	r.apply, r.taken, r.producers, r.start, r.err = r.apply[:0], r.taken[:0], r.producers[:0], nil, nil
	p.Put(r)
}

// write makes changes durable, then applies them to memory. Put fills the round's batch at once; apply runs with o.mu held
// if the commit succeeded. The caller holds o.mu; write releases it.
func (o *offsets) write(c *Coordinator, put func(*round), apply func()) error {
	r := o.gathering
	leads := r == nil
	if leads {
		r = c.rounds.get()
		o.gathering = r
	}
	put(r)
	r.apply = append(r.apply, apply)
	if !leads {
		o.await(r)
		o.mu.Unlock()
		return r.err
	}
	if o.writing != nil {
		start := make(chan struct{})
		r.start = start
		o.mu.Unlock()
		<-start
		o.mu.Lock()
	}
	o.gathering, o.writing = nil, r
	o.mu.Unlock()
	err := c.commit(&r.batch)
	o.mu.Lock()
	o.finish(r, err)
	o.mu.Unlock()
	c.rounds.put(r)
	return err
}

// finish applies a round and lets the next one start.
func (o *offsets) finish(r *round, err error) {
	if err == nil {
		for _, apply := range r.apply {
			apply()
		}
	}
	r.err, o.writing = err, nil
	if o.gathering != nil && o.gathering.start != nil {
		close(o.gathering.start)
	}
	if r.done != nil {
		close(r.done)
	}
}

// await waits for a round to be over. The caller holds o.mu, and does again afterwards.
func (o *offsets) await(r *round) {
	if r.done == nil {
		r.done = make(chan struct{})
	}
	done := r.done
	o.mu.Unlock()
	<-done
	o.mu.Lock()
}

// settle waits for all that is being written or gathering now. The caller holds o.mu, and does again afterwards.
func (o *offsets) settle() {
	if o.gathering != nil {
		o.await(o.gathering)
		return
	}
	if o.writing != nil {
		o.await(o.writing)
	}
}

// quiet waits until nothing is being written. The caller holds o.mu, and does again afterwards, and g.mu all the time, without
// which others could go on writing for ever.
func (o *offsets) quiet() {
	for o.busy() {
		o.settle()
	}
}

// busy says that something is being written.
func (o *offsets) busy() bool { return o.gathering != nil || o.writing != nil }

// get finds a committed offset. The caller holds o.mu, as for all below.
func (o *offsets) get(topic string, partition int32) (meta.Cursor, bool) {
	list := o.topics[topic]
	i, found := list.find(partition)
	if !found {
		return meta.Cursor{}, false
	}
	return list[i].cursor, true
}

func (o *offsets) set(topic string, partition int32, cursor meta.Cursor) {
	list, known := o.topics[topic]
	if i, found := list.find(partition); found {
		list[i].cursor = cursor
	} else {
		if !known {
			topic = strings.Clone(topic)
		}
		if o.topics == nil {
			o.topics = make(map[string]topicOffsets, 1)
		}
		o.topics[topic] = slices.Insert(list, i, partitionOffset{partition, cursor})
	}
}

func (o *offsets) remove(topic string, partition int32) {
	list := o.topics[topic]
	i, found := list.find(partition)
	if !found {
		return
	}
	if len(list) == 1 {
		delete(o.topics, topic)
		return
	}
	o.topics[topic] = slices.Delete(list, i, i+1)
}

// names lists the topics with offsets in order.
func (o *offsets) names() []string {
	names := make([]string, 0, len(o.topics))
	for name := range o.topics {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (l topicOffsets) find(partition int32) (int, bool) {
	return slices.BinarySearchFunc(l, partition, func(p partitionOffset, want int32) int {
		return int(int64(p.partition) - int64(want))
	})
}
