// Package admin serves what operators look at, over HTTP: whether the broker is alive and ready, its metrics, and
// profiles of the process.
//
//	/healthz       200 while the process answers
//	/readyz        200 while requests of clients are served, 503 while the broker starts or shuts down
//	/metrics       Prometheus
//	/debug/pprof/  Go's profiles
package admin

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// Bounds on what a client of the admin listener may hold. Writing takes as long as a profile, which clients choose up to
// minutes.
const (
	readTimeout    = 10 * time.Second
	idleTimeout    = time.Minute
	writeTimeout   = 5 * time.Minute
	maxHeaderBytes = 64 << 10
)

// Options says what the server shows.
type Options struct {
	// Gatherer is where metrics come from.
	Gatherer prometheus.Gatherer
	// Ready says whether clients are served. It is called concurrently.
	Ready func() bool
	// Logger takes what goes wrong with connections; nil is quiet.
	Logger *zap.Logger
}

// Server serves one listener.
type Server struct {
	http *http.Server
	done chan struct{}
}

// Serve starts to serve a listener, which Shutdown closes. It returns at once.
func Serve(l net.Listener, o Options) *Server {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	s := &Server{
		http: &http.Server{
			Handler:           Handler(o),
			ReadHeaderTimeout: readTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			ErrorLog:          zap.NewStdLog(o.Logger),
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // http.ErrServerClosed, once Shutdown has been called
	}()
	return s
}

// Handler answers the paths of this package.
func Handler(o Options) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	m.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if o.Ready() {
			say(w, http.StatusOK, "ready")
			return
		}
		say(w, http.StatusServiceUnavailable, "not ready")
	})
	m.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	m.HandleFunc("GET /debug/pprof/", pprof.Index)
	m.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	m.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	m.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	m.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, "kbroker: /healthz /readyz /metrics /debug/pprof/")
	})
	return m
}

// say answers a line of text.
func say(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, line+"\n") // the client has gone
}

// Shutdown lets requests finish until ctx ends, then closes what is left.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("shut the admin listener down: %w", err)
		_ = s.http.Close() // what ctx didn't leave time for
	}
	<-s.done
	return err
}
