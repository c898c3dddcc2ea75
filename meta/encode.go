package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kbroker/kbroker/storage"
)

// formatVersion is the first byte of each value but the schema version's.
const formatVersion = 1

// errValue is returned for a value that can't be read.
var errValue = errors.New("malformed value")

// Values, all integers big-endian, strings with their length as an unsigned varint before them:
//
//	cursor     version u8 | offset i64 | leader epoch i32 | commit ms i64 | expire ms i64 | metadata, to the end
//	topic      version u8 | id 16 | partitions i32 | epoch base i32 | created ms i64 | settings
//	settings   count uvarint | (name, value)..., by name
//	config     version u8 | settings
//	partition  version u8 | topic id 16 | log start offset i64
//	broker     version u8 | clean u8 | start counter i32 | created ms i64
//	cluster    version u8 | created ms i64
//	producer   version u8 | next id i64
//	group, txn, pointers to the current cluster and broker   version u8 | bytes

func (c Cursor) append(b []byte) []byte {
	b = append(b, formatVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Offset))
	b = binary.BigEndian.AppendUint32(b, uint32(c.LeaderEpoch))
	b = binary.BigEndian.AppendUint64(b, uint64(c.CommitMs))
	b = binary.BigEndian.AppendUint64(b, uint64(c.ExpireMs))
	return append(b, c.Metadata...)
}

func decodeCursor(b []byte) (Cursor, error) {
	r := newReader(b)
	c := Cursor{Offset: r.int64(), LeaderEpoch: r.int32(), CommitMs: r.int64(), ExpireMs: r.int64()}
	c.Metadata = string(r.rest())
	return c, r.err
}

func (t *Topic) encode() []byte {
	b := append([]byte{formatVersion}, t.ID[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(t.Partitions))
	b = binary.BigEndian.AppendUint32(b, uint32(t.EpochBase))
	b = binary.BigEndian.AppendUint64(b, uint64(t.CreatedMs))
	return appendSettings(b, t.Configs)
}

func decodeTopic(name string, b []byte) (*Topic, error) {
	r := newReader(b)
	t := &Topic{
		Name: name, ID: r.id(), Partitions: r.int32(), EpochBase: r.int32(), CreatedMs: r.int64(), Configs: r.settings(),
	}
	if r.end(); r.err != nil {
		return nil, r.err
	}
	return t, nil
}

func encodeConfig(settings map[string]string) []byte {
	return appendSettings([]byte{formatVersion}, settings)
}

func decodeConfig(b []byte) (map[string]string, error) {
	r := newReader(b)
	settings := r.settings()
	r.end()
	return settings, r.err
}

func appendSettings(b []byte, settings map[string]string) []byte {
	b = binary.AppendUvarint(b, uint64(len(settings)))
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		b = appendString(b, name)
		b = appendString(b, settings[name])
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func encodeLogStart(id storage.TopicID, start int64) []byte {
	b := append([]byte{formatVersion}, id[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(start))
}

func decodeLogStart(b []byte) (id storage.TopicID, start int64, err error) {
	r := newReader(b)
	id, start = r.id(), r.int64()
	r.end()
	return id, start, r.err
}

// brokerRecord is the broker's identity and where its start counter stands.
type brokerRecord struct {
	clean     bool // it was stopped and not started since
	epoch     int32
	createdMs int64
}

func (r brokerRecord) encode() []byte {
	b := []byte{formatVersion, 0}
	if r.clean {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint32(b, uint32(r.epoch))
	return binary.BigEndian.AppendUint64(b, uint64(r.createdMs))
}

func decodeBroker(b []byte) (brokerRecord, error) {
	r := newReader(b)
	clean := r.byte()
	record := brokerRecord{clean: clean == 1, epoch: r.int32(), createdMs: r.int64()}
	r.end()
	if r.err == nil && clean > 1 {
		r.err = errValue
	}
	return record, r.err
}

// encodeNumber is the form of a value that is one number.
func encodeNumber(n int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{formatVersion}, uint64(n))
}

func decodeNumber(b []byte) (int64, error) {
	r := newReader(b)
	n := r.int64()
	r.end()
	return n, r.err
}

// versioned puts the format version before bytes.
func versioned(b string) []byte { return append([]byte{formatVersion}, b...) }

// unversioned undoes versioned. The result is a part of b.
func unversioned(b []byte) ([]byte, error) {
	r := newReader(b)
	return r.rest(), r.err
}

// reader takes a value apart. After the first error everything it returns is zero.
type reader struct {
	b   []byte
	err error
}

// newReader starts a value by checking its format version.
func newReader(b []byte) *reader {
	r := &reader{b: b}
	if version := r.byte(); r.err == nil && version != formatVersion {
		r.err = fmt.Errorf("format version %d, this broker knows %d: %w", version, formatVersion, ErrSchema)
	}
	return r
}

func (r *reader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.b)) {
		r.err = errValue
	}
	if r.err != nil {
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) id() (id storage.TopicID) {
	copy(id[:], r.take(uint64(len(id))))
	return id
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if r.err == nil && size <= 0 {
		r.err = errValue
	}
	if r.err != nil {
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) string() string { return string(r.take(r.uvarint())) }

// settings reads pairs of strings; nil if there are none.
func (r *reader) settings() map[string]string {
	count := r.uvarint()
	if r.err == nil && count > uint64(len(r.b))/2 { // a pair takes two bytes at least
		r.err = errValue
	}
	if r.err != nil || count == 0 {
		return nil
	}
	settings := make(map[string]string, count)
	for range count {
		name := r.string()
		settings[name] = r.string()
	}
	if r.err == nil && uint64(len(settings)) != count {
		r.err = errValue
	}
	return settings
}

// rest takes all that is left.
func (r *reader) rest() []byte { return r.take(uint64(len(r.b))) }

// end checks that nothing is left.
func (r *reader) end() {
	if r.err == nil && len(r.b) > 0 {
		r.err = errValue
	}
}
