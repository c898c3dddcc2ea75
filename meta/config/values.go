package config

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// value is a setting after parsing. Numbers of all widths are in number; text holds strings, classes and passwords, and
// the canonical form of the others.
type value struct {
	null   bool
	number int64
	double float64
	flag   bool
	text   string
	list   []string
}

// Parse checks a value against the key's type and valid values and returns it in canonical form. Errors are *Error.
func (k *Key) Parse(raw string) (canonical string, err error) {
	v, err := k.parse(raw)
	return v.text, err
}

// parse checks and reads a value.
func (k *Key) parse(raw string) (value, error) {
	v, reason := parseType(k.Type, raw)
	if reason == "" && k.Valid != nil {
		reason = k.Valid.check(v)
	}
	if reason != "" {
		return value{}, &Error{Key: k.Name, Value: k.shown(raw), Reason: reason}
	}
	if _, isSet := k.Valid.(listOf); isSet {
		v = v.unique()
	}
	return v, nil
}

// unique takes out the items of a list that are there already.
func (v value) unique() value {
	var kept []string
	for _, item := range v.list {
		if !slices.Contains(kept, item) {
			kept = append(kept, item)
		}
	}
	v.list, v.text = kept, strings.Join(kept, ",")
	return v
}

// shown is a value as it may stand in a message.
func (k *Key) shown(raw string) string {
	if k.Sensitive() {
		return "[hidden]"
	}
	return raw
}

// parseType reads a value of a type; reason says what is wrong with it.
func parseType(t Type, raw string) (v value, reason string) {
	trimmed := strings.TrimSpace(raw)
	switch t {
	case Boolean:
		return parseBool(trimmed)
	case Short:
		return parseNumber(t, trimmed, 16)
	case Int:
		return parseNumber(t, trimmed, 32)
	case Long:
		return parseNumber(t, trimmed, 64)
	case Double:
		d, err := strconv.ParseFloat(trimmed, 64)
		if err != nil {
			return v, "Not a number of type DOUBLE"
		}
		return value{double: d, text: javaDouble(d)}, ""
	case List:
		items := SplitList(raw)
		return value{list: items, text: strings.Join(items, ",")}, ""
	default:
		return value{text: trimmed}, ""
	}
}

func parseBool(s string) (v value, reason string) {
	switch {
	case strings.EqualFold(s, "true"):
		return value{flag: true, text: "true"}, ""
	case strings.EqualFold(s, "false"):
		return value{text: "false"}, ""
	default:
		return v, "Expected value to be either true or false"
	}
}

func parseNumber(t Type, s string, bits int) (v value, reason string) {
	n, err := strconv.ParseInt(s, 10, bits)
	if err != nil {
		return v, "Not a number of type " + t.String()
	}
	return value{number: n, text: strconv.FormatInt(n, 10)}, ""
}

// javaDouble writes a number as Java does: with a fraction, and with an exponent from ten million up and below a
// thousandth.
func javaDouble(d float64) string {
	switch {
	case math.IsNaN(d):
		return "NaN"
	case math.IsInf(d, 1):
		return "Infinity"
	case math.IsInf(d, -1):
		return "-Infinity"
	}
	if a := math.Abs(d); a != 0 && (a < 1e-3 || a >= 1e7) {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(d, 'E', -1, 64), "E")
		n, err := strconv.Atoi(exponent)
		if err != nil {
			return mantissa
		}
		return withFraction(mantissa) + "E" + strconv.Itoa(n)
	}
	return withFraction(strconv.FormatFloat(d, 'f', -1, 64))
}

func withFraction(s string) string {
	if strings.ContainsRune(s, '.') {
		return s
	}
	return s + ".0"
}

// Rule bounds the values of a key.
type Rule interface {
	// check says what is wrong with a value, or "".
	check(v value) string
	// String describes the valid values for the documentation.
	String() string
}

// between allows numbers from min to max.
type between struct{ min, max int64 }

// atLeast allows numbers from min up.
func atLeast(minimum int64) Rule { return between{minimum, math.MaxInt64} }

func (r between) check(v value) string {
	switch {
	case v.number < r.min:
		return fmt.Sprintf("Value must be at least %d", r.min)
	case v.number > r.max:
		return fmt.Sprintf("Value must be no more than %d", r.max)
	default:
		return ""
	}
}

func (r between) String() string {
	if r.max == math.MaxInt64 {
		return fmt.Sprintf("%d and up", r.min)
	}
	return fmt.Sprintf("%d to %d", r.min, r.max)
}

// ratio allows numbers from min to max with a fraction.
type ratio struct{ min, max float64 }

func (r ratio) check(v value) string {
	switch {
	case !(v.double >= r.min):
		return fmt.Sprintf("Value must be at least %v", r.min)
	case v.double > r.max:
		return fmt.Sprintf("Value must be no more than %v", r.max)
	default:
		return ""
	}
}

func (r ratio) String() string { return fmt.Sprintf("%v to %v", r.min, r.max) }

// orNumber allows one more number than another rule.
type orNumber struct {
	Rule
	also int64
}

func (r orNumber) check(v value) string {
	if v.number == r.also || r.Rule.check(v) == "" {
		return ""
	}
	return fmt.Sprintf("Value must be %v", r)
}

func (r orNumber) String() string { return fmt.Sprintf("%v, or %d", r.Rule, r.also) }

// oneOf allows the strings listed.
type oneOf []string

func (r oneOf) check(v value) string {
	if slices.Contains(r, v.text) {
		return ""
	}
	return "String must be one of: " + strings.Join(r, ", ")
}

func (r oneOf) String() string { return strings.Join(r, ", ") }

// oneOfFold allows the strings listed in any case.
type oneOfFold []string

func (r oneOfFold) check(v value) string {
	if slices.ContainsFunc(r, func(s string) bool { return strings.EqualFold(s, v.text) }) {
		return ""
	}
	return "String must be one of (case insensitive): " + strings.Join(r, ", ")
}

func (r oneOfFold) String() string { return strings.Join(r, ", ") + " (in any case)" }

// listOf allows lists of the items named; an empty list is allowed, and of an item that is there twice one counts.
type listOf []string

func (r listOf) check(v value) string {
	for _, item := range v.list {
		if item == "" {
			return "values must not be empty"
		}
		if !slices.Contains(r, item) {
			return "String must be one of: " + strings.Join(r, ", ")
		}
	}
	return ""
}

func (r listOf) String() string { return "any of " + strings.Join(r, ", ") }

// notEmpty allows all strings and lists but the empty one.
type notEmpty struct{}

func (notEmpty) check(v value) string {
	if v.text == "" {
		return "String must be non-empty"
	}
	return ""
}

func (notEmpty) String() string { return "not empty" }

// noEmptyItems allows lists without empty items.
type noEmptyItems struct{}

func (noEmptyItems) check(v value) string {
	if slices.Contains(v.list, "") {
		return "values must not be empty"
	}
	return ""
}

func (noEmptyItems) String() string { return "no empty items" }

// throttledReplicas allows a list of partition:broker pairs, or "*".
type throttledReplicas struct{}

func (throttledReplicas) check(v value) string {
	if len(v.list) == 1 && v.list[0] == "*" {
		return ""
	}
	for _, item := range v.list {
		if item == "" {
			continue
		}
		partition, broker, ok := strings.Cut(item, ":")
		if !ok || !isDigits(partition) || !isDigits(broker) {
			return "must be the literal '*' or a list of replicas in the form [partitionId]:[brokerId],..."
		}
	}
	return ""
}

func (throttledReplicas) String() string { return "* or PARTITION:BROKER,..." }

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// sortKeys sorts keys by name.
func sortKeys(keys []*Key) {
	sort.Slice(keys, func(i, j int) bool { return keys[i].Name < keys[j].Name })
}
