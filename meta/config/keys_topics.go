package config

// topicKeys are the keys of topics.
func topicKeys() []Key { //nolint:funlen // a table, a row for each key
	return []Key{
		{
			Name: "cleanup.policy", Type: List, Default: "delete", Valid: listOf{"compact", "delete"}, Follows: "log.cleanup.policy", field: func(c *TopicConfig) any { return &c.CleanupPolicy },
			Doc: "What happens to old segments: \"delete\" removes them, \"compact\" keeps the last record of each key, both do both, an empty list keeps everything.",
		},
		{
			Name: "compression.gzip.level", Type: Int, Default: "-1", Valid: orNumber{between{1, 9}, -1}, Follows: "compression.gzip.level", field: func(c *TopicConfig) any { return &c.GzipLevel },
			Doc: "Level at which the broker compresses with gzip; -1 is the codec's own default.",
		},
		{
			Name: "compression.lz4.level", Type: Int, Default: "9", Valid: between{1, 17}, Follows: "compression.lz4.level", field: func(c *TopicConfig) any { return &c.LZ4Level },
			Doc: "Level at which the broker compresses with lz4.",
		},
		{
			Name: "compression.type", Type: String, Default: "producer", Valid: oneOf{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"}, Follows: "compression.type", field: func(c *TopicConfig) any { return &c.CompressionType },
			Doc: "Codec in which batches are stored; \"producer\" keeps what the producer chose.",
		},
		{
			Name: "compression.zstd.level", Type: Int, Default: "3", Valid: between{-131072, 22}, Follows: "compression.zstd.level", field: func(c *TopicConfig) any { return &c.ZstdLevel },
			Doc: "Level at which the broker compresses with zstd.",
		},
		{
			Name: "delete.retention.ms", Type: Long, Default: "86400000", Valid: atLeast(0), Follows: "log.cleaner.delete.retention.ms", field: func(c *TopicConfig) any { return &c.DeleteRetentionMs },
			Doc: "Time for which a compacted topic keeps tombstones and transaction markers.",
		},
		{
			Name: "errors.deadletterqueue.group.enable", Type: Boolean, Default: "false", field: func(c *TopicConfig) any { return &c.DeadLetterQueue }, NoEffect: true,
			Doc: "Whether the topic takes records that share groups gave up.",
		},
		{
			Name: "file.delete.delay.ms", Type: Long, Default: "60000", Valid: atLeast(0), Follows: "log.segment.delete.delay.ms", field: func(c *TopicConfig) any { return &c.FileDeleteDelayMs },
			Doc: "Time between the removal of a segment from its log and that of its files.",
		},
		{
			Name: "flush.messages", Type: Long, Default: "9223372036854775807", Valid: atLeast(1), Follows: "log.flush.interval.messages", field: func(c *TopicConfig) any { return &c.FlushMessages },
			Doc: "Number of records after which the log is synced, where that is stricter than log.sync.",
		},
		{
			Name: "flush.ms", Type: Long, Default: "9223372036854775807", Valid: atLeast(0), Follows: "log.flush.interval.ms", field: func(c *TopicConfig) any { return &c.FlushMs },
			Doc: "Time after which the log is synced, where that is stricter than log.sync.",
		},
		{
			Name: "follower.replication.throttled.replicas", Type: List, Valid: throttledReplicas{}, field: func(c *TopicConfig) any { return &c.FollowerThrottled }, NoEffect: true,
			Doc: "Follower replicas under the quota on replication, PARTITION:BROKER each, or * for all.",
		},
		{
			Name: "index.interval.bytes", Type: Int, Default: "4096", Valid: atLeast(0), Follows: "log.index.interval.bytes", field: func(c *TopicConfig) any { return &c.IndexIntervalBytes },
			Doc: "Bytes of records between two entries of an index.",
		},
		{
			Name: "internal.segment.bytes", Type: Int, Null: true, Hidden: true, field: func(c *TopicConfig) any { return &c.InternalSegmentBytes },
			Doc: "Size of a segment in place of segment.bytes, without its lower bound; for tests.",
		},
		{
			Name: "leader.replication.throttled.replicas", Type: List, Valid: throttledReplicas{}, field: func(c *TopicConfig) any { return &c.LeaderThrottled }, NoEffect: true,
			Doc: "Leader replicas under the quota on replication, PARTITION:BROKER each, or * for all.",
		},
		{
			Name: "local.retention.bytes", Type: Long, Default: "-2", Valid: atLeast(-2), Follows: "log.local.retention.bytes", field: func(c *TopicConfig) any { return &c.LocalRetentionBytes }, NoEffect: true,
			Doc: "Bytes kept locally of a log in remote storage; -2 means as retention.bytes.",
		},
		{
			Name: "local.retention.ms", Type: Long, Default: "-2", Valid: atLeast(-2), Follows: "log.local.retention.ms", field: func(c *TopicConfig) any { return &c.LocalRetentionMs }, NoEffect: true,
			Doc: "Time for which segments in remote storage are kept locally too; -2 means as retention.ms.",
		},
		{
			Name: "max.compaction.lag.ms", Type: Long, Default: "9223372036854775807", Valid: atLeast(1), Follows: "log.cleaner.max.compaction.lag.ms", field: func(c *TopicConfig) any { return &c.MaxCompactionLagMs },
			Doc: "Longest time for which a record may stay uncompacted.",
		},
		{
			Name: "max.decompressed.message.bytes", Type: Int, Default: "2147483639", Valid: between{1, 2147483639}, Follows: "max.decompressed.message.bytes", field: func(c *TopicConfig) any { return &c.MaxDecompressedBytes },
			Doc: "Most bytes that a batch may have once the broker has decompressed it.",
		},
		{
			Name: "max.message.bytes", Type: Int, Default: "1048588", Valid: atLeast(0), Follows: "message.max.bytes", field: func(c *TopicConfig) any { return &c.MaxMessageBytes },
			Doc: "Most bytes in a batch of records, as it comes from the producer.",
		},
		{
			Name: "message.timestamp.after.max.ms", Type: Long, Default: "3600000", Valid: atLeast(0), Follows: "log.message.timestamp.after.max.ms", field: func(c *TopicConfig) any { return &c.TimestampAfterMaxMs },
			Doc: "How far a record's timestamp may lie ahead of the broker's clock.",
		},
		{
			Name: "message.timestamp.before.max.ms", Type: Long, Default: "9223372036854775807", Valid: atLeast(0), Follows: "log.message.timestamp.before.max.ms", field: func(c *TopicConfig) any { return &c.TimestampBeforeMaxMs },
			Doc: "How far a record's timestamp may lie behind the broker's clock.",
		},
		{
			Name: "message.timestamp.type", Type: String, Default: "CreateTime", Valid: oneOf{"CreateTime", "LogAppendTime"}, Follows: "log.message.timestamp.type", field: func(c *TopicConfig) any { return &c.TimestampType },
			Doc: "Whose time records carry: the producer's (CreateTime) or the broker's (LogAppendTime).",
		},
		{
			Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", Valid: ratio{0, 1}, Follows: "log.cleaner.min.cleanable.ratio", field: func(c *TopicConfig) any { return &c.MinCleanableRatio },
			Doc: "Part of a log that must be uncompacted before it is compacted.",
		},
		{
			Name: "min.compaction.lag.ms", Type: Long, Default: "0", Valid: atLeast(0), Follows: "log.cleaner.min.compaction.lag.ms", field: func(c *TopicConfig) any { return &c.MinCompactionLagMs },
			Doc: "Shortest time for which a record stays uncompacted.",
		},
		{
			Name: "min.insync.replicas", Type: Int, Default: "1", Valid: atLeast(1), Follows: "min.insync.replicas", field: func(c *TopicConfig) any { return &c.MinInsyncReplicas }, NoEffect: true,
			Doc: "In-sync replicas needed for a write with acks=all. There is one broker, so more than 1 makes such writes fail.",
		},
		{
			Name: "preallocate", Type: Boolean, Default: "false", Follows: "log.preallocate", field: func(c *TopicConfig) any { return &c.Preallocate }, NoEffect: true,
			Doc: "Whether a new segment's file is given its full size at once.",
		},
		{
			Name: "remote.copy.lag.bytes", Type: Long, Default: "-1", Valid: atLeast(-1), Follows: "log.remote.copy.lag.bytes", field: func(c *TopicConfig) any { return &c.RemoteCopyLagBytes }, NoEffect: true,
			Doc: "Bytes by which the copy of the log to remote storage may lag.",
		},
		{
			Name: "remote.copy.lag.ms", Type: Long, Default: "0", Valid: atLeast(-1), Follows: "log.remote.copy.lag.ms", field: func(c *TopicConfig) any { return &c.RemoteCopyLagMs }, NoEffect: true,
			Doc: "Time by which the copy of the log to remote storage may lag.",
		},
		{
			Name: "remote.log.copy.disable", Type: Boolean, Default: "false", field: func(c *TopicConfig) any { return &c.RemoteCopyDisable }, NoEffect: true,
			Doc: "Whether nothing more is copied to remote storage.",
		},
		{
			Name: "remote.log.delete.on.disable", Type: Boolean, Default: "false", field: func(c *TopicConfig) any { return &c.RemoteDeleteOnDisable }, NoEffect: true,
			Doc: "Whether the data in remote storage goes when remote storage is switched off.",
		},
		{
			Name: "remote.storage.enable", Type: Boolean, Default: "false", field: func(c *TopicConfig) any { return &c.RemoteStorage }, NoEffect: true,
			Doc: "Whether the topic uses remote storage. There is none here, so true is refused.",
		},
		{
			Name: "retention.bytes", Type: Long, Default: "-1", Follows: "log.retention.bytes", field: func(c *TopicConfig) any { return &c.RetentionBytes },
			Doc: "Size of a partition's log above which its oldest segments are removed; -1 sets no limit.",
		},
		{
			Name: "retention.ms", Type: Long, Default: "604800000", Valid: atLeast(-1), Follows: "log.retention.ms", field: func(c *TopicConfig) any { return &c.RetentionMs },
			Doc: "Age at which segments are removed; -1 sets no limit.",
		},
		{
			Name: "segment.bytes", Type: Int, Default: "1073741824", Valid: atLeast(1048576), Follows: "log.segment.bytes", field: func(c *TopicConfig) any { return &c.SegmentBytes },
			Doc: "Size at which a segment is closed and a new one begun.",
		},
		{
			Name: "segment.index.bytes", Type: Int, Default: "10485760", Valid: atLeast(4), Follows: "log.index.size.max.bytes", field: func(c *TopicConfig) any { return &c.SegmentIndexBytes },
			Doc: "Size of an index at which its segment is closed.",
		},
		{
			Name: "segment.jitter.ms", Type: Long, Default: "0", Valid: atLeast(0), Follows: "log.roll.jitter.ms", field: func(c *TopicConfig) any { return &c.SegmentJitterMs },
			Doc: "Most time taken off segment.ms at random, so that not all segments roll at once.",
		},
		{
			Name: "segment.ms", Type: Long, Default: "604800000", Valid: atLeast(1), Follows: "log.roll.ms", field: func(c *TopicConfig) any { return &c.SegmentMs },
			Doc: "Age at which a segment is closed and a new one begun.",
		},
		{
			Name: "unclean.leader.election.enable", Type: Boolean, Default: "false", Follows: "unclean.leader.election.enable", field: func(c *TopicConfig) any { return &c.UncleanElection }, NoEffect: true,
			Doc: "Whether a replica that isn't in sync may become the leader.",
		},
	}
}
