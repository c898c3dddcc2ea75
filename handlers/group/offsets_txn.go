package group

import (
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// txnOffsets are the offsets that a producer has sent to the group in a transaction that is still open. They are kept in
// the store like committed ones, but nobody reads them before the transaction is committed.
type txnOffsets struct {
	epoch  int16
	topics map[string]topicOffsets
}

// openTxns says which groups hold offsets of which producer.
type openTxns struct {
	sync.Mutex
	groups map[int64]map[string]struct{}
}

func (t *openTxns) add(producerID int64, group string) {
	t.Lock()
	defer t.Unlock()
	if t.groups == nil {
		t.groups = make(map[int64]map[string]struct{})
	}
	if t.groups[producerID] == nil {
		t.groups[producerID] = make(map[string]struct{})
	}
	t.groups[producerID][group] = struct{}{}
}

func (t *openTxns) remove(producerID int64, group string) {
	t.Lock()
	defer t.Unlock()
	if delete(t.groups[producerID], group); len(t.groups[producerID]) == 0 {
		delete(t.groups, producerID)
	}
}

func (t *openTxns) of(producerID int64) []string {
	t.Lock()
	defer t.Unlock()
	names := make([]string, 0, len(t.groups[producerID]))
	for name := range t.groups[producerID] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TxnOffsetCommit keeps offsets that count once the producer's transaction is committed. That the transaction is open, and
// the group part of it, is for the transaction coordinator to check before.
func (c *Coordinator) TxnOffsetCommit(req *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse {
	r := commitRequest{
		group: req.Group, memberID: req.MemberID, instance: req.InstanceID, generation: req.Generation,
		version:       req.Version,
		transactional: true,
	}
	if req.Version < 3 {
		r.memberID, r.instance, r.generation = "", nil, -1
	}
	answer := kmsg.NewPtrTxnOffsetCommitResponse()
	answer.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		answer.Topics[i].Topic = req.Topics[i].Topic
		answer.Topics[i].Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(req.Topics[i].Partitions))
		for j := range req.Topics[i].Partitions {
			answer.Topics[i].Partitions[j].Partition = req.Topics[i].Partitions[j].Partition
		}
	}
	if req.Group == "" {
		failTxnCommit(answer, protocol.InvalidGroupID)
		return answer
	}
	g, code := c.lockForTxnCommit(&r, req.ProducerID)
	if code != protocol.None {
		failTxnCommit(answer, code)
		return answer
	}
	if c.keepTxnOffsets(g, &r, req, answer) != nil {
		failTxnCommit(answer, protocol.CoordinatorNotAvailable)
	}
	return answer
}

func failTxnCommit(answer *kmsg.TxnOffsetCommitResponse, code protocol.ErrorCode) {
	for i := range answer.Topics {
		for j := range answer.Topics[i].Partitions {
			if p := &answer.Topics[i].Partitions[j]; p.ErrorCode == 0 {
				p.ErrorCode = int16(code)
			}
		}
	}
}

// lockForTxnCommit does what lockForCommit does, when no other change to the producer's offsets is being written: their record
// is written whole, so two must not miss each other's.
func (c *Coordinator) lockForTxnCommit(r *commitRequest, producerID int64) (*group, protocol.ErrorCode) {
	for {
		g, code := c.lockForCommit(r)
		if code != protocol.None {
			return nil, code
		}
		before := g.offsets.undecided(producerID, nil)
		if before == nil {
			return g, protocol.None
		}
		g.stepAside(before)
	}
}

// undecided is a round being written or gathering on whose outcome it depends what a change to a producer's offsets makes of
// them, and of overtaken if these may have been overtaken by it; nil if there is none. The caller holds o.mu.
func (o *offsets) undecided(producerID int64, overtaken *txnOffsets) *round {
	for _, r := range []*round{o.gathering, o.writing} {
		if r != nil && (slices.Contains(r.producers, producerID) || overtaken != nil && r.overtakes(overtaken)) {
			return r
		}
	}
	return nil
}

// overtakes says whether a partition of a transaction is committed by others in this round, be it that their transaction ends.
func (r *round) overtakes(x *txnOffsets) bool {
	for _, taken := range r.taken {
		for i := range taken {
			if _, found := x.topics[taken[i].tp.Topic].find(taken[i].tp.Partition); found {
				return true
			}
		}
	}
	return false
}

// stepAside waits for a round to be over. The caller holds g.mu and g.offsets.mu; both are released, and what the caller
// knows of the group counts no more.
func (g *group) stepAside(r *round) {
	g.mu.Unlock()
	g.offsets.await(r)
	g.offsets.mu.Unlock()
}

// keepTxnOffsets adds to what the producer has sent before. The caller holds g.mu and g.offsets.mu; both are released.
func (c *Coordinator) keepTxnOffsets(g *group, r *commitRequest, req *kmsg.TxnOffsetCommitRequest, answer *kmsg.TxnOffsetCommitResponse) error {
	g.mu.Unlock()
	o := &g.offsets
	cfg, nowMs := c.config(), c.clock.Now().UnixMilli()
	topics := c.topics()
	next := o.txns[req.ProducerID].with(req.ProducerEpoch)
	for i := range req.Topics {
		topic := topics.Named(req.Topics[i].Topic)
		for j := range req.Topics[i].Partitions {
			p := &req.Topics[i].Partitions[j]
			metadata, code := keepMetadata(p.Metadata, cfg.OffsetMetadataMax)
			if refused := r.allows(topic, p.Partition); refused != protocol.None {
				code = refused
			}
			if answer.Topics[i].Partitions[j].ErrorCode = int16(code); code != protocol.None {
				continue
			}
			next.set(topic.Name, p.Partition, meta.Cursor{
				Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: metadata, ExpireMs: -1,
				CommitMs: o.timeInTxn(topic.Name, p.Partition, nowMs),
			})
		}
	}
	if len(next.topics) == 0 {
		o.mu.Unlock()
		g.tidy()
		return nil
	}
	if o.txns[req.ProducerID] == nil {
		// What ends the transaction must come here even if the commit fails: the store may hold the record all the same.
		g.keepTxn(req.ProducerID, &txnOffsets{epoch: req.ProducerEpoch})
	}
	return o.write(c, func(r *round) {
		r.batch.PutGroup(txnKey(g.id, req.ProducerID), next.encode())
		r.producers = append(r.producers, req.ProducerID)
	}, func() { o.txns[req.ProducerID] = next })
}

// keepTxn notes what a producer has sent. The caller holds g.offsets.mu, or g is being loaded.
func (g *group) keepTxn(producerID int64, x *txnOffsets) {
	if g.offsets.txns == nil {
		g.offsets.txns = make(map[int64]*txnOffsets)
	}
	g.offsets.txns[producerID] = x
	g.c.txns.add(producerID, g.id)
}

// CompleteTransaction makes the offsets that a producer has sent in its transaction count, or drops them. It may be called
// again, after an error or a restart; what is done already stays done.
func (c *Coordinator) CompleteTransaction(producerID int64, commit bool) error {
	for _, name := range c.txns.of(producerID) {
		if err := c.completeIn(name, producerID, commit); err != nil {
			return fmt.Errorf("complete transaction of producer %d in group %q: %w", producerID, name, err)
		}
	}
	return nil
}

// completeIn ends a transaction in one group.
func (c *Coordinator) completeIn(name string, producerID int64, commit bool) error {
	g := c.lockForCompletion(name, producerID)
	if g == nil {
		c.txns.remove(producerID, name)
		return nil
	}
	o := &g.offsets
	g.mu.Unlock()
	var counted []newOffset
	if commit {
		counted = o.countable(o.txns[producerID], c.topics())
	}
	return o.write(c, func(r *round) {
		for i := range counted {
			r.batch.PutCursor(g.id, counted[i].tp, counted[i].cursor)
		}
		r.batch.DeleteGroup(txnKey(g.id, producerID))
		r.taken, r.producers = append(r.taken, counted), append(r.producers, producerID)
	}, func() {
		for i := range counted {
			o.set(counted[i].tp.Topic, counted[i].tp.Partition, counted[i].cursor)
		}
		delete(o.txns, producerID)
		c.txns.remove(producerID, g.id)
	})
}

// lockForCompletion returns a group that has offsets of a producer, with its lock and that of its offsets held, when nothing
// is being written that decides what becomes of them; nil if there are none.
func (c *Coordinator) lockForCompletion(name string, producerID int64) *group {
	for {
		g := c.lock(name)
		if g == nil {
			return nil
		}
		o := &g.offsets
		o.mu.Lock()
		txn := o.txns[producerID]
		if before := o.undecided(producerID, txn); before != nil {
			g.stepAside(before)
			continue
		}
		if txn == nil {
			o.mu.Unlock()
			g.mu.Unlock()
			return nil
		}
		return g
	}
}

// countable lists the transaction's offsets, without those of topics deleted meanwhile and those that a later commit of
// others has overtaken.
func (o *offsets) countable(txn *txnOffsets, topics *meta.Topics) []newOffset {
	var counted []newOffset
	for name, list := range txn.topics {
		if topics.Named(name) == nil {
			continue
		}
		for _, p := range list {
			if last, found := o.get(name, p.partition); found && last.CommitMs > p.cursor.CommitMs {
				continue
			}
			counted = append(counted, newOffset{meta.TopicPartition{Topic: name, Partition: p.partition}, p.cursor})
		}
	}
	return counted
}

// timeOutside is when an offset counts as committed outside of transactions: now, but later than what open transactions have for the
// partition. By this countable finds, after a restart as well, which came last, however fast they came and whatever the clock did.
func (o *offsets) timeOutside(topic string, partition int32, nowMs int64) int64 {
	for _, txn := range o.txns {
		if p, found := txn.topics[topic].find(partition); found {
			nowMs = max(nowMs, txn.topics[topic][p].cursor.CommitMs+1)
		}
	}
	return nowMs
}

// timeInTxn is the same of an offset in a transaction, which isn't earlier than what is committed.
func (o *offsets) timeInTxn(topic string, partition int32, nowMs int64) int64 {
	nowMs = o.timeOutside(topic, partition, nowMs)
	if last, found := o.get(topic, partition); found {
		nowMs = max(nowMs, last.CommitMs)
	}
	return nowMs
}

// pending says that an open transaction has an offset for the partition.
func (o *offsets) pending(topic string, partition int32) bool {
	for _, txn := range o.txns {
		if _, found := txn.topics[topic].find(partition); found {
			return true
		}
	}
	return false
}

// with is a copy that can be added to. What an earlier epoch of the producer left behind is dropped.
func (x *txnOffsets) with(epoch int16) *txnOffsets {
	next := &txnOffsets{epoch: epoch, topics: make(map[string]topicOffsets)}
	if x != nil && x.epoch == epoch {
		for name, list := range x.topics {
			next.topics[name] = slices.Clone(list)
		}
	}
	return next
}

func (x *txnOffsets) set(topic string, partition int32, cursor meta.Cursor) {
	list := x.topics[topic]
	i, found := list.find(partition)
	if found {
		list[i].cursor = cursor
		return
	}
	x.topics[topic] = slices.Insert(list, i, partitionOffset{partition, cursor})
}

func (x *txnOffsets) encode() []byte {
	e := encoder{kindTxn, layoutVersion}
	e.int(int64(x.epoch))
	e.int(int64(len(x.topics)))
	for name, list := range x.topics {
		e.string(name)
		e.int(int64(len(list)))
		for _, p := range list {
			e.int(int64(p.partition))
			e.int(p.cursor.Offset)
			e.int(int64(p.cursor.LeaderEpoch))
			e.string(p.cursor.Metadata)
			e.int(p.cursor.CommitMs)
		}
	}
	return e
}

func decodeTxn(b []byte) (*txnOffsets, error) {
	d := newDecoder(b, kindTxn)
	x := &txnOffsets{epoch: int16(d.int()), topics: make(map[string]topicOffsets)}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		name := d.string()
		for m := d.count(); m > 0 && d.err == nil; m-- {
			partition := int32(d.int())
			cursor := meta.Cursor{Offset: d.int(), LeaderEpoch: int32(d.int()), Metadata: d.string(), CommitMs: d.int(), ExpireMs: -1}
			x.set(name, partition, cursor)
		}
	}
	return x, d.end()
}
