package group

import (
	"strconv"
	"testing"
)

func TestMostVoted(t *testing.T) {
	t.Parallel()
	many := func(n int, last ...string) []string {
		var votes []string
		for i := range n {
			votes = append(votes, "p"+strconv.Itoa(i))
		}
		return append(votes, last...)
	}
	for name, c := range map[string]struct {
		votes []string
		want  string
	}{
		"nobody votes":                            {nil, ""},
		"the majority":                            {[]string{"a", "b", "b"}, "b"},
		"a draw, whoever voted first":             {[]string{"c", "b"}, "b"},
		"a draw, not by the alphabet":             {[]string{"range", "uniform"}, "uniform"},
		"a draw of classic protocols":             {[]string{"roundrobin", "range", "sticky", "cooperative-sticky"}, "sticky"},
		"a draw of names in one slot":             {[]string{"uniform", "a"}, "uniform"},
		"a draw of names in one slot, turned":     {[]string{"a", "uniform"}, "a"},
		"the empty name":                          {[]string{""}, ""},
		"a draw that more names would decide":     {many(0, "q", "a"), "q"},
		"more names make more slots":              {many(12, "q", "a", "q", "a"), "a"},
		"characters beyond the basic plane count": {[]string{"\U0001F600", "a"}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := mostVoted(c.votes); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
