package storage

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kbroker/kbroker/storage/cleaner"
)

// maintenanceMetrics counts what is done for logs in the background.
type maintenanceMetrics struct {
	expired  prometheus.Counter
	passes   prometheus.Counter
	failed   prometheus.Counter
	replaced prometheus.Counter
	read     prometheus.Counter
	kept     prometheus.Counter
	dropped  prometheus.Counter
	seconds  prometheus.Counter
	scrubs   prometheus.Counter
	scrubbed prometheus.Counter
	rot      prometheus.Counter
}

func newMaintenanceMetrics(r prometheus.Registerer) *maintenanceMetrics {
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "kbroker_log_" + name, Help: help})
	}
	m := &maintenanceMetrics{
		expired:  count("expired_segments_total", "Segments removed because of retention.ms or retention.bytes."),
		passes:   count("compactions_total", "Passes of the compaction over a log."),
		failed:   count("compaction_errors_total", "Passes of the compaction that failed."),
		replaced: count("compacted_segments_total", "Segments that compaction has replaced."),
		read:     count("compaction_read_bytes_total", "Bytes of batches that compaction went over."),
		kept:     count("compaction_kept_bytes_total", "Bytes of batches that compaction kept of them."),
		dropped:  count("compaction_dropped_records_total", "Records that compaction dropped."),
		seconds:  count("compaction_seconds_total", "Time spent on compaction."),
		scrubs:   count("scrubs_total", "Rereads of all segments that have ended."),
		scrubbed: count("scrubbed_bytes_total", "Bytes reread."),
		rot:      count("scrub_rotten_segments_total", "Segments found rotten when reread."),
	}
	if r != nil {
		r.MustRegister(m.expired, m.passes, m.failed, m.replaced, m.read, m.kept, m.dropped, m.seconds, m.scrubs, m.scrubbed, m.rot)
	}
	return m
}

func (m *maintenanceMetrics) compacted(s *cleaner.Stats, took time.Duration) {
	m.passes.Inc()
	m.read.Add(float64(s.Bytes))
	m.kept.Add(float64(s.KeptBytes))
	m.dropped.Add(float64(s.Records - s.KeptRecords))
	m.seconds.Add(took.Seconds())
}
