package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Broker is the configuration of a broker: what was given at start, and the dynamic layers above it. Concurrent calls
// are allowed; reads take no lock.
type Broker struct {
	table *Table
	now   atomic.Pointer[snapshot]

	mu     sync.Mutex // guards layers and the making of snapshots
	layers layers
}

// layers are the settings as given, by key. The maps are never changed once they are here.
type layers struct {
	static         map[string]string // given at start, and the presets
	clusterDefault map[string]string
	broker         map[string]string
	groups         map[string]map[string]string
	clientMetrics  map[string]map[string]string
}

// snapshot is an immutable view of the effective settings.
type snapshot struct {
	layers
	version uint64
	values  map[string]value
	topic   TopicConfig // of a topic without settings of its own
}

// defaultCluster are dynamic cluster defaults that a new cluster starts with: Apache Kafka writes this one when it
// formats a cluster with eligible leader replicas.
func defaultCluster() map[string]string { return map[string]string{"min.insync.replicas": "1"} }

// Static makes the configuration of a broker from the properties given at start; see [Merge]. Errors are *Error,
// *UnknownError or *RuleError; the first in the order of the names.
func Static(properties map[string]string) (*Broker, error) {
	b := &Broker{table: NewTable()}
	static := make(map[string]string, len(properties))
	for _, k := range b.table.Keys(BrokerScope) {
		if k.preset() {
			static[k.Name] = k.Preset
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		k := b.table.lookup(name)
		if k == nil {
			return nil, &UnknownError{Kind: BrokerScope, Key: name, Similar: b.table.similar(name)}
		}
		if _, err := k.parse(properties[name]); err != nil {
			return nil, err
		}
		static[name] = properties[name]
	}
	if err := sameNode(properties, static); err != nil {
		return nil, err
	}
	b.layers = layers{static: static, clusterDefault: defaultCluster()}
	if err := b.publish(); err != nil {
		return nil, err
	}
	return b, b.checkTogether()
}

// sameNode makes broker.id and node.id say the same. A broker.id of -1, its default, says nothing.
func sameNode(given, static map[string]string) error {
	node, hasNode := given["node.id"]
	broker, hasBroker := given["broker.id"]
	hasBroker = hasBroker && broker != "-1"
	switch {
	case hasNode && hasBroker && node != broker:
		return &RuleError{Text: fmt.Sprintf("node.id is %s but broker.id is %s; set node.id alone", node, broker)}
	case hasBroker:
		if _, err := (&Key{Name: "broker.id", Type: Int, Valid: atLeast(0)}).parse(broker); err != nil {
			return err
		}
		static["node.id"] = broker
	default:
		static["broker.id"] = static["node.id"]
	}
	return nil
}

// publish makes a snapshot of the layers. The caller holds b.mu, or is alone.
func (b *Broker) publish() error {
	s := &snapshot{layers: b.layers, values: make(map[string]value, 400)}
	if old := b.now.Load(); old != nil {
		s.version = old.version + 1
	}
	for _, k := range b.table.Keys(BrokerScope) {
		v, err := s.effective(k)
		if err != nil {
			return err
		}
		s.values[k.Name] = v
	}
	s.topic = s.topicDefaults(b.table)
	b.now.Store(s)
	return nil
}

// effective is the value of the first layer that has the key.
func (s *snapshot) effective(k *Key) (value, error) {
	for _, layer := range []map[string]string{s.broker, s.clusterDefault, s.static} {
		if raw, ok := layer[k.Name]; ok {
			return k.parse(raw)
		}
	}
	if k.Null {
		return value{null: true}, nil
	}
	v, reason := parseType(k.Type, k.Default)
	if reason != "" {
		return v, &Error{Key: k.Name, Value: k.Default, Reason: reason}
	}
	return v, nil
}

// checkTogether checks settings that must fit each other.
func (b *Broker) checkTogether() error {
	s := b.now.Load()
	if ms := s.values["log.retention.ms"]; !ms.null && ms.number == 0 {
		return errNoRetention("0")
	}
	if dirs := s.values["log.dirs"].list; len(dirs) > 1 {
		return &Error{Key: "log.dirs", Value: s.static["log.dirs"], Reason: "There is one data directory; give one path"}
	}
	for _, kind := range []string{"group.consumer", "group.share", "group.streams"} {
		for _, what := range []string{"session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"} {
			if err := s.checkBounds(kind, what); err != nil {
				return err
			}
		}
	}
	if s.values["group.min.session.timeout.ms"].number > s.values["group.max.session.timeout.ms"].number {
		return &RuleError{Text: "group.min.session.timeout.ms must not be greater than group.max.session.timeout.ms"}
	}
	_, err := b.Listeners()
	return err
}

// errNoRetention refuses a retention of no time at all.
func errNoRetention(value string) error {
	return &Error{Key: "log.retention.ms", Value: value, Reason: "Value must be -1 for no limit, or at least 1"}
}

// checkBounds checks that a default for groups lies between its bounds.
func (s *snapshot) checkBounds(kind, what string) error {
	low, v, high := s.values[kind+".min."+what].number, s.values[kind+"."+what].number, s.values[kind+".max."+what].number
	if low <= v && v <= high {
		return nil
	}
	return &RuleError{Text: fmt.Sprintf("%s.%s is %d but must be between %s.min.%s (%d) and %s.max.%s (%d)",
		kind, what, v, kind, what, low, kind, what, high)}
}

// Table is the table of keys.
func (b *Broker) Table() *Table { return b.table }

// Version changes whenever a setting of the broker changes; what was computed from it is stale then.
func (b *Broker) Version() uint64 { return b.now.Load().version }

// get finds the value of a broker key. A key that isn't in the table is a mistake of the caller's that a test of this
// package finds in the source.
func (b *Broker) get(name string) value {
	v, ok := b.now.Load().values[name]
	if !ok {
		panic("configuration key " + name + " isn't in the table")
	}
	return v
}

// Int is the value of a broker key of type INT or SHORT; 0 if it has none.
func (b *Broker) Int(name string) int { return int(b.get(name).number) }

// Int64 is the value of a broker key that is a number; 0 if it has none.
func (b *Broker) Int64(name string) int64 { return b.get(name).number }

// Bool is the value of a broker key of type BOOLEAN.
func (b *Broker) Bool(name string) bool { return b.get(name).flag }

// Float is the value of a broker key of type DOUBLE.
func (b *Broker) Float(name string) float64 { return b.get(name).double }

// String is the value of a broker key in its canonical form; "" if it has none.
func (b *Broker) String(name string) string { return b.get(name).text }

// List is the value of a broker key of type LIST. The slice must not be changed.
func (b *Broker) List(name string) []string { return b.get(name).list }

// Null says whether a broker key has no value.
func (b *Broker) Null(name string) bool { return b.get(name).null }

// Duration is the value of a broker key whose name ends in its unit: .ms, .seconds, .minutes or .hours. It is negative if the
// value is, and the largest duration (292 years) if the value is larger.
func (b *Broker) Duration(name string) time.Duration {
	return duration(b.get(name).number, unitOf(name))
}

// unitOf finds the unit at the end of a key's name.
func unitOf(name string) time.Duration {
	for suffix, unit := range map[string]time.Duration{
		".ms": time.Millisecond, ".seconds": time.Second, ".minutes": time.Minute, ".hours": time.Hour,
	} {
		if len(name) > len(suffix) && name[len(name)-len(suffix):] == suffix {
			return unit
		}
	}
	panic("configuration key " + name + " isn't a duration")
}

// duration is n units, bounded by what a Duration holds.
func duration(n int64, unit time.Duration) time.Duration {
	if n > int64(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	if n < int64(math.MinInt64/unit) {
		return math.MinInt64
	}
	return time.Duration(n) * unit
}

// Listeners are the listeners as configured, without those meant for controllers, which this broker doesn't open.
func (b *Broker) Listeners() ([]Listener, error) {
	return ParseListeners(b.ownListeners(b.String("listeners")), b.ownListeners(b.String("advertised.listeners")), b.String("listener.security.protocol.map"))
}

// ownListeners is a list of listeners without those meant for controllers.
func (b *Broker) ownListeners(list string) string {
	return withoutListeners(list, b.List("controller.listener.names"))
}

// DataDir is the data directory.
func (b *Broker) DataDir() string {
	if dirs := b.List("log.dirs"); len(dirs) > 0 {
		return dirs[0]
	}
	return b.String("log.dir")
}
