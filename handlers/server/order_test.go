package server

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol"
)

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response { return f.ok(r, r.Body) })
	c := serve(t, f, nil).dial()
	const n = 500
	var frames [][]byte
	for id := range int32(n) {
		frames = append(frames, request(metadata, id, bytes.Repeat([]byte{byte(id)}, int(id)*7)))
	}
	c.send(frames...)
	for id := range int32(n) {
		got, payload := c.receive()
		if got != id || !bytes.Equal(payload, bytes.Repeat([]byte{byte(id)}, int(id)*7)) {
			t.Fatalf("answer %d with %d bytes, want %d", got, len(payload), id)
		}
	}
}

// A Produce may start while earlier ones wait for their sync; its answer waits for theirs.
func TestProducesOverlapButTheirAnswersKeepTheOrder(t *testing.T) {
	t.Parallel()
	var g gates
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		if r.Header.CorrelationID == 3 {
			return f.ok(r, nil) // an error, say: there at once
		}
		return f.later(r, g.of(r.Header.CorrelationID), true)
	})
	c := serve(t, f, nil).dial()
	c.send(request(produce, 1, nil), request(produce, 2, nil), request(produce, 3, nil), request(produce, 4, nil))
	for want := int32(1); want <= 4; want++ {
		if id := got(t, f.started); id != want {
			t.Fatalf("request %d started, want %d", id, want)
		}
	}
	close(g.of(4))
	close(g.of(2))
	c.silent()
	close(g.of(1))
	c.expect(1, 2, 3, 4)
}

func TestOtherRequestsStartWhenAllBeforeThemAreAnswered(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]struct {
		key     int16
		overlap bool
		next    int16
	}{
		"metadata behind produce":   {produce, true, metadata},
		"produce behind fetch":      {metadata, false, produce},
		"metadata behind long poll": {metadata, false, metadata},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g gates
			var f *fake
			f = newFake(func(r *protocol.Request) protocol.Response {
				if r.Header.CorrelationID == 1 {
					return f.later(r, g.of(1), first.overlap)
				}
				return f.ok(r, nil)
			})
			c := serve(t, f, nil).dial()
			c.send(request(first.key, 1, nil), request(first.next, 2, nil))
			got(t, f.started)
			c.silent()
			if len(f.started) > 0 {
				t.Fatal("the second request started before the first was answered")
			}
			close(g.of(1))
			c.expect(1, 2)
		})
	}
}

func TestRequestsWithoutAnswerTakeNoSlot(t *testing.T) {
	t.Parallel()
	var g gates
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		switch id := r.Header.CorrelationID; {
		case id == 1:
			return f.later(r, g.of(1), true)
		case id%2 == 0:
			return protocol.Response{NoAnswer: true, Release: f.release()}
		default:
			return f.ok(r, nil)
		}
	})
	c := serve(t, f, nil).dial()
	c.send(request(produce, 1, nil), request(produce, 2, nil), request(produce, 3, nil), request(produce, 4, nil))
	for range 4 {
		got(t, f.started)
	}
	close(g.of(1))
	c.expect(1, 3)
	c.send(request(produce, 6, nil), request(metadata, 7, nil), request(produce, 8, nil))
	c.expect(7)
	c.send(request(produce, 10, nil))
	eventually(t, "all are released", func() bool { return f.asked.Load() == f.freed.Load() && len(f.started) == 4 })
}

// With acks 0 an error closes the connection, and nothing that was sent behind it is written to a log.
func TestClosingInsteadOfAnAnswerLetsEarlierAnswersOutAndStartsNothingMore(t *testing.T) {
	t.Parallel()
	var g gates
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		if r.Header.CorrelationID == 1 {
			return f.later(r, g.of(1), true)
		}
		return protocol.Response{Close: true, Release: f.release()}
	})
	c := serve(t, f, nil).dial()
	c.send(request(produce, 1, nil), request(produce, 2, nil))
	got(t, f.started)
	got(t, f.started)
	c.send(request(produce, 3, nil))
	close(g.of(1))
	c.expect(1)
	c.closed()
	if len(f.started) > 0 {
		t.Fatal("a request started behind one that closes the connection")
	}
}

func TestADispatcherThatGivesNothingBackClosesTheConnection(t *testing.T) {
	t.Parallel()
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		if r.Header.CorrelationID == 1 {
			return protocol.Response{Release: f.release()}
		}
		return protocol.Response{Release: f.release(), Later: func(context.Context) protocol.Response {
			return protocol.Response{Release: f.release(), Later: func(context.Context) protocol.Response { panic("called") }}
		}}
	})
	s := serve(t, f, nil)
	for id := int32(1); id <= 2; id++ {
		c := s.dial()
		c.send(request(metadata, id, nil))
		c.closed()
	}
}

func TestAPanicClosesItsConnectionAlone(t *testing.T) {
	t.Parallel()
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		switch r.Header.CorrelationID {
		case 1:
			panic("at once")
		case 2:
			return protocol.Response{Release: f.release(), Later: func(context.Context) protocol.Response { panic("later") }}
		default:
			return f.ok(r, nil)
		}
	})
	s := serve(t, f, nil)
	other := s.dial()
	for id := int32(1); id <= 2; id++ {
		c := s.dial()
		c.send(request(metadata, id, nil))
		c.closed()
	}
	other.send(request(metadata, 3, nil))
	other.expect(3)
	if n := s.metrics.panics.Load(); n != 2 {
		t.Fatalf("%d panics counted", n)
	}
}

func TestADisconnectEndsAParkedRequest(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		return protocol.Response{Later: func(ctx context.Context) protocol.Response {
			<-ctx.Done()
			ended <- ctx.Err()
			return f.framed(1, nil)
		}}
	})
	c := serve(t, f, nil).dial()
	c.send(request(metadata, 1, nil))
	got(t, f.started)
	_ = c.Close()
	if err := got(t, ended); err == nil {
		t.Fatal("the context has no error")
	}
	got(t, f.gone)
}

// The requests that were sent before the peer went away, and their answers, are gone with it; nothing is leaked.
func TestADisconnectDropsPendingAnswers(t *testing.T) {
	t.Parallel()
	var g gates
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		if r.Header.CorrelationID%2 == 0 {
			return f.ok(r, make([]byte, 100))
		}
		return f.later(r, g.of(1), true)
	})
	s := serve(t, f, nil)
	c := s.dial()
	for id := int32(1); id <= 20; id++ {
		c.send(request(produce, id, nil))
	}
	for range 20 {
		got(t, f.started)
	}
	_ = c.Close()
	got(t, f.gone)
	if f.asked.Load() != f.freed.Load() {
		t.Fatalf("%d asked, %d freed", f.asked.Load(), f.freed.Load())
	}
}

func TestPendingAnswersAreBounded(t *testing.T) {
	t.Parallel()
	var g gates
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response { return f.later(r, g.of(r.Header.CorrelationID), true) })
	c := serve(t, f, func(o *Options) { o.MaxPending = 3 }).dial()
	for id := range int32(5) {
		c.send(request(produce, id, nil))
	}
	for range 3 {
		got(t, f.started)
	}
	c.silent()
	if len(f.started) > 0 {
		t.Fatal("a fourth request started")
	}
	for id := range int32(5) {
		close(g.of(id))
	}
	c.expect(0, 1, 2, 3, 4)
}

func TestShutdownAnswersWhatIsParkedAndWaitsForSyncs(t *testing.T) {
	t.Parallel()
	var g gates
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		return f.later(r, g.of(r.Header.CorrelationID), r.Header.Key == produce)
	})
	s := serve(t, f, nil)
	idle, poll, sync := s.dial(), s.dial(), s.dial()
	poll.send(request(metadata, 1, nil), request(metadata, 2, nil))
	got(t, f.started)
	sync.send(request(produce, 3, nil))
	got(t, f.started)
	eventually(t, "all are connected", func() bool { return s.connections() == 3 })
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- s.Shutdown(ctx)
	}()
	idle.closed()
	if id, payload := poll.receive(); id != 1 || string(payload) != "ended" {
		t.Fatalf("answer %d %q", id, payload)
	}
	poll.closed() // request 2 hadn't started
	sync.silent()
	close(g.of(3))
	if id, payload := sync.receive(); id != 3 || string(payload) != "ready" {
		t.Fatalf("answer %d %q", id, payload)
	}
	sync.closed()
	if err := got(t, done); err != nil {
		t.Fatal(err)
	}
}

func TestShutdownGivesUpWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	var g gates
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response { return f.later(r, g.of(1), true) })
	s := serve(t, f, nil)
	c := s.dial()
	c.send(request(produce, 1, nil))
	got(t, f.started)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); err == nil {
		t.Fatal("no error though a request was cut off")
	}
	c.closed()
}
