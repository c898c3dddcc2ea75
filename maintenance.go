package kbroker

import (
	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/storage"
)

// maintenanceOf is how the logs are looked after, by the present configuration.
func maintenanceOf(c *config.Broker) storage.Maintenance {
	return storage.Maintenance{
		RetentionInterval: c.Duration("log.retention.check.interval.ms"),
		InitialDelay:      c.Duration("log.initial.task.delay.ms"),

		Compact:           c.Bool("log.cleaner.enable"),
		CompactionThreads: c.Int("log.cleaner.threads"),
		MapBytes:          c.Int64("log.cleaner.dedupe.buffer.size"),
		MapLoad:           c.Float("log.cleaner.io.buffer.load.factor"),
		BytesPerSecond:    c.Float("log.cleaner.io.max.bytes.per.second"),
		Backoff:           c.Duration("log.cleaner.backoff.ms"),

		ScrubInterval:       c.Duration("log.scrub.interval.ms"),
		ScrubBytesPerSecond: float64(c.Int64("log.scrub.max.bytes.per.second")),
	}
}
