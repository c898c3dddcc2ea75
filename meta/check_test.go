package meta

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// checkedStore is a store with a topic of two partitions, closed.
func checkedStore(t *testing.T) (*simdisk.Disk, *Topic) {
	t.Helper()
	disk := simdisk.New(1)
	s := open(t, disk, testOptions())
	topic, err := createTopic(s, Topic{Name: "orders", Partitions: 2})
	if err == nil {
		err = s.SetLogStart(topic.ID, 1, 42)
	}
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	return disk, topic
}

// check checks a store, and that nothing is changed.
func check(t *testing.T, disk *simdisk.Disk, records CheckRecords) *Checked {
	t.Helper()
	disk.OnOp(func(op simdisk.Op) error {
		if op.Kind.Changes() {
			t.Errorf("%v", op)
		}
		return nil
	})
	defer disk.OnOp(nil)
	c, err := Check(disk, testDir, testOptions(), records)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheckKnowsWhatTheStoreKnows(t *testing.T) {
	t.Parallel()
	disk, topic := checkedStore(t)
	c := check(t, disk, CheckRecords{})
	if !c.Sound() || c.Missing || len(c.Findings) > 0 || c.Keys == 0 || c.NodeID != 1 {
		t.Errorf("%+v", c)
	}
	if got := c.Topics.Named("orders"); got == nil || got.ID != topic.ID || got.Partitions != 2 {
		t.Errorf("%+v", got)
	}
	if c.LogStart(topic.ID, 1) != 42 || c.LogStart(topic.ID, 0) != 0 {
		t.Errorf("log starts %d and %d", c.LogStart(topic.ID, 1), c.LogStart(topic.ID, 0))
	}
}

func TestCheckTellsAMissingStoreFromADamagedOne(t *testing.T) {
	t.Parallel()
	if c := check(t, simdisk.New(1), CheckRecords{}); !c.Missing || c.Sound() || len(c.Findings) > 0 {
		t.Errorf("no directory: %+v", c)
	}
	disk, _ := checkedStore(t)
	names, err := disk.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	log := names[slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, ".log") })]
	if err = disk.FlipBit(filepath.Join(testDir, log), 8*30); err != nil {
		t.Fatal(err)
	}
	c := check(t, disk, CheckRecords{})
	if c.Missing || c.Sound() || len(c.Findings) != 1 {
		t.Fatalf("%+v", c)
	}
	if kind := c.Findings[0].Kind; !strings.Contains(kind, log) || !strings.Contains(kind, "restore this directory from a copy") {
		t.Errorf("it isn't said what is damaged and what to do: %s", kind)
	}
}

// Each key that can't be read is named, and the others are read all the same.
func TestCheckNamesTheKeysThatCanNotBeRead(t *testing.T) {
	t.Parallel()
	refuse := func(string, []byte) error { return errors.New("refused") }
	for name, c := range map[string]struct {
		key     []byte
		value   []byte
		records CheckRecords
	}{
		"topic":                    {key: topicKey("bad"), value: []byte{9}},
		"log start":                {key: partitionKey("bad", 0), value: []byte{9}},
		"partition's key":          {key: []byte(partitionPrefix + "x"), value: []byte{9}},
		"configuration":            {key: configKey("broker", "1"), value: []byte{9}},
		"committed offset":         {key: appendCursorKey(nil, "g", TopicPartition{Topic: "t"}), value: []byte{9}},
		"group's envelope":         {key: appendKey(nil, groupPrefix, "g"), value: nil},
		"group's record":           {key: appendKey(nil, groupPrefix, "g"), value: versioned("x"), records: CheckRecords{Group: refuse}},
		"transaction's record":     {key: appendKey(nil, txnPrefix, "t"), value: versioned("x"), records: CheckRecords{Transaction: refuse}},
		"producer ids":             {key: []byte(producerKey), value: []byte{9}},
		"schema of a later broker": {key: []byte(schemaKey), value: binary.BigEndian.AppendUint64(nil, uint64(schemaVersion)+1)},
		"node id":                  {key: []byte(brokerKey), value: versioned("x")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, topic := checkedStore(t)
			set(t, disk, c.key, c.value)
			got := check(t, disk, c.records)
			if got.Sound() || len(got.Findings) != 1 || got.Findings[0].Name != string(c.key) || !got.Findings[0].Damage {
				t.Fatalf("%+v", got)
			}
			if got.Topics.WithID(topic.ID) == nil || got.LogStart(topic.ID, 1) != 42 {
				t.Error("what can be read isn't known")
			}
		})
	}
}

func TestCheckMissesTheSchema(t *testing.T) {
	t.Parallel()
	disk, _ := checkedStore(t)
	set(t, disk, []byte(schemaKey), nil)
	if c := check(t, disk, CheckRecords{}); c.Sound() || c.Missing || len(c.Findings) != 1 || c.Findings[0].Name != schemaKey {
		t.Errorf("%+v", c)
	}
}

// set changes a key behind the store's back; nil deletes the schema.
func set(t *testing.T, disk *simdisk.Disk, key, value []byte) {
	t.Helper()
	o := testOptions()
	o.setDefaults()
	e, err := openEngine(disk, testDir, &o)
	if err != nil {
		t.Fatal(err)
	}
	if value == nil && string(key) == schemaKey {
		err = e.db.Delete(key, pebble.Sync)
	} else {
		err = e.db.Set(key, value, pebble.Sync)
	}
	if err = errors.Join(err, e.close()); err != nil {
		t.Fatal(err)
	}
}
