package handlers

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/protocol"
)

// alteration is a change of one resource's settings, as AlterConfigs and IncrementalAlterConfigs ask for it.
type alteration struct {
	kind kmsg.ConfigResourceType
	name string
	ops  []configOp
	// replace says that what isn't named goes back to its default.
	replace bool
}

// configOp is a change of one setting.
type configOp struct {
	op    kmsg.IncrementalAlterConfigOp
	name  string
	value *string
}

// resource names what an alteration is of.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// alterAll makes the changes, each with an error of its own. A resource that is there twice isn't changed at all.
func (h *Handlers) alterAll(all []alteration, validateOnly bool) []error {
	count := make(map[resource]int, len(all))
	for i := range all {
		count[resource{all[i].kind, all[i].name}]++
	}
	errs := make([]error, len(all))
	for i := range all {
		if count[resource{all[i].kind, all[i].name}] > 1 {
			errs[i] = &wireError{protocol.InvalidRequest, "Each resource must appear at most once."}
			continue
		}
		errs[i] = h.alter(&all[i], validateOnly)
	}
	return errs
}

// alter makes one change, or only says whether it could be made.
func (h *Handlers) alter(a *alteration, validateOnly bool) error {
	if err := a.checkOps(); err != nil {
		return err
	}
	h.lifecycle.mu.Lock() // what is read here must still be so when it is written
	defer h.lifecycle.mu.Unlock()
	switch a.kind {
	case kmsg.ConfigResourceTypeTopic:
		return h.alterTopic(a, validateOnly)
	case kmsg.ConfigResourceTypeBroker:
		return h.alterBroker(a, validateOnly)
	case kmsg.ConfigResourceTypeGroupConfig:
		if a.name == "" {
			return &wireError{protocol.InvalidRequest, "Default group resources are not allowed."}
		}
		return h.alterNamed(a, config.KindGroup, h.Config.ValidateGroup, validateOnly)
	case kmsg.ConfigResourceTypeClientMetrics:
		if a.name == "" {
			return &wireError{protocol.InvalidRequest, "Subscription name can't be empty"}
		}
		return h.alterNamed(a, config.KindClientMetrics, h.Config.ValidateClientMetrics, validateOnly)
	case kmsg.ConfigResourceTypeBrokerLogger:
		if !a.replace {
			return h.alterLogger(a)
		}
	default:
	}
	return &wireError{protocol.InvalidRequest, fmt.Sprintf("Unknown resource type %d", a.kind)}
}

// checkOps refuses keys that are there twice, and null values.
func (a *alteration) checkOps() error {
	seen := make(map[string]struct{}, len(a.ops))
	var nulls []string
	for _, o := range a.ops {
		if _, twice := seen[o.name]; twice {
			return &wireError{protocol.InvalidRequest, "Error due to duplicate config keys"}
		}
		seen[o.name] = struct{}{}
		if o.value == nil && o.op != kmsg.IncrementalAlterConfigOpDelete {
			nulls = append(nulls, validUTF8(o.name))
		}
	}
	if len(nulls) > 0 {
		return &wireError{protocol.InvalidRequest, "Null value not supported for : " + strings.Join(nulls, ",")}
	}
	return nil
}

// names says whether a key is among those that are changed.
func (a *alteration) names(key string) bool {
	return slices.ContainsFunc(a.ops, func(o configOp) bool { return o.name == key })
}

// maxSettingBytes bounds a setting. One that is set can't be longer on the wire, but a list could grow by ever more items.
const maxSettingBytes = math.MaxInt16

var errSettingTooLong error = &wireError{
	protocol.InvalidConfig,
	fmt.Sprintf("The configuration value cannot be added because it exceeds the maximum value size of %d bytes.", maxSettingBytes),
}

// lister finds the items of a setting that is a list, as it holds now; the error says that it isn't one.
type lister func(o configOp) ([]string, error)

// apply makes the changes on a copy of the settings.
func (a *alteration) apply(current map[string]string, unknownOp error, list lister) (map[string]string, error) {
	out := make(map[string]string, len(current)+len(a.ops))
	if !a.replace {
		maps.Copy(out, current)
	}
	for _, o := range a.ops {
		switch o.op {
		case kmsg.IncrementalAlterConfigOpSet:
			out[o.name] = *o.value
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(out, o.name)
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			items, err := list(o)
			if err != nil {
				return nil, err
			}
			if out[o.name] = strings.Join(o.change(items), ","); len(out[o.name]) > maxSettingBytes {
				return nil, errSettingTooLong
			}
		default:
			return nil, unknownOp
		}
	}
	return out, nil
}

// change adds the operation's items to a list, those that aren't there yet, or takes them out. Adding nothing adds an empty
// item, as in Kafka; whether a list may have one is for its key to say.
func (o configOp) change(items []string) []string {
	given := strings.Split(strings.TrimRight(*o.value, ","), ",")
	if *o.value != "" && given[0] == "" && len(given) == 1 { // commas alone
		given = nil
	}
	for i := range given {
		given[i] = strings.TrimSpace(given[i])
	}
	if o.op == kmsg.IncrementalAlterConfigOpSubtract {
		gone := setOf(given)
		return slices.DeleteFunc(slices.Clone(items), func(s string) bool { return gone[s] })
	}
	out := slices.DeleteFunc(slices.Clone(items), func(s string) bool { return s == "" })
	there := setOf(out)
	for _, s := range given {
		if !there[s] {
			there[s] = true
			out = append(out, s)
		}
	}
	return out
}

// setOf is a list to look things up in.
func setOf[T comparable](list []T) map[T]bool {
	set := make(map[T]bool, len(list))
	for _, v := range list {
		set[v] = true
	}
	return set
}

// errNotList refuses to change a setting as if it were a list.
func errNotList(o configOp) error {
	verb := "APPEND"
	if o.op == kmsg.IncrementalAlterConfigOpSubtract {
		verb = "SUBTRACT"
	}
	return &wireError{protocol.InvalidConfig, fmt.Sprintf("Can't %s to key %s because its type is not LIST.", verb, validUTF8(o.name))}
}

// alterTopic changes a topic's own settings and those of its logs. The caller holds lifecycle.mu.
func (h *Handlers) alterTopic(a *alteration, validateOnly bool) error {
	if a.name == "" {
		return &wireError{protocol.InvalidRequest, "Default topic resources are not allowed."}
	}
	if err := checkTopicName(a.name); err != nil {
		return err
	}
	t := h.topicByName(a.name)
	if t == nil {
		return &wireError{protocol.UnknownTopicOrPartition, fmt.Sprintf("The topic '%s' does not exist.", a.name)}
	}
	configs, err := a.apply(t.Configs, &wireError{code: protocol.UnknownServerError}, func(o configOp) ([]string, error) {
		k := h.Config.Table().Key(config.TopicScope, o.name)
		if k == nil || k.Type != config.List {
			return nil, errNotList(o)
		}
		return config.SplitList(h.Config.DescribeTopic(t.Configs, config.Wanted{o.name})[0].Value), nil
	})
	if err != nil {
		return err
	}
	if err = h.checkTopicConfigs(configs); err != nil || maps.Equal(configs, t.Configs) {
		return err
	}
	if h.internal.has(t) {
		return &wireError{protocol.InvalidRequest, fmt.Sprintf("The settings of %s can't be changed: the topic exists only in name.", t.Name)}
	}
	if validateOnly {
		return nil
	}
	t, err = h.Meta.SetTopicConfigs(t.ID, configs)
	if err != nil {
		return fmt.Errorf("set configs of topic: %w", err)
	}
	h.reconfigure(t)
	return nil
}

// isrKey can't be set for one broker and must be set for the cluster, where Kafka has eligible leader replicas.
const isrKey = "min.insync.replicas"

// alterBroker changes dynamic settings of this broker or, under the empty name, of all. The caller holds lifecycle.mu.
func (h *Handlers) alterBroker(a *alteration, validateOnly bool) error {
	kind := config.KindClusterDefault
	if a.name != "" {
		if err := h.checkBrokerName(a.name, "Unexpected broker id, expected"); err != nil {
			return err
		}
		kind = config.KindBroker
	}
	current := h.Config.Dynamic(kind, a.name)
	configs, err := a.apply(current, unknownBrokerOp(a), func(o configOp) ([]string, error) {
		k := h.Config.Table().Key(config.BrokerScope, o.name)
		if k == nil || k.Type != config.List {
			return nil, &wireError{protocol.InvalidConfig, "Config value append is not allowed for config key: " + validUTF8(o.name)}
		}
		return h.Config.List(o.name), nil
	})
	if err != nil {
		return err
	}
	if err = h.Config.ValidateBroker(configs, kind == config.KindClusterDefault); err != nil {
		return &wireError{protocol.InvalidRequest, validUTF8(err.Error())}
	}
	_, set := configs[isrKey]
	if kind == config.KindBroker && (set || a.names(isrKey)) {
		return &wireError{protocol.InvalidConfig, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."}
	}
	if kind == config.KindClusterDefault && !set {
		return &wireError{protocol.InvalidConfig, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."}
	}
	if validateOnly || maps.Equal(configs, current) {
		return nil
	}
	if err = h.storeConfigs(kind, a.name, configs); err != nil {
		return err
	}
	for _, t := range h.Meta.Topics().All() {
		h.reconfigure(t)
	}
	return nil
}

// unknownBrokerOp is the error for the first operation that isn't known.
func unknownBrokerOp(a *alteration) error {
	for _, o := range a.ops {
		if o.op < kmsg.IncrementalAlterConfigOpSet || o.op > kmsg.IncrementalAlterConfigOpSubtract {
			return &wireError{protocol.InvalidRequest, fmt.Sprintf("Unknown operations type %d", o.op)}
		}
	}
	return nil
}

// checkBrokerName checks that a resource's name is this broker's id.
func (h *Handlers) checkBrokerName(name, unexpected string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return &wireError{protocol.InvalidRequest, "Node id must be an integer, but it is: " + validUTF8(name)}
	}
	if int32(id) != h.NodeID {
		return &wireError{protocol.InvalidRequest, fmt.Sprintf("%s %d, but received %d", unexpected, h.NodeID, id)}
	}
	return nil
}

// alterNamed changes the settings of a group or of a client metrics subscription. Lists can't be appended to here, as in
// Kafka. The caller holds lifecycle.mu.
func (h *Handlers) alterNamed(a *alteration, kind config.Kind, validate func(map[string]string) error, validateOnly bool) error {
	current := h.Config.Dynamic(kind, a.name)
	configs, err := a.apply(current, &wireError{code: protocol.UnknownServerError}, func(o configOp) ([]string, error) {
		return nil, errNotList(o)
	})
	if err != nil {
		return err
	}
	if err = validate(configs); err != nil {
		return refusedSetting(err)
	}
	if validateOnly || maps.Equal(configs, current) {
		return nil
	}
	return h.storeConfigs(kind, a.name, configs)
}

// storeConfigs makes dynamic settings durable, then lets them hold.
func (h *Handlers) storeConfigs(kind config.Kind, name string, configs map[string]string) error {
	if err := h.keepConfigs(kind, name, configs); err != nil {
		return fmt.Errorf("store configs: %w", err)
	}
	if err := h.Config.SetDynamic(kind, name, configs); err != nil {
		return fmt.Errorf("set configs: %w", err)
	}
	return nil
}

// keepConfigs makes dynamic settings durable, if there is a place for them.
func (h *Handlers) keepConfigs(kind config.Kind, name string, configs map[string]string) error {
	switch {
	case h.ConfigStore == nil:
		return nil
	case len(configs) == 0:
		return h.ConfigStore.DeleteConfig(string(kind), name)
	default:
		return h.ConfigStore.PutConfig(string(kind), name, configs)
	}
}

// refusedSetting makes a client's error of one of the configuration's.
func refusedSetting(err error) error {
	code := protocol.InvalidConfig
	if bad := (*config.ClientMetricsError)(nil); errors.As(err, &bad) {
		code = protocol.InvalidRequest
	}
	return &wireError{code, validUTF8(err.Error())}
}

// alterLogger changes the level of a logger, which can't be done here, except to the level that it has.
func (h *Handlers) alterLogger(a *alteration) error {
	if err := h.checkBrokerName(a.name, "Unexpected node id. Expected"); err != nil {
		return err
	}
	for _, o := range a.ops {
		if o.name != rootLogger {
			return &wireError{protocol.InvalidConfig, fmt.Sprintf("Logger %s does not exist!", validUTF8(o.name))}
		}
		if o.op == kmsg.IncrementalAlterConfigOpSet && !contains(logLevels(), strings.ToUpper(*o.value)) {
			return &wireError{protocol.InvalidConfig, fmt.Sprintf("Cannot set the log level of root to %s as it is not a supported log level. "+
				"Valid log levels are %s", validUTF8(*o.value), strings.Join(logLevels(), ", "))}
		}
		if o.op != kmsg.IncrementalAlterConfigOpSet || !strings.EqualFold(*o.value, h.Logger.Level().String()) {
			return &wireError{protocol.InvalidRequest, "The log level can't be changed while the broker runs"}
		}
	}
	return nil
}

// logLevels are the levels by Kafka's names.
func logLevels() []string { return []string{"DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN"} }
