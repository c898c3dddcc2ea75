package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind says whose dynamic settings a record holds.
type Kind string

// The kinds of dynamic settings. The names are stable: they are part of keys in the metadata store.
const (
	KindBroker         Kind = "broker"  // of this broker; the name is its id
	KindClusterDefault Kind = "cluster" // of all brokers; the name is ""
	KindGroup          Kind = "group"
	KindClientMetrics  Kind = "client-metrics"
)

// ValidateBroker checks the dynamic settings that this broker, or the cluster as its default, is to have. Keys that aren't
// in the table are let through, as Apache Kafka does, for plugins. Errors are *Error or *RuleError; their texts are
// meant for the client, with INVALID_REQUEST.
func (b *Broker) ValidateBroker(configs map[string]string, clusterDefault bool) error {
	names := slices.Sorted(maps.Keys(configs))
	current := b.now.Load().broker
	if clusterDefault {
		current = b.now.Load().clusterDefault
	}
	if err := b.checkModes(names, clusterDefault); err != nil {
		return err
	}
	for _, name := range names {
		k := b.table.lookup(name)
		if k == nil {
			if err := checkForeign(name, configs[name]); err != nil {
				return err
			}
			continue
		}
		v, err := k.parse(configs[name])
		if err != nil {
			return err
		}
		if raw, set := current[name]; !set || raw != configs[name] {
			if err = b.threadsChanged(name, v.number); err != nil {
				return err
			}
		}
		if err = b.changed(k, name, v, configs); err != nil {
			return err
		}
	}
	return nil
}

// checkModes checks that keys may be changed while the broker runs, and for whom.
func (b *Broker) checkModes(names []string, clusterDefault bool) error {
	var fixed, perBroker, perListener []string
	for _, name := range names {
		k := b.table.lookup(name)
		switch {
		case k == nil:
		case k.Mode == ReadOnly:
			fixed = append(fixed, name)
		case k.Mode == PerBroker && isKeyMaterial(name):
			perListener = append(perListener, name)
		case k.Mode == PerBroker && clusterDefault:
			perBroker = append(perBroker, name)
		}
	}
	switch {
	case len(fixed) > 0:
		return &RuleError{Text: "Cannot update these configs dynamically: [" + strings.Join(fixed, ", ") + "]"}
	case len(perListener) > 0:
		return &RuleError{Text: "These security configs can be dynamically updated only per-listener using the listener prefix: [" +
			strings.Join(perListener, ", ") + "]"}
	case len(perBroker) > 0:
		return &RuleError{Text: "Cannot update these configs at default cluster level, broker id must be specified: [" +
			strings.Join(perBroker, ", ") + "]"}
	default:
		return nil
	}
}

// isKeyMaterial says whether a key tells where the keys and certificates of TLS are, which is for each listener to say.
func isKeyMaterial(name string) bool {
	return strings.HasPrefix(name, "ssl.keystore.") || strings.HasPrefix(name, "ssl.truststore.") || name == "ssl.key.password"
}

// LoadDynamic takes over the dynamic settings that were stored before the start; each calls yield with all of them.
// Those of other brokers are passed over. Settings that this version doesn't take are an error that names them.
func (b *Broker) LoadDynamic(each func(yield func(kind, name string, settings map[string]string) error) error) error {
	return each(func(kind, name string, settings map[string]string) error {
		if Kind(kind) == KindBroker && name != b.String("node.id") {
			return nil
		}
		if err := b.SetDynamic(Kind(kind), name, settings); err != nil {
			return fmt.Errorf("dynamic configuration of %s %q: %w", kind, name, err)
		}
		return nil
	})
}

// SetDynamic replaces the dynamic settings of one kind and name; empty settings are as good as none. The map must not be
// changed afterwards. The settings must have been validated; those that don't parse change nothing and are returned as
// an error.
func (b *Broker) SetDynamic(kind Kind, name string, configs map[string]string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.layers
	switch kind {
	case KindBroker:
		b.layers.broker = configs
	case KindClusterDefault:
		b.layers.clusterDefault = configs
	case KindGroup:
		b.layers.groups = with(b.layers.groups, name, configs)
	case KindClientMetrics:
		b.layers.clientMetrics = with(b.layers.clientMetrics, name, configs)
	default:
		return fmt.Errorf("unknown kind of configuration %q", kind)
	}
	if err := b.publish(); err != nil {
		b.layers = before
		return err
	}
	return nil
}

// with is a copy of m in which name has the settings, or isn't there if they are empty.
func with(m map[string]map[string]string, name string, configs map[string]string) map[string]map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = make(map[string]map[string]string)
	}
	if len(configs) == 0 {
		delete(m, name)
	} else {
		m[name] = configs
	}
	return m
}

// Dynamic returns the dynamic settings of one kind and name as they were given, or nil. The map must not be changed.
func (b *Broker) Dynamic(kind Kind, name string) map[string]string {
	s := b.now.Load()
	switch kind {
	case KindBroker:
		return s.broker
	case KindClusterDefault:
		return s.clusterDefault
	case KindGroup:
		return s.groups[name]
	case KindClientMetrics:
		return s.clientMetrics[name]
	default:
		return nil
	}
}

// Named lists the groups or the client metrics subscriptions that have settings of their own, sorted.
func (b *Broker) Named(kind Kind) []string {
	s := b.now.Load()
	switch kind {
	case KindGroup:
		return slices.Sorted(maps.Keys(s.groups))
	case KindClientMetrics:
		return slices.Sorted(maps.Keys(s.clientMetrics))
	default:
		return nil
	}
}

// Override replaces a setting given at start by what came of it, such as the address bound for port 0.
func (b *Broker) Override(name, raw string) error {
	k := b.table.lookup(name)
	if k == nil {
		return &UnknownError{Kind: BrokerScope, Key: name, Similar: b.table.similar(name)}
	}
	if _, err := k.parse(raw); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	static := maps.Clone(b.layers.static)
	static[name] = raw
	b.layers.static = static
	return b.publish()
}
