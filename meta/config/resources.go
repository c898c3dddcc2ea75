package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// offsetReset allows where a share group may start.
type offsetReset struct{}

func (offsetReset) check(v value) string {
	if v.text == "earliest" || v.text == "latest" {
		return ""
	}
	if d, ok := strings.CutPrefix(v.text, "by_duration:"); ok && isoDuration(d) {
		return ""
	}
	return "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
}

func (offsetReset) String() string { return "earliest, latest, by_duration:PnDTnHnMn.nS" }

// isoDuration says whether s is an ISO 8601 duration of days, hours, minutes and seconds, not negative.
func isoDuration(s string) bool {
	s, ok := strings.CutPrefix(strings.ToUpper(s), "P")
	if !ok {
		return false
	}
	days, times, hasTime := strings.Cut(s, "T")
	rest, n := durationParts(days, "D")
	if rest != "" {
		return false
	}
	if !hasTime {
		return n > 0
	}
	rest, m := durationParts(times, "HMS")
	return rest == "" && m > 0
}

// durationParts takes numbers followed by the units, in their order, off s. It returns what is left and how many there
// were. Only seconds may have a fraction.
func durationParts(s, units string) (rest string, n int) {
	for _, unit := range units {
		text, after, ok := strings.Cut(s, string(unit))
		if !ok {
			continue
		}
		whole, fraction, hasFraction := strings.Cut(text, ".")
		if !isDigits(whole) || (hasFraction && (unit != 'S' || !isDigits(fraction))) {
			return s, n
		}
		s, n = after, n+1
	}
	return s, n
}

// clientMatch allows patterns of clients: NAME=REGULAR EXPRESSION each.
type clientMatch struct{}

func (clientMatch) check(v value) string {
	for _, item := range v.list {
		if reason := checkMatch(item); reason != "" {
			return reason
		}
	}
	return ""
}

func (clientMatch) String() string {
	return "NAME=PATTERN,..., with the names " + strings.Join(matchNames(), ", ")
}

// matchNames are what a client metrics subscription may select clients by.
func matchNames() []string {
	return []string{
		"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port",
	}
}

// ValidateGroup checks a group's settings, each, against the broker's bounds, and together. Errors are *UnknownError, *Error
// or *RuleError; their texts are meant for the client, with INVALID_CONFIG.
func (b *Broker) ValidateGroup(configs map[string]string) error {
	if err := b.parseAll(GroupScope, configs); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if err := b.groupBounds(name, configs[name]); err != nil {
			return err
		}
	}
	if assignor, ok := configs["streams.assignor.name"]; ok && !slices.Contains(b.List("group.streams.assignors"), assignor) {
		return &RuleError{Text: fmt.Sprintf("streams.assignor.name '%s' is not a registered task assignor. Registered assignors are: [%s].",
			assignor, strings.Join(b.List("group.streams.assignors"), ", "))}
	}
	g := b.newGroup(configs)
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
		if g.Int(session) <= g.Int(heartbeat) {
			return &RuleError{Text: session + " must be greater than " + heartbeat}
		}
	}
	return nil
}

// parseAll checks that all keys are in the table and their values valid.
func (b *Broker) parseAll(scope Scope, configs map[string]string) error {
	names := slices.Sorted(maps.Keys(configs))
	for _, name := range names {
		if b.table.Key(scope, name) == nil {
			return &UnknownError{Kind: scope, Key: name}
		}
	}
	for _, name := range names {
		if _, err := b.table.Key(scope, name).parse(configs[name]); err != nil {
			return err
		}
	}
	return nil
}

// bounds are the broker keys with the lowest and the highest value of a group key; "" where there is none.
func (b *Broker) bounds(name string) (low, high string) {
	kind, rest, _ := strings.Cut(name, ".")
	low, high = "group."+kind+".min."+rest, "group."+kind+".max."+rest
	if name == "streams.num.standby.replicas" {
		high = "group.streams.max.standby.replicas"
	}
	if b.table.Key(BrokerScope, low) == nil {
		low = ""
	}
	if b.table.Key(BrokerScope, high) == nil {
		high = ""
	}
	return low, high
}

// groupBounds checks a group's setting against the broker's bounds.
func (b *Broker) groupBounds(name, raw string) error {
	low, high := b.bounds(name)
	if high == "" {
		return nil
	}
	v, err := b.table.Key(GroupScope, name).parse(raw)
	if err != nil {
		return err
	}
	if low == "" {
		if v.number > b.Int64(high) {
			return &RuleError{Text: fmt.Sprintf("%s must be less than or equal to %d", name, b.Int64(high))}
		}
		return nil
	}
	if v.number < b.Int64(low) || v.number > b.Int64(high) {
		return &RuleError{Text: fmt.Sprintf("%s must be in the range %d to %d inclusive.", name, b.Int64(low), b.Int64(high))}
	}
	return nil
}

// Group is the configuration of a group: its own settings over those of the broker. It is immutable.
type Group struct {
	table   *Table
	broker  *snapshot
	configs map[string]string
	bounds  func(name string) (low, high string)
}

// Group returns the configuration of a group, whether the group exists or not.
func (b *Broker) Group(name string) Group { return b.newGroup(b.now.Load().groups[name]) }

func (b *Broker) newGroup(configs map[string]string) Group {
	return Group{table: b.table, broker: b.now.Load(), configs: configs, bounds: b.bounds}
}

// value is what holds for a key: the group's setting, kept within the broker's bounds, or the broker's.
func (g Group) value(name string) value {
	k := g.table.Key(GroupScope, name)
	if k == nil {
		panic("configuration key " + name + " isn't a group's")
	}
	if raw, ok := g.configs[name]; ok {
		if v, err := k.parse(raw); err == nil {
			return g.clamp(name, v)
		}
	}
	return g.broker.groupDefault(k)
}

// clamp keeps a setting made under other bounds within those of now.
func (g Group) clamp(name string, v value) value {
	low, high := g.bounds(name)
	n := v.number
	if low != "" {
		n = max(n, g.broker.values[low].number)
	}
	if high != "" {
		n = min(n, g.broker.values[high].number)
	}
	if n != v.number {
		return number(n)
	}
	return v
}

// groupDefault is what a group that doesn't set a key gets.
func (s *snapshot) groupDefault(k *Key) value {
	if v, ok := s.values[k.Follows]; ok {
		if k.Type == String && len(v.list) > 0 {
			return value{text: v.list[0]}
		}
		return v
	}
	v, _ := parseType(k.Type, k.Default)
	return v
}

// Int is the value of a group key of type INT.
func (g Group) Int(name string) int { return int(g.value(name).number) }

// Bool is the value of a group key of type BOOLEAN.
func (g Group) Bool(name string) bool { return g.value(name).flag }

// String is the value of a group key in its canonical form.
func (g Group) String(name string) string { return g.value(name).text }

// List is the value of a group key of type LIST. The slice must not be changed.
func (g Group) List(name string) []string { return g.value(name).list }

// ClientMetricsError is a refused client metrics setting that is a bad request, not a bad configuration.
type ClientMetricsError struct{ Text string }

// Error returns the text.
func (e *ClientMetricsError) Error() string { return e.Text }

// ValidateClientMetrics checks the settings of a client metrics subscription. Errors are *Error and *RuleError, meant for
// INVALID_CONFIG, and *ClientMetricsError, meant for INVALID_REQUEST.
func (b *Broker) ValidateClientMetrics(configs map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		k := b.table.Key(ClientMetricsScope, name)
		if k == nil {
			return &ClientMetricsError{Text: "Unknown client metrics configuration: " + name}
		}
		v, reason := parseType(k.Type, configs[name])
		if reason != "" {
			return &Error{Key: name, Value: configs[name], Reason: reason}
		}
		if name == "interval.ms" && (v.number < 100 || v.number > 3_600_000) {
			return &ClientMetricsError{Text: "Invalid value " + strconv.FormatInt(v.number, 10) +
				" for interval.ms, interval must be between 100 and 3600000 (1 hour)"}
		}
		if k.Valid == nil {
			continue
		}
		if reason = k.Valid.check(v); reason != "" {
			return &RuleError{Text: reason}
		}
	}
	return nil
}

// checkMatch checks one pattern of clients.
func checkMatch(item string) string {
	name, pattern, ok := strings.Cut(item, "=")
	if !ok || pattern == "" || strings.Contains(pattern, "=") || !slices.Contains(matchNames(), strings.TrimSpace(name)) {
		return "Illegal client matching pattern: " + item
	}
	if !validPattern(strings.TrimSpace(pattern)) {
		return "Illegal client matching pattern: " + item
	}
	return ""
}

// validPattern says whether a regular expression compiles.
func validPattern(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err == nil
}
