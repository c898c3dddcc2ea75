package storage

import (
	"hash/fnv"
	"math"
	"time"
)

// DefaultConfig is Kafka's defaults for a topic, with SyncEveryWrite.
func DefaultConfig() Config {
	return Config{
		SyncInterval:       time.Second,
		SegmentBytes:       1 << 30,
		SegmentAge:         7 * 24 * time.Hour,
		IndexIntervalBytes: 4096,
		IndexBytes:         10 << 20,
		RetentionAge:       7 * 24 * time.Hour,
		RetentionBytes:     -1,
		FileDeleteDelay:    time.Minute,
		Delete:             true,
		MinCleanableRatio:  0.5,
		MaxCompactionLag:   math.MaxInt64,
		DeleteRetention:    24 * time.Hour,
		ProducerExpiration: 24 * time.Hour,
	}
}

// complete replaces what is not set by the default where zero makes no sense.
func (c Config) complete() Config {
	d := DefaultConfig()
	if c.SyncInterval <= 0 {
		c.SyncInterval = d.SyncInterval
	}
	if c.SegmentBytes <= 0 || c.SegmentBytes > math.MaxInt32 {
		c.SegmentBytes = math.MaxInt32
	}
	if c.IndexBytes <= 0 {
		c.IndexBytes = d.IndexBytes
	}
	if c.ProducerExpiration == 0 {
		c.ProducerExpiration = d.ProducerExpiration
	}
	return c
}

// syncsEveryWrite says whether an append is acknowledged, and seen, only once it is durable.
func (c *Config) syncsEveryWrite() bool { return c.Sync == SyncEveryWrite || c.FlushMessages == 1 }

// syncWithin is how long written bytes may stay unsynced; 0 means for ever.
func (c *Config) syncWithin() time.Duration {
	within := time.Duration(0)
	if c.Sync == SyncInterval {
		within = c.SyncInterval
	}
	if c.FlushInterval > 0 && (within == 0 || c.FlushInterval < within) {
		within = c.FlushInterval
	}
	return within
}

// rollAge is the age at which the segment with a base offset rolls, its share of the jitter taken off; 0 means never.
// The share depends on the partition and the base, so that segments made at the same time don't roll at the same time.
func (c *Config) rollAge(p Partition, base int64) time.Duration {
	age := c.SegmentAge
	if c.Compact && c.MaxCompactionLag > 0 && (age <= 0 || c.MaxCompactionLag < age) {
		age = c.MaxCompactionLag // what lies in the last segment isn't compacted
	}
	if age <= 0 {
		return 0
	}
	jitter := min(c.SegmentJitter, age)
	if jitter <= 0 {
		return age
	}
	h := fnv.New64a()
	_, _ = h.Write(p.ID[:])
	_, _ = h.Write([]byte{byte(p.Number >> 24), byte(p.Number >> 16), byte(p.Number >> 8), byte(p.Number)})
	for i := range 8 {
		_, _ = h.Write([]byte{byte(base >> (8 * i))})
	}
	return max(age-time.Duration(h.Sum64()%uint64(jitter)), 1)
}
