package handlers

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
)

// Session epochs with a meaning of their own (KIP-227).
const (
	sessionEpochFull  = 0  // a full fetch that asks for a session
	sessionEpochFinal = -1 // a full fetch that doesn't, and ends the session it names
	noSession         = 0
)

// sessionEviction is how long a session must lie unused, or have lived when a larger one wants its slot, before it may be
// evicted.
const sessionEviction = 2 * time.Minute

// maxSessionPartitions bounds the partitions of all sessions together, since a client may name any number, existing or
// not. A fetch whose session would exceed it is answered without one.
const maxSessionPartitions = 1 << 19

// fetchSessions are the sessions of KIP-227: what partitions a client fetches, so that it needs to send, and be answered,
// only what changes. They belong to the broker, not to a connection. Concurrent calls are allowed.
type fetchSessions struct {
	clock clock.Clock
	slots int

	mu struct {
		sync.Mutex
		byID       map[int32]*fetchSession
		partitions int // of all sessions
	}
}

// newFetchSessions makes an empty set that holds at most so many sessions; with none, every fetch is answered without one.
func newFetchSessions(c clock.Clock, slots int) *fetchSessions {
	s := &fetchSessions{clock: c, slots: slots}
	s.mu.byID = make(map[int32]*fetchSession)
	return s
}

// get finds a session and marks it as used; nil if there is none.
func (s *fetchSessions) get(id int32) *fetchSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.mu.byID[id]
	if found != nil {
		found.lastUsed = s.clock.Now()
	}
	return found
}

// remove ends a session, if it is there.
func (s *fetchSessions) remove(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(s.mu.byID[id])
}

// drop ends a session, if there is one. The caller holds s.mu.
func (s *fetchSessions) drop(session *fetchSession) {
	if session == nil {
		return
	}
	s.mu.partitions -= session.size
	delete(s.mu.byID, session.id)
}

// count is the number of sessions.
func (s *fetchSessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.byID)
}

// add gives a session an id and keeps it, if there is a slot or one can be made free. It returns the id, or noSession.
func (s *fetchSessions) add(session *fetchSession) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if len(s.mu.byID) >= s.slots && !s.evict(now, session.size) {
		return noSession
	}
	if s.mu.partitions+session.size > maxSessionPartitions {
		return noSession
	}
	session.id = s.freeID()
	session.created, session.lastUsed = now, now
	s.mu.byID[session.id] = session
	s.mu.partitions += session.size
	return session.id
}

// freeID picks an id that isn't taken, at random so that one client doesn't hit upon another's. The caller holds s.mu.
func (s *fetchSessions) freeID() int32 {
	for {
		id := rand.Int32N(math.MaxInt32) + 1
		if _, taken := s.mu.byID[id]; !taken {
			return id
		}
	}
}

// evict makes one slot free for a session of so many partitions: the one unused for the longest time, if that is long
// enough, else the smallest that has had its time and is smaller. The caller holds s.mu.
func (s *fetchSessions) evict(now time.Time, size int) bool {
	var oldest, smallest *fetchSession
	for _, session := range s.mu.byID {
		if oldest == nil || session.lastUsed.Before(oldest.lastUsed) {
			oldest = session
		}
		if now.Sub(session.created) > sessionEviction && (smallest == nil || session.size < smallest.size) {
			smallest = session
		}
	}
	switch {
	case oldest != nil && now.Sub(oldest.lastUsed) > sessionEviction:
		s.drop(oldest)
	case smallest != nil && smallest.size < size:
		s.drop(smallest)
	default:
		return false
	}
	return true
}

// fetchSession is one session. Its partitions form a ring in the order in which they are read; a partition that had
// records goes to the end, so that the others come first in the next answer.
type fetchSession struct {
	id      int32
	usesIDs bool // by topic id, version 13 and later

	// Guarded by the lock of the set.
	created, lastUsed time.Time
	size              int

	mu    sync.Mutex
	epoch int32 // that the next request must bring
	parts map[partitionKey]*sessionPartition
	ring  sessionPartition // its next is the first
}

// partitionKey names a partition in a session: by id from version 13, else by name.
type partitionKey struct {
	topic     string
	id        storage.TopicID
	partition int32
}

// sessionPartition is a partition of a session: what the client wants of it, and what it was last told.
type sessionPartition struct {
	fetchPartition
	highWatermark int64
	logStart      int64

	prev, next *sessionPartition
}

func newFetchSession(usesIDs bool, parts []fetchPartition) *fetchSession {
	s := &fetchSession{usesIDs: usesIDs, epoch: 1, parts: make(map[partitionKey]*sessionPartition, len(parts))}
	s.ring.prev, s.ring.next = &s.ring, &s.ring
	for i := range parts {
		s.put(parts[i])
	}
	s.size = len(s.parts)
	return s
}

// put adds a partition at the end, or replaces what is wanted of one that is there.
func (s *fetchSession) put(p fetchPartition) {
	key := p.key()
	known := s.parts[key]
	if known == nil {
		known = &sessionPartition{highWatermark: -1, logStart: -1}
		s.parts[key] = known
		s.append(known)
	} else if p.known == "" {
		p.known = known.known
	}
	known.fetchPartition = p
}

func (s *fetchSession) append(p *sessionPartition) {
	last := s.ring.prev
	last.next, p.prev = p, last
	p.next, s.ring.prev = &s.ring, p
}

func (p *sessionPartition) unlink() {
	p.prev.next, p.next.prev = p.next, p.prev
}

func (s *fetchSession) drop(key partitionKey) {
	if p := s.parts[key]; p != nil {
		p.unlink()
		delete(s.parts, key)
	}
}

// list copies the partitions in their order.
func (s *fetchSession) list() []fetchPartition {
	all := make([]fetchPartition, 0, len(s.parts))
	for p := s.ring.next; p != &s.ring; p = p.next {
		all = append(all, p.fetchPartition)
	}
	return all
}

// note remembers what a partition answers and says whether the client must be told.
func (s *fetchSession) note(r *fetchResult) bool {
	p := s.parts[r.part.key()]
	if p == nil {
		return true
	}
	if r.part.known != "" {
		p.known = r.part.known
	}
	changed := r.size() > 0 || r.diverging.Epoch >= 0 ||
		p.highWatermark != r.offsets.HighWatermark || p.logStart != r.offsets.Start
	p.highWatermark, p.logStart = r.offsets.HighWatermark, r.offsets.Start
	if r.code != protocol.None {
		p.highWatermark = -1 // so that the client is told when the error is gone
		return true
	}
	if r.size() > 0 {
		p.unlink()
		s.append(p)
	}
	return changed
}

// fetchContext is the part that sessions play in one request.
type fetchContext struct {
	sessions *fetchSessions
	usesIDs  bool
	full     bool          // makes a session when it is answered
	session  *fetchSession // of an incremental fetch
	epoch    int32         // that the session has after this request
}

// open finds out what a request asks for: its partitions and its session. The code is FetchSessionIDNotFound,
// InvalidFetchSessionEpoch or FetchSessionTopicIDError, each for the whole request.
func (s *fetchSessions) open(q fetchQuery) (fetchContext, []fetchPartition, protocol.ErrorCode) {
	c := fetchContext{sessions: s, usesIDs: q.usesIDs}
	if q.sessionEpoch == sessionEpochFull || q.sessionEpoch == sessionEpochFinal {
		if q.sessionID != noSession {
			s.remove(q.sessionID)
		}
		c.full = q.sessionEpoch == sessionEpochFull
		return c, withoutDuplicates(q.parts), protocol.None
	}
	session := s.get(q.sessionID)
	if session == nil {
		return c, nil, protocol.FetchSessionIDNotFound
	}
	parts, code := session.advance(q)
	if code != protocol.None {
		return c, nil, code
	}
	if len(parts) == 0 {
		s.remove(q.sessionID) // nothing is left of it; the request is answered as one without a session
		return c, withoutDuplicates(q.parts), protocol.None
	}
	if !s.resize(session, len(parts)) {
		return c, parts, protocol.None // answered in full, and the session is over
	}
	c.session, c.epoch = session, nextSessionEpoch(q.sessionEpoch)
	return c, parts, protocol.None
}

// resize takes note of how many partitions a session has now. It ends one that grew beyond the bound, and says whether it
// is still there.
func (s *fetchSessions) resize(session *fetchSession, size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.byID[session.id] != session {
		return false
	}
	s.mu.partitions += size - session.size
	session.size = size
	if s.mu.partitions > maxSessionPartitions {
		s.drop(session)
		return false
	}
	return true
}

// advance moves a session on by one request and lists its partitions.
func (s *fetchSession) advance(q fetchQuery) ([]fetchPartition, protocol.ErrorCode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != q.sessionEpoch {
		return nil, protocol.InvalidFetchSessionEpoch
	}
	if s.usesIDs != q.usesIDs {
		return nil, protocol.FetchSessionTopicIDError
	}
	for i := range q.parts {
		s.put(q.parts[i])
	}
	for _, key := range q.forgotten {
		s.drop(key)
	}
	s.epoch = nextSessionEpoch(s.epoch)
	return s.list(), protocol.None
}

// nextSessionEpoch is the epoch after one: 1 follows the largest, as 0 and -1 have meanings of their own.
func nextSessionEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// close settles what is answered: it drops from results what an incremental fetch needn't tell, releasing it, and makes the
// session of a full one. It returns the session's id. The code is InvalidFetchSessionEpoch if the session has moved on
// meanwhile.
func (c *fetchContext) close(results []fetchResult) ([]fetchResult, int32, protocol.ErrorCode) {
	if c.full {
		return results, c.sessions.start(c.usesIDs, results), protocol.None
	}
	if c.session == nil {
		return results, noSession, protocol.None
	}
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	if c.session.epoch != c.epoch {
		return results, c.session.id, protocol.InvalidFetchSessionEpoch
	}
	told := results[:0]
	for i := range results {
		if c.session.note(&results[i]) {
			told = append(told, results[i])
		} else {
			results[i].release()
		}
	}
	return told, c.session.id, protocol.None
}

// start makes a session of what a full fetch answers and returns its id, or noSession if there is no room.
func (s *fetchSessions) start(usesIDs bool, results []fetchResult) int32 {
	parts := make([]fetchPartition, len(results))
	for i := range results {
		parts[i] = results[i].part
	}
	session := newFetchSession(usesIDs, parts)
	for i := range results {
		session.note(&results[i])
	}
	return s.add(session)
}

// withoutDuplicates keeps what was asked last of a partition that comes twice, in the place of the first.
func withoutDuplicates(parts []fetchPartition) []fetchPartition {
	if len(parts) < 2 {
		return parts
	}
	seen := make(map[partitionKey]int, len(parts))
	kept := parts[:0]
	for _, p := range parts {
		if i, twice := seen[p.key()]; twice {
			kept[i] = p
			continue
		}
		seen[p.key()] = len(kept)
		kept = append(kept, p)
	}
	return kept
}
