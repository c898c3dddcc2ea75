package handlers

import (
	"fmt"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// maxTopicName is the longest name of a topic, in bytes.
const maxTopicName = 249

// maxNewPartitions is how many partitions one request may make.
const maxNewPartitions = 10000

// topicLifecycle puts the changes of topics in order: a topic is made, grown and deleted in the metadata store and in the
// set of logs by one request at a time. Metadata goes first both ways, so that a crash in between leaves a topic without
// files, which is what an unwritten topic looks like, or files without a topic, which the next start removes.
type topicLifecycle struct{ mu sync.Mutex }

// checkTopicName says what is wrong with a topic's name.
func checkTopicName(name string) error {
	invalid := func(format string, args ...any) error {
		return &wireError{protocol.InvalidTopicException, "Topic name is invalid: " + fmt.Sprintf(format, args...)}
	}
	switch {
	case name == "":
		return invalid("the empty string is not allowed")
	case name == "." || name == "..":
		return invalid("'%s' is not allowed", name)
	case len(name) > maxTopicName:
		return invalid("the length of '%s' is longer than the max allowed length %d", validUTF8(name), maxTopicName)
	}
	for i := range len(name) {
		if !isTopicByte(name[i]) {
			return invalid("'%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", validUTF8(name))
		}
	}
	return nil
}

func isTopicByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// collides says whether two different names are the same once '.' is written as '_', as it is in the names of metrics.
func collides(a, b string) bool {
	return a != b && len(a) == len(b) && strings.ReplaceAll(a, ".", "_") == strings.ReplaceAll(b, ".", "_")
}

// checkNewTopicName says why a topic of that name can't be made. The caller holds lifecycle.mu, or only wants to know.
func (h *Handlers) checkNewTopicName(name string) error {
	if err := checkTopicName(name); err != nil {
		return err
	}
	if h.topicByName(name) != nil {
		return &wireError{protocol.TopicAlreadyExists, fmt.Sprintf("Topic '%s' already exists.", name)}
	}
	if !strings.ContainsAny(name, "._") {
		return nil
	}
	for _, all := range [][]*meta.Topic{h.internal.all, h.Meta.Topics().All()} {
		for _, t := range all {
			if collides(name, t.Name) {
				return &wireError{
					protocol.InvalidTopicException,
					fmt.Sprintf("Topic '%s' collides with existing topic: %s", name, t.Name),
				}
			}
		}
	}
	return nil
}

// createTopic makes a topic and its logs; partitions and configs are valid. The topic can be used when it returns.
func (h *Handlers) createTopic(name string, partitions int32, configs map[string]string) (*meta.Topic, error) {
	h.lifecycle.mu.Lock()
	defer h.lifecycle.mu.Unlock()
	if err := h.checkNewTopicName(name); err != nil {
		return nil, err
	}
	t, err := h.Meta.CreateTopic(meta.Topic{Name: name, Partitions: partitions, Configs: configs})
	if err != nil {
		return nil, fmt.Errorf("create topic %s: %w", name, err)
	}
	if err = h.openLogs(t, 0); err != nil {
		if _, undo := h.Meta.DeleteTopic(t.ID); undo != nil {
			h.Logger.Error("topic can't be taken back after its logs failed to open", zap.String("topic", name), zap.Error(undo))
		}
		return nil, fmt.Errorf("create topic %s: %w", name, err)
	}
	return t, nil
}

// openLogs opens the logs of a topic's partitions from first on.
func (h *Handlers) openLogs(t *meta.Topic, first int32) error {
	c := h.storageConfig(t)
	for p := first; p < t.Partitions; p++ {
		if _, err := h.Logs.Open(storage.Partition{Topic: t.Name, ID: t.ID, Number: p}, c, t.EpochBase); err != nil {
			return fmt.Errorf("open log %d: %w", p, err)
		}
	}
	return nil
}

// autoCreateTopic makes a topic with the broker's defaults because a client asked for it. That someone else has just
// made it is as good.
func (h *Handlers) autoCreateTopic(name string) error {
	_, err := h.createTopic(name, h.defaultPartitions(), nil)
	if err == nil || codeOf(err) == protocol.TopicAlreadyExists {
		return nil
	}
	if codeOf(err) != protocol.InvalidTopicException {
		h.Logger.Warn("topic can't be made on demand", zap.String("topic", name), zap.Error(err))
	}
	return err
}

// deleteTopic removes a topic, its logs, and the offsets committed on it.
func (h *Handlers) deleteTopic(id storage.TopicID) error {
	h.lifecycle.mu.Lock()
	defer h.lifecycle.mu.Unlock()
	t, err := h.Meta.DeleteTopic(id)
	if err != nil {
		return fmt.Errorf("delete topic: %w", err)
	}
	h.forgetTopicConfig(id)
	h.Groups.TopicDeleted(t.Name)
	if err = h.Logs.Delete(id); err != nil {
		// The topic is gone all the same; what is left of its files the next start removes.
		h.Logger.Warn("logs of a deleted topic can't be removed", zap.String("topic", t.Name), zap.Error(err))
	}
	return nil
}

// growTopic adds partitions to a topic, up to the given number.
func (h *Handlers) growTopic(id storage.TopicID, partitions int32) error {
	h.lifecycle.mu.Lock()
	defer h.lifecycle.mu.Unlock()
	before := h.topicByID(id)
	if before == nil {
		return meta.ErrNoTopic
	}
	if partitions <= before.Partitions {
		return errNotMorePartitions(before, partitions)
	}
	t, err := h.Meta.GrowTopic(id, partitions)
	if err != nil {
		return fmt.Errorf("grow topic %s: %w", before.Name, err)
	}
	return h.openLogs(t, before.Partitions)
}

// errNotMorePartitions says that a topic has so many partitions already.
func errNotMorePartitions(t *meta.Topic, partitions int32) error {
	if partitions == t.Partitions {
		return &wireError{protocol.InvalidPartitions, fmt.Sprintf("Topic already has %d partition(s).", t.Partitions)}
	}
	return &wireError{protocol.InvalidPartitions, fmt.Sprintf(
		"The topic %s currently has %d partition(s); %d would not be an increase.", t.Name, t.Partitions, partitions)}
}

// checkReplicas says what is wrong with the replicas that a client wants a partition to have: there is one broker.
func (h *Handlers) checkReplicas(replicas []int32) error {
	bad := func(format string, args ...any) error {
		return &wireError{protocol.InvalidReplicaAssignment, "The manual partition assignment includes " + fmt.Sprintf(format, args...)}
	}
	if len(replicas) == 0 {
		return bad("an empty replica list.")
	}
	for i, id := range replicas {
		for _, other := range replicas[:min(i, maxListedReplicas)] {
			if id == other {
				return bad("the broker %d more than once.", id)
			}
		}
	}
	for _, id := range replicas {
		if id != h.NodeID {
			return bad("broker %d, but no such broker is registered.", id)
		}
	}
	return nil
}

// maxListedReplicas bounds the search for brokers that are listed twice.
const maxListedReplicas = 64

// errUnknownTopic is returned for a topic that isn't there, worded as Kafka does.
var errUnknownTopic error = &wireError{protocol.UnknownTopicOrPartition, "This server does not host this topic-partition."}

// errUnknownTopicID is returned for an id that no topic has.
var errUnknownTopicID error = &wireError{protocol.UnknownTopicID, "This server does not host this topic ID."}

// errDuplicateTopic is returned for a topic that stands twice in a request.
var errDuplicateTopic error = &wireError{protocol.InvalidRequest, "Duplicate topic name."}
