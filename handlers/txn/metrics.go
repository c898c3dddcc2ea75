package txn

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what operators watch.
type metrics struct {
	commits, aborts, timedOut, expired, storeErrors, markerErrors prometheus.Counter
}

func newMetrics(r prometheus.Registerer, ids func() int) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "kbroker", Subsystem: "txn", Name: name, Help: help})
	}
	m := &metrics{
		commits:      counter("commits_total", "Transactions decided to commit."),
		aborts:       counter("aborts_total", "Transactions decided to abort, for whatever reason."),
		timedOut:     counter("timeouts_total", "Transactions aborted because they were open for too long."),
		expired:      counter("ids_expired_total", "Transactional ids forgotten because they weren't used."),
		storeErrors:  counter("store_errors_total", "Commits of transactions' states that failed."),
		markerErrors: counter("marker_errors_total", "Markers and offsets that could not be written at the first attempt."),
	}
	if r == nil {
		return m, nil
	}
	count := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "kbroker", Subsystem: "txn", Name: "ids", Help: "Transactional ids known.",
	}, func() float64 { return float64(ids()) })
	for _, c := range []prometheus.Collector{count, m.commits, m.aborts, m.timedOut, m.expired, m.storeErrors, m.markerErrors} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) decided(commit bool) {
	if commit {
		m.commits.Inc()
	} else {
		m.aborts.Inc()
	}
}
