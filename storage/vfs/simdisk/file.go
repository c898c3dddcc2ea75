package simdisk

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/kbroker/kbroker/storage/vfs"
)

// copyBufferBytes is the size of the pieces that SendTo reads.
const copyBufferBytes = 32 << 10

// file is an open file.
type file struct {
	disk     *Disk
	inode    *inode
	name     string
	writable bool
	closed   bool  // guarded by the disk's lock
	pos      int64 // of Read and Write, which aren't called concurrently
}

// begin asks the hook and takes the disk's lock, which the caller releases whatever is returned.
func (f *file) begin(op Op) error {
	op.Name = f.name
	err := f.disk.begin(op)
	if err == nil && f.closed {
		return pathError(op, fs.ErrClosed)
	}
	return err
}

func (f *file) Name() string { return f.name }

func (f *file) Fd() uintptr { return ^uintptr(0) }

func (f *file) Read(b []byte) (int, error) {
	n, err := f.ReadAt(b, f.pos)
	f.pos += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	op := Op{Kind: Read, Offset: off, Length: int64(len(b))}
	err := f.begin(op)
	defer f.disk.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError(op, syscall.EINVAL)
	}
	n := f.inode.now.readAt(b, off)
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	op := Op{Kind: Write, Offset: off, Length: int64(len(b))}
	err := f.begin(op)
	defer f.disk.mu.Unlock()
	var short *ShortWrite
	switch {
	case errors.As(err, &short) && !f.disk.dead && !f.closed && f.writable && off >= 0:
		f.disk.write(f.inode, b[:min(max(short.Bytes, 0), len(b))], off)
		return 0, err
	case err != nil:
		return 0, err
	case !f.writable:
		return 0, pathError(Op{Kind: Write, Name: f.name}, syscall.EBADF)
	case off < 0:
		return 0, pathError(Op{Kind: Write, Name: f.name}, syscall.EINVAL)
	}
	landed := f.disk.write(f.inode, b, off)
	if landed == len(b) {
		return landed, nil
	}
	if f.disk.rng.IntN(2) == 0 {
		landed = 0 // a kernel may say so although they landed
	}
	return landed, pathError(Op{Kind: Write, Name: f.name}, syscall.ENOSPC)
}

// write puts down what the disk has room for and returns how much that was.
func (d *Disk) write(n *inode, b []byte, off int64) int {
	if d.capacity > 0 && n.links > 0 {
		room := max(d.capacity-d.used, 0)
		b = b[:min(int64(len(b)), max(n.now.size+room-off, 0))]
	}
	before := n.now.size
	n.write(b, off)
	if n.links > 0 {
		d.used += n.now.size - before
	}
	n.mtime = d.time()
	return len(b)
}

func (f *file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *file) Stat() (fs.FileInfo, error) {
	err := f.begin(Op{Kind: Stat})
	defer f.disk.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return f.inode.info(f.name), nil
}

func (f *file) Truncate(size int64) error {
	err := f.begin(Op{Kind: Truncate, Offset: size})
	defer f.disk.mu.Unlock()
	if err != nil {
		return err
	}
	if !f.writable || size < 0 {
		return pathError(Op{Kind: Truncate, Name: f.name}, syscall.EINVAL)
	}
	f.disk.resize(f.inode, size)
	return nil
}

func (f *file) Sync() error {
	err := f.begin(Op{Kind: Sync})
	defer f.disk.mu.Unlock()
	if err != nil {
		if !f.disk.dead && !f.closed {
			f.disk.failSync(f.inode)
		}
		return err
	}
	f.inode.sync()
	return nil
}

func (f *file) SyncData() error { return f.Sync() }

func (f *file) SendTo(w io.Writer, off, n int64) (int64, error) {
	if n <= 0 {
		return 0, nil
	}
	return vfs.CopyRange(w, f, off, n, make([]byte, min(n, copyBufferBytes)))
}

func (f *file) Close() error {
	err := f.begin(Op{Kind: Close})
	defer f.disk.mu.Unlock()
	if err == nil {
		f.closed = true
	}
	return err
}
