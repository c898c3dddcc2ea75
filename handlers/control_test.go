package handlers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/handlers/group"
	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// groupsFake stands for the group coordinator: it answers with success and keeps what it was asked.
type groupsFake struct {
	mu      sync.Mutex
	asked   []kmsg.Request
	client  group.Client
	deleted []string
	fetched *kmsg.OffsetFetchResponse // the next answer to OffsetFetch
}

func (g *groupsFake) keep(q kmsg.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, q)
}

func (g *groupsFake) last() kmsg.Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.asked) == 0 {
		return nil
	}
	return g.asked[len(g.asked)-1]
}

func (g *groupsFake) JoinGroup(_ context.Context, c group.Client, _ int16, q *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	g.keep(q)
	g.client = c
	return kmsg.NewPtrJoinGroupResponse()
}

func (g *groupsFake) SyncGroup(_ context.Context, _ int16, q *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	g.keep(q)
	return kmsg.NewPtrSyncGroupResponse()
}

func (g *groupsFake) Heartbeat(q *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	g.keep(q)
	return kmsg.NewPtrHeartbeatResponse()
}

func (g *groupsFake) LeaveGroup(_ int16, q *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	g.keep(q)
	return kmsg.NewPtrLeaveGroupResponse()
}

func (g *groupsFake) OffsetCommit(q *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	g.keep(q)
	a := kmsg.NewPtrOffsetCommitResponse()
	for _, t := range q.Topics {
		at := kmsg.NewOffsetCommitResponseTopic()
		at.Topic = t.Topic
		for _, p := range t.Partitions {
			// Codes that tell the partitions apart.
			at.Partitions = append(at.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: int16(p.Offset)})
		}
		a.Topics = append(a.Topics, at)
	}
	return a
}

func (g *groupsFake) OffsetFetch(q *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	g.keep(q)
	return g.fetched
}

func (g *groupsFake) OffsetDelete(q *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	g.keep(q)
	return kmsg.NewPtrOffsetDeleteResponse()
}

func (g *groupsFake) DescribeGroups(q *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	g.keep(q)
	a := kmsg.NewPtrDescribeGroupsResponse()
	a.Groups = []kmsg.DescribeGroupsResponseGroup{{Group: "live"}, {Group: "gone", ErrorCode: int16(protocol.GroupIDNotFound)}}
	return a
}

func (g *groupsFake) ListGroups(q *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	g.keep(q)
	return kmsg.NewPtrListGroupsResponse()
}

func (g *groupsFake) DeleteGroups(q *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	g.keep(q)
	return kmsg.NewPtrDeleteGroupsResponse()
}

func (g *groupsFake) ConsumerGroupHeartbeat(_ group.Client, q *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	g.keep(q)
	return kmsg.NewPtrConsumerGroupHeartbeatResponse()
}

func (g *groupsFake) ConsumerGroupDescribe(q *kmsg.ConsumerGroupDescribeRequest) *kmsg.ConsumerGroupDescribeResponse {
	g.keep(q)
	return kmsg.NewPtrConsumerGroupDescribeResponse()
}

func (g *groupsFake) TopicsDeleted(topics []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deleted = append(g.deleted, topics...)
}

// controlStore is a memoryStore that can grow topics and refuse to open their logs.
type controlStore struct {
	*memoryStore
	refuse error
}

func (s *controlStore) GrowTopic(id storage.TopicID, partitions int32) (*meta.Topic, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.topics.WithID(id)
	if found == nil {
		return nil, meta.ErrNoTopic
	}
	grown := *found
	grown.Partitions = partitions
	all := slices.DeleteFunc(slices.Clone(s.topics.All()), func(t *meta.Topic) bool { return t == found })
	s.topics = meta.NewTopics(append(all, &grown))
	for int32(len(s.logs[id])) < partitions {
		s.logs[id] = append(s.logs[id], newMemoryLog())
	}
	return &grown, nil
}

// CreateTopics makes topics as the handlers want them made.
func (s *memoryStore) CreateTopics(all []meta.Topic) ([]*meta.Topic, error) {
	for _, t := range all {
		if s.Topics().Named(t.Name) != nil {
			return nil, meta.ErrTopicExists
		}
	}
	made := make([]*meta.Topic, len(all))
	for i, t := range all {
		var err error
		if made[i], err = s.CreateTopic(t); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (s *controlStore) Get(id storage.TopicID, partition int32) (Log, error) {
	return memoryLogs{s.memoryStore}.Get(id, partition)
}

func (s *controlStore) Open(p storage.Partition, _ storage.Config, _ int32) (Log, error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	return s.Get(p.ID, p.Number)
}

func (s *controlStore) Delete(id storage.TopicID) error { return memoryLogs{s.memoryStore}.Delete(id) }

// control is handlers whose whole table can be asked.
type control struct {
	*plane
	store  *controlStore
	groups *groupsFake
}

// newControl makes handlers with the given settings of the broker: name and value in turn.
func newControl(t *testing.T, settings ...string) *control {
	t.Helper()
	p := newPlane(t, settings...)
	c := &control{plane: p, store: &controlStore{memoryStore: p.store}, groups: &groupsFake{}}
	p.Meta, p.Logs, p.Groups = c.store, c.store, c.groups
	p.DataDir = "/data"
	p.Endpoints = func(listener string) (string, int32, bool) {
		switch listener {
		case "PLAINTEXT":
			return "broker", 9092, true
		case "DOCKER":
			return "kbroker.internal", 9093, true
		}
		return "", 0, false
	}
	var err error
	if p.table, err = newTable(rows()); err != nil {
		t.Fatal(err)
	}
	return c
}

// encoded is a request as the server hands it over.
func encoded(q kmsg.Request) *protocol.Request {
	r := request(q.Key(), q.GetVersion())
	r.Body = q.AppendTo(nil)
	return r
}

// ask sends a request through the table and decodes the answer.
func ask[A kmsg.Response](c *control, q kmsg.Request, a A) A {
	c.t.Helper()
	return askAs(c, encoded(q), a)
}

// askAs does the same with a request that has been framed.
func askAs[A kmsg.Response](c *control, r *protocol.Request, a A) A {
	c.t.Helper()
	got := c.Dispatch(r)
	clear(r.Body) // the frame is used again once Dispatch has returned
	if got.Later != nil {
		got = got.Later(context.Background())
	}
	a.SetVersion(r.Header.Version)
	b := frame(c.t, got)[8:]
	if protocol.ResponseHeaderFlexible(a.Key(), a.GetVersion()) {
		b = b[1:]
	}
	if err := a.ReadFrom(b); err != nil {
		c.t.Fatalf("key %d version %d: %v", a.Key(), a.GetVersion(), err)
	}
	return a
}

// create makes topics of one partition through the table.
func (c *control) create(names ...string) {
	c.t.Helper()
	for _, name := range names {
		if a := c.createWith(topicOf(name, 1)); a.ErrorCode != 0 {
			c.t.Fatalf("create %s: %d", name, a.ErrorCode)
		}
	}
}

func topicOf(name string, partitions int32) kmsg.CreateTopicsRequestTopic {
	q := kmsg.NewCreateTopicsRequestTopic()
	q.Topic, q.NumPartitions, q.ReplicationFactor = name, partitions, 1
	return q
}

func createRequest(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	q := kmsg.NewPtrCreateTopicsRequest()
	q.Version = 7
	q.Topics = topics
	return q
}

func (c *control) createWith(q kmsg.CreateTopicsRequestTopic) kmsg.CreateTopicsResponseTopic {
	c.t.Helper()
	a := ask(c, createRequest(q), kmsg.NewPtrCreateTopicsResponse())
	if len(a.Topics) != 1 {
		c.t.Fatalf("%d topics in the answer", len(a.Topics))
	}
	return a.Topics[0]
}

func TestDispatchClosesOnWhatItDoesNotServe(t *testing.T) {
	t.Parallel()
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	for name, r := range map[string]*protocol.Request{
		"unknown key":       request(1000, 0),
		"negative key":      request(-1, 0),
		"controller's key":  request(52, 0),
		"version too high":  request(protocol.KeyMetadata, 14),
		"version too low":   request(protocol.KeyFetch, 3),
		"negative version":  request(protocol.KeyMetadata, -1),
		"empty body":        request(protocol.KeyMetadata, 9),
		"body cut short":    {Header: encoded(metadata).Header, Body: encoded(metadata).Body[:1]},
		"array beyond body": {Header: request(protocol.KeyMetadata, 0).Header, Body: []byte{0x7f, 0xff, 0xff, 0xff}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := newControl(t).Dispatch(r); !got.Close || got.Reason == nil || got.Frame != nil {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestErrorsHaveTheirCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want protocol.ErrorCode
	}{
		{nil, protocol.None},
		{errors.New("what"), protocol.UnknownServerError},
		{protocol.NotCoordinator, protocol.NotCoordinator},
		{fmt.Errorf("read: %w", storage.ErrOffsetOutOfRange), protocol.OffsetOutOfRange},
		{&storage.CorruptionError{}, protocol.KafkaStorageError},
		{fmt.Errorf("append: %w", &fs.PathError{Op: "write", Path: "p", Err: syscall.EIO}), protocol.KafkaStorageError},
		{fmt.Errorf("create: %w", &fs.PathError{Op: "sync", Path: "p", Err: syscall.EROFS}), protocol.KafkaStorageError},
		{fmt.Errorf("create: %w", meta.ErrDamaged), protocol.KafkaStorageError},
		{fmt.Errorf("create: %w", meta.ErrTopicExists), protocol.TopicAlreadyExists},
		{fmt.Errorf("append: %w", errInternalTopic), protocol.InvalidTopicException},
		{fmt.Errorf("wrapped: %w", &wireError{protocol.PolicyViolation, "no"}), protocol.PolicyViolation},
		{context.DeadlineExceeded, protocol.RequestTimedOut},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
	if text := textOf(&wireError{protocol.PolicyViolation, "no"}); text == nil || *text != "no" {
		t.Errorf("text %v", text)
	}
	if text := textOf(fmt.Errorf("open /secret/path: %w", storage.ErrNoSpace)); text == nil || strings.Contains(*text, "secret") {
		t.Errorf("a client is told %q", *text)
	}
	if textOf(&wireError{code: protocol.PolicyViolation}) != nil {
		t.Error("an error without a text has one")
	}
}

func TestNewRefusesMissingParts(t *testing.T) {
	t.Parallel()
	whole := newControl(t).Deps
	if _, err := New(whole); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(*Deps){
		"meta":    func(d *Deps) { d.Meta = nil },
		"logs":    func(d *Deps) { d.Logs = nil },
		"groups":  func(d *Deps) { d.Groups = nil },
		"config":  func(d *Deps) { d.Config = nil },
		"clock":   func(d *Deps) { d.Clock = nil },
		"logger":  func(d *Deps) { d.Logger = nil },
		"node id": func(d *Deps) { d.NodeID = -1 },
	} {
		d := whole
		damage(&d)
		if _, err := New(d); err == nil {
			t.Errorf("made without %s", name)
		}
	}
}

// FuzzDispatch: whatever a peer sends, the handlers answer, or close the connection with a reason.
func FuzzDispatch(f *testing.F) {
	for _, a := range protocol.APIs() {
		for version := a.AcceptMin; version <= a.Max; version++ {
			q := kmsg.RequestForKey(a.Key)
			q.SetVersion(version)
			f.Add(a.Key, version, q.AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		c := newControl(t)
		c.groups.fetched = kmsg.NewPtrOffsetFetchResponse()
		r := request(key, version)
		r.Body = body
		got := c.Dispatch(r)
		if got.Later != nil {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			got = got.Later(ctx)
		}
		if got.Release != nil {
			got.Release()
		}
		if got.Close && got.Reason == nil || !got.Close && !got.NoAnswer && len(got.Frame) < 8 {
			t.Errorf("key %d version %d: %+v", key, version, got)
		}
	})
}
