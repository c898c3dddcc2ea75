package batch

// summary is what the check of a batch needs to know of records that are formed well.
type summary struct {
	minTimestamp, maxTimestamp int64 // deltas
	nullKey                    bool  // a record has no key
	misplaced                  bool  // a record's offset isn't the one its place gives it
}

// maxDelta bounds the timestamps that summarize deals with, so that sums of two don't overflow.
const maxDelta = 1 << 60

// summarize looks at count records back to back, at least one, without taking them apart: in less than half the time that
// an Iterator takes. It is false for what isn't formed well, of which the Iterator says what is wrong, and for timestamps out
// of all bounds.
//
// Like the Iterator's, its loop is written out. Varints that the loop finds to be one byte long, or two where that is
// usual, cost no call.
func summarize(p []byte, count int32) (s summary, ok bool) {
	s.minTimestamp, s.maxTimestamp = maxDelta, -maxDelta
	i := 0
	for index := range count {
		var size, n, offset int32
		if i+1 < len(p) && p[i] >= 0x80 && p[i+1] < 0x80 {
			size = unzigzag(uint32(p[i]&0x7f) | uint32(p[i+1])<<7)
			i += 2
		} else if size, i = longVarint(p, i); i < 0 {
			return s, false
		}
		if size <= 0 || int(size) > len(p)-i {
			return s, false
		}
		b := p[i : i+int(size)]
		i += int(size)
		k := 1 // behind the attributes
		var timestamp int64
		if k < len(b) && b[k] < 0x80 {
			timestamp = int64(unzigzag(uint32(b[k])))
			k++
		} else if timestamp, k = longVarlong(b, k); k < 0 || timestamp > maxDelta || timestamp < -maxDelta {
			return s, false
		}
		s.minTimestamp, s.maxTimestamp = min(s.minTimestamp, timestamp), max(s.maxTimestamp, timestamp)
		switch {
		case k < len(b) && b[k] < 0x80:
			offset = unzigzag(uint32(b[k]))
			k++
		case k+1 < len(b) && b[k+1] < 0x80:
			offset = unzigzag(uint32(b[k]&0x7f) | uint32(b[k+1])<<7)
			k += 2
		default:
			if offset, k = longVarint(b, k); k < 0 {
				return s, false
			}
		}
		s.misplaced = s.misplaced || offset != index
		if k < len(b) && b[k] == nullLength {
			s.nullKey = true
			k++
		} else {
			if n, k = longVarint(b, k); k < 0 || int(n) > len(b)-k {
				return s, false
			}
			s.nullKey = s.nullKey || n < 0
			k += max(int(n), 0)
		}
		if k+1 < len(b) && b[k] >= 0x80 && b[k+1] < 0x80 {
			n = unzigzag(uint32(b[k]&0x7f) | uint32(b[k+1])<<7)
			k += 2
		} else if n, k = longVarint(b, k); k < 0 {
			return s, false
		}
		k += max(int(n), 0)
		if (k != len(b)-1 || b[k] != 0) && (k >= len(b) || !new(Record).cutHeaders(b[k:])) {
			return s, false
		}
	}
	return s, i == len(p)
}
