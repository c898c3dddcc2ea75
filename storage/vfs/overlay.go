package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Overlay makes a filesystem that looks like base and never changes it: whatever is written, renamed or removed is so in
// memory only, and gone with the value. It lets a tool see what a start would make of a directory. A file that is opened
// for writing is copied into memory first. Locks are the overlay's own.
func Overlay(base FS) FS {
	return &overlay{base: base, nodes: map[string]*overlayNode{}, dirs: map[string]bool{}, locks: map[string]bool{}}
}

// overlay remembers what differs from base. mu guards the maps; the memory of a file has a lock of its own.
type overlay struct {
	base FS

	mu    sync.Mutex
	nodes map[string]*overlayNode // files that differ, by cleaned name
	dirs  map[string]bool         // directories made (true) or removed (false)
	locks map[string]bool
}

// overlayNode is a file: removed, base's under another name, or in memory.
type overlayNode struct {
	removed bool
	alias   string
	memory  *memory
}

// memory is the content of a file.
type memory struct {
	mu      sync.Mutex
	content []byte
}

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// find says what a name stands for; nil if for nothing. The caller holds mu.
func (o *overlay) find(name string) (*overlayNode, error) {
	name = filepath.Clean(name)
	if n, ok := o.nodes[name]; ok {
		if n.removed {
			return nil, nil
		}
		return n, nil
	}
	if _, ok := o.dirs[name]; ok || o.hidden(name) {
		return nil, nil
	}
	info, err := o.base.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, pathError("open", name, syscall.EISDIR)
	}
	return &overlayNode{alias: name}, nil
}

// hidden says whether a directory above a name was removed. The caller holds mu.
func (o *overlay) hidden(name string) bool {
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if made, ok := o.dirs[dir]; ok {
			return !made
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// isDir says whether a name stands for a directory. The caller holds mu.
func (o *overlay) isDir(name string) bool {
	name = filepath.Clean(name)
	if made, ok := o.dirs[name]; ok {
		return made
	}
	if o.hidden(name) {
		return false
	}
	info, err := o.base.Stat(name)
	return err == nil && info.IsDir()
}

// Create implements FS.
func (o *overlay) Create(name string) (File, error) {
	f, err := o.OpenReadWrite(name)
	if err != nil {
		return nil, err
	}
	return f, f.Truncate(0)
}

// Open implements FS.
func (o *overlay) Open(name string) (File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.find(name)
	switch {
	case err != nil:
		return nil, err
	case n == nil:
		return nil, pathError("open", name, fs.ErrNotExist)
	case n.memory == nil:
		return o.base.Open(n.alias)
	}
	return &overlayFile{name: name, memory: n.memory, readOnly: true}, nil
}

// OpenReadWrite implements FS.
func (o *overlay) OpenReadWrite(name string) (File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.find(name)
	if err != nil {
		return nil, err
	}
	switch {
	case n == nil && !o.isDir(filepath.Dir(filepath.Clean(name))):
		return nil, pathError("open", name, fs.ErrNotExist)
	case n == nil:
		n = &overlayNode{memory: &memory{}}
	case n.memory == nil:
		content, err := o.load(n.alias)
		if err != nil {
			return nil, err
		}
		n.alias, n.memory = "", &memory{content: content} // for all names the file has
	}
	o.nodes[filepath.Clean(name)] = n
	return &overlayFile{name: name, memory: n.memory}, nil
}

// load reads a file of base.
func (o *overlay) load(name string) ([]byte, error) {
	f, err := o.base.Open(name)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(f)
	return content, errors.Join(err, f.Close())
}

// SyncDir implements FS.
func (o *overlay) SyncDir(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.isDir(name) {
		return pathError("sync", name, fs.ErrNotExist)
	}
	return nil
}

// Remove implements FS.
func (o *overlay) Remove(name string) error {
	names, err := o.List(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	clean := filepath.Clean(name)
	switch {
	case err == nil && len(names) > 0:
		return pathError("remove", name, syscall.ENOTEMPTY)
	case err == nil:
		o.dirs[clean] = false
		return nil
	}
	n, err := o.find(name)
	switch {
	case err != nil:
		return err
	case n == nil:
		return pathError("remove", name, fs.ErrNotExist)
	}
	o.nodes[clean] = &overlayNode{removed: true}
	return nil
}

// RemoveAll implements FS.
func (o *overlay) RemoveAll(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	name = filepath.Clean(name)
	if o.isDir(name) {
		o.forget(name)
		o.dirs[name] = false
		return nil
	}
	o.nodes[name] = &overlayNode{removed: true}
	return nil
}

// forget drops what is known of everything below a directory. The caller holds mu.
func (o *overlay) forget(dir string) {
	below := dir + string(filepath.Separator)
	for name := range o.nodes {
		if strings.HasPrefix(name, below) {
			delete(o.nodes, name)
		}
	}
	for name := range o.dirs {
		if strings.HasPrefix(name, below) {
			delete(o.dirs, name)
		}
	}
}

// Rename implements FS. A directory is moved with all that is in it.
func (o *overlay) Rename(oldName, newName string) error {
	names, err := o.List(oldName)
	if err == nil {
		return o.renameDir(oldName, newName, names)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.find(oldName)
	switch {
	case err != nil:
		return err
	case n == nil, !o.isDir(filepath.Dir(filepath.Clean(newName))):
		return pathError("rename", oldName, fs.ErrNotExist)
	}
	if filepath.Clean(oldName) == filepath.Clean(newName) {
		return nil
	}
	o.nodes[filepath.Clean(newName)] = n
	o.nodes[filepath.Clean(oldName)] = &overlayNode{removed: true}
	return nil
}

func (o *overlay) renameDir(oldName, newName string, names []string) error {
	if strings.HasPrefix(filepath.Clean(newName), filepath.Clean(oldName)+string(filepath.Separator)) {
		return pathError("rename", oldName, syscall.EINVAL)
	}
	if err := o.MkdirAll(newName, 0); err != nil {
		return err
	}
	for _, name := range names {
		if err := o.Rename(filepath.Join(oldName, name), filepath.Join(newName, name)); err != nil {
			return err
		}
	}
	return o.RemoveAll(oldName)
}

// Link implements FS.
func (o *overlay) Link(oldName, newName string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.find(oldName)
	if err != nil {
		return err
	}
	there, err := o.find(newName)
	switch {
	case err != nil:
		return err
	case there != nil:
		return pathError("link", newName, fs.ErrExist)
	case n == nil, !o.isDir(filepath.Dir(filepath.Clean(newName))):
		return pathError("link", newName, fs.ErrNotExist)
	}
	o.nodes[filepath.Clean(oldName)] = n
	o.nodes[filepath.Clean(newName)] = n
	return nil
}

// MkdirAll implements FS.
func (o *overlay) MkdirAll(name string, _ fs.FileMode) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for dir := filepath.Clean(name); !o.isDir(dir); dir = filepath.Dir(dir) {
		if n, err := o.find(dir); err != nil || n != nil {
			return errors.Join(err, pathError("mkdir", dir, syscall.ENOTDIR))
		}
		o.dirs[dir] = true
	}
	return nil
}

// Lock implements FS.
func (o *overlay) Lock(name string) (io.Closer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name = filepath.Clean(name)
	if o.locks[name] {
		return nil, pathError("lock", name, ErrLocked)
	}
	o.locks[name] = true
	return &overlayLock{o: o, name: name}, nil
}

type overlayLock struct {
	o    *overlay
	name string
}

// Close implements io.Closer.
func (l *overlayLock) Close() error {
	l.o.mu.Lock()
	defer l.o.mu.Unlock()
	delete(l.o.locks, l.name)
	return nil
}

// List implements FS.
func (o *overlay) List(name string) ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name = filepath.Clean(name)
	if !o.isDir(name) {
		n, err := o.find(name)
		if err == nil && n != nil {
			return nil, pathError("list", name, syscall.ENOTDIR)
		}
		return nil, errors.Join(err, pathError("list", name, fs.ErrNotExist))
	}
	found := map[string]bool{}
	if made, ok := o.dirs[name]; !ok && !o.hidden(name) || ok && made {
		names, err := o.base.List(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, n := range names {
			found[n] = true
		}
	}
	for path, n := range o.nodes {
		if filepath.Dir(path) == name {
			found[filepath.Base(path)] = !n.removed
		}
	}
	for path, made := range o.dirs {
		if filepath.Dir(path) == name && path != name {
			found[filepath.Base(path)] = made
		}
	}
	var names []string
	for n, there := range found {
		if there {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Stat implements FS.
func (o *overlay) Stat(name string) (fs.FileInfo, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.isDir(name) {
		return overlayInfo{name: filepath.Base(name), dir: true}, nil
	}
	n, err := o.find(name)
	switch {
	case err != nil:
		return nil, err
	case n == nil:
		return nil, pathError("stat", name, fs.ErrNotExist)
	case n.memory == nil:
		return o.base.Stat(n.alias)
	}
	return n.memory.info(name), nil
}

// DiskUsage implements FS.
func (o *overlay) DiskUsage(name string) (Usage, error) { return o.base.DiskUsage(name) }

// overlayInfo describes what is in memory.
type overlayInfo struct {
	name string
	size int64
	dir  bool
}

func (m *memory) info(name string) fs.FileInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return overlayInfo{name: filepath.Base(name), size: int64(len(m.content))}
}

// Name implements fs.FileInfo.
func (i overlayInfo) Name() string { return i.name }

// Size implements fs.FileInfo.
func (i overlayInfo) Size() int64 { return i.size }

// Mode implements fs.FileInfo.
func (i overlayInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o750
	}
	return 0o640
}

// ModTime implements fs.FileInfo; nothing in memory has a time.
func (i overlayInfo) ModTime() time.Time { return time.Time{} }

// IsDir implements fs.FileInfo.
func (i overlayInfo) IsDir() bool { return i.dir }

// Sys implements fs.FileInfo.
func (i overlayInfo) Sys() any { return nil }

// overlayFile is an open file in memory. It keeps its content when the name goes.
type overlayFile struct {
	name     string
	memory   *memory
	readOnly bool

	mu     sync.Mutex
	at     int64 // of Read and Write
	closed bool
}

func (f *overlayFile) usable(op string, writing bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return pathError(op, f.name, fs.ErrClosed)
	case writing && f.readOnly:
		return pathError(op, f.name, syscall.EBADF)
	}
	return nil
}

// Name implements File.
func (f *overlayFile) Name() string { return f.name }

// Read implements io.Reader.
func (f *overlayFile) Read(b []byte) (int, error) {
	n, err := f.ReadAt(b, f.at)
	f.at += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// ReadAt implements io.ReaderAt.
func (f *overlayFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.usable("read", false); err != nil {
		return 0, err
	}
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	return bytes.NewReader(f.memory.content).ReadAt(b, off)
}

// Write implements io.Writer.
func (f *overlayFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.at)
	f.at += int64(n)
	return n, err
}

// WriteAt implements io.WriterAt.
func (f *overlayFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.usable("write", true); err != nil {
		return 0, err
	}
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	f.memory.resize(max(off+int64(len(b)), int64(len(f.memory.content))))
	return copy(f.memory.content[off:], b), nil
}

// resize sets the length. The caller holds mu.
func (m *memory) resize(size int64) {
	have := int64(len(m.content))
	if size <= have {
		m.content = m.content[:size]
		return
	}
	m.content = slices.Grow(m.content, int(size-have))[:size]
	clear(m.content[have:])
}

// Close implements io.Closer.
func (f *overlayFile) Close() error {
	err := f.usable("close", false)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return err
}

// Size implements File.
func (f *overlayFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Stat implements File.
func (f *overlayFile) Stat() (fs.FileInfo, error) {
	return f.memory.info(f.name), f.usable("stat", false)
}

// Truncate implements File.
func (f *overlayFile) Truncate(size int64) error {
	if err := f.usable("truncate", true); err != nil {
		return err
	}
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	f.memory.resize(size)
	return nil
}

// Sync implements File.
func (f *overlayFile) Sync() error { return f.usable("sync", false) }

// SyncData implements File.
func (f *overlayFile) SyncData() error { return f.Sync() }

// SendTo implements File.
func (f *overlayFile) SendTo(w io.Writer, off, n int64) (int64, error) {
	if n <= 0 {
		return 0, nil
	}
	return CopyRange(w, f, off, n, make([]byte, min(n, 64<<10)))
}

// Fd implements File: there is none.
func (f *overlayFile) Fd() uintptr { return ^uintptr(0) }
