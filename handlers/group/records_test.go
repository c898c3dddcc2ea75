package group

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
)

func sampleRecords() map[string][]byte {
	r := classicRecord{
		generation: 7, protocolType: "consumer", protocol: "range", leader: "m", emptySinceMs: 5,
		members: []*member{{
			id: "m", instance: kmsg.StringPtr("i"), clientID: "c", clientHost: "/h", session: 6 * time.Second, rebalance: time.Second,
			protocols: []protocolChoice{{"range", []byte{1, 2}}}, assignment: []byte{3},
		}},
	}
	x := (*txnOffsets)(nil).with(2)
	x.set("a", 1, meta.Cursor{Offset: 9, LeaderEpoch: -1, Metadata: "x", CommitMs: 3, ExpireMs: -1})
	topic := topicID{1, 2}
	consumer := consumerRecord{epoch: 5, assignmentEpoch: 4, metadataHash: 3, regexes: map[string][]string{"a.*": {"a1"}}}
	native := &consumerMember{
		id: "m", instance: kmsg.StringPtr("i"), clientID: "c", clientHost: "/h", rebalance: time.Second, names: []string{"a"},
		regex: "b", assignor: "range", epoch: 4, previousEpoch: 3, state: memberUnrevoked,
		assigned: assignment{topic: {{1, 2}}}, revoking: assignment{topic: {{2, 3}}}, target: assignment{topic: {{1, 0}}},
	}
	classic := *native
	classic.classic = &classicSide{session: 6 * time.Second, protocols: []protocolChoice{{"range", []byte{1}}}}
	return map[string][]byte{
		"consumer": consumer.encode(), "native": native.encode(), "classic member": classic.encode(), "classic": r.encode(), "mark": mark{7, 9}.encode(), "txn": x.encode(),
	}
}

// A change here means that groups written by an earlier version can't be read any more: raise layoutVersion and read both.
func TestRecordsHaveTheLayoutThatIsWrittenDown(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"classic": "43010e10636f6e73756d65720a72616e6765026d0a02026d01026902" + "63042f68e05dd00f020a72616e676504010202" + "03",
		"mark":    "52010e12",
		"txn":     "540104020261020212010278" + "06",

		"consumer": "4b010a0806020661" + "2e2a02046131",
		"native": "4d01026d0102690002630" + "42f68d00f0202610262" + "0a72616e6765" + "00" + "080602" +
			"02" + "01020000000000000000000000000000" + "020204" + "02" + "01020000000000000000000000000000" + "020406" +
			"02" + "01020000000000000000000000000000" + "020200",
	} {
		if got := hex.EncodeToString(sampleRecords()[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// decodeAny reads a record by its kind and writes it again.
func decodeAny(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, errRecord
	}
	switch b[0] {
	case kindClassic:
		r, err := decodeClassic(b)
		return r.encode(), err
	case kindMark:
		m, err := decodeMark(b)
		return m.encode(), err
	case kindConsumer:
		r, err := decodeConsumer(b)
		return r.encode(), err
	case kindMember:
		m, err := decodeConsumerMember(b)
		return m.encode(), err
	case kindTxn:
		x, err := decodeTxn(b)
		return x.encode(), err
	default:
		return nil, errRecord
	}
}

func TestACutOrProlongedRecordIsRefused(t *testing.T) {
	t.Parallel()
	for name, whole := range sampleRecords() {
		for cut := range whole {
			if _, err := decodeAny(whole[:cut]); !errors.Is(err, errRecord) {
				t.Errorf("%s cut to %d bytes: %v", name, cut, err)
			}
		}
		if _, err := decodeAny(append(bytes.Clone(whole), 0)); !errors.Is(err, errRecord) {
			t.Errorf("%s with a byte more: %v", name, err)
		}
		other := bytes.Clone(whole)
		other[1]++
		if _, err := decodeAny(other); !errors.Is(err, errRecord) {
			t.Errorf("%s of another version: %v", name, err)
		}
	}
}

// FuzzRecord: whatever the store holds, a record is read or refused without a panic, and what was read and written again
// reads the same.
func FuzzRecord(f *testing.F) {
	for _, record := range sampleRecords() {
		f.Add(record)
	}
	f.Add([]byte{kindClassic, layoutVersion, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		once, err := decodeAny(b)
		if err != nil {
			return
		}
		twice, err := decodeAny(once)
		if err != nil || len(twice) != len(once) {
			t.Fatalf("%x was written as %x, which reads as %x, %v", b, once, twice, err)
		}
	})
}

func TestKeysOfPartsAreReadBack(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"", "g", "\x00", "\x00\x01", "\x00\xff", "a\x00\x00b\xff", "\xff"} {
		for _, c := range []struct{ key, part string }{
			{groupKey(group), ""}, {markKey(group), partMark}, {txnKey(group, 5), partTxn + "\x00\x00\x00\x00\x00\x00\x00\x05"},
		} {
			name, part, err := splitKey(c.key)
			if err != nil || name != group || part != c.part {
				t.Errorf("%q is read as group %q, part %q, %v", c.key, name, part, err)
			}
		}
	}
}

func TestABadRecordIsNamedAndNothingStarts(t *testing.T) {
	t.Parallel()
	for key, record := range map[string][]byte{
		"g":                      {kindClassic, layoutVersion},
		"g\x00":                  nil,
		"g\x00\x09":              {1},
		markKey("g"):             {kindTxn, layoutVersion},
		"g\x00" + partTxn + "12": nil,
	} {
		b := newTestBroker(t)
		b.store.groups[key] = record
		if _, err := New(Options{Store: b.store, Clock: b.clock}); !errors.Is(err, errRecord) {
			t.Errorf("record %q: %v", key, err)
		}
	}
}
