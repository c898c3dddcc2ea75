package txn

import (
	"fmt"
	"sync"
)

// producerIDBlock is how many producer ids are reserved at once. What is left of a block is lost at a restart.
const producerIDBlock = 1000

// Reserver makes blocks of producer ids durable as handed out. *meta.Store implements it.
type Reserver interface {
	// ReserveProducerIDs reserves n ids and returns the first.
	ReserveProducerIDs(n int64) (int64, error)
}

// ProducerIDs hands out producer ids from blocks that the metadata store has recorded as handed out. Concurrent calls
// are allowed.
type ProducerIDs struct {
	meta Reserver

	reserving sync.Mutex // held while a block is reserved; taken before mu
	mu        struct {
		sync.Mutex
		next, end int64
	}
}

// NewProducerIDs hands out what r reserves.
func NewProducerIDs(r Reserver) *ProducerIDs { return &ProducerIDs{meta: r} }

// Take is the next id of the current block; false if there is none left. It doesn't wait.
func (p *ProducerIDs) Take() (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.next == p.mu.end {
		return 0, false
	}
	id := p.mu.next
	p.mu.next++
	return id, true
}

// Next is the next id, from a new block if need be. It may wait for the metadata store.
func (p *ProducerIDs) Next() (int64, error) {
	if id, ok := p.Take(); ok {
		return id, nil
	}
	p.reserving.Lock()
	defer p.reserving.Unlock()
	if id, ok := p.Take(); ok {
		return id, nil
	}
	first, err := p.meta.ReserveProducerIDs(producerIDBlock)
	if err != nil {
		return 0, fmt.Errorf("reserve producer ids: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.next, p.mu.end = first+1, first+producerIDBlock
	return first, nil
}
