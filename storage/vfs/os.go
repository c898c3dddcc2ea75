//go:build unix

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// filePerm lets the broker's group read its files and others not: they hold what clients entrusted to it.
const filePerm fs.FileMode = 0o640

// copyBufferBytes bounds what SendTo holds in memory for a writer that can't take sendfile, such as a TLS connection.
const copyBufferBytes = 64 << 10

// OS is the filesystem of the operating system. Files are made readable for owner and group, and writable for the owner.
// Locks are advisory locks of the kernel on the open file, so that two brokers in one process exclude each other too; they
// end with the process, whatever ends it.
func OS() FS {
	return &osFS{buffers: sync.Pool{New: func() any {
		b := make([]byte, copyBufferBytes)
		return &b
	}}}
}

type osFS struct{ buffers sync.Pool }

func (o *osFS) Create(name string) (File, error) {
	return o.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (o *osFS) Open(name string) (File, error) { return o.open(name, os.O_RDONLY) }

func (o *osFS) OpenReadWrite(name string) (File, error) { return o.open(name, os.O_RDWR|os.O_CREATE) }

func (o *osFS) open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, filePerm)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &osFile{File: f, raw: raw, fs: o}, nil
}

// SyncDir syncs a directory. Filesystems that refuse to sync directories (EINVAL, as some network and FUSE mounts do)
// offer nothing better, so that is taken for done.
func (o *osFS) SyncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, unix.EINVAL) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}

func (o *osFS) Remove(name string) error { return os.Remove(name) }

func (o *osFS) RemoveAll(name string) error { return os.RemoveAll(name) }

func (o *osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

func (o *osFS) Link(oldName, newName string) error { return os.Link(oldName, newName) }

func (o *osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }

// Lock uses flock, which belongs to the open file and not to the process.
func (o *osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	err = flock(f)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(&fs.PathError{Op: "lock", Path: name, Err: err}, f.Close())
}

func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (o *osFS) List(name string) ([]string, error) {
	dir, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

func (o *osFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (o *osFS) DiskUsage(name string) (Usage, error) {
	usage, err := diskUsage(name)
	if err != nil {
		return Usage{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return usage, nil
}

// osFile is an open file. Raw system calls go through raw, which keeps the descriptor from being closed, and its number
// from being given to another file, while they run.
type osFile struct {
	*os.File
	raw syscall.RawConn
	fs  *osFS
}

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *osFile) SyncData() error { return f.syncData() }

func (f *osFile) SendTo(w io.Writer, off, n int64) (int64, error) {
	if n <= 0 {
		return 0, nil
	}
	if conn, ok := w.(syscall.Conn); ok {
		sent, handled, err := f.sendFile(conn, off, n)
		if handled {
			return sent, err
		}
	}
	buf, _ := f.fs.buffers.Get().(*[]byte)
	defer f.fs.buffers.Put(buf)
	return CopyRange(w, f.File, off, n, *buf)
}
