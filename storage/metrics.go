package storage

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what the logs of a set do.
type metrics struct {
	appends          prometheus.Counter
	appendedBytes    prometheus.Counter
	reads            prometheus.Counter
	readBytes        prometheus.Counter
	syncs            prometheus.Counter
	commitsPerSync   prometheus.Histogram
	rolls            prometheus.Counter
	checkpoints      prometheus.Counter
	checkpointErrors prometheus.Counter
	writeErrors      prometheus.Counter
	indexErrors      prometheus.Counter
	rebuilds         prometheus.Counter
	readOnly         prometheus.Counter
	damaged          prometheus.Counter
	recovered        *prometheus.CounterVec
	recoveredBytes   prometheus.Counter
}

// newMetrics makes the metrics and registers them, if there is a registerer.
func newMetrics(r prometheus.Registerer, s *Set) *metrics {
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "kbroker_log_" + name, Help: help})
	}
	m := &metrics{
		appends:       count("appends_total", "Batches appended."),
		appendedBytes: count("appended_bytes_total", "Bytes appended."),
		reads:         count("reads_total", "Ranges of records read."),
		readBytes:     count("read_bytes_total", "Bytes of the ranges of records read."),
		syncs:         count("syncs_total", "Syncs of data files."),
		commitsPerSync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kbroker_log_commits_per_sync", Help: "Appends that waited for the same sync.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256},
		}),
		rolls:            count("rolls_total", "Segments begun because the one before was full or old."),
		checkpoints:      count("checkpoints_total", "Checkpoints written."),
		checkpointErrors: count("checkpoint_errors_total", "Checkpoints that could not be written."),
		writeErrors:      count("write_errors_total", "Appends refused because of the disk."),
		indexErrors:      count("index_errors_total", "Index entries that could not be written or synced at first."),
		rebuilds:         count("index_rebuilds_total", "Indexes written anew because an entry or its data didn't verify."),
		readOnly:         count("read_only_total", "Logs that stopped taking writes."),
		damaged:          count("damaged_ranges_total", "Ranges of acknowledged batches found not to verify."),
		recovered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kbroker_log_recovered_total",
			Help: "Partitions recovered, by what was found: clean, examined, torn, damaged, undecided, refused.",
		}, []string{"found"}),
		recoveredBytes: count("recovery_examined_bytes_total", "Bytes examined by recovery."),
	}
	if r != nil {
		r.MustRegister(m.all(s)...)
	}
	return m
}

func (m *metrics) all(s *Set) []prometheus.Collector {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kbroker_log_" + name, Help: help}, f)
	}
	return []prometheus.Collector{
		m.appends, m.appendedBytes, m.reads, m.readBytes, m.syncs, m.commitsPerSync, m.rolls, m.checkpoints,
		m.checkpointErrors, m.writeErrors, m.indexErrors, m.rebuilds, m.readOnly, m.damaged, m.recovered, m.recoveredBytes,
		gauge("partitions", "Logs that are open.", func() float64 { return float64(s.totals().logs) }),
		gauge("segments", "Segments of all logs.", func() float64 { return float64(s.totals().segments) }),
		gauge("size_bytes", "Length of all segments' data.", func() float64 { return float64(s.totals().bytes) }),
		gauge("open_files", "Segment files open now.", func() float64 { return float64(s.files.Open()) }),
	}
}

func (m *metrics) appended(n int) {
	m.appends.Inc()
	m.appendedBytes.Add(float64(n))
}

func (m *metrics) read(n int64) {
	m.reads.Inc()
	m.readBytes.Add(float64(n))
}

// synced counts a sync and the appends that waited for it.
func (m *metrics) synced(g *group) {
	m.syncs.Inc()
	if g != nil && g.members > 0 {
		m.commitsPerSync.Observe(float64(g.members))
	}
}
