package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/storage"
)

func (h *Handlers) checkTopicConfigs(map[string]string) error { return nil }

func (h *Handlers) createdTopicConfigs(*meta.Topic) []kmsg.CreateTopicsResponseTopicConfig {
	return []kmsg.CreateTopicsResponseTopicConfig{}
}
func (h *Handlers) storageConfig(*meta.Topic) storage.Config { return storage.Config{} }
func (h *Handlers) forgetTopicConfig(storage.TopicID)        {}
func (h *Handlers) defaultPartitions() int32                 { return 1 }
func (h *Handlers) autoCreateTopics() bool                   { return true }
func (h *Handlers) topicDeletionEnabled() bool               { return true }
