package server

import (
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol"
)

const (
	// gatherBytes bounds the answers that are gathered to be written at once, and the size of one that is copied for it.
	gatherBytes = 64 << 10
	copyBytes   = 16 << 10

	// gatherTime is how long an answer may wait for the next ones.
	gatherTime = 500 * time.Microsecond

	// debtBytes is from where on an answer in memory counts in the budget until it is written.
	debtBytes = 64 << 10
)

// writer writes the answers of a connection. The reader uses it while nothing is pending, the pipeline's goroutine
// otherwise; never both.
type writer struct {
	conn   *conn
	out    *buffer // answers gathered, or nil
	n      int     // bytes in out
	oldest time.Time
	vec    net.Buffers // memory for what is written at once
	left   net.Buffers // what of it is still to be written
	debt   hold
}

// answer writes an answer behind those gathered, or gathers it too if more may follow at once. now may be a little late. It is
// false when the connection is to be closed, for an error or because the answer says so.
func (w *writer) answer(s *slot, now time.Time, more bool) bool {
	resp := &s.resp
	switch {
	case resp.Close:
		w.refuse(s)
		return false
	case resp.Frame == nil || resp.Later != nil:
		resp.Reason = fmt.Errorf("%w: %s", errNoResponse, keyName(s.key))
		w.refuse(s)
		return false
	}
	if (more || w.n > 0) && w.gather(s) {
		return more || w.flush()
	}
	size, ok := w.write(resp, now)
	w.conn.finish(s, size, w.conn.server.clock.Now())
	return ok
}

// refuse sends what was answered before a request that is answered by closing the connection.
func (w *writer) refuse(s *slot) {
	w.flush()
	if s.resp.Reason != nil {
		w.conn.malformed(s.resp.Reason)
	}
	w.conn.finish(s, 0, w.conn.server.clock.Now())
}

// gather copies a small answer; false if it isn't.
func (w *writer) gather(s *slot) bool {
	size := len(s.resp.Frame)
	for i := range s.resp.Parts {
		if s.resp.Parts[i].File != nil {
			return false
		}
		size += len(s.resp.Parts[i].Bytes)
	}
	if size > copyBytes || w.n+size > gatherBytes {
		return false
	}
	if w.out == nil {
		w.out = w.conn.server.pool.get(gatherBytes)
		w.oldest = s.received
	}
	w.n += copy(w.out.b[w.n:], s.resp.Frame)
	for i := range s.resp.Parts {
		w.n += copy(w.out.b[w.n:], s.resp.Parts[i].Bytes)
	}
	w.conn.finish(s, int64(size), w.conn.server.clock.Now())
	return true
}

// stale says whether the answers gathered have waited long enough.
func (w *writer) stale(now time.Time) bool { return w.n > 0 && now.Sub(w.oldest) > gatherTime }

// flush writes the answers gathered. It is false when the connection is gone.
func (w *writer) flush() bool {
	if w.n == 0 {
		return true
	}
	_, ok := w.write(&protocol.Response{}, w.oldest)
	return ok
}

// write sends the answers gathered and resp behind them. It returns the bytes of resp; false when the connection is gone.
func (w *writer) write(resp *protocol.Response, now time.Time) (size int64, ok bool) {
	memory, files := sizes(resp)
	s := w.conn.server
	if memory > debtBytes {
		s.decoding.force(&w.debt, memory)
		defer s.decoding.release(&w.debt)
		now = s.clock.Now()
		w.conn.writeDue.Store(s.due(now, s.opts.StallTimeout, memory+files))
	} else {
		w.conn.writeDue.Store(s.due(now, s.opts.MaxIdle, memory+files))
	}
	err := w.send(resp)
	w.conn.writeDue.Store(0)
	w.n = 0
	if w.out != nil {
		s.pool.put(w.out)
		w.out = nil
	}
	if err != nil {
		s.opts.Logger.Debug("answer not sent", w.conn.peerField(), zap.Error(err))
		w.conn.fail()
	}
	return memory + files, err == nil
}

// sizes tells the bytes of an answer that lie in memory and those in files.
func sizes(resp *protocol.Response) (memory, files int64) {
	memory = int64(len(resp.Frame))
	for i := range resp.Parts {
		if f := resp.Parts[i].File; f != nil {
			files += f.Size()
		} else {
			memory += int64(len(resp.Parts[i].Bytes))
		}
	}
	return memory, files
}

// send writes what is gathered, the frame and its parts, with one system call for what lies in memory between two files.
func (w *writer) send(resp *protocol.Response) error {
	w.vec = w.vec[:0]
	if w.n > 0 {
		w.vec = append(w.vec, w.out.b[:w.n])
	}
	if len(resp.Frame) > 0 {
		w.vec = append(w.vec, resp.Frame)
	}
	for i := range resp.Parts {
		part := &resp.Parts[i]
		if part.File == nil {
			if len(part.Bytes) > 0 {
				w.vec = append(w.vec, part.Bytes)
			}
			continue
		}
		if err := w.sendMemory(); err != nil {
			return err
		}
		if err := w.sendFile(part.File); err != nil {
			return err
		}
	}
	return w.sendMemory()
}

// sendMemory writes what has been put into vec.
func (w *writer) sendMemory() error {
	var err error
	switch len(w.vec) {
	case 0:
		return nil
	case 1:
		_, err = w.conn.net.Write(w.vec[0])
	default:
		w.left = w.vec
		_, err = w.left.WriteTo(w.conn.net)
	}
	clear(w.vec)
	w.vec = w.vec[:0]
	return err
}

// sendFile writes a range of a file. One that is shorter than it said would shift all that follows, so it ends the
// connection.
func (w *writer) sendFile(f protocol.FileRange) error {
	want := f.Size()
	n, err := f.SendTo(w.conn.net)
	if err == nil && n != want {
		err = fmt.Errorf("file range of %d bytes sent %d", want, n)
	}
	return err
}

// end gives back what is held; nothing is written any more.
func (w *writer) end() {
	if w.out != nil {
		w.conn.server.pool.put(w.out)
		w.out, w.n = nil, 0
	}
}
