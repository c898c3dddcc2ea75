package handlers

import (
	"cmp"
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

// takenNames holds the names that new topics must not collide with: those that are the same once '.' is written as '_', as
// it is in the names of metrics. It maps names so written to the topics' own, and leaves out those with neither.
type takenNames map[string]string

// takenNames collects the names of all topics. The caller holds lifecycle.mu.
func (h *Handlers) takenNames() takenNames {
	taken := make(takenNames)
	for _, t := range h.allTopics() {
		taken.add(t.Name)
	}
	return taken
}

func (n takenNames) add(name string) {
	if strings.ContainsAny(name, "._") {
		n[strings.ReplaceAll(name, ".", "_")] = name
	}
}

// checkNewTopicName says why a topic of that name can't be made. The caller holds lifecycle.mu.
func (h *Handlers) checkNewTopicName(name string, taken takenNames) error {
	if err := checkTopicName(name); err != nil {
		return err
	}
	if h.topicByName(name) != nil {
		return &wireError{protocol.TopicAlreadyExists, fmt.Sprintf("Topic '%s' already exists.", name)}
	}
	if other, ok := taken[strings.ReplaceAll(name, ".", "_")]; ok {
		return &wireError{
			protocol.InvalidTopicException, fmt.Sprintf("Topic '%s' collides with existing topic: %s", name, other),
		}
	}
	return nil
}

// newTopic is a topic to be made, and what became of it.
type newTopic struct {
	meta.Topic             // Name, Partitions and Configs, which are valid
	made       *meta.Topic // nil unless it has been made
	err        error       // why it isn't made
}

// makeTopics makes the topics that have no error yet, in one commit, and their logs. They can be used when it returns. The
// caller holds lifecycle.mu and has checked the names.
func (h *Handlers) makeTopics(wanted []*newTopic) {
	var stored []meta.Topic
	var places []*newTopic
	for _, t := range wanted {
		if t.err == nil {
			stored, places = append(stored, t.Topic), append(places, t)
		}
	}
	if len(stored) == 0 {
		return
	}
	made, err := h.Meta.CreateTopics(stored)
	for i, t := range places {
		if err != nil {
			t.err = fmt.Errorf("create topic %s: %w", t.Name, err)
			continue
		}
		t.made = made[i]
		if t.err = h.openLogs(t.made, 0); t.err != nil {
			h.unmakeTopic(t.made)
		}
	}
}

// unmakeTopic takes back a topic whose logs failed to open.
func (h *Handlers) unmakeTopic(t *meta.Topic) {
	if _, err := h.Meta.DeleteTopics([]storage.TopicID{t.ID}); err != nil {
		h.Logger.Error("topic can't be taken back after its logs failed to open", zap.String("topic", t.Name), zap.Error(err))
		return
	}
	if err := h.Logs.Delete(t.ID); err != nil {
		h.Logger.Warn("logs of a topic that was taken back can't be removed", zap.String("topic", t.Name), zap.Error(err))
	}
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

// autoCreateTopics makes topics with the broker's defaults because a client asked for them, as many as one request may
// make. That someone else has just made one is as good.
func (h *Handlers) autoCreateTopics(names []string) []*newTopic {
	h.lifecycle.mu.Lock()
	defer h.lifecycle.mu.Unlock()
	partitions := h.defaultPartitions()
	names = names[:min(len(names), maxNewPartitions/int(partitions))]
	taken := h.takenNames()
	wanted := make([]*newTopic, len(names))
	for i, name := range names {
		wanted[i] = &newTopic{Topic: meta.Topic{Name: name, Partitions: partitions}, err: h.checkNewTopicName(name, taken)}
	}
	h.makeTopics(wanted)
	for _, t := range wanted {
		if code := codeOf(t.err); code != protocol.None && code != protocol.TopicAlreadyExists && code != protocol.InvalidTopicException {
			h.Logger.Warn("topic can't be made on demand", zap.String("topic", t.Name), zap.Error(t.err))
		}
	}
	return wanted
}

// removeTopics removes topics in one commit, their logs, and the offsets committed on them. It returns an error for each.
func (h *Handlers) removeTopics(ids []storage.TopicID) []error {
	h.lifecycle.mu.Lock()
	defer h.lifecycle.mu.Unlock()
	errs := make([]error, len(ids))
	there := make([]storage.TopicID, 0, len(ids))
	for i, id := range ids {
		if h.Meta.Topics().WithID(id) == nil { // deleted meanwhile
			errs[i] = meta.ErrNoTopic
			continue
		}
		there = append(there, id)
	}
	gone, err := h.Meta.DeleteTopics(there)
	if err != nil {
		for i := range errs {
			errs[i] = cmp.Or(errs[i], fmt.Errorf("delete topics: %w", err))
		}
		return errs
	}
	names := make([]string, len(gone))
	for i, t := range gone {
		h.forgetTopicConfig(t.ID)
		names[i] = t.Name
	}
	h.Groups.TopicsDeleted(names)
	for _, t := range gone {
		if err = h.Logs.Delete(t.ID); err != nil {
			// The topic is gone all the same; what is left of its files the next start removes.
			h.Logger.Warn("logs of a deleted topic can't be removed", zap.String("topic", t.Name), zap.Error(err))
		}
	}
	return errs
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

// checkTime refuses a change that isn't given any time, as Kafka's controller does; nothing takes none. With more, nothing is
// waited for but the disk.
func checkTime(timeoutMs int32) error {
	if timeoutMs <= 0 {
		return &wireError{code: protocol.RequestTimedOut}
	}
	return nil
}

// errUnknownTopic is returned for a topic that isn't there, worded as Kafka does.
var errUnknownTopic error = &wireError{protocol.UnknownTopicOrPartition, "This server does not host this topic-partition."}

// errUnknownTopicID is returned for an id that no topic has.
var errUnknownTopicID error = &wireError{protocol.UnknownTopicID, "This server does not host this topic ID."}

// errDuplicateTopic is returned for a topic that stands twice in a request.
var errDuplicateTopic error = &wireError{protocol.InvalidRequest, "Duplicate topic name."}
