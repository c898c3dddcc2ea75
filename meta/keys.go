package meta

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kbroker/kbroker/storage"
)

// The keys' namespaces; see the package's documentation.
const (
	schemaKey       = "meta/schema-version"
	clusterKey      = "cluster/current"
	clusterPrefix   = "cluster/"
	brokerKey       = "broker/current"
	brokerPrefix    = "broker/"
	topicPrefix     = "topic/"
	partitionPrefix = "partition/"
	cursorPrefix    = "cursor/"
	groupPrefix     = "group/"
	txnPrefix       = "txn/"
	configPrefix    = "config/"
	producerKey     = "producer/next"
)

// errKey is returned for a key that no version of this package writes.
var errKey = errors.New("malformed key")

// appendEscaped appends a part of a key so that it has no separator in it: "/" becomes "%2F" and "%" becomes "%25".
func appendEscaped(b []byte, part string) []byte {
	for i := range len(part) {
		switch c := part[i]; c {
		case '/':
			b = append(b, "%2F"...)
		case '%':
			b = append(b, "%25"...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// unescape undoes appendEscaped and refuses anything that it doesn't produce.
func unescape(part string) (string, error) {
	if !strings.ContainsAny(part, "%/") {
		return part, nil
	}
	b := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		switch {
		case part[i] == '/':
			return "", errKey
		case part[i] != '%':
			b = append(b, part[i])
			continue
		case strings.HasPrefix(part[i:], "%2F"):
			b = append(b, '/')
		case strings.HasPrefix(part[i:], "%25"):
			b = append(b, '%')
		default:
			return "", errKey
		}
		i += 2
	}
	return string(b), nil
}

// appendKey appends a key made of a prefix and escaped parts.
func appendKey(b []byte, prefix string, parts ...string) []byte {
	b = append(b, prefix...)
	for i, part := range parts {
		if i > 0 {
			b = append(b, '/')
		}
		b = appendEscaped(b, part)
	}
	return b
}

func appendCursorKey(b []byte, group string, tp TopicPartition) []byte {
	b = append(appendKey(b, cursorPrefix, group, tp.Topic), '/')
	return strconv.AppendInt(b, int64(tp.Partition), 10)
}

func topicKey(name string) []byte { return appendKey(nil, topicPrefix, name) }

func partitionKey(topic string, partition int32) []byte {
	return appendKey(nil, partitionPrefix, topic, strconv.Itoa(int(partition)))
}

func configKey(kind, name string) []byte { return appendKey(nil, configPrefix, kind, name) }

func clusterRecordKey(id string) []byte { return appendKey(nil, clusterPrefix, id) }

func brokerRecordKey(nodeID int32) []byte {
	return appendKey(nil, brokerPrefix, strconv.Itoa(int(nodeID)))
}

// keyParts splits a key below a prefix into count parts.
func keyParts(key []byte, prefix string, count int) ([]string, error) {
	rest, ok := strings.CutPrefix(string(key), prefix)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != count {
		return nil, fmt.Errorf("key %q: %w", key, errKey)
	}
	for i, part := range parts {
		var err error
		if parts[i], err = unescape(part); err != nil {
			return nil, fmt.Errorf("key %q: %w", key, err)
		}
	}
	return parts, nil
}

// parseCursorKey undoes appendCursorKey.
func parseCursorKey(key []byte) (group string, tp TopicPartition, err error) {
	parts, err := keyParts(key, cursorPrefix, 3)
	if err != nil {
		return "", tp, err
	}
	partition, err := parseNumber(key, parts[2])
	return parts[0], TopicPartition{Topic: parts[1], Partition: partition}, err
}

// cursorTopic is the topic of a cursor's key, escaped as it is there: all that a deletion looks at in each cursor there is.
func cursorTopic(key []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(key, []byte(cursorPrefix))
	_, rest, inGroup := bytes.Cut(rest, []byte{'/'})
	topic, _, inTopic := bytes.Cut(rest, []byte{'/'})
	if !ok || !inGroup || !inTopic {
		return nil, fmt.Errorf("key %q: %w", key, errKey)
	}
	return topic, nil
}

// parsePartitionKey undoes partitionKey.
func parsePartitionKey(key []byte) (topic string, partition int32, err error) {
	parts, err := keyParts(key, partitionPrefix, 2)
	if err != nil {
		return "", 0, err
	}
	partition, err = parseNumber(key, parts[1])
	return parts[0], partition, err
}

// parseNumber reads a partition number in the one form it is written in.
func parseNumber(key []byte, s string) (int32, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < math.MinInt32 || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("key %q: %w", key, errKey)
	}
	return int32(n), nil
}

// logKey names a partition in memory.
type logKey struct {
	id        storage.TopicID
	partition int32
}
