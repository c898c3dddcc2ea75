package handlers

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
	"github.com/kbroker/kbroker/storage/vfs"
)

// Fetch, versions 4 to 18.
//
// A request is read at once. If that yields fewer than min_bytes and no error, it is parked with a waiter on each of its
// logs and read again when enough has come, when max_wait_ms is over, when the peer goes away or when the broker stops.
// Whether enough has come is found out by asking only the logs that have moved.
//
// Partitions are answered in the order of the request or session, those that don't exist last. ReplicaState (version 15) is
// taken as the replica id of older versions.

// fetchPartition is one partition as a Fetch asks for it.
type fetchPartition struct {
	topic            string          // below version 13
	id               storage.TopicID // from version 13
	known            string          // from version 13, the topic's name once the id has been found
	partition        int32
	offset           int64
	maxBytes         int32
	currentEpoch     int32 // -1: not to be checked
	lastFetchedEpoch int32 // -1: not to be checked
}

func (p *fetchPartition) key() partitionKey {
	return partitionKey{topic: p.topic, id: p.id, partition: p.partition}
}

// fetchQuery is a request in a form that outlives it.
type fetchQuery struct {
	version      int16
	usesIDs      bool
	sessionID    int32
	sessionEpoch int32
	parts        []fetchPartition
	forgotten    []partitionKey

	follower  bool
	isolation storage.Isolation
	maxWait   time.Duration
	minBytes  int64
	maxBytes  int64
}

// fetchResult is what is answered for one partition.
type fetchResult struct {
	part        fetchPartition
	log         Log  // nil if the partition doesn't exist
	missing     bool // it didn't exist when the request came
	code        protocol.ErrorCode
	offsets     storage.Offsets
	records     storage.Records // nil if none
	aborted     []storage.AbortedTransaction
	diverging   storage.EpochEnd
	leaderEpoch int32 // of a fenced client's partition, else -1

	inline   bool // the records lie in the fetch's buffer, from start to end
	from, to int
}

// size is the length of the records in bytes.
func (r *fetchResult) size() int64 {
	if r.records == nil {
		return 0
	}
	return r.records.Size()
}

func (r *fetchResult) release() {
	if r.records != nil {
		r.records.Release()
		r.records = nil
	}
}

// fail turns the result into an error.
func (r *fetchResult) fail(code protocol.ErrorCode) {
	r.release()
	r.code = code
	r.offsets = storage.Offsets{Start: -1, End: -1, HighWatermark: -1, LastStable: -1}
	r.aborted = nil
}

// fetch is a Fetch under way.
type fetch struct {
	h       *Handlers
	request protocol.Request
	query   fetchQuery
	session fetchContext
	parts   []fetchPartition
	results []fetchResult
	started time.Time
}

func (h *Handlers) fetch(r *protocol.Request, req *kmsg.FetchRequest) protocol.Response {
	isolation, known := isolationOf(req.IsolationLevel)
	q := h.fetchQuery(req, isolation)
	session, parts, code := h.data.sessions.open(q)
	if code != protocol.None {
		return h.fetchRefused(r, req.Version, noSession, code)
	}
	f := &fetch{
		h:       h,
		request: protocol.Request{Header: r.Header, Conn: r.Conn},
		query:   q,
		session: session,
		parts:   parts,
		started: h.Clock.Now(),
	}
	f.read()
	if !known && f.found() { // without a partition to read, Kafka doesn't look at it
		releaseAll(f.results)
		return h.fetchFailed(r, req, protocol.UnknownServerError)
	}
	if f.query.maxWait <= 0 || f.complete() {
		return f.respond()
	}
	return protocol.Response{Later: f.park().wait}
}

// fetchQuery copies what is needed of a request.
func (h *Handlers) fetchQuery(req *kmsg.FetchRequest, isolation storage.Isolation) fetchQuery {
	maxBytes := min(int64(req.MaxBytes), h.fetchMaxBytes())
	return fetchQuery{
		version:      req.Version,
		usesIDs:      req.Version >= 13,
		sessionID:    req.SessionID,
		sessionEpoch: req.SessionEpoch,
		parts:        fetchParts(req),
		forgotten:    forgottenParts(req),
		follower:     req.ReplicaID >= 0 || (req.Version >= 15 && req.ReplicaState.ID >= 0),
		isolation:    isolation,
		maxWait:      time.Duration(req.MaxWaitMillis) * time.Millisecond,
		minBytes:     min(int64(req.MinBytes), maxBytes),
		maxBytes:     maxBytes,
	}
}

func fetchParts(req *kmsg.FetchRequest) []fetchPartition {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	all := make([]fetchPartition, 0, n)
	for i := range req.Topics {
		t := &req.Topics[i]
		name := strings.Clone(t.Topic)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			all = append(all, fetchPartition{
				topic:            name,
				id:               t.TopicID,
				partition:        p.Partition,
				offset:           p.FetchOffset,
				maxBytes:         p.PartitionMaxBytes,
				currentEpoch:     max(-1, p.CurrentLeaderEpoch),
				lastFetchedEpoch: p.LastFetchedEpoch,
			})
		}
	}
	return all
}

func forgottenParts(req *kmsg.FetchRequest) []partitionKey {
	var all []partitionKey
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, p := range t.Partitions {
			all = append(all, partitionKey{topic: t.Topic, id: t.TopicID, partition: p})
		}
	}
	return all
}

// read reads all partitions anew, within the limits: until one has yielded records its first batch comes whole, whatever
// its size.
func (f *fetch) read() {
	before := f.results
	if before == nil {
		f.results = make([]fetchResult, 0, len(f.parts))
	}
	f.results = f.results[:0]
	finder := topicFinder{h: f.h, usesIDs: f.query.usesIDs}
	limit, whole := f.query.maxBytes, true
	for i := range f.parts {
		r := f.readPartition(&finder, &f.parts[i], limit, whole)
		if len(before) == 0 {
			r.missing = r.log == nil
		} else if r.missing = before[i].missing; r.log == nil && !r.missing {
			r.aborted = nil // deleted while the fetch waited
		}
		size := r.size()
		whole = whole && size == 0
		limit = max(0, limit-size)
		f.results = append(f.results, r)
	}
}

// found says whether any partition exists.
func (f *fetch) found() bool {
	for i := range f.results {
		if !f.results[i].missing {
			return true
		}
	}
	return false
}

// missingLast moves the partitions that don't exist behind the others, keeping the order of either.
func missingLast(results []fetchResult) []fetchResult {
	if !slices.ContainsFunc(results, func(r fetchResult) bool { return r.missing }) {
		return results
	}
	ordered := make([]fetchResult, 0, len(results))
	for _, missing := range [...]bool{false, true} {
		for i := range results {
			if results[i].missing == missing {
				ordered = append(ordered, results[i])
			}
		}
	}
	return ordered
}

// readPartition reads one partition; whole says that its first batch may exceed the limit.
func (f *fetch) readPartition(finder *topicFinder, p *fetchPartition, limit int64, whole bool) fetchResult {
	topic, code := finder.find(p)
	r := fetchResult{part: *p, diverging: storage.EpochEnd{Epoch: -1, EndOffset: -1}, leaderEpoch: -1}
	if code != protocol.None {
		r.fail(code)
		r.aborted = []storage.AbortedTransaction{}
		return r
	}
	log, err := f.h.log(topic, p.partition)
	if err != nil {
		r.fail(codeOf(err))
		r.aborted = []storage.AbortedTransaction{}
		return r
	}
	r.log = log
	f.readLog(&r, limit, whole)
	return r
}

// readLog reads from the log that was found.
func (f *fetch) readLog(r *fetchResult, limit int64, whole bool) {
	log := r.log
	if code := checkEpoch(log, r.part.currentEpoch); code != protocol.None {
		r.fail(code)
		if code == protocol.FencedLeaderEpoch {
			r.leaderEpoch = log.LeaderEpoch()
		}
		return
	}
	if f.query.follower {
		r.fail(protocol.NotLeaderOrFollower)
		r.leaderEpoch = log.LeaderEpoch()
		return
	}
	diverges, err := divergence(log, &r.part)
	if err != nil {
		r.fail(codeOf(err))
		return
	}
	if diverges.Epoch >= 0 {
		r.diverging, r.offsets = diverges, log.Offsets()
		return
	}
	limit = min(limit, int64(r.part.maxBytes))
	found, err := readWithin(log, r.part.offset, max(0, limit), whole && limit >= 0, f.query.isolation)
	if vfs.IsTooManyFiles(err) && !whole {
		// What has been read for the partitions before keeps their files open: the answer is full, and the next begins here.
		found, err = storage.ReadResult{Offsets: log.Offsets()}, nil
	}
	if err != nil {
		r.fail(codeOf(err))
		return
	}
	if limit < 0 && r.part.offset < visibleEnd(found.Offsets, f.query.isolation) {
		r.records = found.Records
		r.fail(protocol.UnknownServerError)
		return
	}
	r.offsets, r.records, r.aborted = found.Offsets, found.Records, found.Aborted
	if f.query.isolation == storage.ReadCommitted && r.aborted == nil {
		r.aborted = []storage.AbortedTransaction{}
	}
}

// readWithin reads up to limit bytes. A first batch that exceeds it comes all the same if whole is set, else nothing does,
// as consumers couldn't use part of it.
func readWithin(log Log, offset, limit int64, whole bool, i storage.Isolation) (storage.ReadResult, error) {
	o := storage.ReadOptions{Isolation: i, MaxBytes: limit, WholeFirst: limit > 0}
	if whole {
		o.MaxBytes, o.WholeFirst = max(1, limit), true
	}
	found, err := log.Read(offset, o)
	if err != nil {
		return found, err
	}
	if found.Records != nil && !whole && found.Records.Size() > limit {
		found.Records.Release()
		found.Records, found.Aborted = nil, nil
	}
	return found, nil
}

// divergence finds out whether the log continues what the client has fetched last (KIP-595): if it doesn't, the result says
// where to go back to, else its epoch is -1.
func divergence(log Log, p *fetchPartition) (storage.EpochEnd, error) {
	none := storage.EpochEnd{Epoch: -1, EndOffset: -1}
	if p.lastFetchedEpoch < 0 {
		return none, nil
	}
	now, err := standing(log)
	if err != nil {
		return none, err
	}
	end := log.EpochEnd(p.lastFetchedEpoch)
	if end.Epoch < 0 || end.EndOffset < 0 || p.offset < now.Start {
		return none, storage.ErrOffsetOutOfRange
	}
	if end.Epoch < p.lastFetchedEpoch || end.EndOffset < p.offset {
		return end, nil
	}
	return none, nil
}

// complete says that the answer needn't wait: nothing is there to wait for, enough has been read, or something must be told.
func (f *fetch) complete() bool {
	var size int64
	waiting := false
	for i := range f.results {
		r := &f.results[i]
		size += r.size()
		if r.log == nil {
			continue // that alone doesn't end a wait
		}
		waiting = true
		if r.code != protocol.None || r.diverging.Epoch >= 0 {
			return true
		}
	}
	return !waiting || size >= f.query.minBytes
}

// topicFinder resolves topics and remembers the last one, as partitions of a topic follow each other.
type topicFinder struct {
	h       *Handlers
	usesIDs bool

	used bool
	name string
	id   storage.TopicID
	last *meta.Topic
	code protocol.ErrorCode
}

// find is the topic that a partition belongs to, or the error's code.
func (f *topicFinder) find(p *fetchPartition) (*meta.Topic, protocol.ErrorCode) {
	if !f.used || f.name != p.topic || f.id != p.id {
		f.used, f.name, f.id = true, p.topic, p.id
		if f.usesIDs {
			f.last, f.code = f.h.fetchTopicByID(p)
		} else {
			f.last, f.code = f.h.fetchTopicByName(p.topic)
		}
	}
	if f.usesIDs && f.last != nil {
		p.known = f.last.Name
	}
	return f.last, f.code
}

func (h *Handlers) fetchTopicByName(name string) (*meta.Topic, protocol.ErrorCode) {
	if t := h.topicByName(name); t != nil {
		return t, protocol.None
	}
	return nil, protocol.UnknownTopicOrPartition
}

// fetchTopicByID finds a topic by its id. One that isn't there is UnknownTopicID, save when it was seen before in this
// session: then it was deleted (UnknownTopicOrPartition), or deleted and made again (InconsistentTopicID).
func (h *Handlers) fetchTopicByID(p *fetchPartition) (*meta.Topic, protocol.ErrorCode) {
	if t := h.topicByID(p.id); t != nil {
		return t, protocol.None
	}
	switch {
	case p.known == "":
		return nil, protocol.UnknownTopicID
	case h.topicByName(p.known) != nil:
		return nil, protocol.InconsistentTopicID
	default:
		return nil, protocol.UnknownTopicOrPartition
	}
}
