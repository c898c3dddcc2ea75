package handlers

import (
	"crypto/rand"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// CreateTopics, versions 2 to 7. The topics of a request are made in one commit.

// createTopics makes topics, each with an error of its own.
func (h *Handlers) createTopics(r *protocol.Request, q *kmsg.CreateTopicsRequest) protocol.Response {
	a := kmsg.NewPtrCreateTopicsResponse()
	a.Version = q.Version
	for _, t := range h.createRequested(q) {
		a.Topics = append(a.Topics, h.createAnswer(t, q))
	}
	return reply(r, a)
}

// createRequested makes the topics of a request that can be made, or only says which could be. A topic that stands twice
// in the request is answered once.
func (h *Handlers) createRequested(q *kmsg.CreateTopicsRequest) []*newTopic {
	h.lifecycle.mu.Lock()
	defer h.lifecycle.mu.Unlock()
	refused := checkTime(q.TimeoutMillis)
	if refused == nil {
		refused = checkNewPartitions(q, h.defaultPartitions())
	}
	count := make(map[string]int, len(q.Topics))
	for i := range q.Topics {
		count[q.Topics[i].Topic]++
	}
	taken := h.takenNames()
	wanted := make([]*newTopic, 0, len(q.Topics))
	for i := range q.Topics {
		t := &newTopic{Topic: meta.Topic{Name: q.Topics[i].Topic}}
		n := count[t.Name]
		count[t.Name] = 0
		switch {
		case n == 0: // answered already
			continue
		case n > 1:
			t.err = errDuplicateTopic
		case t.Name == metadataTopic:
			t.err = errMetadataTopic
		case refused != nil:
			t.err = refused
		default:
			t.err = h.planTopic(t, &q.Topics[i], taken)
		}
		wanted = append(wanted, t)
	}
	checkNewRecords(wanted)
	if !q.ValidateOnly {
		h.makeTopics(wanted)
	}
	return wanted
}

// checkNewRecords bounds what Kafka would write of one request to its metadata: a record for each topic, setting and
// partition. Beyond, none is made.
func checkNewRecords(wanted []*newTopic) {
	total := int64(0)
	for _, t := range wanted {
		if t.err == nil {
			total += 1 + int64(len(t.Configs)) + int64(t.Partitions)
		}
	}
	if total <= maxNewPartitions {
		return
	}
	for _, t := range wanted {
		t.err = &wireError{protocol.PolicyViolation, "Unable to perform excessively large batch operation."}
	}
}

// errMetadataTopic is returned for the topic that Kafka keeps its metadata in.
var errMetadataTopic error = &wireError{protocol.InvalidRequest, "Creation of internal topic " + metadataTopic + " is prohibited."}

// planTopic checks a topic and sets what it is to be. Names that collide only with each other's are let through, as by Kafka.
func (h *Handlers) planTopic(t *newTopic, q *kmsg.CreateTopicsRequestTopic, taken takenNames) (err error) {
	if err = h.checkNewTopicName(t.Name, taken); err != nil {
		return err
	}
	if t.Configs, err = h.newTopicConfigs(q.Configs); err != nil {
		return err
	}
	t.Partitions, err = h.newTopicPartitions(q)
	return err
}

// checkNewPartitions bounds what one request may make.
func checkNewPartitions(q *kmsg.CreateTopicsRequest, byDefault int32) error {
	total := int64(0)
	for i := range q.Topics {
		switch t := &q.Topics[i]; {
		case len(t.ReplicaAssignment) > 0:
			total += int64(len(t.ReplicaAssignment))
		case t.NumPartitions == -1:
			total += int64(byDefault)
		case t.NumPartitions > 0:
			total += int64(t.NumPartitions)
		}
	}
	if total > maxNewPartitions {
		return &wireError{protocol.PolicyViolation, "Excessively large number of partitions per request."}
	}
	return nil
}

// createAnswer answers what became of a topic; one that was only validated gets an id of its own, as from Kafka.
func (h *Handlers) createAnswer(t *newTopic, q *kmsg.CreateTopicsRequest) kmsg.CreateTopicsResponseTopic {
	if t.err != nil {
		return createTopicError(t.Name, t.err)
	}
	made := t.made
	if made == nil {
		made = &t.Topic
		made.ID = newTopicID()
	}
	a := kmsg.NewCreateTopicsResponseTopic()
	a.Topic, a.TopicID, a.NumPartitions, a.ReplicationFactor = made.Name, made.ID, made.Partitions, 1
	if q.Version >= 5 {
		a.Configs = h.createdTopicConfigs(made)
	}
	return a
}

// newTopicID makes a random id, of version 4 as Kafka's are.
func newTopicID() (id storage.TopicID) {
	_, _ = rand.Read(id[:]) // it never fails
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

func createTopicError(name string, err error) kmsg.CreateTopicsResponseTopic {
	a := kmsg.NewCreateTopicsResponseTopic()
	a.Topic, a.ErrorCode, a.ErrorMessage = validUTF8(name), int16(codeOf(err)), textOf(err)
	a.NumPartitions, a.ReplicationFactor = -1, -1
	a.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	return a
}

// newTopicPartitions is how many partitions a topic gets.
func (h *Handlers) newTopicPartitions(t *kmsg.CreateTopicsRequestTopic) (int32, error) {
	if len(t.ReplicaAssignment) > 0 {
		return h.assignedPartitions(t)
	}
	switch {
	case t.ReplicationFactor == 0 || t.ReplicationFactor < -1:
		return 0, &wireError{
			protocol.InvalidReplicationFactor,
			"Replication factor must be larger than 0, or -1 to use the default value.",
		}
	case t.NumPartitions == 0 || t.NumPartitions < -1:
		return 0, &wireError{protocol.InvalidPartitions, "Number of partitions was set to an invalid non-positive value."}
	case t.ReplicationFactor > 1:
		return 0, &wireError{protocol.InvalidReplicationFactor, fmt.Sprintf("Unable to replicate the partition %d time(s): "+
			"The target replication factor of %d cannot be reached because only 1 broker(s) are registered.",
			t.ReplicationFactor, t.ReplicationFactor)}
	case t.NumPartitions == -1:
		return h.defaultPartitions(), nil
	}
	return t.NumPartitions, nil
}

// assignedPartitions is the number of partitions of an explicit assignment, which can only name this broker.
func (h *Handlers) assignedPartitions(t *kmsg.CreateTopicsRequestTopic) (int32, error) {
	const specified = "A manual partition assignment was specified, but "
	if t.ReplicationFactor != -1 {
		return 0, &wireError{protocol.InvalidRequest, specified + "replication factor was not set to -1."}
	}
	if t.NumPartitions != -1 {
		return 0, &wireError{protocol.InvalidRequest, specified + "numPartitions was not set to -1."}
	}
	seen := make(map[int32]struct{}, len(t.ReplicaAssignment))
	for _, p := range t.ReplicaAssignment {
		if _, twice := seen[p.Partition]; twice {
			return 0, &wireError{protocol.InvalidReplicaAssignment, fmt.Sprintf(
				"Found multiple manual partition assignments for partition %d", p.Partition)}
		}
		seen[p.Partition] = struct{}{}
		if err := h.checkReplicas(p.Replicas); err != nil {
			return 0, err
		}
	}
	for i := range int32(len(seen)) {
		if _, ok := seen[i]; !ok {
			return 0, &wireError{protocol.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence"}
		}
	}
	return int32(len(seen)), nil
}

// newTopicConfigs checks a new topic's settings. Of a key that is given twice the last counts.
func (h *Handlers) newTopicConfigs(given []kmsg.CreateTopicsRequestTopicConfig) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	configs := make(map[string]string, len(given))
	for _, c := range given {
		if c.Value == nil {
			return nil, &wireError{protocol.InvalidConfig, "Null value not supported for topic configs: " + c.Name}
		}
		configs[c.Name] = *c.Value
	}
	if err := h.checkTopicConfigs(configs); err != nil {
		return nil, err
	}
	return configs, nil
}

// createdTopicConfigs describes all settings of a topic that has just been made.
func (h *Handlers) createdTopicConfigs(t *meta.Topic) []kmsg.CreateTopicsResponseTopicConfig {
	described := h.Config.DescribeTopic(t.Configs, nil)
	all := make([]kmsg.CreateTopicsResponseTopicConfig, len(described))
	for i := range described {
		e := &described[i]
		all[i].Name, all[i].ReadOnly, all[i].Source, all[i].IsSensitive = e.Name, e.ReadOnly, int8(e.Source), e.Sensitive
		if !e.Null {
			all[i].Value = &e.Value
		}
	}
	return all
}
