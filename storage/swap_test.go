package storage

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
)

// goldenSwap is a .swap file; its bytes are drawn in docs/storage-format.md. A change breaks the recovery of compactions that
// were interrupted before an update.
const goldenSwap = "4b42535700010000" + "01020300000000000000000000000000" +
	"00000002" + "0000000000000064" + "00000000000000c8" +
	"00000003" +
	"0000000000000064" + "00000000" + "0000000000001234" + "deadbeef" +
	"0000000000000064" + "00000001" + "0000000000000040" + "00000001" +
	"0000000000000064" + "00000002" + "0000000000000034" + "00000002" +
	"3699dde3"

func exampleSwap() *swap {
	return &swap{
		id: TopicID{1, 2, 3}, replaced: []int64{100, 200}, files: []segment.NewFile{
			{Base: 100, Suffix: segment.SuffixData, Size: 0x1234, CRC: 0xdeadbeef},
			{Base: 100, Suffix: segment.SuffixIndex, Size: 64, CRC: 1},
			{Base: 100, Suffix: segment.SuffixTxnIndex, Size: 52, CRC: 2},
		},
	}
}

func TestSwapFileHasTheBytesOfTheFormat(t *testing.T) {
	t.Parallel()
	s := exampleSwap()
	if got := hex.EncodeToString(s.encode()); got != goldenSwap {
		t.Fatalf("got  %s\nwant %s", got, goldenSwap)
	}
	back, err := decodeSwap(s.name(), s.encode())
	if err != nil || !reflect.DeepEqual(back, s) {
		t.Fatal(back, err)
	}
	if s.name() != "00000000000000000100.swap" {
		t.Error(s.name())
	}
	want := "00000000000000000200.log 00000000000000000200.index 00000000000000000200.txnindex"
	if got := strings.Join(s.superseded(), " "); got != want {
		t.Errorf("superseded: %s", got)
	}
	if n := txnEntries(52); n != 1 {
		t.Errorf("%d entries", n)
	}
}

func TestSwapFileThatDoesNotVerifyIsRefused(t *testing.T) {
	t.Parallel()
	good := exampleSwap().encode()
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			if s, err := decodeSwap("x", b); err == nil {
				t.Fatalf("byte %d, bit %d: %+v", i, bit, s)
			}
		}
		if _, err := decodeSwap("x", good[:i]); !errors.Is(err, errSideFile) {
			t.Fatalf("%d bytes: %v", i, err)
		}
	}
	later := bytes.Clone(good[:len(good)-sideChecksumSize])
	later[5] = 2
	later = binary.BigEndian.AppendUint32(later, batch.Checksum(later))
	var version *segment.VersionError
	if _, err := decodeSwap("x", later); !errors.As(err, &version) || version.Version != 2 {
		t.Error(err)
	}
}

// A replacement that was given up must stay so: were its .swap file to come back without the new files, it would seem finished.
func TestAReplacementGivenUpForRotIsNotFinishedAfterALossOfPower(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		w, d := simWorld(t)
		want := library(t, w)
		w.close()
		dir := filepath.Join("data", topicsName, w.part.Topic, "0")
		s := &swap{id: w.part.ID}
		for name := range partitionFiles(t, w) {
			if base, suffix, ok := segment.ParseFileName(name); ok && suffix == segment.SuffixData {
				s.replaced = append(s.replaced, base)
			}
		}
		slices.Sort(s.replaced)
		s.replaced = s.replaced[:2]
		for _, suffix := range []string{segment.SuffixData, segment.SuffixIndex} {
			f := segment.NewFile{Base: s.replaced[0], Suffix: suffix, Size: 6, CRC: 1}
			must(t, writeSynced(d.Create, filepath.Join(dir, f.TempName()), []byte("rotten")))
			s.files = append(s.files, f)
		}
		must(t, writeSynced(d.Create, filepath.Join(dir, s.name()), s.encode()))
		must(t, d.SyncDir(dir))
		for range 2 {
			w.epoch++
			if n, err := judge(w.open(), want); n != 0 || err != nil {
				t.Fatalf("seed %d: %d damaged, %v", seed, n, err)
			}
			d = d.Crash(rand.New(rand.NewPCG(seed, 1)))
			w.closeMayFail = true
			w.close()
			w.fs = d
		}
	}
}

func FuzzDecodeSwap(f *testing.F) {
	f.Add(exampleSwap().encode()[sideHeaderSize:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := decodeSwap("x", encodeSide(swapMagic, body[:max(len(body)-sideChecksumSize, 0)]))
		if err != nil {
			return
		}
		back, err := decodeSwap("x", s.encode())
		if err != nil || !reflect.DeepEqual(s, back) {
			t.Fatal(s, back, err)
		}
	})
}
