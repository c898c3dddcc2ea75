package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"

	"github.com/kbroker/kbroker/protocol"
)

// FuzzFrames sends arbitrary bytes in arbitrary pieces over both ways of reading. What must hold: exactly the frames that are
// whole, of a valid length and with a sound header are dispatched, each as it was sent, up to the first that isn't;
// nothing panics, and nothing is held afterwards.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{}, uint8(1))
	f.Add(request(metadata, 1, []byte("body")), uint8(3))
	f.Add(append(request(produce, 1, make([]byte, 600)), request(metadata, 2, nil)...), uint8(200))
	f.Add(append(request(metadata, 1, nil), length(0)...), uint8(5))
	f.Add(append(request(metadata, 1, nil), length(-1)...), uint8(1))
	f.Add(append(length(4000), 1, 2, 3), uint8(7))
	f.Add(append(length(9), 0, 3, 0, 0, 0, 0, 0, 1, 0), uint8(4))
	f.Fuzz(func(t *testing.T, sent []byte, piece uint8) {
		const most = 2000
		want := wholeFrames(sent, most)
		for _, socket := range []bool{false, true} {
			var seen [][]byte
			d := newFake(func(r *protocol.Request) protocol.Response {
				seen = append(seen, bytes.Clone(r.Body))
				return protocol.Response{NoAnswer: true}
			})
			s, err := New(Options{Dispatcher: d, Clock: realClock{}, MaxRequestBytes: most})
			if err != nil {
				t.Fatal(err)
			}
			c := pair(t, s, socket)
			for at := 0; at < len(sent); at += int(piece) + 1 {
				if _, err = c.Write(sent[at:min(at+int(piece)+1, len(sent))]); err != nil {
					break // closed for what came before
				}
			}
			_ = c.Close()
			got(t, d.gone)
			s.Close()
			if len(seen) > len(want) || !socket && len(seen) < len(want) {
				t.Fatalf("%d frames seen, want %d", len(seen), len(want))
			}
			for i := range seen {
				if !bytes.Equal(seen[i], want[i]) {
					t.Fatalf("frame %d: %x, want %x", i, seen[i], want[i])
				}
			}
			if s.frames.inUse() != 0 || s.decoding.inUse() != 0 {
				t.Fatal("memory is still held")
			}
		}
	})
}

// wholeFrames cuts bytes as the protocol says, and returns the bodies.
func wholeFrames(b []byte, most int32) (bodies [][]byte) {
	for len(b) >= 4 {
		n := int32(binary.BigEndian.Uint32(b))
		if n <= 0 || n > most || int(n) > len(b)-4 {
			break
		}
		_, body, err := protocol.ParseRequestHeader(b[4 : 4+n])
		if err != nil {
			break
		}
		bodies = append(bodies, body)
		b = b[4+n:]
	}
	return bodies
}

// pair connects to a server, over a socket or in memory.
func pair(t *testing.T, s *Server, socket bool) net.Conn {
	t.Helper()
	if !socket {
		l := newMemoryListener()
		s.Serve("MEMORY", l)
		return l.dial()
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Serve("PLAINTEXT", l)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// FuzzProduceCost walks over arbitrary bodies. What must hold: it ends, without a panic, with a cost that isn't negative and that
// is no more than the largest entry for every byte.
func FuzzProduceCost(f *testing.F) {
	f.Add([]byte{}, int16(3))
	f.Add(bytes.Repeat([]byte{1}, 100), int16(9))
	f.Add(bytes.Repeat([]byte{0xff}, 100), int16(13))
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		s := produceScan{b: body, version: version, flexible: version >= 9}
		if cost := s.cost(); cost < 0 || cost > int64(len(body)+1)*(produceTopicCost+producePartitionCost*int64(len(body)+1)) {
			t.Fatalf("cost %d of %d bytes", cost, len(body))
		}
	})
}
