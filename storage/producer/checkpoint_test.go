package producer

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
)

// busy is a state with all there can be in one.
func busy(tb testing.TB) *log {
	tb.Helper()
	l := newLog(tb)
	verified := Options{TransactionVerified: true}
	for seq := range int32(7) {
		l.must(sent{id: 4, epoch: 2, seq: seq, n: 1, ts: int64(seq) * 10}, verified)
	}
	l.must(sent{id: 9, seq: 0, n: 3, txn: true, ts: 99}, verified)
	l.must(sent{id: 7, seq: 5, n: 2, txn: true, ts: 98}, verified)
	l.append(marker(2, 1, true, 3, 77))
	return l
}

// The bytes on disk: changing them breaks restarts after an upgrade, unless the version changes too.
func TestCheckpointBytes(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	l.must(sent{id: 1, epoch: 2, seq: 3, n: 4, txn: true, ts: 500}, Options{TransactionVerified: true})
	l.append(marker(5, 6, true, 7, 800))
	const want = "4b42505300010000" + "00000002" +
		"0000000000000001" + "0002" + "ffffffff" + "00000000000001f4" + "0000000000000000" + "01" +
		"00000006" + "00000003" + "0000000000000003" + "00000000000001f4" +
		"0000000000000005" + "0006" + "00000007" + "0000000000000320" + "ffffffffffffffff" + "00"
	got := l.state.Encode([]byte("before"))
	got, ok := bytes.CutPrefix(got, []byte("before"))
	if !ok {
		t.Fatal("what was there before is gone")
	}
	if h := hex.EncodeToString(got[:len(got)-checksumSize]); h != want {
		t.Errorf("%s, want %s", h, want)
	}
	if sum := binary.BigEndian.Uint32(got[len(got)-checksumSize:]); sum != batch.Checksum(got[:len(got)-checksumSize]) {
		t.Errorf("checksum %08x", sum)
	}
}

func TestCheckpointComesBack(t *testing.T) {
	t.Parallel()
	l := busy(t)
	b := l.state.Encode(nil)
	s, err := Decode(b, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s.Producers(), l.state.Producers()) {
		t.Errorf("%+v, want %+v", s.Producers(), l.state.Producers())
	}
	if again := s.Encode(nil); !bytes.Equal(again, b) {
		t.Errorf("%x, then %x", b, again)
	}
	for id, e := range l.state.producers {
		if got := s.producers[id]; got.used != e.used || got.window != e.window {
			t.Errorf("producer %d: window %+v, want %+v", id, got.window, e.window)
		}
	}
	l.state = s
	if dup, err := l.produce(sent{id: 4, epoch: 2, seq: 3, n: 1}, Options{}); err != nil || dup == nil || dup.BaseOffset != 3 {
		t.Errorf("duplicate after a restart: %+v, %v", dup, err)
	}
	if o, ok := s.FirstUnstable(l.end); !ok || o != 7 {
		t.Errorf("first unstable offset %d, %v", o, ok)
	}
	if done, ok := l.append(marker(9, 0, true, 0, 100)); !ok || done.FirstOffset != 7 || done.LastStable != 10 {
		t.Errorf("%+v, %v", done, ok)
	}
}

func TestDecodeRefusesEveryDamage(t *testing.T) {
	t.Parallel()
	whole := busy(t).state.Encode(nil)
	for n := range whole {
		if _, err := Decode(whole[:n], 1000); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[n] ^= 1 << bit
			if _, err := Decode(b, 1000); !errors.Is(err, ErrCheckpoint) {
				t.Errorf("bit %d of byte %d: %v", bit, n, err)
			}
		}
	}
	if _, err := Decode(append(bytes.Clone(whole), 0), 1000); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("a byte behind: %v", err)
	}
}

// sealed gives a checkpoint whose body was changed its right checksum.
func sealed(b []byte) []byte {
	body := b[:len(b)-checksumSize]
	binary.BigEndian.PutUint32(b[len(body):], batch.Checksum(body))
	return b
}

func TestDecodeRefusesWhatNoStateSays(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	l.must(sent{id: 1, seq: 0, n: 2}, Options{})
	l.must(sent{id: 2, seq: 0}, Options{})
	whole := l.state.Encode(nil)
	second := headerSize + producerSize + windowEntrySize
	tests := map[string]struct {
		at   int
		v    []byte
		want error
	}{
		"version 2":              {5, []byte{2}, ErrVersion},
		"flags":                  {7, []byte{1}, ErrVersion},
		"too many producers":     {8, []byte{255, 255, 255, 255}, ErrCheckpoint},
		"one producer more":      {11, []byte{3}, ErrCheckpoint},
		"one producer less":      {11, []byte{1}, ErrCheckpoint},
		"six batches":            {headerSize + 30, []byte{6}, ErrCheckpoint},
		"two batches for one":    {headerSize + 30, []byte{2}, ErrCheckpoint},
		"negative id":            {headerSize, []byte{255}, ErrCheckpoint},
		"the same id twice":      {second + 7, []byte{1}, ErrCheckpoint},
		"transaction from -2":    {headerSize + 22, []byte{255, 255, 255, 255, 255, 255, 255, 254}, ErrCheckpoint},
		"negative sequence":      {headerSize + producerSize, []byte{255}, ErrCheckpoint},
		"negative offset delta":  {headerSize + producerSize + 4, []byte{255}, ErrCheckpoint},
		"base offset below zero": {headerSize + producerSize + 7, []byte{2}, ErrCheckpoint},
	}
	for name, tt := range tests {
		b := bytes.Clone(whole)
		copy(b[tt.at:], tt.v)
		if _, err := Decode(sealed(b), 1000); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Any bytes are decoded or refused, without a panic; what is decoded encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	f.Add(busy(f).state.Encode(nil))
	f.Add(New(0).Encode(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= checksumSize {
			b = sealed(b) // let the fuzzer get behind the checksum
		}
		s, err := Decode(b, 1000)
		if err != nil {
			if !errors.Is(err, ErrCheckpoint) && !errors.Is(err, ErrVersion) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if again := s.Encode(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x became %x", b, again)
		}
		if s.FirstUnstable(0); len(s.Producers()) != s.Len() {
			t.Fatal("producers are missing")
		}
	})
}

func BenchmarkCheckAndAppend(b *testing.B) {
	l := newLog(b)
	batches := make([]batch.Batch, 1000)
	for i := range batches {
		batches[i] = sent{id: int64(i % 100), epoch: -1, seq: int32(i), n: 1}.batch(b)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		x := batches[i%len(batches)]
		if _, err := l.state.Check(x, Options{}); err != nil {
			b.Fatal(err)
		}
		l.append(x)
	}
}
