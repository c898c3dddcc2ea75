package handlers

import (
	"fmt"
	"sync"
)

// producerIDBlock is how many producer ids are reserved at once. What is left of a block is lost at a restart.
const producerIDBlock = 1000

// producerIDs hands out producer ids from blocks that the metadata store has recorded as handed out. Concurrent calls
// are allowed.
type producerIDs struct {
	meta Meta

	reserving sync.Mutex // held while a block is reserved; taken before mu
	mu        struct {
		sync.Mutex
		next, end int64
	}
}

// take is the next id of the current block; false if there is none left.
func (p *producerIDs) take() (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.next == p.mu.end {
		return 0, false
	}
	id := p.mu.next
	p.mu.next++
	return id, true
}

// reserve is the next id, from a new block if need be. It waits for the metadata store.
func (p *producerIDs) reserve() (int64, error) {
	p.reserving.Lock()
	defer p.reserving.Unlock()
	if id, ok := p.take(); ok {
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
