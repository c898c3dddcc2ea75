package config

// groupBrokerKeys are the broker keys of the group and share coordinators.
func groupBrokerKeys() []Key { //nolint:funlen // a table, a row for each key
	return []Key{
		{
			Name: "errors.deadletterqueue.auto.create.topics.enable", Type: Boolean, Default: "false", Mode: ClusterWide, NoEffect: true,
			Doc: "Whether topics for records that a share group gave up are made by themselves.",
		},
		{
			Name: "errors.deadletterqueue.topic.name.prefix", Type: String, Default: "dlq.", Mode: ClusterWide, NoEffect: true,
			Doc: "How the names of topics begin that may hold records a share group gave up.",
		},
		{
			Name: "group.consumer.assignment.interval.ms", Type: Int, Default: "1000", Valid: atLeast(0), Mode: ClusterWide,
			Doc: "Shortest time between two assignments of a consumer group.",
		},
		{
			Name: "group.consumer.assignors", Type: List, Default: "uniform,range",
			Doc: "Assignors offered to consumer groups; the first is the default.",
		},
		{
			Name: "group.consumer.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1),
			Doc: "Time between heartbeats that members of consumer groups are told.",
		},
		{
			Name: "group.consumer.max.assignment.interval.ms", Type: Int, Default: "15000", Valid: atLeast(0),
			Doc: "Upper bound of a group's consumer.assignment.interval.ms.",
		},
		{
			Name: "group.consumer.max.heartbeat.interval.ms", Type: Int, Default: "15000", Valid: atLeast(1),
			Doc: "Upper bound of a group's consumer.heartbeat.interval.ms.",
		},
		{
			Name: "group.consumer.max.session.timeout.ms", Type: Int, Default: "60000", Valid: atLeast(1),
			Doc: "Upper bound of a group's consumer.session.timeout.ms.",
		},
		{
			Name: "group.consumer.max.size", Type: Int, Default: "2147483647", Valid: atLeast(1),
			Doc: "Most members in a consumer group.",
		},
		{
			Name: "group.consumer.migration.policy", Type: String, Default: "bidirectional", Valid: oneOfFold{"DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"},
			Doc: "In which direction groups may move between the classic and the consumer protocol while they have members.",
		},
		{
			Name: "group.consumer.min.assignment.interval.ms", Type: Int, Default: "0", Valid: atLeast(0),
			Doc: "Lower bound of a group's consumer.assignment.interval.ms.",
		},
		{
			Name: "group.consumer.min.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1),
			Doc: "Lower bound of a group's consumer.heartbeat.interval.ms.",
		},
		{
			Name: "group.consumer.min.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1),
			Doc: "Lower bound of a group's consumer.session.timeout.ms.",
		},
		{
			Name: "group.consumer.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1),
			Doc: "Time without heartbeats after which a member of a consumer group is removed.",
		},
		{
			Name: "group.coordinator.append.linger.ms", Type: Int, Default: "-1", Valid: atLeast(-1), NoEffect: true,
			Doc: "Time for which the group coordinator gathers records before it writes them; -1 adapts to the load.",
		},
		{
			Name: "group.coordinator.background.threads", Type: Int, Default: "2", Valid: atLeast(1), NoEffect: true,
			Doc: "Number of threads that compute assignments.",
		},
		{
			Name: "group.coordinator.cached.buffer.max.bytes", Type: Int, Default: "1048588", Valid: atLeast(524288), Mode: ClusterWide, NoEffect: true,
			Doc: "Largest write buffer that the group coordinator keeps for later use.",
		},
		{
			Name: "group.coordinator.rebalance.protocols", Type: List, Default: "classic,consumer,streams", Valid: listOf{"consumer", "classic", "share", "streams"}, NoEffect: true,
			Doc: "Group protocols that are enabled.",
		},
		{
			Name: "group.coordinator.threads", Type: Int, Default: "4", Valid: atLeast(1), NoEffect: true,
			Doc: "Number of threads of the group coordinator.",
		},
		{
			Name: "group.initial.rebalance.delay.ms", Type: Int, Default: "3000", Preset: "0",
			Doc: "Time for which the first rebalance of an empty classic group waits for more members.",
		},
		{
			Name: "group.max.session.timeout.ms", Type: Int, Default: "1800000",
			Doc: "Longest session timeout that members of classic groups may ask for.",
		},
		{Name: "group.max.size", Type: Int, Default: "2147483647", Valid: atLeast(1), Doc: "Most members in a classic group."},
		{
			Name: "group.min.session.timeout.ms", Type: Int, Default: "6000",
			Doc: "Shortest session timeout that members of classic groups may ask for.",
		},
		{
			Name: "group.share.assignment.interval.ms", Type: Int, Default: "1000", Valid: atLeast(0), Mode: ClusterWide, NoEffect: true,
			Doc: "Shortest time between two assignments of a share group.",
		},
		{Name: "group.share.assignors", Type: List, Default: "simple", NoEffect: true, Doc: "Assignors of share groups."},
		{
			Name: "group.share.delivery.count.limit", Type: Int, Default: "5", Valid: between{2, 10}, NoEffect: true,
			Doc: "Times a record is handed out in a share group before it is given up.",
		},
		{
			Name: "group.share.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1), NoEffect: true,
			Doc: "Time between heartbeats that members of share groups are told.",
		},
		{
			Name: "group.share.max.assignment.interval.ms", Type: Int, Default: "15000", Valid: atLeast(0), NoEffect: true,
			Doc: "Upper bound of a group's share.assignment.interval.ms.",
		},
		{
			Name: "group.share.max.delivery.count.limit", Type: Int, Default: "10", Valid: between{5, 25}, NoEffect: true,
			Doc: "Upper bound of a group's share.delivery.count.limit.",
		},
		{
			Name: "group.share.max.heartbeat.interval.ms", Type: Int, Default: "15000", Valid: atLeast(1), NoEffect: true,
			Doc: "Upper bound of a group's share.heartbeat.interval.ms.",
		},
		{
			Name: "group.share.max.partition.max.record.locks", Type: Int, Default: "4000", Valid: between{2000, 10000}, NoEffect: true,
			Doc: "Upper bound of a group's share.partition.max.record.locks.",
		},
		{
			Name: "group.share.max.record.lock.duration.ms", Type: Int, Default: "60000", Valid: between{30000, 3600000}, NoEffect: true,
			Doc: "Upper bound of a group's share.record.lock.duration.ms.",
		},
		{
			Name: "group.share.max.session.timeout.ms", Type: Int, Default: "60000", Valid: atLeast(1), NoEffect: true,
			Doc: "Upper bound of a group's share.session.timeout.ms.",
		},
		{
			Name: "group.share.max.share.sessions", Type: Int, Default: "2000", Valid: atLeast(1), NoEffect: true,
			Doc: "Most share sessions on this broker.",
		},
		{
			Name: "group.share.max.size", Type: Int, Default: "200", Valid: between{1, 1000}, NoEffect: true,
			Doc: "Most members in a share group.",
		},
		{
			Name: "group.share.min.assignment.interval.ms", Type: Int, Default: "0", Valid: atLeast(0), NoEffect: true,
			Doc: "Lower bound of a group's share.assignment.interval.ms.",
		},
		{
			Name: "group.share.min.delivery.count.limit", Type: Int, Default: "2", Valid: between{2, 5}, NoEffect: true,
			Doc: "Lower bound of a group's share.delivery.count.limit.",
		},
		{
			Name: "group.share.min.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1), NoEffect: true,
			Doc: "Lower bound of a group's share.heartbeat.interval.ms.",
		},
		{
			Name: "group.share.min.partition.max.record.locks", Type: Int, Default: "100", Valid: between{100, 2000}, NoEffect: true,
			Doc: "Lower bound of a group's share.partition.max.record.locks.",
		},
		{
			Name: "group.share.min.record.lock.duration.ms", Type: Int, Default: "15000", Valid: between{1000, 30000}, NoEffect: true,
			Doc: "Lower bound of a group's share.record.lock.duration.ms.",
		},
		{
			Name: "group.share.min.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1), NoEffect: true,
			Doc: "Lower bound of a group's share.session.timeout.ms.",
		},
		{
			Name: "group.share.partition.max.record.locks", Type: Int, Default: "2000", Valid: between{100, 10000}, NoEffect: true,
			Doc: "Most records of a partition that a share group holds unacknowledged.",
		},
		{
			Name: "group.share.record.lock.duration.ms", Type: Int, Default: "30000", Valid: between{1000, 3600000}, NoEffect: true,
			Doc: "Time a member of a share group has to acknowledge a record.",
		},
		{
			Name: "group.share.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1), NoEffect: true,
			Doc: "Time without heartbeats after which a member of a share group is removed.",
		},
		{
			Name: "group.streams.assignment.interval.ms", Type: Int, Default: "1000", Valid: atLeast(0), Mode: ClusterWide, NoEffect: true,
			Doc: "Shortest time between two assignments of a streams group.",
		},
		{
			Name: "group.streams.assignors", Type: List, Default: "sticky", NoEffect: true,
			Doc: "Assignors offered to streams groups; the first is the default.",
		},
		{
			Name: "group.streams.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1), NoEffect: true,
			Doc: "Time between heartbeats that members of streams groups are told.",
		},
		{
			Name: "group.streams.initial.rebalance.delay.ms", Type: Int, Default: "3000", Valid: atLeast(0), NoEffect: true,
			Doc: "Time for which the first rebalance of an empty streams group waits for more members.",
		},
		{
			Name: "group.streams.max.assignment.interval.ms", Type: Int, Default: "15000", Valid: atLeast(0), NoEffect: true,
			Doc: "Upper bound of a group's streams.assignment.interval.ms.",
		},
		{
			Name: "group.streams.max.heartbeat.interval.ms", Type: Int, Default: "15000", Valid: atLeast(1), NoEffect: true,
			Doc: "Upper bound of a group's streams.heartbeat.interval.ms.",
		},
		{
			Name: "group.streams.max.session.timeout.ms", Type: Int, Default: "60000", Valid: atLeast(1), NoEffect: true,
			Doc: "Upper bound of a group's streams.session.timeout.ms.",
		},
		{
			Name: "group.streams.max.size", Type: Int, Default: "2147483647", Valid: atLeast(1), NoEffect: true,
			Doc: "Most members in a streams group.",
		},
		{
			Name: "group.streams.max.standby.replicas", Type: Int, Default: "2", Valid: atLeast(0), NoEffect: true,
			Doc: "Upper bound of a group's streams.num.standby.replicas.",
		},
		{
			Name: "group.streams.min.assignment.interval.ms", Type: Int, Default: "0", Valid: atLeast(0), NoEffect: true,
			Doc: "Lower bound of a group's streams.assignment.interval.ms.",
		},
		{
			Name: "group.streams.min.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1), NoEffect: true,
			Doc: "Lower bound of a group's streams.heartbeat.interval.ms.",
		},
		{
			Name: "group.streams.min.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1), NoEffect: true,
			Doc: "Lower bound of a group's streams.session.timeout.ms.",
		},
		{
			Name: "group.streams.num.standby.replicas", Type: Int, Default: "0", Valid: atLeast(0), NoEffect: true,
			Doc: "Number of standby copies of each task in a streams group.",
		},
		{
			Name: "group.streams.rack.aware.assignment.tags", Type: List, NoEffect: true,
			Doc: "Client tags by which standby tasks of a streams group are spread.",
		},
		{
			Name: "group.streams.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1), NoEffect: true,
			Doc: "Time without heartbeats after which a member of a streams group is removed.",
		},
		{
			Name: "group.streams.topology.description.plugin.class", Type: Class, Null: true, NoEffect: true,
			Doc: "Java class that stores descriptions of topologies of streams groups.",
		},
		{
			Name: "offset.metadata.max.bytes", Type: Int, Default: "4096",
			Doc: "Most bytes of the text that goes with a committed offset.",
		},
		{
			Name: "offsets.commit.timeout.ms", Type: Int, Default: "5000", Valid: atLeast(1), NoEffect: true,
			Doc: "Time for which a commit of offsets may wait for its replicas.",
		},
		{
			Name: "offsets.load.buffer.size", Type: Int, Default: "5242880", Valid: atLeast(1), NoEffect: true,
			Doc: "Bytes read at a time when offsets are loaded.",
		},
		{
			Name: "offsets.retention.check.interval.ms", Type: Long, Default: "600000", Valid: atLeast(1),
			Doc: "Time between searches for offsets that have expired.",
		},
		{
			Name: "offsets.retention.minutes", Type: Int, Default: "10080", Valid: atLeast(1),
			Doc: "Time for which offsets are kept after their group has become empty.",
		},
		{
			Name: "offsets.topic.compression.codec", Type: Int, Default: "0", NoEffect: true,
			Doc: "Number of the codec of the offsets topic.",
		},
		{
			Name: "offsets.topic.num.partitions", Type: Int, Default: "50", Valid: atLeast(1),
			Doc: "Number of partitions that __consumer_offsets is said to have.",
		},
		{
			Name: "offsets.topic.replication.factor", Type: Short, Default: "3", Valid: atLeast(1), Preset: "1", NoEffect: true,
			Doc: "Replication factor of the offsets topic.",
		},
		{
			Name: "offsets.topic.segment.bytes", Type: Int, Default: "104857600", Valid: atLeast(1), NoEffect: true,
			Doc: "Size of a segment of the offsets topic.",
		},
		{
			Name: "share.coordinator.append.linger.ms", Type: Int, Default: "-1", Valid: atLeast(-1), NoEffect: true,
			Doc: "Time for which the share coordinator gathers records before it writes them; -1 adapts to the load.",
		},
		{
			Name: "share.coordinator.cached.buffer.max.bytes", Type: Int, Default: "1048588", Valid: atLeast(524288), Mode: ClusterWide, NoEffect: true,
			Doc: "Largest write buffer that the share coordinator keeps for later use.",
		},
		{
			Name: "share.coordinator.load.buffer.size", Type: Int, Default: "5242880", Valid: atLeast(1), NoEffect: true,
			Doc: "Bytes read at a time when the share coordinator loads its state.",
		},
		{
			Name: "share.coordinator.snapshot.update.records.per.snapshot", Type: Int, Default: "500", Valid: between{0, 500}, NoEffect: true,
			Doc: "Updates of a share partition's state between snapshots of it.",
		},
		{
			Name: "share.coordinator.state.topic.compression.codec", Type: Int, Default: "0", NoEffect: true,
			Doc: "Number of the codec of the share state topic.",
		},
		{
			Name: "share.coordinator.state.topic.min.isr", Type: Short, Default: "2", Valid: atLeast(1), Preset: "1", NoEffect: true,
			Doc: "In-sync replicas that the share state topic needs.",
		},
		{
			Name: "share.coordinator.state.topic.num.partitions", Type: Int, Default: "50", Valid: atLeast(1), NoEffect: true,
			Doc: "Number of partitions of the share state topic.",
		},
		{
			Name: "share.coordinator.state.topic.replication.factor", Type: Short, Default: "3", Valid: atLeast(1), Preset: "1", NoEffect: true,
			Doc: "Replication factor of the share state topic.",
		},
		{
			Name: "share.coordinator.state.topic.segment.bytes", Type: Int, Default: "104857600", Valid: atLeast(1), NoEffect: true,
			Doc: "Size of a segment of the share state topic.",
		},
		{
			Name: "share.coordinator.threads", Type: Int, Default: "1", Valid: atLeast(1), NoEffect: true,
			Doc: "Number of threads of the share coordinator.",
		},
		{
			Name: "share.coordinator.write.timeout.ms", Type: Int, Default: "5000", Valid: atLeast(1), NoEffect: true,
			Doc: "Time for which a write of the share coordinator may take.",
		},
		{
			Name: "share.fetch.purgatory.purge.interval.requests", Type: Int, Default: "1000", NoEffect: true,
			Doc: "Number of waiting ShareFetch requests between clean-ups of the list of them.",
		},
	}
}
