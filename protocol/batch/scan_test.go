package batch

import (
	"bytes"
	"slices"
	"testing"
)

// iterated is what summarize ought to find, by the Iterator. ok is false for records that aren't formed well or have a
// timestamp that summarize leaves alone.
func iterated(p []byte, count int32) (s summary, ok bool) {
	s.minTimestamp, s.maxTimestamp = maxDelta, -maxDelta
	it := Iterate(p, count)
	for index := int32(0); it.Next(); index++ {
		r := it.Record()
		if r.TimestampDelta > maxDelta || r.TimestampDelta < -maxDelta {
			return s, false
		}
		s.minTimestamp, s.maxTimestamp = min(s.minTimestamp, r.TimestampDelta), max(s.maxTimestamp, r.TimestampDelta)
		s.nullKey = s.nullKey || r.Key == nil
		s.misplaced = s.misplaced || r.OffsetDelta != index
	}
	return s, it.Err() == nil
}

func compareWithIterator(t *testing.T, p []byte, count int32) {
	t.Helper()
	got, ok := summarize(p, count)
	want, wantOK := iterated(p, count)
	if ok != wantOK || ok && got != want {
		t.Fatalf("summary of %d records %x is %+v, %v; the iterator finds %+v, %v", count, p, got, ok, want, wantOK)
	}
}

// recordsOfAllShapes has lengths, offsets and times of one to several bytes, with and without keys, values and headers.
func recordsOfAllShapes(tb testing.TB) []Batch {
	tb.Helper()
	b := NewBuilder(plain())
	for i, size := range []int{0, 1, 60, 61, 63, 64, 65, 8190, 8200} {
		value := bytes.Repeat([]byte{byte(i)}, size)
		b.Append(1000+int64(i*i*500), nil, value)
		b.Append(1000-int64(i), []byte("k"), nil)
		b.Append(1000, value, []byte("v"), Header{Key: []byte("h"), Value: value}, Header{Key: []byte("n")})
	}
	mixed, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return []Batch{mixed, benchmarkBatch(tb, 200, 5), benchmarkBatch(tb, 1, 0)}
}

func TestSummaryIsWhatTheIteratorFinds(t *testing.T) {
	t.Parallel()
	for _, b := range recordsOfAllShapes(t) {
		p, count := b.Payload(), b.NumRecords()
		if _, ok := summarize(p, count); !ok {
			t.Fatal("records formed well were refused")
		}
		for _, n := range []int32{count, count - 1, count + 1} {
			compareWithIterator(t, p, n)
		}
		for i := range min(len(p), 700) {
			compareWithIterator(t, p[:i], count)
			for _, x := range []byte{1, 2, 0x7f, 0x80, 0xff} {
				changed := slices.Clone(p)
				changed[i] ^= x
				compareWithIterator(t, changed, count)
			}
		}
	}
}

// FuzzSummarize holds the fast check to the exact one.
func FuzzSummarize(f *testing.F) {
	small := recordsOfAllShapes(f)[1:]
	for _, b := range small {
		f.Add(b.Payload(), b.NumRecords())
	}
	f.Add([]byte{}, int32(1))
	f.Add([]byte("\x14\x00\x02\x04\x02k\x02v\x00\x10\x00\x81\x01\x02\x01\x01\x02\x00"), int32(2))
	f.Fuzz(func(t *testing.T, p []byte, count int32) {
		if count > 0 {
			compareWithIterator(t, p, count)
		}
	})
}
