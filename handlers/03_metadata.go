package handlers

import (
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// Metadata, versions 0 to 13. One broker is the leader of everything and the controller. Addresses are those of the
// listener that was asked. A topic that is made because it was asked for is answered with UNKNOWN_TOPIC_OR_PARTITION
// once more, as Kafka does, but it is there by the time the answer leaves.

// What a principal may do where nothing is restricted, as bits by the numbers of Kafka's AclOperation. A topic can be
// read, written, created, deleted, altered and described, and its configs described and altered; a cluster lacks read,
// write and delete, but knows cluster actions and idempotent writes; a group can be read, deleted, described, and its
// configs described and altered.
const (
	topicOperations   int32 = 3576
	clusterOperations int32 = 8096
	groupOperations   int32 = 3400
)

// metadata answers which topics there are and where their leaders are.
func (h *Handlers) metadata(r *protocol.Request, q *kmsg.MetadataRequest) protocol.Response {
	if code := checkMetadata(q); code != protocol.None {
		return reply(r, metadataError(q, code))
	}
	a := kmsg.NewPtrMetadataResponse()
	a.Version = q.Version
	a.Brokers = h.metadataBrokers(r)
	cluster := h.Meta.ClusterID()
	a.ClusterID = &cluster
	a.ControllerID = h.NodeID
	if q.IncludeClusterAuthorizedOperations {
		a.AuthorizedOperations = clusterOperations
	}
	a.Topics = h.metadataTopics(q)
	return reply(r, a)
}

// checkMetadata says what is wrong with the request as a whole: ids in versions that have the field but don't take it,
// and a topic with neither id nor name, on which Kafka runs into an internal error.
func checkMetadata(q *kmsg.MetadataRequest) protocol.ErrorCode {
	byID := hasTopicID(q.Topics) // then the others are passed over
	for _, t := range q.Topics {
		switch {
		case q.Version < 12 && (t.Topic == nil || t.TopicID != [16]byte{}):
			return protocol.InvalidRequest
		case t.Topic == nil && !byID:
			return protocol.UnknownServerError
		}
	}
	return protocol.None
}

// metadataError answers every topic with the code, and nothing else.
func metadataError(q *kmsg.MetadataRequest, code protocol.ErrorCode) *kmsg.MetadataResponse {
	a := kmsg.NewPtrMetadataResponse()
	a.Version = q.Version
	a.ControllerID = -1
	a.ErrorCode = int16(code)
	for _, t := range q.Topics {
		name := ""
		if t.Topic != nil {
			name = *t.Topic
		}
		m := metadataTopicError(&name, code)
		m.TopicID = t.TopicID
		a.Topics = append(a.Topics, m)
	}
	return a
}

func metadataTopicError(name *string, code protocol.ErrorCode) kmsg.MetadataResponseTopic {
	m := kmsg.NewMetadataResponseTopic()
	if name != nil && !utf8.ValidString(*name) {
		valid := validUTF8(*name)
		name = &valid
	}
	m.Topic = name
	m.ErrorCode = int16(code)
	return m
}

// validUTF8 replaces each byte that is no UTF-8, as Kafka does when it decodes a name.
func validUTF8(s string) string {
	var b strings.Builder
	for _, c := range s {
		b.WriteRune(c)
	}
	return b.String()
}

func (h *Handlers) metadataBrokers(r *protocol.Request) []kmsg.MetadataResponseBroker {
	host, port, ok := h.Endpoints(r.Conn.Listener)
	if !ok {
		return nil
	}
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host, b.Port, b.Rack = h.NodeID, host, port, h.Rack
	return []kmsg.MetadataResponseBroker{b}
}

// metadataTopics answers the topics asked for: all, those with an id if any id is given, else those named.
func (h *Handlers) metadataTopics(q *kmsg.MetadataRequest) []kmsg.MetadataResponseTopic {
	m := newTopicMetadata(h, q.IncludeTopicAuthorizedOperations)
	switch {
	case q.Topics == nil || q.Version == 0 && len(q.Topics) == 0:
		m.addAll()
	case hasTopicID(q.Topics):
		m.addIDs(q.Topics)
	default:
		m.addNames(q.Topics, h.autoCreates(q))
	}
	for i := range m.answer {
		m.answer[i].AuthorizedOperations = m.operations
	}
	return m.answer
}

// autoCreates says whether topics that aren't there are made. Below version 4 a client can't say no.
func (h *Handlers) autoCreates(q *kmsg.MetadataRequest) bool {
	return (q.Version < 4 || q.AllowAutoTopicCreation) && h.autoCreateEnabled()
}

func hasTopicID(topics []kmsg.MetadataRequestTopic) bool {
	for _, t := range topics {
		if t.TopicID != [16]byte{} {
			return true
		}
	}
	return false
}

// topicMetadata collects an answer's topics.
type topicMetadata struct {
	h          *Handlers
	self       []int32 // the replicas of any partition; shared by all entries
	operations int32
	answer     []kmsg.MetadataResponseTopic
}

func newTopicMetadata(h *Handlers, operations bool) *topicMetadata {
	m := &topicMetadata{h: h, self: []int32{h.NodeID}, operations: noOperations}
	if operations {
		m.operations = topicOperations
	}
	return m
}

// noOperations says that the operations weren't asked for.
const noOperations int32 = -1 << 31

func (m *topicMetadata) addAll() {
	all := m.h.allTopics()
	m.answer = make([]kmsg.MetadataResponseTopic, 0, len(all))
	for _, t := range all {
		m.add(t)
	}
}

func (m *topicMetadata) addIDs(topics []kmsg.MetadataRequestTopic) {
	seen := make(map[storage.TopicID]struct{}, len(topics))
	for i := range topics {
		id := storage.TopicID(topics[i].TopicID)
		if _, twice := seen[id]; twice || id == (storage.TopicID{}) {
			continue
		}
		seen[id] = struct{}{}
		if t := m.h.topicByID(id); t != nil {
			m.add(t)
			continue
		}
		unknown := metadataTopicError(nil, protocol.UnknownTopicID)
		unknown.TopicID = id
		m.answer = append(m.answer, unknown)
	}
}

func (m *topicMetadata) addNames(topics []kmsg.MetadataRequestTopic, create bool) {
	seen := make(map[string]struct{}, len(topics))
	var missing []string
	for i := range topics {
		name := *topics[i].Topic
		if _, twice := seen[name]; twice {
			continue
		}
		seen[name] = struct{}{}
		switch t := m.h.topicByName(name); {
		case t != nil:
			m.add(t)
		case checkTopicName(name) != nil:
			m.answer = append(m.answer, metadataTopicError(&name, protocol.InvalidTopicException))
		default:
			missing = append(missing, name)
			m.answer = append(m.answer, metadataTopicError(&name, protocol.UnknownTopicOrPartition))
		}
	}
	if !create || len(missing) == 0 {
		return
	}
	m.h.autoCreateTopics(missing)
}

// add answers a topic that is there.
func (m *topicMetadata) add(t *meta.Topic) {
	a := kmsg.NewMetadataResponseTopic()
	a.Topic = &t.Name
	a.TopicID = t.ID
	a.IsInternal = m.h.internal.has(t)
	a.Partitions = make([]kmsg.MetadataResponseTopicPartition, t.Partitions)
	for i := range a.Partitions {
		p := &a.Partitions[i]
		p.Default()
		p.Partition = int32(i)
		p.Leader, p.LeaderEpoch = m.h.NodeID, m.h.leaderEpoch(t, p.Partition)
		p.Replicas, p.ISR = m.self, m.self
	}
	m.answer = append(m.answer, a)
}

// leaderEpoch is a partition's leader epoch, or -1 while its log isn't there.
func (h *Handlers) leaderEpoch(t *meta.Topic, partition int32) int32 {
	l, err := h.log(t, partition)
	if err != nil {
		return -1
	}
	return l.LeaderEpoch()
}
