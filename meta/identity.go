package meta

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
)

// schemaVersion is the version of keys and values as a whole. A store with another one is refused.
const schemaVersion int64 = 1

// identity is who the cluster and the broker are.
type identity struct {
	cluster string
	broker  brokerRecord
	fresh   bool // the store was made by this start
}

// ClusterID is the cluster's id: 22 characters of URL base64. It never changes.
func (s *Store) ClusterID() string { return s.ids.cluster }

// Epoch is the broker's start counter: 0 at the first start, one more at each start that didn't follow a [Store.Close],
// and so may have lost what wasn't durable. It doesn't change while the store is open.
func (s *Store) Epoch() int32 { return s.ids.broker.epoch }

// loadIdentity reads the schema version and who the cluster and the broker are, or decides on it.
func (s *Store) loadIdentity() error {
	version, err := s.get([]byte(schemaKey))
	switch {
	case err != nil:
		return err
	case version == nil && s.opts.Existing:
		return ErrMissing
	case version == nil:
		return s.newIdentity()
	case len(version) != 8:
		return fmt.Errorf("%s: %w", schemaKey, errValue)
	}
	if found := int64(binary.BigEndian.Uint64(version)); found != schemaVersion {
		return fmt.Errorf("%w: schema version %d, this broker knows %d", ErrSchema, found, schemaVersion)
	}
	if err = s.loadCluster(); err != nil {
		return err
	}
	return s.loadBroker()
}

func (s *Store) newIdentity() error {
	id, err := s.newID()
	if err != nil {
		return err
	}
	s.ids = identity{
		cluster: base64.RawURLEncoding.EncodeToString(id[:]),
		broker:  brokerRecord{createdMs: clock.UnixMilli(s.opts.Clock)},
		fresh:   true,
	}
	return nil
}

func (s *Store) loadCluster() error {
	id, err := s.pointer(clusterKey)
	if err != nil {
		return err
	}
	record, err := s.get(clusterRecordKey(id))
	if err != nil {
		return err
	}
	if _, err = decodeNumber(record); err != nil {
		return fmt.Errorf("cluster %s: %w", id, err)
	}
	s.ids.cluster = id
	return nil
}

func (s *Store) loadBroker() error {
	id, err := s.pointer(brokerKey)
	if err != nil {
		return err
	}
	if id != strconv.Itoa(int(s.opts.NodeID)) {
		return fmt.Errorf("%w: it belongs to the broker with node.id %s, and this one has %d: "+
			"set node.id back, or give this broker a data directory of its own", ErrNodeID, id, s.opts.NodeID)
	}
	record, err := s.get(brokerRecordKey(s.opts.NodeID))
	if err != nil {
		return err
	}
	if s.ids.broker, err = decodeBroker(record); err != nil {
		return fmt.Errorf("broker %s: %w", id, err)
	}
	if !s.ids.broker.clean {
		s.ids.broker.epoch++
	}
	return nil
}

// pointer reads the id of the current cluster or broker.
func (s *Store) pointer(key string) (string, error) {
	value, err := s.get([]byte(key))
	if err != nil {
		return "", err
	}
	id, err := unversioned(value)
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	return string(id), nil
}

// begin makes durable that the store is in use, and, at the first start, the identities.
func (s *Store) begin() error {
	var b Batch
	if s.ids.fresh {
		b.set([]byte(schemaKey), binary.BigEndian.AppendUint64(nil, uint64(schemaVersion)))
		b.set([]byte(clusterKey), versioned(s.ids.cluster))
		b.set(clusterRecordKey(s.ids.cluster), encodeNumber(s.ids.broker.createdMs))
		b.set([]byte(brokerKey), versioned(strconv.Itoa(int(s.opts.NodeID))))
	}
	s.ids.broker.clean = false
	b.set(brokerRecordKey(s.opts.NodeID), s.ids.broker.encode())
	return s.write(&b, true)
}

// markClean makes durable that nothing is missing.
func (s *Store) markClean() error {
	record := s.ids.broker
	record.clean = true
	var b Batch
	b.set(brokerRecordKey(s.opts.NodeID), record.encode())
	return s.write(&b, true)
}

// newID makes a random id the way Kafka does: a UUID of version 4 that isn't reserved and whose text doesn't begin with a
// dash, which command lines take for an option.
func (s *Store) newID() (storage.TopicID, error) {
	for {
		var id storage.TopicID
		if _, err := io.ReadFull(s.opts.Random, id[:]); err != nil {
			return id, fmt.Errorf("make a random id: %w", err)
		}
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if base64.RawURLEncoding.EncodeToString(id[:])[0] != '-' {
			return id, nil
		}
	}
}
