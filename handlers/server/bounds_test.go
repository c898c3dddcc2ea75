package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
)

// echo answers each request with its body.
func echo() *fake {
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response { return f.ok(r, r.Body) })
	return f
}

// length is the start of a frame that announces n bytes.
func length(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func TestFramesOfWrongLengthCloseTheConnection(t *testing.T) {
	t.Parallel()
	f := echo()
	s := serve(t, f, func(o *Options) { o.MaxRequestBytes = 1000 })
	for name, sent := range map[string][]byte{
		"zero":      length(0),
		"negative":  length(-5),
		"smallest":  length(-1 << 31),
		"too large": append(length(1001), make([]byte, 1001)...),
		"http":      []byte("GET / HTTP/1.1\r\n\r\n"),
		"tls":       {0x16, 0x03, 0x01, 0x02, 0x00, 0x01},
		"no header": append(length(2), 0, 3),
		"cut in the client id": append(length(11),
			0, 3, 0, 0, 0, 0, 0, 1, 0, 10, 'a'),
	} {
		t.Run(name, func(t *testing.T) {
			c := s.dial()
			c.t = t
			c.send(sent)
			c.closed()
		})
	}
	if len(f.started) > 0 {
		t.Fatal("a malformed request was dispatched")
	}
	c := s.dial()
	c.send(request(metadata, 7, make([]byte, 1000-10)))
	c.expect(7)
	if n := s.metrics.malformed.Load(); n != 8 {
		t.Fatalf("%d connections counted as malformed", n)
	}
}

// Thousands that announce the largest frame and send a few bytes of it cost no more than those bytes and a connection.
func TestAnnouncedFramesTakeNoMemoryBeforeTheyCome(t *testing.T) {
	f := echo()
	s := serve(t, f, nil)
	const connections = 2000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range connections {
		c := s.dial()
		c.send(length(DefaultMaxRequestBytes), make([]byte, 100))
	}
	eventually(t, "all are connected", func() bool { return s.connections() == connections })
	c := s.dial()
	c.send(request(metadata, 1, nil))
	c.expect(1) // others don't notice
	runtime.GC()
	runtime.ReadMemStats(&after)
	// The test's own ends of the connections are counted too.
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / connections; each > 8<<10 {
		t.Fatalf("%d bytes of heap a connection", each)
	}
	if n := s.frames.inUse(); n != 0 {
		t.Fatalf("%d bytes are reserved for frames that haven't come", n)
	}
}

func TestLargeFramesComeThroughWhole(t *testing.T) {
	t.Parallel()
	f := echo()
	s := serve(t, f, nil)
	c := s.dial()
	for round := range 2 { // the second time the connection is trusted with the size
		for _, size := range []int{baseBytes - 14, baseBytes - 13, 200_000, 1 << 20, 5 << 20} {
			body := bytes.Repeat([]byte{byte(size), byte(round), 1}, size/3+1)[:size]
			go func() {
				frame := request(metadata, int32(size), body)
				for len(frame) > 0 {
					n := min(len(frame), 100_003)
					_, _ = c.Write(frame[:n])
					frame = frame[n:]
				}
				_, _ = c.Write(request(metadata, 1, nil))
			}()
			id, payload := c.receive()
			if id != int32(size) || !bytes.Equal(payload, body) {
				t.Fatalf("answer %d with %d bytes, want %d", id, len(payload), size)
			}
			c.expect(1)
		}
	}
	eventually(t, "the memory is given back", func() bool { return s.frames.inUse() == 0 })
}

// With memory for less than two large frames, all of many come through, none is refused, and never more than the bound and
// one frame is held.
func TestFramesWaitForMemory(t *testing.T) {
	t.Parallel()
	f := echo()
	const size, total = 1 << 20, 3 << 19
	s := serve(t, f, func(o *Options) { o.MaxFrameBytes = total })
	done := make(chan error, 8)
	for i := range cap(done) {
		c := s.dial()
		go func() {
			frame := request(produce, int32(i), make([]byte, size))
			for at := 0; at < len(frame); at += 50_000 {
				if n := s.frames.inUse(); n > total+2*size {
					done <- fmt.Errorf("%d bytes of frames are held", n)
					return
				}
				if _, err := c.Write(frame[at:min(at+50_000, len(frame))]); err != nil {
					done <- err
					return
				}
			}
			_, _, err := readAnswer(c)
			done <- err
		}()
	}
	for range cap(done) {
		if err := got(t, done); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRequestsThatCouldTakeTooMuchMemoryAreRefused(t *testing.T) {
	t.Parallel()
	f := echo()
	s := serve(t, f, func(o *Options) { o.MaxConnDecodeBytes = 24 << 10 })
	c := s.dial()
	c.send(request(metadata, 1, make([]byte, 1<<10)))
	c.expect(1)
	c.send(request(metadata, 2, make([]byte, 1<<10+1)))
	c.closed()
}

// What a decoded body may take is held until its request has been dispatched, and no longer: not while its answer is awaited.
func TestDecodedBodiesAreBounded(t *testing.T) {
	t.Parallel()
	var g gates
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		id := r.Header.CorrelationID
		if id == 2 {
			return f.later(r, g.of(id), false)
		}
		<-g.of(id)
		return f.ok(r, nil)
	})
	const cost = decodeFactor * 1000
	s := serve(t, f, func(o *Options) { o.MaxDecodeBytes = cost * 3 / 2 })
	one, two, three := s.dial(), s.dial(), s.dial()
	one.send(request(metadata, 1, make([]byte, 1000)))
	got(t, f.started)
	two.send(request(metadata, 2, make([]byte, 1000)))
	two.silent()
	if len(f.started) > 0 {
		t.Fatal("two bodies are decoded beyond the bound")
	}
	close(g.of(1))
	one.expect(1)
	got(t, f.started) // 2, which has been dispatched, so that 3 may start
	three.send(request(metadata, 3, make([]byte, 1000)))
	got(t, f.started)
	close(g.of(2))
	close(g.of(3))
	two.expect(2)
	three.expect(3)
}

func TestLargeRequestsDecodeOneAtATime(t *testing.T) {
	t.Parallel()
	var g gates
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		<-g.of(r.Header.CorrelationID)
		return f.ok(r, nil)
	})
	s := serve(t, f, nil)
	one, two, small := s.dial(), s.dial(), s.dial()
	one.send(request(metadata, 1, make([]byte, largeBytes+1)))
	got(t, f.started)
	two.send(request(metadata, 2, make([]byte, largeBytes+1)))
	small.send(request(metadata, 3, nil))
	close(g.of(3))
	small.expect(3)
	two.silent()
	if got(t, f.started) != 3 || len(f.started) > 0 {
		t.Fatal("two large requests are being decoded")
	}
	close(g.of(1))
	close(g.of(2))
	one.expect(1)
	two.expect(2)
}

// startManual starts a server whose clock the test moves, on connections in memory.
func startManual(t *testing.T, f *fake, change func(*Options)) (*Server, *clock.Manual, func() net.Conn) {
	t.Helper()
	m := clock.NewManual(time.Unix(1_700_000_000, 0))
	s := serve(t, f, func(o *Options) {
		o.Clock = m
		if change != nil {
			change(o)
		}
	})
	dial := func() net.Conn {
		n := s.connections()
		c := s.dial()
		eventually(t, "connected", func() bool { return s.connections() == n+1 })
		return c
	}
	return s.Server, m, dial
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	var g gates
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		if r.Header.CorrelationID == 1 {
			return f.later(r, g.of(1), false)
		}
		return f.ok(r, nil)
	})
	s, m, dial := startManual(t, f, func(o *Options) { o.MaxIdle = time.Minute })
	idle, parked := &client{t, dial()}, &client{t, dial()}
	parked.send(request(metadata, 1, nil))
	got(t, f.started)
	m.Advance(59 * time.Second)
	idle.send(request(metadata, 2, nil))
	idle.expect(2)
	m.Advance(59 * time.Second)
	if n := s.connections(); n != 2 {
		t.Fatalf("%d connections are left", n)
	}
	m.Advance(time.Minute)
	idle.closed()
	eventually(t, "the idle connection is gone", func() bool { return s.connections() == 1 })
	close(g.of(1))
	parked.expect(1)
	eventually(t, "the answer is counted", func() bool { return s.metrics.of(metadata).nanos.Load() > 0 })
	m.Advance(59 * time.Second)
	if n := s.connections(); n != 1 {
		t.Fatal("the parked connection's time ran while the broker was to answer")
	}
	m.Advance(2 * time.Minute)
	parked.closed()
}

func TestAFrameThatDoesNotGoOnIsGivenUp(t *testing.T) {
	t.Parallel()
	f := echo()
	s, m, dial := startManual(t, f, func(o *Options) { o.StallTimeout = 10 * time.Second })
	c := &client{t, dial()}
	c.send(length(1000), make([]byte, 10))
	conn := s.all()[0]
	eventually(t, "the frame has begun", func() bool { return conn.frameDue.Load() != 0 })
	m.Advance(8 * time.Second)
	if s.connections() != 1 {
		t.Fatal("closed too early")
	}
	m.Advance(10 * time.Second)
	c.closed()
}

// A reader that doesn't read holds an answer in memory for the stall timeout, counted in the budget, and a range of a file as long
// as an idle connection may stay.
func TestSlowReadersAreGivenUp(t *testing.T) {
	t.Parallel()
	const size = 16 << 20 // more than the sockets' buffers
	file := fakeRange{size: size}
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		if r.Header.CorrelationID == 1 {
			return f.ok(r, make([]byte, size))
		}
		a := f.ok(r, nil)
		binary.BigEndian.PutUint32(a.Frame, 4+size)
		a.Parts = []protocol.Part{{File: file}}
		return a
	})
	s, m, dial := startManual(t, f, func(o *Options) { o.StallTimeout, o.MaxIdle = 10*time.Second, 20*time.Minute })
	c := &client{t, dial()}
	for _, id := range []int32{1, 2} {
		c.send(request(metadata, id, nil))
		got(t, f.started)
		conn := s.all()[0]
		eventually(t, "it is being written", func() bool { return conn.writeDue.Load() != 0 })
		m.Advance(10*time.Second + size/minRate*time.Second/2)
		if s.connections() != 1 {
			t.Fatal("closed though the reader has time")
		}
		switch id {
		case 1:
			if s.decoding.inUse() != size+8 {
				t.Fatalf("%d bytes are counted", s.decoding.inUse())
			}
			c.expect(1)
			eventually(t, "it is written", func() bool { return conn.writeDue.Load() == 0 })
		default:
			if s.decoding.inUse() != 0 {
				t.Fatal("bytes of a file are counted as memory")
			}
			m.Advance(30 * time.Minute)
			eventually(t, "it is closed", func() bool { return s.connections() == 0 })
		}
	}
}

// fakeRange is a range of zeros.
type fakeRange struct{ size int64 }

func (f fakeRange) Size() int64 { return f.size }

func (f fakeRange) SendTo(w io.Writer) (int64, error) {
	var sent int64
	buf := make([]byte, 64<<10)
	for sent < f.size {
		n, err := w.Write(buf[:min(int64(len(buf)), f.size-sent)])
		sent += int64(n)
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

func TestAnswersOfSeveralPartsAreWrittenInOrder(t *testing.T) {
	t.Parallel()
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		a := f.ok(r, []byte("head"))
		binary.BigEndian.PutUint32(a.Frame, 8+3+5+2)
		a.Parts = []protocol.Part{{Bytes: []byte("one")}, {File: fakeRange{5}}, {Bytes: nil}, {Bytes: []byte("ed")}}
		if r.Header.CorrelationID%2 == 0 {
			a.Parts = []protocol.Part{{Bytes: []byte("one")}, {Bytes: make([]byte, 5)}, {Bytes: []byte("ed")}}
		}
		return a
	})
	c := serve(t, f, nil).dial()
	c.send(request(metadata, 1, nil), request(metadata, 2, nil), request(metadata, 3, nil), request(metadata, 4, nil))
	for want := int32(1); want <= 4; want++ {
		id, payload := c.receive()
		if id != want || string(payload) != "headone\x00\x00\x00\x00\x00ed" {
			t.Fatalf("answer %d %q", id, payload)
		}
	}
}

// A range that turns out shorter than the length that was sent would make the client take the next answer's bytes for it.
func TestAFileThatIsTooShortEndsTheConnection(t *testing.T) {
	t.Parallel()
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		a := f.ok(r, nil)
		binary.BigEndian.PutUint32(a.Frame, 4+100)
		a.Parts = []protocol.Part{{File: shortRange{fakeRange{50}}}}
		return a
	})
	c := serve(t, f, nil).dial()
	c.send(request(metadata, 1, nil), request(metadata, 2, nil))
	if _, err := io.ReadFull(c, make([]byte, 8+50)); err != nil {
		t.Fatal(err)
	}
	c.closed()
}

type shortRange struct{ fakeRange }

func (shortRange) Size() int64 { return 100 }

// limits are the same for all addresses.
func limits(all, ofAddress int) func(netip.Addr) (int, int) {
	return func(netip.Addr) (int, int) { return all, ofAddress }
}

func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	t.Parallel()
	f := echo()
	s := serve(t, f, func(o *Options) { o.Limits = limits(2, 10) })
	one, two, three := s.dial(), s.dial(), s.dial()
	one.send(request(metadata, 1, nil))
	two.send(request(metadata, 2, nil))
	one.expect(1)
	two.expect(2)
	three.send(request(metadata, 3, nil))
	three.silent()
	_ = one.Close()
	three.expect(3)
}

func TestARaisedLimitLetsInWhoWaits(t *testing.T) {
	t.Parallel()
	var most atomic.Int64
	most.Store(1)
	s := serve(t, echo(), func(o *Options) {
		o.StallTimeout = sweeps * minSweepTime
		o.Limits = func(netip.Addr) (all, ofAddress int) { return int(most.Load()), 10 }
	})
	one, two := s.dial(), s.dial()
	one.send(request(metadata, 1, nil))
	one.expect(1)
	two.send(request(metadata, 2, nil))
	two.silent()
	most.Store(2)
	two.expect(2)
}

func TestConnectionsBeyondTheLimitOfAnAddressAreClosed(t *testing.T) {
	t.Parallel()
	f := echo()
	s := serve(t, f, func(o *Options) { o.Limits = limits(10, 1) })
	one := s.dial()
	one.send(request(metadata, 1, nil))
	one.expect(1)
	s.dial().closed()
	_ = one.Close()
	eventually(t, "it has left", func() bool { return s.connections() == 0 })
	again := s.dial()
	again.send(request(metadata, 2, nil))
	again.expect(2)
}

func TestShutdownEndsConnectionsThatWaitForAPlace(t *testing.T) {
	t.Parallel()
	f := echo()
	s := serve(t, f, func(o *Options) { o.Limits = limits(1, 10) })
	one, two := s.dial(), s.dial()
	one.send(request(metadata, 1, nil))
	one.expect(1)
	s.Close()
	two.closed()
}

// The listener's name and both addresses reach the handlers.
func TestRequestsKnowTheirListener(t *testing.T) {
	t.Parallel()
	conns := make(chan *protocol.Conn, 2)
	var f *fake
	f = newFake(func(r *protocol.Request) protocol.Response {
		conns <- r.Conn
		return f.ok(r, nil)
	})
	s := serve(t, f, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Serve("DOCKER", l)
	inner := &serving{s.Server, t, l.Addr().String()}
	for name, at := range map[string]*serving{"PLAINTEXT": s, "DOCKER": inner} {
		c := at.dial()
		c.send(request(metadata, 1, nil))
		c.expect(1)
		conn := got(t, conns)
		if conn.Listener != name || conn.Local.String() != at.addr || conn.Peer.String() != c.LocalAddr().String() ||
			conn.Principal != "User:ANONYMOUS" {
			t.Fatalf("%s: %+v", name, conn)
		}
	}
}

// Unix sockets and connections without a descriptor are served as well.
func TestOtherKindsOfConnectionsAreServed(t *testing.T) {
	t.Parallel()
	f := echo()
	s := serve(t, f, nil)
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s.Serve("UNIX", l)
	nc, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	memory := newMemoryListener()
	s.Serve("MEMORY", memory)
	for _, c := range []net.Conn{nc, memory.dial()} {
		_ = c.SetDeadline(time.Now().Add(patience))
		body := make([]byte, 300_000)
		go func() { _, _ = c.Write(append(request(produce, 5, body), request(metadata, 6, nil)...)) }()
		if id, payload, err := readAnswer(c); err != nil || id != 5 || len(payload) != len(body) {
			t.Fatalf("%v: answer %d with %d bytes", err, id, len(payload))
		}
		if id, _, err := readAnswer(c); err != nil || id != 6 {
			t.Fatalf("%v: answer %d", err, id)
		}
		_ = c.Close()
	}
}

// memoryListener accepts pipes.
type memoryListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	close(l.done)
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (l *memoryListener) dial() net.Conn {
	c, s := net.Pipe()
	select {
	case l.conns <- s:
	case <-l.done:
	}
	return c
}

// A produce request is charged for its lists as kmsg builds them, not for its records.
func TestTheCostOfAProduceFollowsItsLists(t *testing.T) {
	t.Parallel()
	for version := int16(3); version <= 13; version++ {
		q := kmsg.NewPtrProduceRequest()
		q.Version = version
		for range 50 {
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic = "t"
			for range 4 {
				p := kmsg.NewProduceRequestTopicPartition()
				p.Records = make([]byte, 6_000)
				topic.Partitions = append(topic.Partitions, p)
			}
			q.Topics = append(q.Topics, topic)
		}
		body := q.AppendTo(nil)
		h := protocol.RequestHeader{Key: produce, Version: version}
		if want := int64(50*produceTopicCost + 200*producePartitionCost); decodeCost(&h, body) != want {
			t.Fatalf("version %d: cost %d, want %d", version, decodeCost(&h, body), want)
		}
		if cut := decodeCost(&h, body[:len(body)-100_000]); cut <= 0 || cut > int64(len(body))*produceTopicCost {
			t.Fatalf("version %d: cost %d when cut", version, cut)
		}
	}
}
