package meta

import "github.com/prometheus/client_golang/prometheus"

// metrics are the store's figures. The zero value counts nothing.
type metrics struct {
	registerer prometheus.Registerer
	commits    *prometheus.CounterVec
	relaxed    prometheus.Counter
	lasting    prometheus.Counter
	collectors []prometheus.Collector
}

// register makes the figures and hands them to a registerer, unless that is nil.
func (m *metrics) register(r prometheus.Registerer, s *Store) error {
	if r == nil {
		return nil
	}
	m.registerer = r
	m.commits = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kbroker_meta_commits_total",
		Help: "Commits to the metadata store, by whether they had to be durable at once.",
	}, []string{"durable"})
	m.lasting, m.relaxed = m.commits.WithLabelValues("always"), m.commits.WithLabelValues("by_setting")
	m.collectors = []prometheus.Collector{
		m.commits,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "kbroker_meta_topics",
			Help: "Topics in the metadata store.",
		}, func() float64 { return float64(s.Topics().Len()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "kbroker_meta_failed",
			Help: "1 while the metadata store takes no writes because of an error.",
		}, func() float64 {
			if s.broken.Load() {
				return 1
			}
			return 0
		}),
	}
	for _, c := range m.collectors {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) unregister() {
	for _, c := range m.collectors {
		m.registerer.Unregister(c)
	}
}

func (m *metrics) committed(lasting bool) {
	switch {
	case m.commits == nil:
	case lasting:
		m.lasting.Inc()
	default:
		m.relaxed.Inc()
	}
}
