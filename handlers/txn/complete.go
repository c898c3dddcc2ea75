package txn

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

// The pauses between attempts to write markers that could not be written.
const (
	firstRetryPause = 20 * time.Millisecond
	lastRetryPause  = 5 * time.Second
)

// atOnce bounds how many markers are appended before the answer to EndTxn.
const atOnce = 64

// outstanding is what is left to do for a decided transaction.
type outstanding struct {
	partitions []Partition
	offsets    bool
	commits    []pendingMarker
}

// pendingMarker is a marker that isn't durable yet.
type pendingMarker struct {
	partition Partition
	commit    Commit
}

// allOf is all there is to do for a transaction.
func allOf(s State) *outstanding {
	o := &outstanding{}
	for _, p := range s.Partitions {
		if p.Topic == OffsetsTopic {
			o.offsets = true
		} else {
			o.partitions = append(o.partitions, p)
		}
	}
	return o
}

// marker is what a decided transaction writes.
func (s *State) marker() Marker {
	return Marker{ProducerID: s.ProducerID, Epoch: s.Epoch, Commit: s.Status == PrepareCommit, Version: s.Version}
}

// carryOut writes the markers of a transaction that has just been decided. What can't be done without waiting goes on in the
// background. The caller holds e.mu.
func (c *Coordinator) carryOut(e *entry) {
	s, todo := e.state, allOf(e.state)
	if e.guards == 0 && len(todo.partitions) <= atOnce {
		c.append(e.id, s.marker(), todo)
		if len(todo.partitions) == 0 && !todo.offsets && len(todo.commits) == 0 {
			c.completed(e)
			return
		}
	}
	c.background(func() { c.finish(e, s, todo) })
}

// finish does all that is left, and tries again until it is done or the coordinator closes.
func (c *Coordinator) finish(e *entry, s State, todo *outstanding) {
	for pause := firstRetryPause; ; pause = min(2*pause, lastRetryPause) {
		if !c.unguarded(e) {
			return
		}
		if c.attempt(e.id, &s, todo) {
			break
		}
		if !c.rest(pause) {
			return
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.completed(e)
}

// unguarded waits until nothing is being appended for the transaction any more; false if the coordinator closes.
func (c *Coordinator) unguarded(e *entry) bool {
	e.mu.Lock()
	if e.guards == 0 {
		e.mu.Unlock()
		return true
	}
	if e.unguarded == nil {
		e.unguarded = make(chan struct{})
	}
	done := e.unguarded
	e.mu.Unlock()
	select {
	case <-done:
		return true
	case <-c.closing.Done():
		return false
	}
}

// rest pauses; false if the coordinator closes meanwhile.
func (c *Coordinator) rest(pause time.Duration) bool {
	timer := c.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-c.closing.Done():
		return false
	}
}

// attempt tries to do all that is left and says whether it is done.
func (c *Coordinator) attempt(id string, s *State, todo *outstanding) bool {
	c.append(id, s.marker(), todo)
	c.await(id, todo)
	if todo.offsets && c.completeOffsets(id, s) {
		todo.offsets = false
	}
	return len(todo.partitions) == 0 && !todo.offsets && len(todo.commits) == 0
}

// append appends the markers that aren't in their logs yet.
func (c *Coordinator) append(id string, m Marker, todo *outstanding) {
	todo.partitions = slices.DeleteFunc(todo.partitions, func(p Partition) bool {
		commit, err := c.Logs.AppendMarker(p, m)
		switch {
		case errors.Is(err, ErrNoPartition):
			return true
		case err != nil:
			c.failed(id, p, err)
			return false
		}
		if commit != nil {
			todo.commits = append(todo.commits, pendingMarker{p, commit})
		}
		return true
	})
}

// await waits until markers are durable. Those that can't be made so are to be appended again.
func (c *Coordinator) await(id string, todo *outstanding) {
	for len(todo.commits) > 0 {
		m := todo.commits[0]
		select {
		case <-m.commit.Done():
		case <-c.closing.Done():
			return
		}
		if err := m.commit.Err(); err != nil {
			c.failed(id, m.partition, err)
			todo.partitions = append(todo.partitions, m.partition)
		}
		todo.commits = todo.commits[1:]
	}
}

func (c *Coordinator) failed(id string, p Partition, err error) {
	c.metrics.markerErrors.Inc()
	c.Logger.Warn("transaction marker not written; it is tried again", zap.String("transactional id", id),
		zap.String("partition", fmt.Sprintf("%s-%d", p.Topic, p.Number)), zap.Error(err))
}

func (c *Coordinator) completeOffsets(id string, s *State) bool {
	err := c.Offsets.CompleteTransaction(s.ProducerID, s.Status == PrepareCommit)
	if err != nil {
		c.metrics.markerErrors.Inc()
		c.Logger.Warn("offsets of a transaction not completed; it is tried again", zap.String("transactional id", id), zap.Error(err))
	}
	return err == nil
}

// completed applies that all markers are written. The store is told later. The caller holds e.mu.
func (c *Coordinator) completed(e *entry) {
	e.state = e.state.complete(c.Clock.Now().UnixMilli())
	close(e.completed)
	e.completed = nil
	e.late = true
	c.settleLater(e, settleAfter)
}
