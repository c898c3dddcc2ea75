package meta

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/storage"
)

// The bytes below are what stores out there hold: when one of these tests fails, formatVersion has to rise and the old
// format still be read.
func TestValuesHaveTheBytesTheyAlwaysHad(t *testing.T) {
	t.Parallel()
	id := storage.TopicID{0: 0xaa, 15: 0xbb}
	topic := Topic{ID: id, Partitions: 3, EpochBase: 2, CreatedMs: 5, Configs: map[string]string{"b": "", "a": "xy"}}
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{
			"cursor", Cursor{Offset: 7, LeaderEpoch: -1, Metadata: "m", CommitMs: 8, ExpireMs: -1}.append(nil),
			"01 0000000000000007 ffffffff 0000000000000008 ffffffffffffffff 6d",
		},
		{
			"topic", topic.encode(),
			"01 aa0000000000000000000000000000bb 00000003 00000002 0000000000000005 02 0161 027879 0162 00",
		},
		{"log start", encodeLogStart(id, 9), "01 aa0000000000000000000000000000bb 0000000000000009"},
		{"broker", brokerRecord{clean: true, epoch: 4, createdMs: 6}.encode(), "01 01 00000004 0000000000000006"},
		{"number", encodeNumber(10), "01 000000000000000a"},
		{"config", encodeConfig(nil), "01 00"},
		{"pointer", versioned("x"), "01 78"},
		{
			"proof", proof{kind: kindLog, number: 2, length: 188, sum: 0x01020304}.encode(),
			"6b627072 01 01 0000 0000000000000002 00000000000000bc 01020304 78ce3ddd",
		},
	}
	for _, tt := range tests {
		if got, want := hex.EncodeToString(tt.got), strings.ReplaceAll(tt.want, " ", ""); got != want {
			t.Errorf("%s: %s, want %s", tt.name, got, want)
		}
	}
}

func TestKeysHaveTheBytesTheyAlwaysHad(t *testing.T) {
	t.Parallel()
	var b Batch
	b.PutCursor("a/b%", TopicPartition{"t.1", 12}, Cursor{})
	b.DeleteGroup("g/")
	b.DeleteTransaction("")
	b.remove(topicKey("t"))
	b.remove(partitionKey("t", 3))
	b.remove(configKey("broker", ""))
	b.remove(brokerRecordKey(4))
	b.remove(clusterRecordKey("c"))
	want := []string{
		"cursor/a%2Fb%25/t.1/12", "group/g%2F", "txn/", "topic/t", "partition/t/3", "config/broker/", "broker/4", "cluster/c",
	}
	from := 0
	for i, o := range b.ops {
		if got := string(b.data[from:o.key]); got != want[i] {
			t.Errorf("key %q, want %q", got, want[i])
		}
		from = o.end
	}
}

func TestDecodersRefuse(t *testing.T) {
	t.Parallel()
	topic := (&Topic{Configs: map[string]string{"a": "b", "c": "d"}}).encode()
	tests := map[string][]byte{
		"nothing":            {},
		"a cut value":        topic[:len(topic)-1],
		"a value too long":   append(bytes.Clone(topic), 0),
		"a setting twice":    bytes.Replace(topic, []byte("\x01c"), []byte("\x01a"), 1),
		"too many settings":  append(bytes.Clone(topic[:33]), 0xff, 0xff, 0xff, 0xff, 0x0f),
		"an endless uvarint": append(bytes.Clone(topic[:33]), bytes.Repeat([]byte{0xff}, 20)...),
	}
	for name, value := range tests {
		if _, err := decodeTopic("t", value); !errors.Is(err, errValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := decodeTopic("t", []byte{2}); !errors.Is(err, ErrSchema) {
		t.Errorf("newer version: %v", err)
	}
	if _, err := decodeBroker([]byte{1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}); !errors.Is(err, errValue) {
		t.Errorf("broker that is neither clean nor unclean: %v", err)
	}
}

// What is decoded from a key and encoded again is that key, so that no two keys mean the same.
func FuzzKeys(f *testing.F) {
	for _, key := range []string{
		"cursor/a%2Fb/t/1", "cursor/g/t/-1", "cursor/g/t/01", "cursor/%", "partition/t/2147483648", "group/%2f", "group//",
	} {
		f.Add([]byte(key))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		if group, tp, err := parseCursorKey(key); err == nil {
			if again := appendCursorKey(nil, group, tp); !bytes.Equal(again, key) {
				t.Errorf("%q became %q", key, again)
			}
		}
		if topic, partition, err := parsePartitionKey(key); err == nil {
			if again := partitionKey(topic, partition); !bytes.Equal(again, key) {
				t.Errorf("%q became %q", key, again)
			}
		}
		for _, prefix := range []string{groupPrefix, configPrefix} {
			for count := 1; count <= 2; count++ {
				if parts, err := keyParts(key, prefix, count); err == nil {
					if again := appendKey(nil, prefix, parts...); !bytes.Equal(again, key) {
						t.Errorf("%q became %q", key, again)
					}
				}
			}
		}
	})
}

// What is put into a key comes out of it.
func FuzzKeyParts(f *testing.F) {
	f.Add("a/b", "%", int32(-1))
	f.Fuzz(func(t *testing.T, group, topic string, partition int32) {
		tp := TopicPartition{topic, partition}
		gotGroup, gotTP, err := parseCursorKey(appendCursorKey(nil, group, tp))
		if err != nil || gotGroup != group || gotTP != tp {
			t.Errorf("%q %v became %q %v, %v", group, tp, gotGroup, gotTP, err)
		}
	})
}

// No value makes a decoder panic, and what one accepts is encoded as something it decodes to the same again.
func FuzzValues(f *testing.F) {
	f.Add(Cursor{Offset: 1, Metadata: "m"}.append(nil))
	f.Add((&Topic{Configs: map[string]string{"a": "b"}}).encode())
	f.Add(encodeLogStart(storage.TopicID{}, 1))
	f.Add(brokerRecord{clean: true}.encode())
	f.Add(encodeNumber(1))
	f.Add(proof{kind: kindManifest, length: 5}.encode())
	f.Fuzz(func(t *testing.T, value []byte) {
		if c, err := decodeCursor(value); err == nil && !bytes.Equal(c.append(nil), value) {
			t.Errorf("cursor %x became %x", value, c.append(nil))
		}
		if topic, err := decodeTopic("t", value); err == nil {
			again, err := decodeTopic("t", topic.encode())
			if err != nil || !reflect.DeepEqual(topic, again) {
				t.Errorf("topic %+v became %+v, %v", topic, again, err)
			}
		}
		if settings, err := decodeConfig(value); err == nil {
			again, err := decodeConfig(encodeConfig(settings))
			if err != nil || !reflect.DeepEqual(settings, again) {
				t.Errorf("settings %v became %v, %v", settings, again, err)
			}
		}
		if id, start, err := decodeLogStart(value); err == nil && !bytes.Equal(encodeLogStart(id, start), value) {
			t.Errorf("log start %x", value)
		}
		if b, err := decodeBroker(value); err == nil && !bytes.Equal(b.encode(), value) {
			t.Errorf("broker %x", value)
		}
		if n, err := decodeNumber(value); err == nil && !bytes.Equal(encodeNumber(n), value) {
			t.Errorf("number %x", value)
		}
		if p, ok, err := decodeProof(value); ok && err == nil && !bytes.Equal(p.encode(), value) {
			t.Logf("proof %x has reserved bytes set", value)
		}
	})
}

func TestTornProofLeavesTheOneBefore(t *testing.T) {
	t.Parallel()
	whole := proof{kind: kindLog, number: 2, length: 188}.encode()
	for i := range whole {
		torn := bytes.Clone(whole)
		torn[i] ^= 0x40
		if p, ok, err := decodeProof(torn); ok || err != nil {
			t.Errorf("byte %d changed: %+v, %v", i, p, err)
		}
	}
}
