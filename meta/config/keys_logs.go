package config

// logBrokerKeys are the broker keys of logs, most of which topics follow.
func logBrokerKeys() []Key { //nolint:funlen // a table, a row for each key
	return []Key{
		{
			Name: "compression.gzip.level", Type: Int, Default: "-1", Valid: orNumber{between{1, 9}, -1}, Mode: ClusterWide,
			Doc: "Level at which the broker compresses with gzip; -1 is the codec's own default.",
		},
		{
			Name: "compression.lz4.level", Type: Int, Default: "9", Valid: between{1, 17}, Mode: ClusterWide,
			Doc: "Level at which the broker compresses with lz4.",
		},
		{
			Name: "compression.type", Type: String, Default: "producer", Valid: oneOf{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"}, Mode: ClusterWide,
			Doc: "Codec in which batches are stored; \"producer\" keeps what the producer chose.",
		},
		{
			Name: "compression.zstd.level", Type: Int, Default: "3", Valid: between{-131072, 22}, Mode: ClusterWide,
			Doc: "Level at which the broker compresses with zstd.",
		},
		{
			Name: "log.cleaner.backoff.ms", Type: Long, Default: "15000", Valid: atLeast(0), Mode: ClusterWide,
			Doc: "Pause of the compaction when there was nothing to do.",
		},
		{
			Name: "log.cleaner.dedupe.buffer.size", Type: Long, Default: "134217728", Mode: ClusterWide,
			Doc: "Memory for the map from keys to offsets in one pass of the compaction.",
		},
		{
			Name: "log.cleaner.delete.retention.ms", Type: Long, Default: "86400000", Valid: atLeast(0), Mode: ClusterWide,
			Doc: "Time for which compacted topics keep tombstones and transaction markers.",
		},
		{
			Name: "log.cleaner.enable", Type: Boolean, Default: "true",
			Doc: "Whether topics are compacted at all; Kafka deprecates the key and always compacts.",
		},
		{
			Name: "log.cleaner.io.buffer.load.factor", Type: Double, Default: "0.9", Mode: ClusterWide,
			Doc: "How full the map of the compaction may become.",
		},
		{
			Name: "log.cleaner.io.buffer.size", Type: Int, Default: "524288", Valid: atLeast(0), Mode: ClusterWide, NoEffect: true,
			Doc: "Memory for the compaction's input and output.",
		},
		{
			Name: "log.cleaner.io.max.bytes.per.second", Type: Double, Default: "1.7976931348623157E308", Mode: ClusterWide,
			Doc: "Bytes that the compaction may read and write in a second.",
		},
		{
			Name: "log.cleaner.max.compaction.lag.ms", Type: Long, Default: "9223372036854775807", Valid: atLeast(1), Mode: ClusterWide,
			Doc: "Longest time for which a record may stay uncompacted.",
		},
		{
			Name: "log.cleaner.min.cleanable.ratio", Type: Double, Default: "0.5", Valid: ratio{0, 1}, Mode: ClusterWide,
			Doc: "Part of a log that must be uncompacted before it is compacted.",
		},
		{
			Name: "log.cleaner.min.compaction.lag.ms", Type: Long, Default: "0", Valid: atLeast(0), Mode: ClusterWide,
			Doc: "Shortest time for which a record stays uncompacted.",
		},
		{
			Name: "log.cleaner.threads", Type: Int, Default: "1", Valid: atLeast(0), Mode: ClusterWide,
			Doc: "Number of threads that compact.",
		},
		{
			Name: "log.cleanup.policy", Type: List, Default: "delete", Valid: listOf{"compact", "delete"}, Mode: ClusterWide,
			Doc: "What happens to old segments: \"delete\" removes them, \"compact\" keeps the last record of each key, both do both, an empty list keeps everything.",
		},
		{Name: "log.dir", Type: List, Default: "/tmp/kafka-logs", Doc: "Data directory, where log.dirs isn't set."},
		{
			Name: "log.dir.failure.timeout.ms", Type: Long, Default: "30000", Valid: atLeast(1), NoEffect: true,
			Doc: "Time after which a broker that can't report a failed directory stops.",
		},
		{
			Name: "log.dirs", Type: List, Null: true, Preset: "data",
			Doc: "Data directory. There is one; a list of several is refused.",
		},
		{
			Name: "log.flush.interval.messages", Type: Long, Default: "9223372036854775807", Valid: atLeast(1), Mode: ClusterWide,
			Doc: "Number of records after which a log is synced, where that is stricter than log.sync.",
		},
		{
			Name: "log.flush.interval.ms", Type: Long, Null: true, Mode: ClusterWide,
			Doc: "Time after which a log is synced, where that is stricter than log.sync.",
		},
		{
			Name: "log.flush.offset.checkpoint.interval.ms", Type: Int, Default: "60000", Valid: atLeast(0), NoEffect: true,
			Doc: "Time between writes of the file with the recovery points.",
		},
		{
			Name: "log.flush.scheduler.interval.ms", Type: Long, Default: "9223372036854775807",
			Doc: "Time between syncs where log.flush.interval.ms isn't set.",
		},
		{
			Name: "log.flush.start.offset.checkpoint.interval.ms", Type: Int, Default: "60000", Valid: atLeast(0), NoEffect: true,
			Doc: "Time between writes of the file with the log start offsets.",
		},
		{
			Name: "log.index.interval.bytes", Type: Int, Default: "4096", Valid: atLeast(0), Mode: ClusterWide,
			Doc: "Bytes of records between two entries of an index.",
		},
		{
			Name: "log.index.size.max.bytes", Type: Int, Default: "10485760", Valid: atLeast(4), Mode: ClusterWide,
			Doc: "Size of an index at which its segment is closed.",
		},
		{
			Name: "log.local.retention.bytes", Type: Long, Default: "-2", Valid: atLeast(-2), Mode: ClusterWide, NoEffect: true,
			Doc: "Bytes kept locally of a log in remote storage; -2 means as log.retention.bytes.",
		},
		{
			Name: "log.local.retention.ms", Type: Long, Default: "-2", Valid: atLeast(-2), Mode: ClusterWide, NoEffect: true,
			Doc: "Time for which segments in remote storage are kept locally too; -2 means as log.retention.ms.",
		},
		{
			Name: "log.message.timestamp.after.max.ms", Type: Long, Default: "3600000", Valid: atLeast(0), Mode: ClusterWide,
			Doc: "How far a record's timestamp may lie ahead of the broker's clock.",
		},
		{
			Name: "log.message.timestamp.before.max.ms", Type: Long, Default: "9223372036854775807", Valid: atLeast(0), Mode: ClusterWide,
			Doc: "How far a record's timestamp may lie behind the broker's clock.",
		},
		{
			Name: "log.message.timestamp.type", Type: String, Default: "CreateTime", Valid: oneOf{"CreateTime", "LogAppendTime"}, Mode: ClusterWide,
			Doc: "Whose time records carry: the producer's (CreateTime) or the broker's (LogAppendTime).",
		},
		{
			Name: "log.preallocate", Type: Boolean, Default: "false", Mode: ClusterWide, NoEffect: true,
			Doc: "Whether a new segment's file is given its full size at once.",
		},
		{
			Name: "log.remote.copy.lag.bytes", Type: Long, Default: "-1", Valid: atLeast(-1), Mode: ClusterWide, NoEffect: true,
			Doc: "Bytes by which the copy of a log to remote storage may lag.",
		},
		{
			Name: "log.remote.copy.lag.ms", Type: Long, Default: "0", Valid: atLeast(-1), Mode: ClusterWide, NoEffect: true,
			Doc: "Time by which the copy of a log to remote storage may lag.",
		},
		{
			Name: "log.retention.bytes", Type: Long, Default: "-1", Mode: ClusterWide,
			Doc: "Size of a partition's log above which its oldest segments are removed; -1 sets no limit.",
		},
		{
			Name: "log.retention.check.interval.ms", Type: Long, Default: "300000", Valid: atLeast(1),
			Doc: "Time between searches for segments to remove.",
		},
		{
			Name: "log.retention.hours", Type: Int, Default: "168",
			Doc: "Age at which segments are removed, where neither log.retention.ms nor log.retention.minutes is set.",
		},
		{
			Name: "log.retention.minutes", Type: Int, Null: true,
			Doc: "Age at which segments are removed, where log.retention.ms isn't set.",
		},
		{
			Name: "log.retention.ms", Type: Long, Null: true, Mode: ClusterWide,
			Doc: "Age at which segments are removed; -1 sets no limit.",
		},
		{
			Name: "log.roll.hours", Type: Int, Default: "168", Valid: atLeast(1),
			Doc: "Age at which a segment is closed and a new one begun, where log.roll.ms isn't set.",
		},
		{
			Name: "log.roll.jitter.hours", Type: Int, Default: "0", Valid: atLeast(0),
			Doc: "Most time taken off log.roll.hours at random, where log.roll.jitter.ms isn't set.",
		},
		{
			Name: "log.roll.jitter.ms", Type: Long, Null: true, Mode: ClusterWide,
			Doc: "Most time taken off log.roll.ms at random, so that not all segments roll at once.",
		},
		{
			Name: "log.roll.ms", Type: Long, Null: true, Mode: ClusterWide,
			Doc: "Age at which a segment is closed and a new one begun.",
		},
		{
			Name: "log.segment.bytes", Type: Int, Default: "1073741824", Valid: atLeast(1048576), Mode: ClusterWide,
			Doc: "Size at which a segment is closed and a new one begun.",
		},
		{
			Name: "log.segment.delete.delay.ms", Type: Long, Default: "60000", Valid: atLeast(0), Mode: ClusterWide,
			Doc: "Time between the removal of a segment from its log and that of its files.",
		},
		{
			Name: "max.decompressed.message.bytes", Type: Int, Default: "2147483639", Valid: between{1, 2147483639}, Mode: ClusterWide,
			Doc: "Most bytes that a batch may have once the broker has decompressed it.",
		},
		{
			Name: "message.max.bytes", Type: Int, Default: "1048588", Valid: atLeast(0), Mode: ClusterWide,
			Doc: "Most bytes in a batch of records, as it comes from the producer.",
		},
		{
			Name: "producer.id.expiration.ms", Type: Int, Default: "86400000", Valid: atLeast(1), Mode: ClusterWide,
			Doc: "Time after a producer's last write at which a partition forgets its sequence numbers.",
		},
	}
}
