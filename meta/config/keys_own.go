package config

import "slices"

// brokerKeys are all keys of the broker.
func brokerKeys() []Key {
	return slices.Concat(serverBrokerKeys(), logBrokerKeys(), groupBrokerKeys(), clusterBrokerKeys(), securityBrokerKeys(),
		ownBrokerKeys(), hiddenBrokerKeys())
}

// ownBrokerKeys are the keys that Apache Kafka doesn't have.
func ownBrokerKeys() []Key {
	return []Key{
		{
			Name: "admin.listener", Type: String, Own: true,
			Doc: "Address HOST:PORT for health checks, metrics and profiles over HTTP; empty for none.",
		},
		{
			Name: "connection.request.memory.bytes", Type: Long, Default: "209715200", Valid: atLeast(1 << 20), Own: true,
			Doc: "Most memory that a request may take once it is decoded, which is up to 24 times its bytes, records aside; a connection that sends one that could take more is closed.",
		},
		{
			Name: "log.recovery.cut.unproven", Type: Boolean, Default: "false", Own: true,
			Doc: "Whether recovery may cut bad bytes at the end of a log whose last index is missing, so that nothing proves what had been acknowledged.",
		},
		{
			Name: "log.scrub.interval.ms", Type: Long, Default: "604800000", Valid: atLeast(0), Own: true,
			Doc: "Time between rereads of everything that is stored, to find what has rotted; 0 means never.",
		},
		{
			Name: "log.scrub.max.bytes.per.second", Type: Long, Default: "8388608", Valid: atLeast(0), Own: true,
			Doc: "Most bytes that such a reread reads in a second; 0 sets no limit.",
		},
		{
			Name: "log.sync", Type: String, Default: "every-write", Valid: oneOf{"every-write", "interval", "none"}, Own: true,
			Doc: "When a write is acknowledged: once it is on the disk (every-write), or once written, with a sync every log.sync.interval.ms (interval) or only when a segment is closed (none).",
		},
		{
			Name: "log.sync.interval.ms", Type: Long, Default: "1000", Valid: atLeast(1), Own: true,
			Doc: "Longest time between syncs of a log with log.sync=interval.",
		},
		{
			Name: "request.memory.bytes", Type: Long, Default: "536870912", Valid: atLeast(1 << 20), Own: true,
			Doc: "Most memory that requests may take while they are read and worked on, on all connections; more wait.",
		},
	}
}

// hiddenBrokerKeys are keys of Apache Kafka that it describes only when they are named.
func hiddenBrokerKeys() []Key {
	return []Key{
		{
			Name: "allow.everyone.if.no.acl.found", Type: Boolean, Default: "false", Hidden: true, NoEffect: true,
			Doc: "Whether what no rule speaks of is allowed.",
		},
		{
			Name: "group.consumer.regex.refresh.interval.ms", Type: Int, Default: "600000", Valid: atLeast(10000), Hidden: true, NoEffect: true,
			Doc: "Time between searches for new topics that match the patterns of consumer groups.",
		},
		{
			Name: "log.initial.task.delay.ms", Type: Long, Default: "30000", Valid: atLeast(0), Hidden: true,
			Doc: "Time after the start before the first search for segments to remove.",
		},
		{
			Name: "producer.id.expiration.check.interval.ms", Type: Int, Default: "600000", Valid: atLeast(1), Hidden: true, NoEffect: true,
			Doc: "Time between searches for producers that have expired.",
		},
		{
			Name: "super.users", Type: String, Hidden: true, NoEffect: true,
			Doc: "Principals that may do everything, separated by semicolons.",
		},
		{
			Name: "unstable.api.versions.enable", Type: Boolean, Default: "false", Hidden: true, NoEffect: true,
			Doc: "Whether versions of requests are offered that aren't final.",
		},
		{
			Name: "unstable.feature.versions.enable", Type: Boolean, Default: "false", Hidden: true, NoEffect: true,
			Doc: "Whether versions of features are offered that aren't final.",
		},
	}
}
