package config

// groupKeys are the keys of groups. A key that follows itself has no key of the broker behind it.
func groupKeys() []Key {
	return []Key{
		{
			Name: "consumer.assignment.interval.ms", Type: Int, Default: "1000", Valid: atLeast(0), Follows: "group.consumer.assignment.interval.ms", NoEffect: true,
			Doc: "Shortest time between two assignments of the group.",
		},
		{
			Name: "consumer.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1), Follows: "group.consumer.heartbeat.interval.ms", NoEffect: true,
			Doc: "Time between heartbeats that the group's members are told.",
		},
		{
			Name: "consumer.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1), Follows: "group.consumer.session.timeout.ms", NoEffect: true,
			Doc: "Time without heartbeats after which a member is removed.",
		},
		{
			Name: "errors.deadletterqueue.copy.record.enable", Type: Boolean, Default: "false", Follows: "errors.deadletterqueue.copy.record.enable", NoEffect: true,
			Doc: "Whether a record that was given up is copied whole.",
		},
		{
			Name: "errors.deadletterqueue.topic.name", Type: String, Follows: "errors.deadletterqueue.topic.name", NoEffect: true,
			Doc: "Topic that takes the records the share group gave up; empty for none.",
		},
		{
			Name: "share.assignment.interval.ms", Type: Int, Default: "1000", Valid: atLeast(0), Follows: "group.share.assignment.interval.ms", NoEffect: true,
			Doc: "Shortest time between two assignments of the share group.",
		},
		{
			Name: "share.auto.offset.reset", Type: String, Default: "latest", Valid: offsetReset{}, Follows: "share.auto.offset.reset", NoEffect: true,
			Doc: "Where the share group starts: earliest, latest, or so far back (by_duration: and an ISO 8601 duration).",
		},
		{
			Name: "share.delivery.count.limit", Type: Int, Default: "5", Valid: atLeast(2), Follows: "group.share.delivery.count.limit", NoEffect: true,
			Doc: "Times a record is handed out before it is given up.",
		},
		{
			Name: "share.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1), Follows: "group.share.heartbeat.interval.ms", NoEffect: true,
			Doc: "Time between heartbeats that the share group's members are told.",
		},
		{
			Name: "share.isolation.level", Type: String, Default: "read_uncommitted", Valid: oneOf{"read_committed", "read_uncommitted"}, Follows: "share.isolation.level", NoEffect: true,
			Doc: "Whether the share group sees records of open and aborted transactions.",
		},
		{
			Name: "share.partition.max.record.locks", Type: Int, Default: "2000", Valid: atLeast(100), Follows: "group.share.partition.max.record.locks", NoEffect: true,
			Doc: "Most records of a partition that the share group holds unacknowledged.",
		},
		{
			Name: "share.record.lock.duration.ms", Type: Int, Default: "30000", Valid: atLeast(1000), Follows: "group.share.record.lock.duration.ms", NoEffect: true,
			Doc: "Time a member has to acknowledge a record.",
		},
		{
			Name: "share.renew.acknowledge.enable", Type: Boolean, Default: "true", Follows: "share.renew.acknowledge.enable", NoEffect: true,
			Doc: "Whether a member may ask for more time for a record.",
		},
		{
			Name: "share.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1), Follows: "group.share.session.timeout.ms", NoEffect: true,
			Doc: "Time without heartbeats after which a member of the share group is removed.",
		},
		{
			Name: "streams.assignment.interval.ms", Type: Int, Default: "1000", Valid: atLeast(0), Follows: "group.streams.assignment.interval.ms", NoEffect: true,
			Doc: "Shortest time between two assignments of the streams group.",
		},
		{
			Name: "streams.assignor.name", Type: String, Default: "sticky", Follows: "group.streams.assignors", NoEffect: true,
			Doc: "Assignor of the streams group; the first of group.streams.assignors by default.",
		},
		{
			Name: "streams.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1), Follows: "group.streams.heartbeat.interval.ms", NoEffect: true,
			Doc: "Time between heartbeats that the streams group's members are told.",
		},
		{
			Name: "streams.initial.rebalance.delay.ms", Type: Int, Default: "3000", Valid: atLeast(0), Follows: "group.streams.initial.rebalance.delay.ms", NoEffect: true,
			Doc: "Time for which the first rebalance of the empty streams group waits for more members.",
		},
		{
			Name: "streams.num.standby.replicas", Type: Int, Default: "0", Valid: atLeast(0), Follows: "group.streams.num.standby.replicas", NoEffect: true,
			Doc: "Number of standby copies of each task.",
		},
		{
			Name: "streams.rack.aware.assignment.tags", Type: List, Follows: "group.streams.rack.aware.assignment.tags", NoEffect: true,
			Doc: "Client tags by which standby tasks are spread.",
		},
		{
			Name: "streams.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1), Follows: "group.streams.session.timeout.ms", NoEffect: true,
			Doc: "Time without heartbeats after which a member of the streams group is removed.",
		},
	}
}

// clientMetricsKeys are the keys of client metrics subscriptions (KIP-714).
func clientMetricsKeys() []Key {
	return []Key{
		{
			Name: "interval.ms", Type: Int, Default: "300000", NoEffect: true,
			Doc: "Time between pushes of metrics that clients are told.",
		},
		{
			Name: "match", Type: List, Valid: clientMatch{}, NoEffect: true,
			Doc: "Clients that are meant, NAME=PATTERN each; empty means all.",
		},
		{
			Name: "metrics", Type: List, Valid: noEmptyItems{}, NoEffect: true,
			Doc: "Metrics that are wanted, by the beginning of their names; * means all.",
		},
	}
}

// hiddenGroupKeys are keys of groups that Apache Kafka describes only where they are set.
func hiddenGroupKeys() []Key {
	return []Key{
		{
			Name: "consumer.assignor.offload.enable", Type: Boolean, Default: "true", Follows: "consumer.assignor.offload.enable", NoEffect: true, Hidden: true,
			Doc: "Whether assignments are computed by other threads than those of the coordinator.",
		},
		{
			Name: "share.assignor.offload.enable", Type: Boolean, Default: "true", Follows: "share.assignor.offload.enable", NoEffect: true, Hidden: true,
			Doc: "Whether assignments are computed by other threads than those of the coordinator.",
		},
		{
			Name: "streams.acceptable.recovery.lag", Type: Long, Default: "10000", Valid: atLeast(0), Follows: "streams.acceptable.recovery.lag", NoEffect: true, Hidden: true,
			Doc: "Records by which a copy of a task's state may lag and still count as up to date.",
		},
		{
			Name: "streams.assignor.offload.enable", Type: Boolean, Default: "true", Follows: "streams.assignor.offload.enable", NoEffect: true, Hidden: true,
			Doc: "Whether assignments are computed by other threads than those of the coordinator.",
		},
		{
			Name: "streams.num.warmup.replicas", Type: Int, Default: "2", Valid: between{0, 20}, Follows: "streams.num.warmup.replicas", NoEffect: true, Hidden: true,
			Doc: "Number of copies of tasks that may be brought up to date at a time.",
		},
		{
			Name: "streams.task.offset.interval.ms", Type: Int, Default: "60000", Valid: atLeast(15_000), Follows: "streams.task.offset.interval.ms", NoEffect: true, Hidden: true,
			Doc: "Time between a member's reports of its tasks' offsets.",
		},
	}
}
