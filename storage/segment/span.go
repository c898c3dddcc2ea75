package segment

import (
	"slices"
	"sort"
)

// maxSpans bounds the list of verified ranges; at least 3. What is forgotten is verified again.
const maxSpans = 64

// span is a range of bytes, from up to, not including, to.
type span struct{ from, to int64 }

// trust notes that a range was verified, or written by this process. The caller holds mu.
func (s *Segment) trust(from, to int64) { s.verified = addSpan(s.verified, span{from, to}) }

// addSpan adds a range to a sorted list of disjoint ranges, merging those that touch.
func addSpan(spans []span, n span) []span {
	if k := len(spans); k > 0 && spans[k-1].from <= n.from && n.from <= spans[k-1].to {
		spans[k-1].to = max(spans[k-1].to, n.to)
		return spans
	}
	i := sort.Search(len(spans), func(i int) bool { return spans[i].to >= n.from })
	j := i
	for ; j < len(spans) && spans[j].from <= n.to; j++ {
		n.from, n.to = min(n.from, spans[j].from), max(n.to, spans[j].to)
	}
	spans = slices.Replace(spans, i, j, n)
	if len(spans) > maxSpans {
		spans = dropShortest(spans, n)
	}
	return spans
}

// dropShortest forgets the shortest range but keep, and but the last one: what was written and has no index entry yet is in it, and
// can't be verified again.
func dropShortest(spans []span, keep span) []span {
	shortest := -1
	for i, s := range spans[:len(spans)-1] {
		if s != keep && (shortest < 0 || s.to-s.from < spans[shortest].to-spans[shortest].from) {
			shortest = i
		}
	}
	return slices.Delete(spans, shortest, shortest+1)
}

// trusted returns up to where the bytes from a position on are known to be sound; from itself if none are. The caller
// holds mu.
func (s *Segment) trusted(from int64) int64 {
	i := sort.Search(len(s.verified), func(i int) bool { return s.verified[i].to > from })
	if i < len(s.verified) && s.verified[i].from <= from {
		return s.verified[i].to
	}
	return from
}
