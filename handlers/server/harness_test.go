package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

const (
	produce  = protocol.KeyProduce
	metadata = protocol.KeyMetadata
)

// realClock is the system's, for tests that talk over sockets.
type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }
func (realClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return realTimer{time.AfterFunc(d, f)}
}
func (realClock) NewTimer(d time.Duration) clock.Timer { return realTimer{time.NewTimer(d)} }

type realTimer struct{ *time.Timer }

func (t realTimer) C() <-chan time.Time { return t.Timer.C }

// fake is a dispatcher made of a function. It counts what is released.
type fake struct {
	answer  func(r *protocol.Request) protocol.Response
	started chan int32 // correlation ids, in the order of dispatch; nil keeps none
	gone    chan uint64
	asked   atomic.Int64 // answers handed out with a Release
	freed   atomic.Int64 // Releases called
}

func newFake(answer func(r *protocol.Request) protocol.Response) *fake {
	return &fake{answer: answer, started: make(chan int32, 1000), gone: make(chan uint64, 4000)}
}

func (f *fake) Dispatch(r *protocol.Request) protocol.Response {
	select {
	case f.started <- r.Header.CorrelationID:
	default:
	}
	return f.answer(r)
}

func (f *fake) Disconnected(c *protocol.Conn) { f.gone <- c.ID }

// ok is an answer that holds the correlation id and a payload, with a Release that may be called once only.
func (f *fake) ok(r *protocol.Request, payload []byte) protocol.Response {
	return f.framed(r.Header.CorrelationID, payload)
}

func (f *fake) framed(id int32, payload []byte) protocol.Response {
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(payload)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(id))
	return protocol.Response{Frame: append(frame, payload...), Release: f.release()}
}

func (f *fake) release() func() {
	f.asked.Add(1)
	var once atomic.Bool
	return func() {
		if once.Swap(true) {
			panic("released twice")
		}
		f.freed.Add(1)
	}
}

// later is an answer that comes when ready is closed, or a short one when the context ends.
func (f *fake) later(r *protocol.Request, ready <-chan struct{}, overlap bool) protocol.Response {
	id := r.Header.CorrelationID
	return protocol.Response{Overlap: overlap, Release: f.release(), Later: func(ctx context.Context) protocol.Response {
		select {
		case <-ready:
			return f.framed(id, []byte("ready"))
		case <-ctx.Done():
			return f.framed(id, []byte("ended"))
		}
	}}
}

// serving is a server on a loopback listener.
type serving struct {
	*Server
	t    *testing.T
	addr string
}

// serve starts a server that is closed with the test, and checks then that every Release was called.
func serve(t *testing.T, f *fake, change func(*Options)) *serving {
	t.Helper()
	o := Options{Dispatcher: f, Clock: realClock{}}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Serve("PLAINTEXT", l)
	t.Cleanup(func() {
		s.Close()
		if asked, freed := f.asked.Load(), f.freed.Load(); asked != freed {
			t.Errorf("%d answers had a Release, %d were released", asked, freed)
		}
		if n := s.frames.inUse(); n != 0 {
			t.Errorf("%d bytes of frames are still held", n)
		}
		if n := s.decoding.inUse(); n != 0 {
			t.Errorf("%d bytes of decoding are still held", n)
		}
	})
	return &serving{Server: s, t: t, addr: l.Addr().String()}
}

// client is the other end of a connection.
type client struct {
	t *testing.T
	net.Conn
}

func (s *serving) dial() *client {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &client{s.t, c}
}

// request is a frame with a header of version 1.
func request(key int16, id int32, body []byte) []byte {
	version := int16(0)
	if key == produce {
		version = 3
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(4+4+2+len(body)))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	b = append(b, 0xff, 0xff) // null client id
	return append(b, body...)
}

func (c *client) send(frames ...[]byte) {
	c.t.Helper()
	var all []byte
	for _, f := range frames {
		all = append(all, f...)
	}
	if _, err := c.Write(all); err != nil {
		c.t.Fatal(err)
	}
}

// receive reads one answer.
func (c *client) receive() (id int32, payload []byte) {
	c.t.Helper()
	id, payload, err := readAnswer(c.Conn)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return id, payload
}

func readAnswer(r io.Reader) (id int32, payload []byte, err error) {
	var head [8]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	payload = make([]byte, binary.BigEndian.Uint32(head[:])-4)
	_, err = io.ReadFull(r, payload)
	return int32(binary.BigEndian.Uint32(head[4:])), payload, err
}

// expect reads answers and checks their order.
func (c *client) expect(ids ...int32) {
	c.t.Helper()
	for _, want := range ids {
		if id, _ := c.receive(); id != want {
			c.t.Fatalf("answer %d, want %d", id, want)
		}
	}
}

// closed checks that the server has closed the connection without a further answer.
func (c *client) closed() {
	c.t.Helper()
	var b [1]byte
	n, err := c.Read(b[:])
	var timeout net.Error
	if n > 0 || errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Fatalf("the connection is open: read %d bytes, %v", n, err)
	}
}

// silent checks that nothing comes for a moment. That it passes proves little; that it fails proves much.
func (c *client) silent() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	var b [1]byte
	if n, err := c.Read(b[:]); n > 0 || err == nil {
		c.t.Fatal("an answer came too early")
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
}

// got takes from a channel.
func got[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("waited too long")
	}
	return v
}

// eventually asks for a condition until it holds: what the other side of a socket brings about tells nobody here.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick, late := time.NewTicker(time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}

// gates are channels that a test opens one by one.
type gates struct {
	mu  sync.Mutex
	all map[int32]chan struct{}
}

func (g *gates) of(id int32) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = make(map[int32]chan struct{})
	}
	if g.all[id] == nil {
		g.all[id] = make(chan struct{})
	}
	return g.all[id]
}
