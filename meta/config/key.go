package config

import "slices"

// Type is the type of a value, numbered as DescribeConfigs does.
type Type int8

// The types of values. Short, Int and Long have 16, 32 and 64 bits.
const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// String is the type's name in Kafka's messages.
func (t Type) String() string {
	switch t {
	case Boolean:
		return "BOOLEAN"
	case String:
		return "STRING"
	case Int:
		return "INT"
	case Short:
		return "SHORT"
	case Long:
		return "LONG"
	case Double:
		return "DOUBLE"
	case List:
		return "LIST"
	case Class:
		return "CLASS"
	case Password:
		return "PASSWORD"
	default:
		return "UNKNOWN"
	}
}

// Scope is what kind of resource a key belongs to.
type Scope uint8

// The kinds of resources.
const (
	BrokerScope Scope = iota
	TopicScope
	GroupScope
	ClientMetricsScope
)

// String is the name that messages use.
func (s Scope) String() string {
	switch s {
	case BrokerScope:
		return "broker"
	case TopicScope:
		return "topic"
	case GroupScope:
		return "group"
	case ClientMetricsScope:
		return "client metrics"
	default:
		return "unknown"
	}
}

// Mode says whether a broker key may be changed while the broker runs.
type Mode uint8

// The modes of broker keys; keys of other scopes may always be changed.
const (
	ReadOnly Mode = iota
	// PerBroker keys may be changed for one broker, not as the cluster's default.
	PerBroker
	// ClusterWide keys may be changed for one broker and as the cluster's default.
	ClusterWide
)

// Source says where a value comes from, numbered as DescribeConfigs does.
type Source int8

// The sources of values.
const (
	FromTopic          Source = 1
	FromBroker         Source = 2 // dynamic, of this broker
	FromClusterDefault Source = 3 // dynamic, of all brokers
	FromStatic         Source = 4 // given at start, or preset
	FromDefault        Source = 5
	FromClientMetrics  Source = 7
	FromGroup          Source = 8
)

// Key is a row of the table.
type Key struct {
	Name    string
	Type    Type
	Default string
	// Null says that the default is no value at all; Default is "" then.
	Null bool
	// Valid bounds the values; nil takes all of the type.
	Valid Rule
	Scope Scope
	Mode  Mode
	// Follows is the broker key that holds the default of a topic or group key, or "".
	Follows string
	// Preset is what this broker sets as if it stood in its properties, or "".
	Preset string
	// NoEffect says that the key is taken and described, but changes nothing here.
	NoEffect bool
	// Own marks a key that Apache Kafka doesn't have; it is described only when named.
	Own bool
	// Hidden marks a key of Kafka's own, for its tests and for plugins; it is described only where it is set.
	Hidden bool
	// Doc says in a sentence what the key does, without markup.
	Doc string

	// field points at the key's place in a TopicConfig; topic keys only.
	field func(*TopicConfig) any
}

// Sensitive says whether the value is never shown.
func (k *Key) Sensitive() bool { return k.Type == Password }

// preset says whether the broker sets the key itself.
func (k *Key) preset() bool { return k.Preset != "" }

// Table is the set of all keys. It is immutable.
type Table struct {
	all    [4][]*Key          // by scope, sorted by name
	byName [4]map[string]*Key // by scope
}

// NewTable builds the table. It is cheap enough to be built once per broker.
func NewTable() *Table {
	t := &Table{}
	for scope, keys := range map[Scope][]Key{
		BrokerScope: brokerKeys(), TopicScope: topicKeys(), GroupScope: slices.Concat(groupKeys(), hiddenGroupKeys()), ClientMetricsScope: clientMetricsKeys(),
	} {
		t.add(scope, keys)
	}
	return t
}

// add puts a scope's keys into the table.
func (t *Table) add(scope Scope, keys []Key) {
	t.byName[scope] = make(map[string]*Key, len(keys))
	for i := range keys {
		k := &keys[i]
		k.Scope = scope
		t.byName[scope][k.Name] = k
		t.all[scope] = append(t.all[scope], k)
	}
	sortKeys(t.all[scope])
}

// Key finds a key by its name, or nil.
func (t *Table) Key(scope Scope, name string) *Key { return t.byName[scope][name] }

// Keys lists the keys of a scope by name. The slice must not be changed.
func (t *Table) Keys(scope Scope) []*Key { return t.all[scope] }
