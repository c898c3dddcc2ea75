package segment

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"
)

// The bytes of an index file. A change here is a change of the format: raise FormatVersion, and say in
// docs/storage-format.md what becomes of files on disk.
func TestGoldenIndex(t *testing.T) {
	t.Parallel()
	h := Header{Base: 1, CreatedMs: 2, Generation: 3}
	if got, want := hex.EncodeToString(h.Append(nil, MagicIndex)), "4b42495800010000000000000000000100000000000000026cf672a200000003"; got != want {
		t.Errorf("header:\n got %s\nwant %s", got, want)
	}
	e := Entry{RelativeOffset: 4, Position: 5, Size: 61, LastDelta: 7, MaxTimestamp: 8, HeadersCRC: 9}
	if got, want := hex.EncodeToString(e.Append(nil, h, 0)), "00000004000000050000003d0000000700000000000000080000000937a7f7b2"; got != want {
		t.Errorf("entry:\n got %s\nwant %s", got, want)
	}
}

func TestAnEntryBelongsToItsPlace(t *testing.T) {
	t.Parallel()
	h := Header{Base: 1, Generation: 3}
	e := Entry{RelativeOffset: 4, Position: 5, Size: 61, LastDelta: 7, MaxTimestamp: -1, HeadersCRC: 9}
	b := e.Append(nil, h, 6)
	if got, ok := DecodeEntry(b, h, 6); !ok || got != e {
		t.Fatalf("%+v %v", got, ok)
	}
	for name, wrong := range map[string]func() (Entry, bool){
		"number":     func() (Entry, bool) { return DecodeEntry(b, h, 7) },
		"base":       func() (Entry, bool) { return DecodeEntry(b, Header{Base: 2, Generation: 3}, 6) },
		"generation": func() (Entry, bool) { return DecodeEntry(b, Header{Base: 1, Generation: 4}, 6) },
		"length":     func() (Entry, bool) { return DecodeEntry(b[:31], h, 6) },
		"zeros":      func() (Entry, bool) { return DecodeEntry(make([]byte, 32), Header{}, 0) },
	} {
		if _, ok := wrong(); ok {
			t.Errorf("other %s accepted", name)
		}
	}
	for i := range b {
		c := bytes.Clone(b)
		c[i] ^= 1
		if _, ok := DecodeEntry(c, h, 6); ok {
			t.Errorf("byte %d flipped and accepted", i)
		}
	}
}

func TestHeaderIsChecked(t *testing.T) {
	t.Parallel()
	h := Header{Base: 1, CreatedMs: 2, Generation: 3}
	good := h.Append(nil, MagicIndex)
	if got, err := DecodeHeader(good, MagicIndex, "x", 1); err != nil || got != h {
		t.Fatalf("%+v %v", got, err)
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 1
		if _, err := DecodeHeader(b, MagicIndex, "x", 1); !errors.Is(err, ErrHeader) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
	}
	if _, err := DecodeHeader(good, MagicIndex, "x", 2); !errors.Is(err, ErrHeader) {
		t.Errorf("another base: %v", err)
	}
	if _, err := DecodeHeader(good, MagicTxnIndex, "x", 1); !errors.Is(err, ErrHeader) {
		t.Errorf("another magic: %v", err)
	}
	if _, err := DecodeHeader(good[:31], MagicIndex, "x", 1); !errors.Is(err, ErrHeader) {
		t.Errorf("cut: %v", err)
	}
	for _, at := range []int{5, 7} {
		b := bytes.Clone(good)
		b[at] ^= 2
		putHeaderChecksum(b)
		var version *VersionError
		if _, err := DecodeHeader(b, MagicIndex, "x", 1); !errors.As(err, &version) || version.File != "x" {
			t.Errorf("byte %d changed soundly: %v", at, err)
		}
	}
}

func putHeaderChecksum(b []byte) { binary.BigEndian.PutUint32(b[24:], headerChecksum(b)) }

func TestFileNames(t *testing.T) {
	t.Parallel()
	if got := FileName(42, SuffixData); got != "00000000000000000042.log" {
		t.Error(got)
	}
	for name, want := range map[string]bool{
		"00000000000000000042.log": true, "00000000000000000042.txnindex": true, "0000000000000000042.log": false,
		"+0000000000000000042.log": false, "-0000000000000000042.log": false, "99999999999999999999.log": false, "snapshot": false,
	} {
		if base, _, ok := ParseFileName(name); ok != want || (ok && base != 42) {
			t.Errorf("%s: %d %v", name, base, ok)
		}
	}
}

// Whatever the bytes: no panic, and what is decoded encodes to the same bytes.
func FuzzIndex(f *testing.F) {
	h := Header{Base: 1, CreatedMs: 2, Generation: 3}
	f.Add(h.Append(nil, MagicIndex))
	f.Add(Entry{Size: 61}.Append(nil, h, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= HeaderSize {
			putHeaderChecksum(b)
		}
		if got, err := DecodeHeader(b, MagicIndex, "x", 1); err == nil && !bytes.Equal(got.Append(nil, MagicIndex), b[:HeaderSize]) {
			t.Error("header")
		}
		if e, ok := DecodeEntry(b, h, 0); ok && !bytes.Equal(e.Append(nil, h, 0), b[:EntrySize]) {
			t.Error("entry")
		}
	})
}

func TestSpansMergeAndStayBounded(t *testing.T) {
	t.Parallel()
	var spans []span
	for _, s := range []span{{10, 20}, {30, 40}, {20, 30}, {0, 5}, {4, 11}} {
		spans = addSpan(spans, s)
	}
	if len(spans) != 1 || spans[0] != (span{0, 40}) {
		t.Fatalf("%v", spans)
	}
	for i := range int64(200) {
		spans = addSpan(spans, span{100 * i, 100*i + 50})
	}
	if len(spans) > maxSpans {
		t.Fatalf("%d spans", len(spans))
	}
	s := &Segment{verified: spans}
	for i := range spans {
		if got := s.trusted(spans[i].from); got != spans[i].to {
			t.Fatalf("%v: %d", spans[i], got)
		}
		if got := s.trusted(spans[i].to); got != spans[i].to {
			t.Fatalf("after %v: %d", spans[i], got)
		}
	}
}
