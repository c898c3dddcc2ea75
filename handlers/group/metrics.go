package group

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what operators watch.
type metrics struct {
	rebalances, expired, commitErrors, offsetCommits, offsetsExpired prometheus.Counter
}

func newMetrics(r prometheus.Registerer, groups func() int) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "kbroker", Subsystem: "group", Name: name, Help: help})
	}
	m := &metrics{
		rebalances:     counter("rebalances_total", "Rebalances begun."),
		expired:        counter("members_expired_total", "Members put out because their sessions ended."),
		commitErrors:   counter("store_errors_total", "Commits of group records that failed."),
		offsetCommits:  counter("offset_commits_total", "Offsets committed."),
		offsetsExpired: counter("offsets_expired_total", "Committed offsets removed by retention."),
	}
	if r == nil {
		return m, nil
	}
	count := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "kbroker", Subsystem: "group", Name: "count", Help: "Groups known, empty ones included.",
	}, func() float64 { return float64(groups()) })
	for _, c := range []prometheus.Collector{count, m.rebalances, m.expired, m.commitErrors, m.offsetCommits, m.offsetsExpired} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
