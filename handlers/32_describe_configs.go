package handlers

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/protocol"
)

// DescribeConfigs, versions 1 to 4. Values come with their sources as Kafka resolves them. Keys that Kafka doesn't have are described
// only when they are named. There is one logger, called root; its level is told.

// sourceLogger is the source of a logger's level in DescribeConfigs.
const sourceLogger = kmsg.ConfigSource(6)

// describeConfigs describes settings of topics, brokers, groups and client metrics subscriptions.
func (h *Handlers) describeConfigs(r *protocol.Request, q *kmsg.DescribeConfigsRequest) protocol.Response {
	a := kmsg.NewPtrDescribeConfigsResponse()
	a.Version = q.Version
	a.Resources = make([]kmsg.DescribeConfigsResponseResource, 0, len(q.Resources))
	if len(q.Resources) > manyResources {
		h.configs.bulk.Lock()
		defer h.configs.bulk.Unlock()
	}
	settings := 0
	for i := range q.Resources {
		a.Resources = append(a.Resources, h.describeResource(&q.Resources[i], q, settings < maxDescribedSettings))
		settings += len(a.Resources[i].Configs)
	}
	return reply(r, a)
}

// An answer is much larger than what it is asked with. One answer has settings up to maxDescribedSettings, which is all of
// some ten thousand topics, and those about more than manyResources are made one at a time.
const (
	maxDescribedSettings = 1 << 19
	manyResources        = 100
)

// errTooManySettings is returned for what doesn't fit into one answer.
var errTooManySettings error = &wireError{
	protocol.InvalidRequest, "The settings asked for are too many for one answer; ask for fewer resources at a time.",
}

// describeResource describes one resource, or says why it can't, be it that there is no room.
func (h *Handlers) describeResource(
	wanted *kmsg.DescribeConfigsRequestResource, q *kmsg.DescribeConfigsRequest, room bool,
) kmsg.DescribeConfigsResponseResource {
	a := kmsg.NewDescribeConfigsResponseResource()
	a.ResourceType, a.ResourceName = wanted.ResourceType, validUTF8(wanted.ResourceName)
	text := ""
	a.ErrorMessage = &text
	a.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
	if !room {
		return describeError(a, errTooManySettings)
	}
	if wanted.ResourceType == kmsg.ConfigResourceTypeBrokerLogger {
		if err := h.checkLoggerResource(wanted.ResourceName); err != nil {
			return describeError(a, err)
		}
		a.Configs = h.describeLogger(wanted.ConfigNames)
		return a
	}
	entries, err := h.settings(wanted.ResourceType, wanted.ResourceName, wanted.ConfigNames)
	if err != nil {
		return describeError(a, err)
	}
	for i := range entries {
		a.Configs = append(a.Configs, describedConfig(&entries[i], q))
	}
	return a
}

// describeError makes an answer of an error; where Kafka gives no text it is empty, not null.
func describeError(a kmsg.DescribeConfigsResponseResource, err error) kmsg.DescribeConfigsResponseResource {
	a.ErrorCode = int16(codeOf(err))
	if text := textOf(err); text != nil {
		a.ErrorMessage = text
	}
	return a
}

// errUnknownResource is returned for a type of resource that isn't there.
var errUnknownResource error = &wireError{
	protocol.InvalidRequest, "The request names a type of resource that this broker doesn't know.",
}

// settings are the settings of a resource.
func (h *Handlers) settings(kind kmsg.ConfigResourceType, name string, wanted config.Wanted) ([]config.Entry, error) {
	invalid := func(format string, args ...any) error {
		return &wireError{protocol.InvalidRequest, fmt.Sprintf(format, args...)}
	}
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return h.topicSettings(name, wanted)
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return h.Config.DescribeClusterDefault(wanted), nil
		}
		if id, err := strconv.ParseInt(name, 10, 32); err != nil {
			return nil, invalid("Broker id must be an integer, but it is: %s", validUTF8(name))
		} else if int32(id) != h.NodeID {
			return nil, invalid("Unexpected broker id, expected %d or empty string, but received %s", h.NodeID, name)
		}
		return h.Config.DescribeBroker(wanted), nil
	case kmsg.ConfigResourceTypeClientMetrics:
		if name == "" {
			return nil, invalid("Client metrics subscription name must not be empty")
		}
		return h.Config.DescribeClientMetrics(name, wanted), nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if name == "" {
			return nil, invalid("Group name must not be empty")
		}
		return h.Config.DescribeGroup(name, wanted), nil
	default:
		return nil, errUnknownResource
	}
}

// topicSettings are the settings of a topic.
func (h *Handlers) topicSettings(name string, wanted config.Wanted) ([]config.Entry, error) {
	if err := checkTopicName(name); err != nil {
		return nil, err
	}
	t := h.topicByName(name)
	if t == nil {
		return nil, &wireError{code: protocol.UnknownTopicOrPartition}
	}
	return h.Config.DescribeTopic(t.Configs, wanted), nil
}

// describedConfig is a setting on the wire.
func describedConfig(e *config.Entry, q *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value = e.Name, nullable(e.Value, e.Null)
	c.ReadOnly, c.IsSensitive = e.ReadOnly, e.Sensitive
	c.Source = kmsg.ConfigSource(e.Source)
	c.ConfigType = kmsg.ConfigType(e.Type)
	c.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}
	if q.IncludeSynonyms {
		for _, s := range e.Synonyms {
			w := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			w.Name, w.Value, w.Source = s.Name, nullable(s.Value, s.Null), kmsg.ConfigSource(s.Source)
			c.ConfigSynonyms = append(c.ConfigSynonyms, w)
		}
	}
	if q.IncludeDocumentation {
		c.Documentation = &e.Doc
	}
	return c
}

// nullable is a string on the wire that may be null.
func nullable(s string, null bool) *string {
	if null {
		return nil
	}
	return &s
}

// checkLoggerResource checks the name of a resource that stands for a broker's loggers.
func (h *Handlers) checkLoggerResource(name string) error {
	if name == "" {
		return &wireError{protocol.InvalidRequest, "Broker id must not be empty"}
	}
	if id, err := strconv.ParseInt(name, 10, 32); err != nil {
		return &wireError{protocol.InvalidRequest, "Broker id must be an integer, but it is: " + validUTF8(name)}
	} else if int32(id) != h.NodeID {
		return &wireError{protocol.InvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d but received %s", h.NodeID, name)}
	}
	return nil
}

// rootLogger is the name of the one logger.
const rootLogger = "root"

// describeLogger tells the logger's level.
func (h *Handlers) describeLogger(wanted config.Wanted) []kmsg.DescribeConfigsResponseResourceConfig {
	if len(wanted) > 0 && !contains(wanted, rootLogger) {
		return []kmsg.DescribeConfigsResponseResourceConfig{}
	}
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	level, doc := strings.ToUpper(h.Logger.Level().String()), ""
	c.Name, c.Value, c.Source, c.ReadOnly = rootLogger, &level, sourceLogger, true
	c.Documentation = &doc // empty, asked for or not, as in Kafka
	c.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}
	return []kmsg.DescribeConfigsResponseResourceConfig{c}
}

func contains(list []string, s string) bool {
	for _, item := range list {
		if item == s {
			return true
		}
	}
	return false
}
