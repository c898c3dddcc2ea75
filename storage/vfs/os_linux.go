package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSendBytes is the most that Linux moves in one sendfile call.
const maxSendBytes = 0x7ffff000

// syncData calls fdatasync, which leaves out the access and modification times and so is spared a journal commit when the
// length stays the same.
func (f *osFile) syncData() error {
	var syncErr error
	err := f.control("fdatasync", func(fd uintptr) {
		for {
			if syncErr = unix.Fdatasync(int(fd)); !errors.Is(syncErr, unix.EINTR) {
				return
			}
		}
	})
	if err != nil || syncErr == nil {
		return err
	}
	return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: syncErr}
}

// control runs a function with the descriptor, which fails only when the file is closed.
func (f *osFile) control(op string, run func(fd uintptr)) error {
	if err := f.raw.Control(run); err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: fs.ErrClosed}
	}
	return nil
}

// sendFile moves bytes from the file to conn inside the kernel. The position is handed over with each call, so that
// senders that share the file don't disturb each other; the connection's write lock is held throughout, so that other
// writers to it don't come between. While the connection can't take more, the runtime's poller waits, which is what makes
// write deadlines and Close work. It reports handled as false, with nothing sent, if the kernel can't do it for this pair.
func (f *osFile) sendFile(conn syscall.Conn, off, n int64) (sent int64, handled bool, err error) {
	out, err := conn.SyscallConn()
	if err != nil {
		return 0, false, nil //nolint:nilerr // no descriptor to send to: the caller copies
	}
	t := transfer{off: off, left: n}
	err = f.control("sendfile", func(in uintptr) {
		t.in = int(in)
		t.connErr = out.Write(t.run)
	})
	sent = n - t.left
	switch {
	case err != nil:
		return sent, true, err
	case sent == 0 && unsupported(t.err):
		return 0, false, nil
	case t.err != nil:
		return sent, true, t.err
	default:
		return sent, true, t.connErr
	}
}

// transfer is one SendTo on its way through the kernel.
type transfer struct {
	in        int
	off, left int64
	err       error // of sendfile
	connErr   error // of waiting for the connection
}

// run sends until everything is sent or failed; false asks to be called again once the connection takes bytes.
func (t *transfer) run(out uintptr) bool {
	for t.left > 0 {
		pos := t.off
		n, err := unix.Sendfile(int(out), t.in, &pos, int(min(t.left, maxSendBytes)))
		switch {
		case n > 0:
			t.off += int64(n)
			t.left -= int64(n)
		case errors.Is(err, unix.EAGAIN):
			return false
		case errors.Is(err, unix.EINTR):
		case err != nil:
			t.err = os.NewSyscallError("sendfile", err)
			return true
		default:
			t.err = io.ErrUnexpectedEOF
			return true
		}
	}
	return true
}

// unsupported says that sendfile can't serve this pair of descriptors, rather than that it failed.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.EPERM)
}

func diskUsage(name string) (Usage, error) {
	var s unix.Statfs_t
	for {
		err := unix.Statfs(name, &s)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return Usage{}, err
		}
	}
	unit := uint64(s.Bsize)
	if s.Frsize > 0 { // counts are in fragments where a filesystem has them
		unit = uint64(s.Frsize)
	}
	return Usage{TotalBytes: s.Blocks * unit, AvailableBytes: s.Bavail * unit}, nil
}
