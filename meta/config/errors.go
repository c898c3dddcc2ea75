package config

import (
	"fmt"
	"strings"
)

// Error says which setting is wrong, and why. Reason is a sentence's part with what is allowed.
type Error struct {
	Key    string
	Value  string
	Reason string
}

// Error names the key, the value and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("Invalid value %s for configuration %s: %s", e.Value, e.Key, e.Reason)
}

// UnknownError is returned for a key that isn't in the table.
type UnknownError struct {
	Kind    Scope  // whose key it was taken for
	Key     string // as given
	Similar string // the key that may have been meant, or ""
}

// Error is worded as Kafka does, with a suggestion for keys given at start.
func (e *UnknownError) Error() string {
	if e.Kind != BrokerScope {
		return fmt.Sprintf("Unknown %s config name: %s", e.Kind, e.Key)
	}
	if e.Similar == "" {
		return fmt.Sprintf("unknown configuration key %q", e.Key)
	}
	return fmt.Sprintf("unknown configuration key %q; did you mean %q?", e.Key, e.Similar)
}

// RuleError is returned when settings are each valid but not together, or not possible here. Its text is complete.
type RuleError struct{ Text string }

// Error returns the text.
func (e *RuleError) Error() string { return e.Text }

// SplitList splits a comma-separated list and trims its items; an empty string is an empty list. Items between two
// commas may be empty.
func SplitList(value string) []string {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil
	}
	items := strings.Split(value, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}
