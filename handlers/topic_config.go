package handlers

import (
	"sync"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// topicConfigs keeps what has been resolved from the settings of topics, since the data plane asks with each request.
type topicConfigs struct {
	byID sync.Map   // storage.TopicID to *resolvedConfig
	bulk sync.Mutex // held while the settings of many resources are described
}

// resolvedConfig holds as long as the topic's definition is the same value and the broker's settings are of the version.
type resolvedConfig struct {
	topic   *meta.Topic
	version uint64
	config.TopicConfig
}

// topicConfig is what holds for a topic now. It must not be changed.
func (h *Handlers) topicConfig(t *meta.Topic) *config.TopicConfig {
	version := h.Config.Version()
	if v, ok := h.configs.byID.Load(t.ID); ok {
		if r, ok := v.(*resolvedConfig); ok && r.topic == t && r.version == version {
			return &r.TopicConfig
		}
	}
	r := &resolvedConfig{topic: t, version: version, TopicConfig: h.Config.Topic(t.Configs)}
	h.configs.byID.Store(t.ID, r)
	if t != h.topicByID(t.ID) {
		h.configs.byID.Delete(t.ID) // deleted or changed meanwhile; the next one to ask resolves it again
	}
	return &r.TopicConfig
}

// forgetTopicConfig drops what was kept of a topic that has been deleted.
func (h *Handlers) forgetTopicConfig(id storage.TopicID) { h.configs.byID.Delete(id) }

// storageConfig is what the logs of a topic need to know.
func (h *Handlers) storageConfig(t *meta.Topic) storage.Config {
	return h.Config.Storage(*h.topicConfig(t))
}

// reconfigure gives the logs of a topic its present configuration. Call it when the settings of the topic, or those of
// the broker that it follows, have changed.
func (h *Handlers) reconfigure(t *meta.Topic) {
	c := h.storageConfig(t)
	for p := range t.Partitions {
		if l, err := h.log(t, p); err == nil {
			l.SetConfig(c)
		}
	}
}

// checkTopicConfigs checks a topic's own settings. The texts of the errors are meant for the client.
func (h *Handlers) checkTopicConfigs(configs map[string]string) error {
	if err := h.Config.ValidateTopic(configs); err != nil {
		return &wireError{protocol.InvalidConfig, err.Error()}
	}
	return nil
}

// The settings of the broker that the control plane goes by.

func (h *Handlers) defaultPartitions() int32 { return int32(h.Config.Int("num.partitions")) }

func (h *Handlers) autoCreateEnabled() bool { return h.Config.Bool("auto.create.topics.enable") }

func (h *Handlers) topicDeletionEnabled() bool { return h.Config.Bool("delete.topic.enable") }

func (h *Handlers) maxDescribedPartitions() int32 {
	return int32(h.Config.Int("max.request.partition.size.limit"))
}
