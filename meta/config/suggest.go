package config

import "strings"

// lookup finds a broker key by its name, or by what follows listener.name.NAME. in it; nil if there is none.
func (t *Table) lookup(name string) *Key {
	if k := t.Key(BrokerScope, name); k != nil {
		return k
	}
	rest, ok := strings.CutPrefix(name, "listener.name.")
	if !ok {
		return nil
	}
	_, key, _ := strings.Cut(rest, ".")
	return t.Key(BrokerScope, key)
}

// similar finds the broker key nearest to a name that isn't one, or the broker key that a topic key of that name
// follows; "" if none is near.
func (t *Table) similar(name string) string {
	if k := t.Key(TopicScope, name); k != nil && k.Follows != "" {
		return k.Follows
	}
	limit := len(name)/4 + 1
	best := ""
	for _, k := range t.Keys(BrokerScope) {
		if d := distance(name, k.Name, limit); d <= limit && !k.Hidden {
			best, limit = k.Name, d-1
		}
	}
	return best
}

// distance counts the letters to insert, remove, replace or swap with their neighbour to make b of a; it gives up above
// limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
