package storage

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
)

// The bytes of the side files. A change here is a change of the format: raise the version, and say in
// docs/storage-format.md what becomes of files on disk.
func TestGoldenSideFiles(t *testing.T) {
	t.Parallel()
	id := TopicID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		idName:     {encodeID(id), "4b42494400010000000102030405060708090a0b0c0d0e0fc1693e2b"},
		epochsName: {encodeEpochs([]epochStart{{0, 0}, {3, 17}}), "4b424550000100000000000000000000000000000000000300000000000000113709295a"},
		"txnindex": {
			encodeAborted(5, []abortedTxn{{producerID: 890, firstOffset: 6, lastOffset: 9, lastStable: 6}}),
			"4b425458000100000000000000000005000000000000037a0000000000000006000000000000000900000000000000062bc883db",
		},
		snapshotName: {(&snapshot{
			id: id, end: 100, start: 7, base: 50, size: 4096, entries: 3, generation: 0,
			aborted: map[int64]int{5: 1}, producers: []byte("state"),
		}).encode(), "4b42534e00010000000102030405060708090a0b0c0d0e0f" + "0000000000000064" + "0000000000000007" +
			"0000000000000032" + "0000000000001000" + "00000003" + "00000000" +
			"00000001" + "0000000000000005" + "00000001" + "00000005" + "7374617465" + "ff1ce697"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestSideFilesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	list := []epochStart{{0, 0}, {3, 17}, {4, 20}}
	if got, err := decodeEpochs(encodeEpochs(list)); err != nil || !slices.Equal(got, list) {
		t.Errorf("%v %v", got, err)
	}
	aborted := []abortedTxn{{1, 2, 3, 4}, {5, 6, 7, 8}}
	if got, err := decodeAborted(9, encodeAborted(9, aborted)); err != nil || !slices.Equal(got, aborted) {
		t.Errorf("%v %v", got, err)
	}
	if _, err := decodeAborted(8, encodeAborted(9, aborted)); !errors.Is(err, errSideFile) {
		t.Errorf("of another segment: %v", err)
	}
	s := &snapshot{
		id: TopicID{1}, end: 1 << 40, start: 3, base: 1 << 39, size: 77, entries: 5, generation: 2,
		aborted: map[int64]int{1: 2, 1 << 38: 3}, producers: []byte{1, 2},
	}
	got, err := decodeSnapshot(s.encode())
	if err != nil || !maps.Equal(got.aborted, s.aborted) || !reflect.DeepEqual(got, s) {
		t.Errorf("%+v %v", got, err)
	}
}

func TestAnUnknownVersionIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, at := range []int{5, 7} { // version, flags
		b := encodeID(TopicID{1})
		b[at] ^= 2
		b = resum(b)
		var version *segment.VersionError
		if _, err := decodeID(b); !errors.As(err, &version) || version.File != idName {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

// Whatever the bytes: no panic, and what is decoded encodes to the same bytes.
func FuzzSideFiles(f *testing.F) {
	f.Add(encodeID(TopicID{1}))
	f.Add(encodeEpochs([]epochStart{{0, 0}, {3, 17}}))
	f.Add(encodeAborted(0, []abortedTxn{{1, 2, 3, 4}}))
	f.Add((&snapshot{end: 5, aborted: map[int64]int{1: 2}, producers: []byte{1}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		b = resum(b)
		if id, err := decodeID(b); err == nil && !slices.Equal(encodeID(id), b) {
			t.Error("id")
		}
		if list, err := decodeEpochs(b); err == nil && !slices.Equal(encodeEpochs(list), b) {
			t.Error("epochs")
		}
		if list, err := decodeAborted(0, b); err == nil && !slices.Equal(encodeAborted(0, list), b) {
			t.Error("aborted transactions")
		}
		if s, err := decodeSnapshot(b); err == nil && len(s.aborted) < 2 && !slices.Equal(s.encode(), b) {
			t.Error("snapshot")
		}
	})
}

// resum makes the last four bytes the checksum of the rest.
func resum(b []byte) []byte {
	if len(b) < sideChecksumSize {
		return b
	}
	b = slices.Clone(b)
	binary.BigEndian.PutUint32(b[len(b)-sideChecksumSize:], batch.Checksum(b[:len(b)-sideChecksumSize]))
	return b
}
