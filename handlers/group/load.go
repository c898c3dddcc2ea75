package group

import (
	"encoding/binary"
	"fmt"

	"github.com/kbroker/kbroker/meta"
)

// stored is what the records of one group say together.
type stored struct {
	record   *classicRecord
	mark     mark // zero when there is none: no rebalance leads to generation 0
	consumer *consumerRecord
	members  []*consumerMember
}

// load reads everything back. Sessions and join phases begin anew: nobody could heartbeat while the broker was away.
func (c *Coordinator) load() error {
	found := make(map[string]*stored)
	err := c.store.Groups(func(key string, record []byte) error {
		if err := c.loadRecord(found, key, record); err != nil {
			return fmt.Errorf("record %q: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read group records: %w", err)
	}
	for id, s := range found {
		g := c.lockOrMake(id)
		g.recorded = true
		if s.consumer != nil {
			g.consumer = restoreConsumer(g.turn(), g, s.consumer, s.members)
		} else {
			g.classic = restoreClassic(g.turn(), g, s)
		}
		g.mu.Unlock()
	}
	err = c.store.Cursors(func(group string, tp meta.TopicPartition, cursor meta.Cursor) error {
		g := c.lockOrMake(group)
		g.offsets.set(tp.Topic, tp.Partition, cursor)
		g.mu.Unlock()
		return nil
	})
	if err != nil {
		return fmt.Errorf("read committed offsets: %w", err)
	}
	return nil
}

// loadRecord takes one record.
func (c *Coordinator) loadRecord(found map[string]*stored, key string, record []byte) error {
	id, part, err := splitKey(key)
	if err != nil {
		return err
	}
	if part != "" && part[:1] == partTxn {
		return c.loadTxn(id, part[1:], record)
	}
	if found[id] == nil {
		found[id] = &stored{}
	}
	s := found[id]
	switch {
	case part == "" && len(record) > 0 && record[0] == kindConsumer:
		s.consumer, err = decodeConsumer(record)
	case part == "":
		s.record, err = decodeClassic(record)
	case part == partMark:
		s.mark, err = decodeMark(record)
	case part[:1] == partMember:
		var m *consumerMember
		m, err = decodeConsumerMember(record)
		s.members = append(s.members, m)
	default:
		err = fmt.Errorf("%w: unknown part %q", errRecord, part)
	}
	return err
}

func (c *Coordinator) loadTxn(id, part string, record []byte) error {
	if len(part) != 8 {
		return fmt.Errorf("%w: producer id %q", errRecord, part)
	}
	producerID := int64(binary.BigEndian.Uint64([]byte(part)))
	txn, err := decodeTxn(record)
	if err != nil {
		return err
	}
	g := c.lockOrMake(id)
	defer g.mu.Unlock()
	g.keepTxn(producerID, txn)
	return nil
}

// restoreClassic is a group after a restart: as it was when it was last stable or empty, and if a rebalance had begun since,
// in that rebalance, from its start.
func restoreClassic(t *turn, g *group, s *stored) *classic {
	k := newClassic(g)
	if r := s.record; r != nil {
		k.generation, k.next = r.generation, r.generation+1
		k.protocol, k.emptySinceMs = r.protocol, r.emptySinceMs
		for _, m := range r.members {
			m.synced = true
			k.insert(m, r.protocolType)
			k.extend(t, m)
		}
		k.protocolType = r.protocolType
		if k.members[r.leader] != nil {
			k.leader = r.leader
		}
		k.noteTopics()
	}
	if len(k.order) > 0 {
		k.state = stateStable
	}
	if s.mark.next == 0 {
		if len(k.order) > t.cfg.MaxSize && k.begin(t) == nil { // the bound was lowered; those who come first stay
			k.rebalance(t)
		}
		return k
	}
	// What the rebalance led to may have been handed out: it is skipped.
	k.generation, k.next, k.marked = s.mark.generation, s.mark.next+1, s.mark.next
	if k.state == stateStable {
		k.state = statePreparingRebalance
		k.joinUntil(t, k.rebalanceTimeout())
	}
	return k
}
