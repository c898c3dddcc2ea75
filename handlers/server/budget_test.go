package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kbroker/kbroker/protocol"
)

func TestWhoeverAsksForTooMuchWaitsInLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10, false)
		var first, second, third hold
		b.acquire(nil, &first, 8)
		order := make(chan int, 2)
		go func() { b.acquire(nil, &second, 5); order <- 2 }()
		synctest.Wait()
		go func() { b.acquire(nil, &third, 1); order <- 3 }() // fits, but isn't first
		synctest.Wait()
		if len(order) > 0 {
			t.Fatal("somebody passed")
		}
		b.release(&first)
		synctest.Wait()
		if len(order) != 2 || b.inUse() != 6 {
			t.Fatalf("%d passed, %d in use", len(order), b.inUse())
		}
	})
}

func TestWhoeverIsGoneLeavesTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10, false)
		var first, second, third hold
		b.acquire(nil, &first, 8)
		gone, passed := make(chan struct{}), make(chan bool, 2)
		go func() { passed <- b.acquire(gone, &second, 9) }()
		synctest.Wait()
		go func() { passed <- b.acquire(nil, &third, 2) }()
		synctest.Wait()
		close(gone)
		synctest.Wait()
		if one, other := <-passed, <-passed; one == other || second.bytes != 0 || third.bytes != 2 || b.inUse() != 10 {
			t.Fatalf("second %+v, third %+v, %d in use", second, third, b.inUse())
		}
	})
}

// Two that each hold a part and need more don't block each other: one may go beyond, then the other.
func TestOneAtATimeMayGoBeyondTheTotal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10, true)
		holds := make([]hold, 3)
		for i := range holds {
			b.acquire(nil, &holds[i], 3)
		}
		finish := make(chan struct{})
		for i := range holds {
			go func() {
				b.acquire(nil, &holds[i], 20)
				b.acquire(nil, &holds[i], 20)
				<-finish
				b.release(&holds[i])
			}()
		}
		for left := 3; left > 0; left-- {
			synctest.Wait()
			if want := int64(3*left + 40); b.inUse() != want {
				t.Fatalf("%d in use with %d left, want %d: one beyond the total", b.inUse(), left, want)
			}
			finish <- struct{}{}
		}
		synctest.Wait()
		if b.inUse() != 0 || b.mu.lent {
			t.Fatalf("%d in use at the end", b.inUse())
		}
	})
}

func TestLogLinesThatPeersCauseAreFew(t *testing.T) {
	t.Parallel()
	var l logLimit
	now := time.Unix(1_700_000_000, 0)
	lines := 0
	for range 1000 {
		if _, ok := l.allow(now); ok {
			lines++
		}
	}
	if lines != logBurst {
		t.Fatalf("%d lines at once", lines)
	}
	if skipped, ok := l.allow(now.Add(logPause)); !ok || skipped != 1000-logBurst {
		t.Fatalf("%d skipped, %v", skipped, ok)
	}
	if _, ok := l.allow(now.Add(logPause)); ok {
		t.Fatal("two lines after one pause")
	}
}

func TestBuffersAreOfTheClassThatFits(t *testing.T) {
	t.Parallel()
	var p bufferPool
	for size, want := range map[int]int{
		0: 512, 1: 512, 512: 512, 513: 1024, baseBytes: baseBytes, baseBytes + 1: 2 * baseBytes,
		4 << 20: 4 << 20, 4<<20 + 1: 4<<20 + 1,
	} {
		b := p.get(size)
		if len(b.b) != want || classBytes(size) != want {
			t.Errorf("size %d: %d bytes, class %d, want %d", size, len(b.b), classBytes(size), want)
		}
		p.put(b)
	}
}

func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		a := f.ok(r, make([]byte, 92))
		a.ErrorCode = protocol.ErrorCode(r.Header.CorrelationID)
		return a
	})
	r := prometheus.NewRegistry()
	s := serve(t, f, func(o *Options) { o.Registerer = r })
	c := s.dial()
	for _, code := range []protocol.ErrorCode{protocol.None, protocol.NotCoordinator, protocol.UnknownServerError} {
		c.send(request(metadata, int32(code), make([]byte, 86)))
		c.expect(int32(code))
	}
	c.send(request(500, 1, nil))
	c.expect(1)
	values := func() map[string]float64 {
		all, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := make(map[string]float64)
		for _, family := range all {
			for _, m := range family.GetMetric() {
				name := family.GetName()
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		return out
	}
	eventually(t, "all are counted", func() bool { return values()["kbroker_requests_total unknown"] == 1 })
	v := values()
	for name, want := range map[string]float64{
		"kbroker_requests_total Metadata":                            3,
		"kbroker_request_errors_total Metadata NOT_COORDINATOR":      1,
		"kbroker_request_errors_total Metadata UNKNOWN_SERVER_ERROR": 1,
		"kbroker_request_bytes_total Metadata":                       300,
		"kbroker_response_bytes_total Metadata":                      300,
		"kbroker_request_duration_seconds Metadata":                  3,
		"kbroker_connections":                                        1,
		"kbroker_connections_accepted_total":                         1,
		"kbroker_request_bytes_in_flight decoding":                   0,
	} {
		if v[name] != want {
			t.Errorf("%s is %v, want %v", name, v[name], want)
		}
	}
	s.Close()
	if len(values()) != 0 {
		t.Error("metrics are still registered after the server's end")
	}
}

func TestLatenciesFallIntoTheirBuckets(t *testing.T) {
	t.Parallel()
	for i := range latencyBuckets - 1 {
		bound := time.Duration(latencyBound(i) * float64(time.Second))
		if latencyBucket(bound) != i || latencyBucket(bound+1) != i+1 {
			t.Errorf("bound %v: buckets %d and %d, want %d", bound, latencyBucket(bound), latencyBucket(bound+1), i)
		}
	}
	if latencyBucket(-time.Second) != 0 || latencyBucket(time.Hour) != latencyBuckets-1 {
		t.Error("a latency outside the bounds isn't in the first or the last bucket")
	}
}
