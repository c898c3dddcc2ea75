package config

// serverBrokerKeys are the broker keys of requests, connections, topics, transactions and metrics.
func serverBrokerKeys() []Key { //nolint:funlen // a table, a row for each key
	return []Key{
		{
			Name: "add.partitions.to.txn.retry.backoff.max.ms", Type: Int, Default: "100", Valid: atLeast(0),
			Doc: "How long a request that comes while the producer's last transaction is still being completed waits for that, before the producer is told to try again.",
		},
		{
			Name: "add.partitions.to.txn.retry.backoff.ms", Type: Int, Default: "20", Valid: atLeast(1), NoEffect: true,
			Doc: "First pause between a broker's attempts to register a partition in a transaction on behalf of a producer.",
		},
		{
			Name: "advertised.listeners", Type: List, Null: true,
			Doc: "Addresses that clients are told to connect to, one NAME://HOST:PORT per listener. A listener that isn't named advertises its own address.",
		},
		{
			Name: "auto.create.topics.enable", Type: Boolean, Default: "true",
			Doc: "Whether a topic that a client asks for and that doesn't exist is made, if the client allows it.",
		},
		{
			Name: "background.threads", Type: Int, Default: "10", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Number of threads for housekeeping.",
		},
		{
			Name: "client.quota.callback.class", Type: Class, Null: true, NoEffect: true,
			Doc: "Java class that computes client quotas.",
		},
		{
			Name: "config.providers", Type: List, Mode: ClusterWide, NoEffect: true,
			Doc: "Names of Java classes that fetch configuration values from elsewhere.",
		},
		{
			Name: "connections.max.idle.ms", Type: Long, Default: "600000",
			Doc: "Time without requests after which a connection is closed.",
		},
		{
			Name: "create.topic.policy.class.name", Type: Class, Null: true, NoEffect: true,
			Doc: "Java class that may veto new topics.",
		},
		{
			Name: "delete.records.purgatory.purge.interval.requests", Type: Int, Default: "1", NoEffect: true,
			Doc: "Number of waiting DeleteRecords requests between clean-ups of the list of them.",
		},
		{Name: "delete.topic.enable", Type: Boolean, Default: "true", Doc: "Whether topics may be deleted."},
		{
			Name: "fetch.max.bytes", Type: Int, Default: "57671680", Valid: atLeast(1024),
			Doc: "Most bytes in one answer to Fetch, whatever the client allows; a first batch is whole all the same.",
		},
		{
			Name: "fetch.purgatory.purge.interval.requests", Type: Int, Default: "1000", NoEffect: true,
			Doc: "Number of waiting Fetch requests between clean-ups of the list of them.",
		},
		{
			Name: "kafka.metrics.polling.interval.secs", Type: Int, Default: "10", Valid: atLeast(1), NoEffect: true,
			Doc: "Time between polls of the reporters of Yammer metrics.",
		},
		{Name: "kafka.metrics.reporters", Type: List, NoEffect: true, Doc: "Java classes that report Yammer metrics."},
		{
			Name: "listener.security.protocol.map", Type: String, Default: "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", Mode: PerBroker, Preset: "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
			Doc: "Security protocol of each listener, NAME:PROTOCOL. A listener that isn't named is taken for a protocol's name.",
		},
		{
			Name: "listeners", Type: List, Default: "PLAINTEXT://:9092", Mode: PerBroker, Preset: "PLAINTEXT://localhost:9092",
			Doc: "Addresses to listen on, NAME://HOST:PORT each. No host is all addresses, port 0 any free port, the host localhost the loopback addresses of IPv4 and IPv6.",
		},
		{
			Name: "max.connection.creation.rate", Type: Int, Default: "2147483647", Valid: atLeast(0), Mode: ClusterWide, NoEffect: true,
			Doc: "New connections accepted in a second.",
		},
		{
			Name: "max.connections", Type: Int, Default: "2147483647", Valid: atLeast(0), Mode: ClusterWide,
			Doc: "Most connections at a time on all listeners.",
		},
		{
			Name: "max.connections.per.ip", Type: Int, Default: "2147483647", Valid: atLeast(0), Mode: ClusterWide,
			Doc: "Most connections at a time from one address.",
		},
		{
			Name: "max.connections.per.ip.overrides", Type: String, Mode: ClusterWide, NoEffect: true,
			Doc: "Other limits than max.connections.per.ip for some addresses, HOST:NUMBER each.",
		},
		{
			Name: "max.incremental.fetch.session.cache.slots", Type: Int, Default: "1000", Valid: atLeast(0),
			Doc: "Most fetch sessions that are kept.",
		},
		{
			Name: "max.request.partition.size.limit", Type: Int, Default: "2000", Valid: atLeast(1),
			Doc: "Most partitions in one answer to DescribeTopicPartitions.",
		},
		{
			Name: "metric.reporters", Type: List, Default: "org.apache.kafka.common.metrics.JmxReporter", Mode: ClusterWide, NoEffect: true,
			Doc: "Java classes that report metrics.",
		},
		{
			Name: "metrics.num.samples", Type: Int, Default: "2", Valid: atLeast(1), NoEffect: true,
			Doc: "Number of samples kept for a metric.",
		},
		{Name: "metrics.recording.level", Type: String, Default: "INFO", NoEffect: true, Doc: "Level of detail of metrics."},
		{
			Name: "metrics.sample.window.ms", Type: Long, Default: "30000", Valid: atLeast(1), NoEffect: true,
			Doc: "Length of a metric's samples.",
		},
		{
			Name: "num.io.threads", Type: Int, Default: "8", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Number of threads that handle requests.",
		},
		{
			Name: "num.network.threads", Type: Int, Default: "3", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Number of threads that read and write sockets.",
		},
		{
			Name: "num.partitions", Type: Int, Default: "1", Valid: atLeast(1),
			Doc: "Number of partitions of topics made without one.",
		},
		{
			Name: "num.recovery.threads.per.data.dir", Type: Int, Default: "2", Valid: atLeast(1), Mode: ClusterWide, NoEffect: true,
			Doc: "Number of threads that recover logs at the start.",
		},
		{
			Name: "producer.purgatory.purge.interval.requests", Type: Int, Default: "1000", NoEffect: true,
			Doc: "Number of waiting Produce requests between clean-ups of the list of them.",
		},
		{
			Name: "queued.max.request.bytes", Type: Long, Default: "-1", NoEffect: true,
			Doc: "Bytes of requests in the queue above which no more are read; see request.memory.bytes.",
		},
		{
			Name: "queued.max.requests", Type: Int, Default: "500", Valid: atLeast(1), NoEffect: true,
			Doc: "Requests in the queue above which no more are read; see request.memory.bytes.",
		},
		{
			Name: "quota.window.num", Type: Int, Default: "11", Valid: atLeast(1), NoEffect: true,
			Doc: "Number of samples kept for client quotas.",
		},
		{
			Name: "quota.window.size.seconds", Type: Int, Default: "1", Valid: atLeast(1), NoEffect: true,
			Doc: "Length of each sample of client quotas.",
		},
		{
			Name: "request.timeout.ms", Type: Int, Default: "30000", NoEffect: true,
			Doc: "Time a broker waits for an answer of another.",
		},
		{
			Name: "socket.connection.setup.timeout.max.ms", Type: Long, Default: "30000", NoEffect: true,
			Doc: "Longest time to connect to another broker.",
		},
		{
			Name: "socket.connection.setup.timeout.ms", Type: Long, Default: "10000", NoEffect: true,
			Doc: "First time to connect to another broker.",
		},
		{
			Name: "socket.listen.backlog.size", Type: Int, Default: "50", Valid: atLeast(1), NoEffect: true,
			Doc: "Connections that the system holds until they are accepted.",
		},
		{
			Name: "socket.receive.buffer.bytes", Type: Int, Default: "102400", NoEffect: true,
			Doc: "Receive buffer of sockets; -1 leaves it to the system.",
		},
		{
			Name: "socket.request.max.bytes", Type: Int, Default: "104857600", Valid: atLeast(1),
			Doc: "Most bytes of a request; a connection that announces more is closed.",
		},
		{
			Name: "socket.send.buffer.bytes", Type: Int, Default: "102400", NoEffect: true,
			Doc: "Send buffer of sockets; -1 leaves it to the system.",
		},
		{
			Name: "telemetry.max.bytes", Type: Int, Default: "1048576", Valid: atLeast(1), NoEffect: true,
			Doc: "Most bytes of metrics that a client may push at a time.",
		},
		{
			Name: "transaction.abort.timed.out.transaction.cleanup.interval.ms", Type: Int, Default: "10000", Valid: atLeast(1),
			Doc: "Time between searches for transactions that have timed out.",
		},
		{
			Name: "transaction.max.timeout.ms", Type: Int, Default: "900000", Valid: atLeast(1),
			Doc: "Longest transaction timeout that a producer may ask for.",
		},
		{
			Name: "transaction.partition.verification.enable", Type: Boolean, Default: "true", Mode: ClusterWide, NoEffect: true,
			Doc: "Whether a transactional write is checked with the coordinator. It always is.",
		},
		{
			Name: "transaction.remove.expired.transaction.cleanup.interval.ms", Type: Int, Default: "3600000", Valid: atLeast(1),
			Doc: "Time between searches for transactional ids that have expired.",
		},
		{
			Name: "transaction.state.log.load.buffer.size", Type: Int, Default: "5242880", Valid: atLeast(1), NoEffect: true,
			Doc: "Bytes read at a time when transactions are loaded.",
		},
		{
			Name: "transaction.state.log.min.isr", Type: Int, Default: "2", Valid: atLeast(1), Preset: "1", NoEffect: true,
			Doc: "In-sync replicas that the transaction topic needs; its configuration shows it.",
		},
		{
			Name: "transaction.state.log.num.partitions", Type: Int, Default: "50", Valid: atLeast(1),
			Doc: "Number of partitions that __transaction_state is said to have.",
		},
		{
			Name: "transaction.state.log.replication.factor", Type: Short, Default: "3", Valid: atLeast(1), Preset: "1", NoEffect: true,
			Doc: "Replication factor of the transaction topic.",
		},
		{
			Name: "transaction.state.log.segment.bytes", Type: Int, Default: "104857600", Valid: atLeast(1), NoEffect: true,
			Doc: "Size of a segment of the transaction topic.",
		},
		{
			Name: "transaction.two.phase.commit.enable", Type: Boolean, Default: "false", NoEffect: true,
			Doc: "Whether a transaction may be prepared for another system's decision.",
		},
		{
			Name: "transactional.id.expiration.ms", Type: Int, Default: "604800000", Valid: atLeast(1),
			Doc: "Time after its last use at which a transactional id is forgotten.",
		},
	}
}
