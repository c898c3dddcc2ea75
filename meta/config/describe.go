package config

import "slices"

// Entry is a setting as DescribeConfigs tells it.
type Entry struct {
	Name      string
	Value     string
	Null      bool // there is no value, or it is a secret
	Type      Type // 0 for a key that isn't in the table
	Source    Source
	ReadOnly  bool
	Sensitive bool
	Synonyms  []Synonym // in the order in which they count
	Doc       string
}

// Synonym is a layer's value of a setting.
type Synonym struct {
	Name   string
	Value  string
	Null   bool // the value is a secret
	Source Source
}

// Wanted says which entries to describe: those of the names given; all that Apache Kafka has if there are none. Hidden ones
// are described only where they are set.
type Wanted []string

// picks says whether a key is wanted. A hidden one is only told of where it is set: in one of the layers.
func (w Wanted) picks(k *Key, layers ...map[string]string) bool {
	if len(w) > 0 && !slices.Contains(w, k.Name) || len(w) == 0 && k.Own {
		return false
	}
	return !k.Hidden || slices.ContainsFunc(layers, func(layer map[string]string) bool {
		_, set := layer[k.Name]
		return set
	})
}

// DescribeBroker describes the settings of this broker, sorted by name.
func (b *Broker) DescribeBroker(wanted Wanted) []Entry {
	s := b.now.Load()
	var out []Entry
	for _, k := range b.table.Keys(BrokerScope) {
		if wanted.picks(k, s.broker, s.clusterDefault, s.static) {
			out = append(out, s.brokerEntry(b.table, k))
		}
	}
	for _, layer := range []struct {
		configs map[string]string
		source  Source
	}{{s.broker, FromBroker}, {s.clusterDefault, FromClusterDefault}, {s.static, FromStatic}} {
		out = b.addForeign(out, layer.configs, layer.source, wanted)
	}
	sortEntries(out)
	return out
}

// DescribeClusterDefault describes the dynamic defaults of all brokers, sorted by name.
func (b *Broker) DescribeClusterDefault(wanted Wanted) []Entry {
	s := b.now.Load()
	var out []Entry
	for name, raw := range s.clusterDefault {
		k := b.table.Key(BrokerScope, name)
		if k == nil || (len(wanted) > 0 && !slices.Contains(wanted, name)) {
			continue
		}
		e := Entry{Name: name, Type: k.Type, Source: FromClusterDefault, ReadOnly: k.Mode == ReadOnly, Sensitive: k.Sensitive(), Doc: k.Doc}
		e.Value, e.Null = k.show(raw)
		e.Synonyms = []Synonym{{Name: name, Value: e.Value, Null: e.Null, Source: FromClusterDefault}}
		out = append(out, e)
	}
	out = b.addForeign(out, s.clusterDefault, FromClusterDefault, wanted)
	sortEntries(out)
	return out
}

// addForeign adds the settings of a layer that aren't in the table. Nothing is known of them, so their values are secrets.
func (b *Broker) addForeign(out []Entry, layer map[string]string, source Source, wanted Wanted) []Entry {
	for name := range layer {
		if b.table.Key(BrokerScope, name) != nil || (len(wanted) > 0 && !slices.Contains(wanted, name)) {
			continue
		}
		s := Synonym{Name: name, Null: true, Source: source}
		if i := slices.IndexFunc(out, func(e Entry) bool { return e.Name == name }); i >= 0 {
			out[i].Synonyms = append(out[i].Synonyms, s)
			continue
		}
		out = append(out, Entry{
			Name: name, Null: true, Source: source, ReadOnly: true, Sensitive: true, Synonyms: []Synonym{s},
		})
	}
	return out
}

// brokerEntry describes a broker key.
func (s *snapshot) brokerEntry(t *Table, k *Key) Entry {
	e := Entry{Name: k.Name, Type: k.Type, Source: FromDefault, ReadOnly: k.Mode == ReadOnly, Sensitive: k.Sensitive(), Doc: k.Doc}
	v := s.values[k.Name]
	e.Value, e.Null = v.text, v.null || k.Sensitive()
	if e.Null {
		e.Value = ""
	}
	e.Synonyms = s.brokerSynonyms(t, k)
	if len(e.Synonyms) > 0 {
		e.Source = e.Synonyms[0].Source
	}
	return e
}

// alternatives are the broker keys that hold the same setting in other units or with another meaning, best first.
func alternatives(name string) []string {
	for _, family := range [][]string{
		{"log.retention.ms", "log.retention.minutes", "log.retention.hours"},
		{"log.roll.ms", "log.roll.hours"},
		{"log.roll.jitter.ms", "log.roll.jitter.hours"},
	} {
		if slices.Contains(family, name) {
			return family
		}
	}
	if name == "log.flush.interval.ms" {
		return []string{name, "log.flush.scheduler.interval.ms"}
	}
	return []string{name}
}

// brokerSynonyms lists the layers' values of a broker key and of its alternatives: all that are dynamic, then those given at
// start, then the defaults. As in Apache Kafka, the list begins with the key's own first value and is empty if it
// has none, even where an alternative holds.
func (s *snapshot) brokerSynonyms(t *Table, k *Key) []Synonym {
	var out []Synonym
	for _, layer := range []struct {
		configs map[string]string
		source  Source
	}{{s.broker, FromBroker}, {s.clusterDefault, FromClusterDefault}, {s.static, FromStatic}} {
		for _, name := range alternatives(k.Name) {
			raw, ok := layer.configs[name]
			if !ok || (len(out) == 0 && name != k.Name) {
				continue
			}
			out = append(out, synonym(k, name, raw, layer.source))
		}
	}
	for _, name := range alternatives(k.Name) {
		other := t.Key(BrokerScope, name)
		if other.Null || (len(out) == 0 && name != k.Name) {
			continue
		}
		out = append(out, synonym(k, name, other.Default, FromDefault))
	}
	return out
}

// synonym makes a synonym; secrets are left out.
func synonym(k *Key, name, raw string, source Source) Synonym {
	if k.Sensitive() {
		return Synonym{Name: name, Null: true, Source: source}
	}
	return Synonym{Name: name, Value: raw, Source: source}
}

// show is a value as it may be told.
func (k *Key) show(raw string) (text string, hidden bool) {
	if k.Sensitive() {
		return "", true
	}
	if k.Hidden { // told as it was given
		return raw, false
	}
	v, err := k.parse(raw)
	if err != nil {
		return raw, false
	}
	return v.text, false
}

// DescribeTopic describes the settings of a topic that has the given ones of its own, sorted by name.
func (b *Broker) DescribeTopic(configs map[string]string, wanted Wanted) []Entry {
	s := b.now.Load()
	out := make([]Entry, 0, len(b.table.Keys(TopicScope)))
	for _, k := range b.table.Keys(TopicScope) {
		if wanted.picks(k, configs) {
			out = append(out, s.topicEntry(b.table, k, configs))
		}
	}
	return out
}

// topicEntry describes a topic key.
func (s *snapshot) topicEntry(t *Table, k *Key, configs map[string]string) Entry {
	e := Entry{Name: k.Name, Type: k.Type, Source: FromDefault, Doc: k.Doc}
	if follows := t.Key(BrokerScope, k.Follows); follows != nil {
		e.Synonyms = s.brokerSynonyms(t, follows)
	}
	if raw, ok := configs[k.Name]; ok {
		e.Value, _ = k.show(raw)
		e.Synonyms = append([]Synonym{{Name: k.Name, Value: e.Value, Source: FromTopic}}, e.Synonyms...)
	} else {
		v := s.topicDefault(k)
		e.Value, e.Null = v.text, v.null
	}
	if len(e.Synonyms) > 0 {
		e.Source = e.Synonyms[0].Source
	}
	return e
}

// DescribeGroup describes the settings of a group, whether it exists or not, sorted by name.
func (b *Broker) DescribeGroup(name string, wanted Wanted) []Entry {
	s := b.now.Load()
	var out []Entry
	for _, k := range b.table.Keys(GroupScope) {
		if wanted.picks(k, s.groups[name]) {
			out = append(out, s.groupEntry(b.table, k, s.groups[name]))
		}
	}
	return out
}

// groupEntry describes a group key.
func (s *snapshot) groupEntry(t *Table, k *Key, configs map[string]string) Entry {
	e := Entry{Name: k.Name, Type: k.Type, Doc: k.Doc, Value: s.groupDefault(k).text}
	if follows := t.Key(BrokerScope, k.Follows); follows != nil {
		e.Synonyms = s.brokerSynonyms(t, follows)
	} else {
		name := k.Name
		if k.Hidden { // the broker's key is Kafka's own as well
			name = "group." + name
		}
		e.Synonyms = []Synonym{{Name: name, Value: k.Default, Source: FromDefault}}
	}
	if raw, ok := configs[k.Name]; ok {
		e.Value, _ = k.show(raw)
		e.Synonyms = append([]Synonym{{Name: k.Name, Value: e.Value, Source: FromGroup}}, e.Synonyms...)
	}
	e.Source = e.Synonyms[0].Source
	return e
}

// DescribeClientMetrics describes the settings of a client metrics subscription, whether it exists or not, sorted by
// name.
func (b *Broker) DescribeClientMetrics(name string, wanted Wanted) []Entry {
	configs := b.now.Load().clientMetrics[name]
	var out []Entry
	for _, k := range b.table.Keys(ClientMetricsScope) {
		if !wanted.picks(k, configs) {
			continue
		}
		e := Entry{Name: k.Name, Type: k.Type, Value: k.Default, Source: FromDefault, Doc: k.Doc}
		if raw, ok := configs[k.Name]; ok {
			e.Value, _ = k.show(raw)
			e.Source = FromClientMetrics
			e.Synonyms = []Synonym{{Name: k.Name, Value: e.Value, Source: FromClientMetrics}}
		}
		out = append(out, e)
	}
	return out
}

// sortEntries sorts entries by name.
func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int {
		if a.Name < b.Name {
			return -1
		}
		if a.Name > b.Name {
			return 1
		}
		return 0
	})
}
