package config

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kbroker/kbroker/storage"
)

// TopicConfig is what holds for a topic: its own settings over those of the broker. It may be kept as long as neither the
// topic's settings nor [Broker.Version] change. Slices must not be changed. Times are in milliseconds, sizes in bytes.
type TopicConfig struct {
	CleanupPolicy         []string // cleanup.policy
	GzipLevel             int32    // compression.gzip.level
	LZ4Level              int32    // compression.lz4.level
	CompressionType       string   // compression.type
	ZstdLevel             int32    // compression.zstd.level
	DeleteRetentionMs     int64    // delete.retention.ms
	DeadLetterQueue       bool     // errors.deadletterqueue.group.enable
	FileDeleteDelayMs     int64    // file.delete.delay.ms
	FlushMessages         int64    // flush.messages
	FlushMs               int64    // flush.ms
	FollowerThrottled     []string // follower.replication.throttled.replicas
	IndexIntervalBytes    int32    // index.interval.bytes
	InternalSegmentBytes  int32    // internal.segment.bytes
	LeaderThrottled       []string // leader.replication.throttled.replicas
	LocalRetentionBytes   int64    // local.retention.bytes
	LocalRetentionMs      int64    // local.retention.ms
	MaxCompactionLagMs    int64    // max.compaction.lag.ms
	MaxDecompressedBytes  int32    // max.decompressed.message.bytes
	MaxMessageBytes       int32    // max.message.bytes
	TimestampAfterMaxMs   int64    // message.timestamp.after.max.ms
	TimestampBeforeMaxMs  int64    // message.timestamp.before.max.ms
	TimestampType         string   // message.timestamp.type
	MinCleanableRatio     float64  // min.cleanable.dirty.ratio
	MinCompactionLagMs    int64    // min.compaction.lag.ms
	MinInsyncReplicas     int32    // min.insync.replicas
	Preallocate           bool     // preallocate
	RemoteCopyLagBytes    int64    // remote.copy.lag.bytes
	RemoteCopyLagMs       int64    // remote.copy.lag.ms
	RemoteCopyDisable     bool     // remote.log.copy.disable
	RemoteDeleteOnDisable bool     // remote.log.delete.on.disable
	RemoteStorage         bool     // remote.storage.enable
	RetentionBytes        int64    // retention.bytes
	RetentionMs           int64    // retention.ms
	SegmentBytes          int32    // segment.bytes
	SegmentIndexBytes     int32    // segment.index.bytes
	SegmentJitterMs       int64    // segment.jitter.ms
	SegmentMs             int64    // segment.ms
	UncleanElection       bool     // unclean.leader.election.enable
}

// Compact says whether cleanup.policy contains compact.
func (c *TopicConfig) Compact() bool { return slices.Contains(c.CleanupPolicy, "compact") }

// Delete says whether cleanup.policy contains delete.
func (c *TopicConfig) Delete() bool { return slices.Contains(c.CleanupPolicy, "delete") }

// LogAppendTime says whether records carry the broker's time.
func (c *TopicConfig) LogAppendTime() bool { return c.TimestampType == "LogAppendTime" }

// SegmentSize is the size at which a segment is closed.
func (c *TopicConfig) SegmentSize() int64 {
	if c.InternalSegmentBytes > 0 {
		return int64(c.InternalSegmentBytes)
	}
	return int64(c.SegmentBytes)
}

// Topic resolves a topic's own settings. Settings that aren't valid, which [Broker.ValidateTopic] keeps out, are left at
// the broker's.
func (b *Broker) Topic(configs map[string]string) TopicConfig {
	return b.now.Load().resolve(b.table, configs)
}

// resolve puts a topic's own settings over the broker's.
func (s *snapshot) resolve(t *Table, configs map[string]string) TopicConfig {
	c := s.topic
	for name, raw := range configs {
		k := t.Key(TopicScope, name)
		if k == nil {
			continue
		}
		if v, err := k.parse(raw); err == nil {
			k.set(&c, v)
		}
	}
	return c
}

// set puts a value into its place.
func (k *Key) set(c *TopicConfig, v value) {
	switch p := k.field(c).(type) {
	case *int32:
		*p = int32(v.number)
	case *int64:
		*p = v.number
	case *float64:
		*p = v.double
	case *bool:
		*p = v.flag
	case *string:
		*p = v.text
	case *[]string:
		*p = v.list
	}
}

// topicDefaults is the configuration of a topic without settings of its own.
func (s *snapshot) topicDefaults(t *Table) TopicConfig {
	var c TopicConfig
	for _, k := range t.Keys(TopicScope) {
		if v := s.topicDefault(k); !v.null {
			k.set(&c, v)
		}
	}
	return c
}

// topicDefault is what a topic that doesn't set a key gets: the value of the broker key, or the table's default. The four
// times that the broker may have in several units are the first of them that is set.
func (s *snapshot) topicDefault(k *Key) value {
	var v value
	switch k.Name {
	case "retention.ms":
		v = s.firstTime("log.retention.ms", "log.retention.minutes", "log.retention.hours")
		v = number(max(v.number, -1))
	case "segment.ms":
		v = s.firstTime("log.roll.ms", "log.roll.hours")
	case "segment.jitter.ms":
		v = s.firstTime("log.roll.jitter.ms", "log.roll.jitter.hours")
	case "flush.ms":
		v = s.firstTime("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
	default:
		if k.Follows != "" {
			v = s.values[k.Follows]
		} else {
			v = value{null: true}
		}
	}
	if !v.null {
		return v
	}
	if k.Null {
		return value{null: true}
	}
	v, _ = parseType(k.Type, k.Default)
	return v
}

// firstTime is the first of some broker keys that has a value, in milliseconds.
func (s *snapshot) firstTime(names ...string) value {
	for _, name := range names {
		v := s.values[name]
		if v.null {
			continue
		}
		factor := int64(unitOf(name) / time.Millisecond)
		if v.number > math.MaxInt64/factor {
			return number(math.MaxInt64)
		}
		return number(v.number * factor)
	}
	return value{null: true}
}

// number is a value that is one.
func number(n int64) value { return value{number: n, text: fmt.Sprint(n)} }

// ValidateTopic checks the settings of a topic, each and together with what the broker sets. Errors are *UnknownError,
// *Error or *RuleError; their texts are meant for the client, with INVALID_CONFIG.
func (b *Broker) ValidateTopic(configs map[string]string) error {
	if err := b.parseAll(TopicScope, configs); err != nil {
		return err
	}
	c := b.Topic(configs)
	if c.RemoteStorage {
		return &RuleError{Text: "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."}
	}
	if c.MinCompactionLagMs > c.MaxCompactionLagMs {
		return &RuleError{Text: fmt.Sprintf("conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)",
			c.MinCompactionLagMs, c.MaxCompactionLagMs)}
	}
	return nil
}

// Storage is what a log needs to know of its topic's configuration.
func (b *Broker) Storage(c TopicConfig) storage.Config {
	return storage.Config{
		Sync:          b.syncMode(),
		SyncInterval:  b.Duration("log.sync.interval.ms"),
		FlushMessages: unlessMax(c.FlushMessages),
		FlushInterval: ms(unlessMax(c.FlushMs)),

		SegmentBytes:       c.SegmentSize(),
		SegmentAge:         ms(c.SegmentMs),
		SegmentJitter:      ms(c.SegmentJitterMs),
		IndexIntervalBytes: int64(c.IndexIntervalBytes),
		IndexBytes:         int64(c.SegmentIndexBytes),

		RetentionAge:    ms(c.RetentionMs),
		RetentionBytes:  c.RetentionBytes,
		FileDeleteDelay: ms(c.FileDeleteDelayMs),

		Compact:            c.Compact(),
		Delete:             c.Delete(),
		MinCleanableRatio:  c.MinCleanableRatio,
		MinCompactionLag:   ms(c.MinCompactionLagMs),
		MaxCompactionLag:   ms(c.MaxCompactionLagMs),
		DeleteRetention:    ms(c.DeleteRetentionMs),
		ProducerExpiration: b.Duration("producer.id.expiration.ms"),

		CutUnproven: b.Bool("log.recovery.cut.unproven"),
	}
}

// syncMode is log.sync.
func (b *Broker) syncMode() storage.SyncMode {
	switch b.String("log.sync") {
	case "interval":
		return storage.SyncInterval
	case "none":
		return storage.SyncNone
	default:
		return storage.SyncEveryWrite
	}
}

// ms is a duration of n milliseconds.
func ms(n int64) time.Duration { return duration(n, time.Millisecond) }

// unlessMax turns the largest number, which stands for never, into 0.
func unlessMax(n int64) int64 {
	if n == math.MaxInt64 {
		return 0
	}
	return n
}
