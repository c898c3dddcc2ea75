package segment

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/kbroker/kbroker/storage/vfs"
)

// ErrFileClosed is returned when a file is asked for whose segment has been closed or removed.
var ErrFileClosed = errors.New("segment file is closed")

// Files bounds how many segment files are open at a time. Files in use stay open, also beyond the bound; of the others
// the least recently used is closed first, and opened again when it is needed. Concurrent calls are allowed.
type Files struct {
	fs  vfs.FS
	max int

	walks, scans sync.Pool // of *[]byte

	mu struct {
		sync.Mutex
		open int
		idle idleFiles
	}
}

// idleFiles is a list of files that are open and not in use. Releasing a file is part of every append and read, and takes no
// memory.
type idleFiles struct{ oldest, newest *File }

func (l *idleFiles) push(f *File) {
	f.idle, f.older, f.newer = true, l.newest, nil
	if l.newest != nil {
		l.newest.newer = f
	} else {
		l.oldest = f
	}
	l.newest = f
}

// remove takes a file out that may be in.
func (l *idleFiles) remove(f *File) {
	if !f.idle {
		return
	}
	if f.older != nil {
		f.older.newer = f.newer
	} else {
		l.oldest = f.newer
	}
	if f.newer != nil {
		f.newer.older = f.older
	} else {
		l.newest = f.older
	}
	f.idle, f.older, f.newer = false, nil, nil
}

// NewFiles makes a set of files of which at most max (at least 1) are kept open while not in use.
func NewFiles(fs vfs.FS, maxOpen int) *Files { return &Files{fs: fs, max: max(maxOpen, 1)} }

// walkBuffer lends a buffer of walkBufferBytes, scanBuffer one of scanBufferBytes.
func (c *Files) walkBuffer() *[]byte { return lend(&c.walks, walkBufferBytes) }
func (c *Files) scanBuffer() *[]byte { return lend(&c.scans, scanBufferBytes) }

func (c *Files) putWalkBuffer(b *[]byte) { c.walks.Put(b) }
func (c *Files) putScanBuffer(b *[]byte) { c.scans.Put(b) }

func lend(p *sync.Pool, size int) *[]byte {
	if b, ok := p.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, size)
	return &b
}

// Open is the number of files open now.
func (c *Files) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.open
}

// File is one file of a segment, opened when it is needed. Concurrent calls are allowed.
type File struct {
	set      *Files
	name     string
	writable bool

	// Guarded by set.mu.
	file         vfs.File
	refs         int
	closed       bool
	idle         bool
	older, newer *File // in the list of idle files
}

// Add makes a handle for the file of that name, without opening it. A writable one is opened for reading and writing.
func (c *Files) Add(name string, writable bool) *File {
	return &File{set: c, name: name, writable: writable}
}

// forWriting is a writable handle for the same file, in place of f.
func (f *File) forWriting() *File {
	if f.writable {
		return f
	}
	f.Close()
	return f.set.Add(f.name, true)
}

// Name is the file's path.
func (f *File) Name() string {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	return f.name
}

// Acquire opens the file if need be and keeps it open until Release. It returns ErrFileClosed after Close.
func (f *File) Acquire() (vfs.File, error) {
	c := f.set
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.closed {
		return nil, fmt.Errorf("%s: %w", f.name, ErrFileClosed)
	}
	if f.file == nil {
		if err := f.open(); err != nil {
			return nil, err
		}
	}
	c.mu.idle.remove(f)
	f.refs++
	return f.file, nil
}

// open opens the file. The caller holds set.mu, which makes a cold file's opening serial; it is a path look-up.
func (f *File) open() error {
	c := f.set
	c.evict(c.max - 1)
	open := c.fs.Open
	if f.writable {
		open = c.fs.OpenReadWrite
		if _, err := c.fs.Stat(f.name); err != nil { // one that was taken away must not come back empty
			return fmt.Errorf("open segment file: %w", err)
		}
	}
	file, err := open(f.name)
	if vfs.IsTooManyFiles(err) && c.mu.idle.oldest != nil {
		c.evict(0)
		file, err = open(f.name)
	}
	if err != nil {
		return fmt.Errorf("open segment file: %w", err)
	}
	f.file = file
	c.mu.open++
	return nil
}

// Release ends one Acquire.
func (f *File) Release() {
	c := f.set
	c.mu.Lock()
	defer c.mu.Unlock()
	f.refs--
	if f.refs > 0 {
		return
	}
	if f.closed {
		f.shut()
		return
	}
	c.mu.idle.push(f)
	c.evict(c.max)
}

// Close refuses further Acquires, and closes the file as soon as nobody uses it.
func (f *File) Close() {
	c := f.set
	c.mu.Lock()
	defer c.mu.Unlock()
	f.closed = true
	c.mu.idle.remove(f)
	if f.refs == 0 {
		f.shut()
	}
}

// evict closes idle files until at most keep files are open. The caller holds mu.
func (c *Files) evict(keep int) {
	for c.mu.open > keep {
		f := c.mu.idle.oldest
		if f == nil {
			return
		}
		c.mu.idle.remove(f)
		f.shut()
	}
}

// shut closes the descriptor. What was written through it has been synced by whoever cares, so an error says nothing
// that matters here. The caller holds set.mu.
func (f *File) shut() {
	if f.file == nil {
		return
	}
	_ = f.file.Close()
	f.file = nil
	f.set.mu.open--
}

// Range is a range of bytes of a data file that keeps the file open, also when the segment is removed meanwhile. It
// satisfies storage.Records and is used by one goroutine at a time.
type Range struct {
	file *File
	open vfs.File
	pos  int64
	size int64
}

// Size is the length in bytes.
func (r *Range) Size() int64 { return r.size }

// End is the position after the range.
func (r *Range) End() int64 { return r.pos + r.size }

// SendTo writes the range to w, by sendfile where possible.
func (r *Range) SendTo(w io.Writer) (int64, error) {
	if r.file == nil {
		return 0, ErrFileClosed
	}
	return r.open.SendTo(w, r.pos, r.size)
}

// AppendTo appends the bytes to dst.
func (r *Range) AppendTo(dst []byte) ([]byte, error) {
	if r.file == nil {
		return dst, ErrFileClosed
	}
	start := len(dst)
	dst = append(dst, make([]byte, r.size)...)
	if err := readFull(r.open, dst[start:], r.pos); err != nil {
		return dst[:start], err
	}
	return dst, nil
}

// Release gives the file back; safe to call twice.
func (r *Range) Release() {
	if r.file != nil {
		r.file.Release()
		r.file, r.open = nil, nil
	}
}

// readFull fills b from a position. The file's end is io.ErrUnexpectedEOF.
func readFull(f io.ReaderAt, b []byte, pos int64) error {
	n, err := f.ReadAt(b, pos)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
