package config

// clusterBrokerKeys are the broker keys of the cluster: identity, controllers, replication, remote storage.
func clusterBrokerKeys() []Key { //nolint:funlen // a table, a row for each key
	return []Key{
		{
			Name: "alter.config.policy.class.name", Type: Class, Null: true, NoEffect: true,
			Doc: "Java class that may veto changes of configurations.",
		},
		{
			Name: "alter.log.dirs.replication.quota.window.num", Type: Int, Default: "11", Valid: atLeast(1), NoEffect: true,
			Doc: "Number of samples kept for the quota on moves between log directories.",
		},
		{
			Name: "alter.log.dirs.replication.quota.window.size.seconds", Type: Int, Default: "1", Valid: atLeast(1), NoEffect: true,
			Doc: "Length of each sample of the quota on moves between log directories.",
		},
		{
			Name: "auto.leader.rebalance.enable", Type: Boolean, Default: "true", NoEffect: true,
			Doc: "Whether leadership moves back to preferred replicas by itself.",
		},
		{
			Name: "broker.heartbeat.interval.ms", Type: Int, Default: "2000", NoEffect: true,
			Doc: "Time between a broker's heartbeats to the controller.",
		},
		{Name: "broker.id", Type: Int, Default: "-1", Doc: "Old name of node.id."},
		{Name: "broker.rack", Type: String, Null: true, Doc: "Rack of this broker, as Metadata and DescribeCluster tell it."},
		{
			Name: "broker.session.timeout.ms", Type: Int, Default: "9000", NoEffect: true,
			Doc: "Time without heartbeats after which the controller fences a broker.",
		},
		{
			Name: "controlled.shutdown.enable", Type: Boolean, Default: "true", NoEffect: true,
			Doc: "Whether a broker hands its leaderships over before it stops.",
		},
		{
			Name: "controller.listener.names", Type: List, Null: true, Preset: "CONTROLLER", NoEffect: true,
			Doc: "Names of listeners used between controllers. This broker opens none of them.",
		},
		{
			Name: "controller.quorum.append.linger.ms", Type: Int, Default: "25", Valid: atLeast(0), NoEffect: true,
			Doc: "Time for which a controller gathers records before it writes them.",
		},
		{
			Name: "controller.quorum.auto.join.enable", Type: Boolean, Default: "false", NoEffect: true,
			Doc: "Whether a controller adds itself to the quorum.",
		},
		{
			Name: "controller.quorum.bootstrap.servers", Type: List, Preset: "localhost:9093", NoEffect: true,
			Doc: "Addresses at which the controllers are found.",
		},
		{
			Name: "controller.quorum.election.backoff.max.ms", Type: Int, Default: "1000", Valid: atLeast(0), NoEffect: true,
			Doc: "Longest pause before a controller stands for election again.",
		},
		{
			Name: "controller.quorum.election.timeout.ms", Type: Int, Default: "1000", Valid: atLeast(0), NoEffect: true,
			Doc: "Time a candidate waits for votes.",
		},
		{
			Name: "controller.quorum.fetch.max.bytes", Type: Int, Default: "1048576", Valid: atLeast(1), NoEffect: true,
			Doc: "Bytes of metadata records in one fetch between controllers.",
		},
		{
			Name: "controller.quorum.fetch.snapshot.max.bytes", Type: Int, Default: "1048576", Valid: atLeast(1), NoEffect: true,
			Doc: "Bytes of a metadata snapshot in one fetch between controllers.",
		},
		{
			Name: "controller.quorum.fetch.timeout.ms", Type: Int, Default: "2000", Valid: atLeast(0), NoEffect: true,
			Doc: "Time without a successful fetch after which a controller looks for another leader.",
		},
		{
			Name: "controller.quorum.request.timeout.ms", Type: Int, Default: "2000", Valid: atLeast(0), NoEffect: true,
			Doc: "Time a controller waits for an answer of another.",
		},
		{
			Name: "controller.quorum.retry.backoff.ms", Type: Int, Default: "20", Valid: atLeast(0), NoEffect: true,
			Doc: "Pause before a failed request between controllers is sent again.",
		},
		{Name: "controller.quorum.voters", Type: List, NoEffect: true, Doc: "Fixed set of controllers, ID@HOST:PORT each."},
		{
			Name: "controller.quota.window.num", Type: Int, Default: "11", Valid: atLeast(1), NoEffect: true,
			Doc: "Number of samples kept for the quota on changes of topics.",
		},
		{
			Name: "controller.quota.window.size.seconds", Type: Int, Default: "1", Valid: atLeast(1), NoEffect: true,
			Doc: "Length of each sample of the quota on changes of topics.",
		},
		{
			Name: "controller.socket.timeout.ms", Type: Int, Default: "30000", NoEffect: true,
			Doc: "Socket timeout between brokers and the controller.",
		},
		{
			Name: "cordoned.log.dirs", Type: List, Mode: PerBroker, NoEffect: true,
			Doc: "Log directories that take no new partitions.",
		},
		{
			Name: "default.replication.factor", Type: Int, Default: "1", NoEffect: true,
			Doc: "Replication factor of topics made without one. There is one broker, so nothing but 1 works.",
		},
		{
			Name: "early.start.listeners", Type: List, Null: true, NoEffect: true,
			Doc: "Listeners that accept connections before the broker has joined the cluster.",
		},
		{
			Name: "follower.fetch.last.tiered.offset.enable", Type: Boolean, Default: "false", Mode: ClusterWide, NoEffect: true,
			Doc: "Whether a new replica starts at the last offset in remote storage.",
		},
		{
			Name: "initial.broker.registration.timeout.ms", Type: Int, Default: "60000", NoEffect: true,
			Doc: "Time a starting broker waits for the controller to take it.",
		},
		{
			Name: "inter.broker.listener.name", Type: String, Null: true, Preset: "PLAINTEXT", NoEffect: true,
			Doc: "Listener that brokers use among themselves.",
		},
		{
			Name: "leader.imbalance.check.interval.seconds", Type: Long, Default: "300", Valid: atLeast(1), NoEffect: true,
			Doc: "Time between checks whether leadership is spread evenly.",
		},
		{Name: "metadata.log.dir", Type: String, Null: true, NoEffect: true, Doc: "Directory of the metadata log."},
		{
			Name: "metadata.log.max.record.bytes.between.snapshots", Type: Long, Default: "20971520", Valid: atLeast(1), NoEffect: true,
			Doc: "Bytes of metadata records after which a snapshot is written.",
		},
		{
			Name: "metadata.log.max.snapshot.interval.ms", Type: Long, Default: "3600000", Valid: atLeast(0), NoEffect: true,
			Doc: "Time after which a snapshot of the metadata is written.",
		},
		{
			Name: "metadata.log.segment.bytes", Type: Int, Default: "1073741824", Valid: atLeast(8388608), NoEffect: true,
			Doc: "Size of a segment of the metadata log.",
		},
		{
			Name: "metadata.log.segment.ms", Type: Long, Default: "604800000", NoEffect: true,
			Doc: "Age at which a segment of the metadata log is closed.",
		},
		{
			Name: "metadata.max.idle.interval.ms", Type: Int, Default: "500", Valid: atLeast(0), NoEffect: true,
			Doc: "Time after which an idle controller writes an empty record.",
		},
		{
			Name: "metadata.max.retention.bytes", Type: Long, Default: "104857600", NoEffect: true,
			Doc: "Bytes of metadata log and snapshots that are kept.",
		},
		{
			Name: "metadata.max.retention.ms", Type: Long, Default: "604800000", NoEffect: true,
			Doc: "Time for which metadata log and snapshots are kept.",
		},
		{
			Name: "min.insync.replicas", Type: Int, Default: "1", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "In-sync replicas needed for a write with acks=all. There is one broker, so more than 1 makes such writes fail.",
		},
		{Name: "node.id", Type: Int, Null: true, Valid: atLeast(0), Preset: "1", Doc: "Number of this broker, as clients see it."},
		{
			Name: "num.replica.alter.log.dirs.threads", Type: Int, Null: true, NoEffect: true,
			Doc: "Number of threads that move replicas between directories.",
		},
		{
			Name: "num.replica.fetchers", Type: Int, Default: "1", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Number of threads that fetch from each leader.",
		},
		{
			Name: "process.roles", Type: List, Null: true, Valid: listOf{"broker", "controller"}, Preset: "broker,controller", NoEffect: true,
			Doc: "Roles of this process. It is broker and controller in one.",
		},
		{
			Name: "remote.fetch.max.wait.ms", Type: Int, Default: "500", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Time for which a Fetch waits for remote storage.",
		},
		{
			Name: "remote.list.offsets.request.timeout.ms", Type: Long, Default: "30000", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Time for which a ListOffsets waits for remote storage.",
		},
		{
			Name: "remote.log.index.file.cache.total.size.bytes", Type: Long, Default: "1073741824", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Disk space for copies of indexes from remote storage.",
		},
		{
			Name: "remote.log.manager.copier.thread.pool.size", Type: Int, Default: "10", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Number of threads that copy segments to remote storage.",
		},
		{
			Name: "remote.log.manager.copy.max.bytes.per.second", Type: Long, Default: "9223372036854775807", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Bytes copied to remote storage in a second.",
		},
		{
			Name: "remote.log.manager.copy.quota.window.num", Type: Int, Default: "11", Valid: atLeast(1), NoEffect: true,
			Doc: "Number of samples kept for the quota on copies to remote storage.",
		},
		{
			Name: "remote.log.manager.copy.quota.window.size.seconds", Type: Int, Default: "1", Valid: atLeast(1), NoEffect: true,
			Doc: "Length of each sample of the quota on copies to remote storage.",
		},
		{
			Name: "remote.log.manager.expiration.thread.pool.size", Type: Int, Default: "10", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Number of threads that remove expired segments from remote storage.",
		},
		{
			Name: "remote.log.manager.fetch.max.bytes.per.second", Type: Long, Default: "9223372036854775807", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Bytes read from remote storage in a second.",
		},
		{
			Name: "remote.log.manager.fetch.quota.window.num", Type: Int, Default: "11", Valid: atLeast(1), NoEffect: true,
			Doc: "Number of samples kept for the quota on reads from remote storage.",
		},
		{
			Name: "remote.log.manager.fetch.quota.window.size.seconds", Type: Int, Default: "1", Valid: atLeast(1), NoEffect: true,
			Doc: "Length of each sample of the quota on reads from remote storage.",
		},
		{
			Name: "remote.log.manager.follower.thread.pool.size", Type: Int, Default: "2", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Number of threads for the remote storage tasks of followers.",
		},
		{
			Name: "remote.log.manager.task.interval.ms", Type: Long, Default: "30000", Valid: atLeast(1), NoEffect: true,
			Doc: "Time between runs of the tasks of remote storage.",
		},
		{
			Name: "remote.log.manager.thread.pool.size", Type: Int, Default: "2", Valid: atLeast(1), NoEffect: true,
			Doc: "Number of threads for the tasks of remote storage.",
		},
		{
			Name: "remote.log.metadata.custom.metadata.max.bytes", Type: Int, Default: "128", Valid: atLeast(0), NoEffect: true,
			Doc: "Most bytes of a remote storage plugin's own metadata per segment.",
		},
		{
			Name: "remote.log.metadata.manager.class.name", Type: String, Default: "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager", Valid: notEmpty{}, NoEffect: true,
			Doc: "Java class that keeps the metadata of remote storage.",
		},
		{
			Name: "remote.log.metadata.manager.class.path", Type: String, Null: true, NoEffect: true,
			Doc: "Where to load that class from.",
		},
		{
			Name: "remote.log.metadata.manager.impl.prefix", Type: String, Default: "rlmm.config.", Valid: notEmpty{}, NoEffect: true,
			Doc: "How the keys begin that are meant for that class.",
		},
		{
			Name: "remote.log.metadata.manager.listener.name", Type: String, Null: true, Valid: notEmpty{}, NoEffect: true,
			Doc: "Listener that the class connects to.",
		},
		{
			Name: "remote.log.reader.max.pending.tasks", Type: Int, Default: "100", Valid: atLeast(1), NoEffect: true,
			Doc: "Most reads from remote storage that wait.",
		},
		{
			Name: "remote.log.reader.threads", Type: Int, Default: "10", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Number of threads that read from remote storage.",
		},
		{
			Name: "remote.log.storage.manager.class.name", Type: String, Null: true, Valid: notEmpty{}, NoEffect: true,
			Doc: "Java class that stores segments remotely.",
		},
		{
			Name: "remote.log.storage.manager.class.path", Type: String, Null: true, NoEffect: true,
			Doc: "Where to load that class from.",
		},
		{
			Name: "remote.log.storage.manager.impl.prefix", Type: String, Default: "rsm.config.", Valid: notEmpty{}, NoEffect: true,
			Doc: "How the keys begin that are meant for that class.",
		},
		{
			Name: "remote.log.storage.system.enable", Type: Boolean, Default: "false", NoEffect: true,
			Doc: "Whether topics may use remote storage. There is none here.",
		},
		{
			Name: "replica.fetch.backoff.ms", Type: Int, Default: "1000", Valid: atLeast(0), NoEffect: true,
			Doc: "Pause of a follower after a failed fetch.",
		},
		{
			Name: "replica.fetch.max.bytes", Type: Int, Default: "1048576", Valid: atLeast(0), NoEffect: true,
			Doc: "Bytes that a follower asks for per partition.",
		},
		{Name: "replica.fetch.min.bytes", Type: Int, Default: "1", NoEffect: true, Doc: "Bytes that a follower waits for."},
		{
			Name: "replica.fetch.response.max.bytes", Type: Int, Default: "10485760", Valid: atLeast(0), NoEffect: true,
			Doc: "Bytes that a follower asks for in all.",
		},
		{
			Name: "replica.fetch.wait.max.ms", Type: Int, Default: "500", NoEffect: true,
			Doc: "Time that a follower's fetch waits for data.",
		},
		{
			Name: "replica.high.watermark.checkpoint.interval.ms", Type: Long, Default: "5000", NoEffect: true,
			Doc: "Time between writes of the file with the high watermarks.",
		},
		{
			Name: "replica.lag.time.max.ms", Type: Long, Default: "30000", NoEffect: true,
			Doc: "Time after which a follower that lags is no longer in sync.",
		},
		{
			Name: "replica.selector.class", Type: String, Null: true, NoEffect: true,
			Doc: "Java class that chooses the replica a consumer reads from.",
		},
		{
			Name: "replica.socket.receive.buffer.bytes", Type: Int, Default: "65536", NoEffect: true,
			Doc: "Receive buffer of a follower's sockets.",
		},
		{Name: "replica.socket.timeout.ms", Type: Int, Default: "30000", NoEffect: true, Doc: "Socket timeout of a follower."},
		{
			Name: "replication.quota.window.num", Type: Int, Default: "11", Valid: atLeast(1), NoEffect: true,
			Doc: "Number of samples kept for the quota on replication.",
		},
		{
			Name: "replication.quota.window.size.seconds", Type: Int, Default: "1", Valid: atLeast(1), NoEffect: true,
			Doc: "Length of each sample of the quota on replication.",
		},
		{
			Name: "unclean.leader.election.enable", Type: Boolean, Default: "false", Mode: ClusterWide, NoEffect: true,
			Doc: "Whether a replica that isn't in sync may become the leader.",
		},
	}
}
