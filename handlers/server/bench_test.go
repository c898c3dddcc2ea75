package server

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/kbroker/kbroker/protocol"
)

// benchServer answers every request with a small frame, allocating nothing.
func benchServer(b *testing.B) net.Conn {
	b.Helper()
	frame := binary.BigEndian.AppendUint32(nil, 60)
	frame = append(frame, make([]byte, 60)...)
	f := &fake{gone: make(chan uint64, 1), answer: func(*protocol.Request) protocol.Response {
		return protocol.Response{Frame: frame}
	}}
	s, err := New(Options{Dispatcher: f, Clock: realClock{}})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s.Serve("PLAINTEXT", l)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Close()
		s.Close()
	})
	return c
}

func BenchmarkRoundTrip(b *testing.B) {
	for name, size := range map[string]int{"100B": 100, "16KiB": 16 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			c := benchServer(b)
			q := request(produce, 1, make([]byte, size))
			answer := make([]byte, 64)
			b.ReportAllocs()
			b.SetBytes(int64(len(q)))
			for b.Loop() {
				_, _ = c.Write(q)
				if _, err := io.ReadFull(c, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPipelined(b *testing.B) {
	c := benchServer(b)
	const depth = 100
	var q []byte
	for range depth {
		q = append(q, request(metadata, 1, make([]byte, 50))...)
	}
	answers := make([]byte, 64*depth)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.Write(q)
		if _, err := io.ReadFull(c, answers); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/depth, "ns/request")
}
