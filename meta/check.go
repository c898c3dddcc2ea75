package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/kbroker/kbroker/storage"
	"github.com/kbroker/kbroker/storage/vfs"
)

// CheckFinding is something that Check has to say.
type CheckFinding struct {
	Name string // of a file in the store's directory, or a key; "" for the store as a whole
	// Damage says that something that had been durable can't be read; else it is a note.
	Damage bool
	Kind   string
}

// Checked is what Check found.
type Checked struct {
	Missing  bool // there is no store
	Keys     int
	NodeID   int32 // the broker it belongs to; 0 if unknown
	Topics   *Topics
	Findings []CheckFinding

	starts map[logKey]int64
}

// Sound says that the store is there and everything in it can be read.
func (c *Checked) Sound() bool {
	for _, f := range c.Findings {
		if f.Damage {
			return false
		}
	}
	return !c.Missing
}

// LogStart is what Store.LogStart would say.
func (c *Checked) LogStart(id storage.TopicID, partition int32) int64 {
	return c.starts[logKey{id, partition}]
}

// CheckRecords reads the records of the coordinators, which this package doesn't know.
type CheckRecords struct {
	Group       func(key string, record []byte) error
	Transaction func(id string, record []byte) error
}

// Check opens the store in a directory without changing it, reads every key and value, and says what can't be read. No
// broker may be running on it. The error is of the disk.
func Check(disk vfs.FS, dir string, o Options, records CheckRecords) (*Checked, error) {
	o.setDefaults()
	c := &Checked{Topics: NewTopics(nil), starts: map[logKey]int64{}}
	names, err := disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !holdsStore(names)) {
		c.Missing = true
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("check metadata store %s: %w", dir, err)
	}
	e, err := openEngine(vfs.Overlay(disk), dir, &o)
	if err != nil {
		c.bad("", explain(err))
		return c, nil
	}
	k := &checker{Checked: c, records: records}
	if err = k.read(e); err != nil {
		c.bad("", explain(err))
	}
	if err = e.failed(); err != nil {
		c.bad("", explain(err))
	}
	_ = e.close() // what it would write isn't kept
	return c, nil
}

// holdsStore says whether there is more in a directory than what a broker makes before it opens the store.
func holdsStore(names []string) bool {
	for _, name := range names {
		if name != lockName && name != proofName {
			return true
		}
	}
	return false
}

func (c *Checked) bad(name string, err error) {
	c.Findings = append(c.Findings, CheckFinding{Name: name, Damage: true, Kind: err.Error()})
}

// checker reads everything in a store.
type checker struct {
	*Checked
	records CheckRecords
	topics  []*Topic
	schema  bool
}

func (k *checker) read(e *engine) error {
	it, err := e.db.NewIter(nil)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, valueErr := it.ValueAndErr()
		if valueErr != nil {
			return errors.Join(valueErr, it.Close())
		}
		k.Keys++
		key := string(it.Key())
		if err = k.key(key, value); err != nil {
			k.bad(key, err)
		}
	}
	err = errors.Join(it.Error(), it.Close())
	k.Topics = NewTopics(k.topics)
	if err == nil && !k.schema {
		k.Missing = k.Keys == 0 // what a start that was refused leaves
		if !k.Missing {
			k.bad(schemaKey, errors.New("is missing"))
		}
	}
	return err
}

// key checks one key and its value.
func (k *checker) key(key string, value []byte) error {
	switch {
	case key == schemaKey:
		k.schema = true
		return checkSchema(value)
	case key == producerKey:
		_, err := decodeNumber(value)
		return err
	case key == clusterKey, key == brokerKey:
		return k.pointer(key, value)
	case strings.HasPrefix(key, clusterPrefix):
		_, err := decodeNumber(value)
		return err
	case strings.HasPrefix(key, brokerPrefix):
		_, err := decodeBroker(value)
		return err
	case strings.HasPrefix(key, topicPrefix):
		return k.topic(key, value)
	case strings.HasPrefix(key, partitionPrefix):
		return k.partition(key, value)
	case strings.HasPrefix(key, cursorPrefix):
		_, err := decodeCursor(value)
		if err == nil {
			_, _, err = parseCursorKey([]byte(key))
		}
		return err
	case strings.HasPrefix(key, groupPrefix):
		return checkRecord(key, value, groupPrefix, k.records.Group)
	case strings.HasPrefix(key, txnPrefix):
		return checkRecord(key, value, txnPrefix, k.records.Transaction)
	case strings.HasPrefix(key, configPrefix):
		_, err := decodeConfig(value)
		if err == nil {
			_, err = keyParts([]byte(key), configPrefix, 2)
		}
		return err
	}
	_, err := unversioned(value)
	return err
}

func checkSchema(value []byte) error {
	if len(value) != 8 {
		return errValue
	}
	if found := int64(binary.BigEndian.Uint64(value)); found != schemaVersion {
		return fmt.Errorf("%w: %d, this build knows %d", ErrSchema, found, schemaVersion)
	}
	return nil
}

func (k *checker) pointer(key string, value []byte) error {
	id, err := unversioned(value)
	if err != nil || key != brokerKey {
		return err
	}
	node, err := strconv.ParseInt(string(id), 10, 32)
	k.NodeID = int32(node)
	if err != nil {
		return fmt.Errorf("%w: node id %q", errValue, id)
	}
	return nil
}

func (k *checker) topic(key string, value []byte) error {
	parts, err := keyParts([]byte(key), topicPrefix, 1)
	if err != nil {
		return err
	}
	t, err := decodeTopic(parts[0], value)
	if err == nil {
		k.topics = append(k.topics, t)
	}
	return err
}

func (k *checker) partition(key string, value []byte) error {
	_, number, err := parsePartitionKey([]byte(key))
	if err != nil {
		return err
	}
	id, start, err := decodeLogStart(value)
	if err == nil {
		k.starts[logKey{id, number}] = start
	}
	return err
}

// checkRecord checks the record of a coordinator.
func checkRecord(key string, value []byte, prefix string, read func(string, []byte) error) error {
	parts, err := keyParts([]byte(key), prefix, 1)
	if err != nil {
		return err
	}
	b, err := unversioned(value)
	if err != nil || read == nil {
		return err
	}
	return read(parts[0], b)
}
