package group

import "time"

// Config holds the broker's settings that the coordinator follows. Changes hold from the next request on.
type Config struct {
	InitialRebalanceDelay  time.Duration // group.initial.rebalance.delay.ms
	MinSessionTimeout      time.Duration // group.min.session.timeout.ms
	MaxSessionTimeout      time.Duration // group.max.session.timeout.ms
	MaxSize                int           // group.max.size: members of a classic group
	OffsetMetadataMax      int           // offset.metadata.max.bytes, counted in characters as Kafka does
	OffsetsRetention       time.Duration // offsets.retention.minutes
	RetentionCheckInterval time.Duration // offsets.retention.check.interval.ms
	Consumer               ConsumerConfig
}

// ConsumerConfig holds the settings of the KIP-848 protocol.
type ConsumerConfig struct {
	SessionTimeout     time.Duration // group.consumer.session.timeout.ms
	HeartbeatInterval  time.Duration // group.consumer.heartbeat.interval.ms
	AssignmentInterval time.Duration // group.consumer.assignment.interval.ms: least time between two target assignments
	MaxSize            int           // group.consumer.max.size
	Assignors          []string      // group.consumer.assignors; the first is the default
	Upgrade, Downgrade bool          // group.consumer.migration.policy
}

// DefaultConfig has Kafka's defaults.
func DefaultConfig() Config {
	return Config{
		InitialRebalanceDelay:  3 * time.Second,
		MinSessionTimeout:      6 * time.Second,
		MaxSessionTimeout:      30 * time.Minute,
		MaxSize:                1<<31 - 1,
		OffsetMetadataMax:      4096,
		OffsetsRetention:       7 * 24 * time.Hour,
		RetentionCheckInterval: 10 * time.Minute,
		Consumer: ConsumerConfig{
			SessionTimeout:     45 * time.Second,
			HeartbeatInterval:  5 * time.Second,
			AssignmentInterval: time.Second,
			MaxSize:            1<<31 - 1,
			Assignors:          []string{"uniform", "range"},
			Upgrade:            true,
			Downgrade:          true,
		},
	}
}
