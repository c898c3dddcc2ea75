package handlers

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// dataPlane is what the handlers of records keep between requests.
type dataPlane struct {
	sessions    *fetchSessions
	producerIDs *txn.ProducerIDs
	scratch     sync.Pool // of *[]byte: records on their way into a frame; only memory is shared, never contents
}

// newDataPlane makes it with so many slots for fetch sessions.
func newDataPlane(d *Deps, sessionSlots int) *dataPlane {
	return &dataPlane{
		sessions:    newFetchSessions(d.Clock, sessionSlots),
		producerIDs: txn.NewProducerIDs(d.Meta),
		scratch:     sync.Pool{New: func() any { return new([]byte) }},
	}
}

// register shows what is kept, if anybody wants to see it.
func (d *dataPlane) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	sessions := prometheus.GaugeOpts{Name: "kbroker_fetch_sessions", Help: "Fetch sessions (KIP-227) that are kept."}
	if err := r.Register(prometheus.NewGaugeFunc(sessions, func() float64 { return float64(d.sessions.count()) })); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

func (d *dataPlane) getScratch() *[]byte {
	b, ok := d.scratch.Get().(*[]byte)
	if !ok {
		return new([]byte)
	}
	*b = (*b)[:0]
	return b
}

func (d *dataPlane) putScratch(b *[]byte) { d.scratch.Put(b) }

// checkEpoch compares the leader epoch that a client knows with the current one; -1 is not compared.
func checkEpoch(log Log, known int32) protocol.ErrorCode {
	if known == -1 {
		return protocol.None
	}
	switch current := log.LeaderEpoch(); {
	case known < current:
		return protocol.FencedLeaderEpoch
	case known > current:
		return protocol.UnknownLeaderEpoch
	}
	return protocol.None
}

// standing tells where a log stands, or why that isn't known: while it is being recovered its offsets are zeros, which a
// client must not take for the truth.
func standing(log Log) (storage.Offsets, error) {
	found, err := log.Read(0, storage.ReadOptions{})
	if err != nil && !errors.Is(err, storage.ErrOffsetOutOfRange) {
		return storage.Offsets{}, err
	}
	return found.Offsets, nil
}

// isolationOf is the isolation level of a request.
func isolationOf(level int8) (storage.Isolation, bool) {
	switch level {
	case 0:
		return storage.ReadUncommitted, true
	case 1:
		return storage.ReadCommitted, true
	default:
		return 0, false
	}
}

// named is a partition by its topic's name, to find those that come twice in a request.
type named struct {
	topic     string
	partition int32
}

// topicPlaces says where topics are in an answer, so that one that is asked for twice is answered once.
type topicPlaces map[string]int

// of is the place of a topic; if it has none yet, next becomes it.
func (p topicPlaces) of(topic string, next int) (at int, isNew bool) {
	at, there := p[topic]
	if !there {
		p[topic], at = next, next
	}
	return at, !there
}

// fetchMaxBytes bounds the records of one Fetch answer.
func (h *Handlers) fetchMaxBytes() int64 { return h.Config.Int64("fetch.max.bytes") }

// compactOnly says whether a topic keeps the last record of each key and deletes nothing else.
func (h *Handlers) compactOnly(t *meta.Topic) bool {
	c := h.topicConfig(t)
	return c.Compact() && !c.Delete()
}
