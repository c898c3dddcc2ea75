package group

import "unicode/utf16"

// mostVoted is the name that most votes are for; "" if there are none. A draw goes to the name that comes first in the
// hash table that Apache Kafka counts votes in, so that a group works by the same protocol on either broker.
func mostVoted(votes []string) string {
	count := make(map[string]int)
	var names []string // by first vote
	for _, name := range votes {
		if count[name]++; count[name] == 1 {
			names = append(names, name)
		}
	}
	best, slot := "", uint32(0)
	for i, name := range names {
		s := tableSlot(name, len(names))
		if i == 0 || count[name] > count[best] || count[name] == count[best] && s < slot {
			best, slot = name, s
		}
	}
	return best
}

// tableSlot is a name's place among the slots of a java.util.HashMap of so many entries: 16 slots, twice as many each time
// that three quarters are taken.
func tableSlot(name string, entries int) uint32 {
	slots := uint32(16)
	for 4*uint32(entries) > 3*slots {
		slots *= 2
	}
	hash := uint32(0)
	for _, unit := range utf16.Encode([]rune(name)) {
		hash = 31*hash + uint32(unit)
	}
	return (hash ^ hash>>16) & (slots - 1)
}
