package server

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kbroker/kbroker/protocol"
)

const (
	// metricKeys is how many keys have counters of their own; a request of another key counts as unknownKey.
	metricKeys = 128
	unknownKey = metricKeys - 1

	// latencyBuckets are powers of two from 2^latencyShift nanoseconds (16 µs) to about 34 s; the last has no bound.
	latencyBuckets = 23
	latencyShift   = 14

	// errorSlots has a place for each error code from -1 on.
	errorSlots = 256
)

// metrics counts what the server does. Counting is a few atomic additions; what Prometheus reads is made when it asks.
type metrics struct {
	server *Server
	keys   [metricKeys]atomic.Pointer[keyMetrics]

	accepted  atomic.Uint64
	refused   atomic.Uint64 // by max.connections.per.ip
	panics    atomic.Uint64
	malformed atomic.Uint64 // connections closed for what they sent
	timedOut  atomic.Uint64 // connections closed for what they didn't send or read

	desc metricDescs
}

// keyMetrics are the counters of one API key.
type keyMetrics struct {
	bytesIn  atomic.Uint64
	bytesOut atomic.Uint64
	nanos    atomic.Uint64
	buckets  [latencyBuckets]atomic.Uint64
	errors   atomic.Pointer[[errorSlots]atomic.Uint64]
}

// metricDescs describes what is collected.
type metricDescs struct {
	requests, errors, bytesIn, bytesOut, latency  *prometheus.Desc
	connections, accepted, refused, closed, panic *prometheus.Desc
	inFlight                                      *prometheus.Desc
}

func newMetricDescs() metricDescs {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("kbroker_"+name, help, labels, nil)
	}
	return metricDescs{
		requests:    d("requests_total", "Requests answered.", "api"),
		errors:      d("request_errors_total", "Requests by the first error code in their answer.", "api", "error"),
		bytesIn:     d("request_bytes_total", "Bytes of request frames.", "api"),
		bytesOut:    d("response_bytes_total", "Bytes of answers.", "api"),
		latency:     d("request_duration_seconds", "From the last byte of a request to the last byte of its answer.", "api"),
		connections: d("connections", "Open connections."),
		accepted:    d("connections_accepted_total", "Connections accepted."),
		refused:     d("connections_refused_total", "Connections closed at once by max.connections.per.ip."),
		closed:      d("connections_closed_total", "Connections closed by the broker, by reason.", "reason"),
		panic:       d("request_panics_total", "Requests whose handler panicked."),
		inFlight:    d("request_bytes_in_flight", "Memory that requests hold, by what for.", "use"),
	}
}

// of returns the counters of a key.
func (m *metrics) of(key int16) *keyMetrics {
	if key < 0 || key >= unknownKey {
		key = unknownKey
	}
	if k := m.keys[key].Load(); k != nil {
		return k
	}
	m.keys[key].CompareAndSwap(nil, &keyMetrics{})
	return m.keys[key].Load()
}

// observe counts a request that has been dealt with.
func (k *keyMetrics) observe(in int, out int64, took time.Duration, code protocol.ErrorCode) {
	k.bytesIn.Add(uint64(in))
	k.bytesOut.Add(uint64(out))
	took = max(took, 0)
	k.nanos.Add(uint64(took))
	k.buckets[latencyBucket(took)].Add(1)
	if code != protocol.None {
		k.countError(code)
	}
}

func (k *keyMetrics) countError(code protocol.ErrorCode) {
	slots := k.errors.Load()
	if slots == nil {
		k.errors.CompareAndSwap(nil, new([errorSlots]atomic.Uint64))
		slots = k.errors.Load()
	}
	slots[min(max(int(code)+1, 0), errorSlots-1)].Add(1)
}

// latencyBucket is the first bucket whose bound isn't below d.
func latencyBucket(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	return min(bits.Len64(uint64(d-1)>>latencyShift), latencyBuckets-1)
}

// latencyBound is the upper bound of a bucket in seconds.
func latencyBound(bucket int) float64 {
	return (time.Duration(1) << (latencyShift + bucket)).Seconds()
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	d := &m.desc
	for _, x := range []*prometheus.Desc{
		d.requests, d.errors, d.bytesIn, d.bytesOut, d.latency, d.connections, d.accepted, d.refused, d.closed, d.panic, d.inFlight,
	} {
		ch <- x
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for key := range m.keys {
		if k := m.keys[key].Load(); k != nil {
			m.collectKey(ch, keyName(int16(key)), k)
		}
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter(m.desc.accepted, m.accepted.Load())
	counter(m.desc.refused, m.refused.Load())
	counter(m.desc.closed, m.malformed.Load(), "malformed")
	counter(m.desc.closed, m.timedOut.Load(), "timeout")
	counter(m.desc.panic, m.panics.Load())
	gauge(m.desc.connections, float64(m.server.connections()))
	gauge(m.desc.inFlight, float64(m.server.frames.inUse()), "frames")
	gauge(m.desc.inFlight, float64(m.server.decoding.inUse()), "decoding")
}

// collectKey makes the metrics of one key.
func (m *metrics) collectKey(ch chan<- prometheus.Metric, name string, k *keyMetrics) {
	var count uint64
	buckets := make(map[float64]uint64, latencyBuckets)
	for i := range k.buckets {
		count += k.buckets[i].Load()
		if i < latencyBuckets-1 {
			buckets[latencyBound(i)] = count
		}
	}
	total := time.Duration(k.nanos.Load()).Seconds()
	ch <- prometheus.MustNewConstHistogram(m.desc.latency, count, total, buckets, name)
	ch <- prometheus.MustNewConstMetric(m.desc.requests, prometheus.CounterValue, float64(count), name)
	ch <- prometheus.MustNewConstMetric(m.desc.bytesIn, prometheus.CounterValue, float64(k.bytesIn.Load()), name)
	ch <- prometheus.MustNewConstMetric(m.desc.bytesOut, prometheus.CounterValue, float64(k.bytesOut.Load()), name)
	slots := k.errors.Load()
	if slots == nil {
		return
	}
	for i := range slots {
		if n := slots[i].Load(); n > 0 {
			code := protocol.ErrorCode(i - 1)
			ch <- prometheus.MustNewConstMetric(m.desc.errors, prometheus.CounterValue, float64(n), name, code.String())
		}
	}
}

// keyName is Kafka's name of a key.
func keyName(key int16) string {
	if a, ok := protocol.Lookup(key); ok {
		return a.Name
	}
	return "unknown"
}
