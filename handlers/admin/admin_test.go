package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestPathsAreAnswered(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "kbroker_things_total", Help: "Things."})
	r.MustRegister(c)
	c.Inc()
	var ready atomic.Bool
	h := Handler(Options{Gatherer: r, Ready: ready.Load})
	for _, step := range []struct {
		ready  bool
		method string
		path   string
		status int
		says   string
	}{
		{true, http.MethodGet, "/healthz", 200, "ok"},
		{false, http.MethodGet, "/healthz", 200, "ok"},
		{true, http.MethodGet, "/readyz", 200, "ready"},
		{false, http.MethodGet, "/readyz", 503, "not ready"},
		{true, http.MethodGet, "/metrics", 200, "kbroker_things_total 1"},
		{true, http.MethodGet, "/debug/pprof/", 200, "goroutine"},
		{true, http.MethodGet, "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{true, http.MethodGet, "/", 200, "/metrics"},
		{true, http.MethodGet, "/nothing", 404, ""},
		{true, http.MethodPost, "/metrics", 405, ""},
	} {
		ready.Store(step.ready)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(step.method, step.path, nil))
		if w.Code != step.status || !strings.Contains(w.Body.String(), step.says) {
			t.Errorf("%s %s: %d %q", step.method, step.path, w.Code, w.Body)
		}
	}
}

func TestShutdownClosesTheListener(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, Options{Gatherer: prometheus.NewRegistry(), Ready: func() bool { return true }})
	url := "http://" + l.Addr().String() + "/healthz"
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || string(body) != "ok\n" {
		t.Fatalf("got %q, %v", body, err)
	}
	if err = s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if resp, err = http.Get(url); err == nil {
		_ = resp.Body.Close()
		t.Fatal("it still answers")
	}
}

// A request that is under way when the time is over doesn't hold the shutdown up.
func TestShutdownDoesNotWaitForALongProfile(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	s := Serve(l, Options{Gatherer: prometheus.NewRegistry(), Ready: func() bool {
		close(asked)
		<-t.Context().Done() // until the test has ended
		return true
	}})
	go func() {
		if resp, getErr := http.Get("http://" + l.Addr().String() + "/readyz"); getErr == nil {
			_ = resp.Body.Close()
		}
	}()
	<-asked
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err = s.Shutdown(ctx); err == nil {
		t.Fatal("no error though a request was cut off")
	}
}
