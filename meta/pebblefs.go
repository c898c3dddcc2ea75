package meta

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kbroker/kbroker/storage/vfs"
)

// pebbleFS lets Pebble run on a vfs.FS. Write-ahead logs get their syncs by the rules of walSyncer; all other files are
// synced when Pebble says so. What becomes durable of the append-only files is noted in proofs.
type pebbleFS struct {
	fs      vfs.FS
	wal     *walSyncer
	proofs  *proofs
	failed  func(error) // told of errors that Pebble would panic at
	rest    func()      // called before a table is made
	stopped atomic.Bool

	mu       sync.Mutex
	outdated []string // markers to be removed once the names of those in their place are durable
}

var _ pebblevfs.FS = (*pebbleFS)(nil)

// errStopped is returned by everything that would change a file once the store has failed.
var errStopped = errors.New("no more writes after a failure")

// stop lets nothing reach the disk any more, as if the process had ended here: Pebble expects that it has when it meets an
// error it can't cope with, and what it would write afterwards isn't to be trusted.
func (p *pebbleFS) stop() { p.stopped.Store(true) }

func (p *pebbleFS) check() error {
	if p.stopped.Load() {
		return errStopped
	}
	return nil
}

// unlessStopped does something that changes the disk.
func (p *pebbleFS) unlessStopped(change func() error) error {
	if err := p.check(); err != nil {
		return err
	}
	return change()
}

// Create makes a new file also where one exists, which keeps its bytes for those that have it open or linked. For a
// write-ahead log it doesn't fail, since Pebble panics when it can't go on to the next one: the store has failed then, and
// the file that is returned takes nothing.
func (p *pebbleFS) Create(name string, _ pebblevfs.DiskWriteCategory) (pebblevfs.File, error) {
	kind, _ := appendOnly(name)
	if kind == 0 && filepath.Ext(name) == ".sst" {
		p.rest()
	}
	f, err := p.create(name)
	switch {
	case err != nil && kind == kindLog:
		p.failed(err)
		return p.wal.wrap(p.proven(&missingFile{name: name})), nil
	case err != nil:
		return nil, err
	case kind == kindLog:
		return p.wal.wrap(p.proven(f)), nil
	case kind == kindManifest:
		return p.proven(f), nil
	default:
		return pebbleFile{File: f, fs: p, scratch: filepath.Ext(name) == ".dbtmp"}, nil
	}
}

// create makes a file. Before a marker names a manifest, the manifest's own name has to be durable; Pebble trusts the
// filesystem to keep the order.
func (p *pebbleFS) create(name string) (vfs.File, error) {
	if strings.HasPrefix(filepath.Base(name), manifestMarker) {
		if err := p.unlessStopped(func() error { return p.fs.SyncDir(filepath.Dir(name)) }); err != nil {
			return nil, err
		}
	}
	if err := p.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return p.fs.Create(name)
}

func (p *pebbleFS) Link(oldName, newName string) error {
	return p.unlessStopped(func() error { return p.fs.Link(oldName, newName) })
}

func (p *pebbleFS) Open(name string, opts ...pebblevfs.OpenOption) (pebblevfs.File, error) {
	return p.open(opts, func() (vfs.File, error) { return p.fs.Open(name) })
}

func (p *pebbleFS) OpenReadWrite(
	name string, _ pebblevfs.DiskWriteCategory, opts ...pebblevfs.OpenOption,
) (pebblevfs.File, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return p.open(opts, func() (vfs.File, error) { return p.fs.OpenReadWrite(name) })
}

// open opens a file that isn't written as a log.
func (p *pebbleFS) open(opts []pebblevfs.OpenOption, by func() (vfs.File, error)) (pebblevfs.File, error) {
	f, err := by()
	if err != nil {
		return nil, err
	}
	file := pebbleFile{File: f, fs: p}
	for _, o := range opts {
		o.Apply(file)
	}
	return file, nil
}

func (p *pebbleFS) OpenDir(name string) (pebblevfs.File, error) {
	if _, err := p.fs.Stat(name); err != nil {
		return nil, err
	}
	return &pebbleDir{fs: p, name: name}, nil
}

// Remove removes a file; a marker only when the directory has been synced, or a power cut could leave neither it nor the one
// that Pebble has made in its place. Where there are both, the newer counts.
func (p *pebbleFS) Remove(name string) error {
	if !strings.HasPrefix(filepath.Base(name), markerPrefix) {
		return p.remove(name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outdated = append(p.outdated, name)
	return nil
}

// removeOutdated removes the markers that wait for it. What fails is tried again at the next start.
func (p *pebbleFS) removeOutdated(names []string) {
	for _, name := range names {
		_ = p.remove(name)
	}
}

func (p *pebbleFS) takeOutdated() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := p.outdated
	p.outdated = nil
	return names
}

func (p *pebbleFS) remove(name string) error {
	err := p.unlessStopped(func() error { return p.fs.Remove(name) })
	if kind, _ := appendOnly(name); kind != 0 && err == nil {
		p.proofs.forget(name)
	}
	return err
}

func (p *pebbleFS) RemoveAll(name string) error {
	return p.unlessStopped(func() error { return p.fs.RemoveAll(name) })
}

func (p *pebbleFS) Rename(oldName, newName string) error {
	return p.unlessStopped(func() error { return p.fs.Rename(oldName, newName) })
}

// ReuseForWrite makes a new file: overwriting an old log in place gains nothing measurable, and a log without the remains
// of an older one behind its end is easier to check.
func (p *pebbleFS) ReuseForWrite(
	oldName, newName string, category pebblevfs.DiskWriteCategory,
) (pebblevfs.File, error) {
	if err := p.Remove(oldName); err != nil {
		return nil, err
	}
	return p.Create(newName, category)
}

func (p *pebbleFS) MkdirAll(dir string, perm fs.FileMode) error { return p.fs.MkdirAll(dir, perm) }

// Lock does nothing: the store holds the lock, and for longer than Pebble is open.
func (p *pebbleFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (p *pebbleFS) List(dir string) ([]string, error) { return p.fs.List(dir) }

func (p *pebbleFS) Stat(name string) (pebblevfs.FileInfo, error) { return fileInfo(p.fs.Stat(name)) }

func (p *pebbleFS) PathBase(path string) string { return filepath.Base(path) }

func (p *pebbleFS) PathJoin(elem ...string) string { return filepath.Join(elem...) }

func (p *pebbleFS) PathDir(path string) string { return filepath.Dir(path) }

func (p *pebbleFS) GetDiskUsage(path string) (pebblevfs.DiskUsage, error) {
	u, err := p.fs.DiskUsage(path)
	if err != nil {
		return pebblevfs.DiskUsage{}, err
	}
	return pebblevfs.DiskUsage{
		AvailBytes: u.AvailableBytes, TotalBytes: u.TotalBytes, UsedBytes: u.TotalBytes - u.AvailableBytes,
	}, nil
}

func (p *pebbleFS) Unwrap() pebblevfs.FS { return nil }

// pebbleFile is a file as Pebble wants it. The hints are not passed on.
type pebbleFile struct {
	vfs.File
	fs      *pebbleFS
	scratch bool // becomes Pebble's notes of its settings, which nobody reads: not worth a sync
}

func (f pebbleFile) Write(b []byte) (int, error) {
	if err := f.fs.check(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f pebbleFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.fs.check(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, off)
}

func (f pebbleFile) Sync() error {
	if f.scratch {
		return f.fs.check()
	}
	return f.fs.unlessStopped(f.File.Sync)
}

func (f pebbleFile) SyncData() error {
	if f.scratch {
		return f.fs.check()
	}
	return f.fs.unlessStopped(f.File.SyncData)
}

func (f pebbleFile) Stat() (pebblevfs.FileInfo, error) { return fileInfo(f.File.Stat()) }

func (f pebbleFile) Preallocate(int64, int64) error { return nil }

func (f pebbleFile) Prefetch(int64, int64) error { return nil }

func (f pebbleFile) SyncTo(int64) (fullSync bool, err error) { return false, nil }

func (f pebbleFile) Fd() uintptr { return pebblevfs.InvalidFd }

// pebbleInfo is a file's description as Pebble wants it.
type pebbleInfo struct{ fs.FileInfo }

func fileInfo(i fs.FileInfo, err error) (pebblevfs.FileInfo, error) {
	if err != nil {
		return nil, err
	}
	return pebbleInfo{i}, nil
}

// DeviceID is the same for all: the store lies on one device.
func (i pebbleInfo) DeviceID() pebblevfs.DeviceID { return pebblevfs.DeviceID{} }

// pebbleDir is an open directory, which can only be synced.
type pebbleDir struct {
	fs   *pebbleFS
	name string
}

// Sync makes the names durable. A failure ends all writing and is not returned, since Pebble would panic where it comes
// upon it between two logs.
func (d *pebbleDir) Sync() error {
	outdated := d.fs.takeOutdated() // before: what is made in place of them is there by now
	if err := d.fs.unlessStopped(func() error { return d.fs.fs.SyncDir(d.name) }); err != nil {
		d.fs.failed(err)
		return nil
	}
	d.fs.removeOutdated(outdated)
	return nil
}

func (d *pebbleDir) SyncData() error { return d.Sync() }

func (d *pebbleDir) Close() error { return nil }

func (d *pebbleDir) Stat() (pebblevfs.FileInfo, error) { return d.fs.Stat(d.name) }

func (d *pebbleDir) Read([]byte) (int, error) { return 0, d.refuse("read") }

func (d *pebbleDir) ReadAt([]byte, int64) (int, error) { return 0, d.refuse("read") }

func (d *pebbleDir) Write([]byte) (int, error) { return 0, d.refuse("write") }

func (d *pebbleDir) WriteAt([]byte, int64) (int, error) { return 0, d.refuse("write") }

func (d *pebbleDir) Preallocate(int64, int64) error { return nil }

func (d *pebbleDir) Prefetch(int64, int64) error { return nil }

func (d *pebbleDir) SyncTo(int64) (fullSync bool, err error) { return false, nil }

func (d *pebbleDir) Fd() uintptr { return pebblevfs.InvalidFd }

func (d *pebbleDir) refuse(op string) error {
	return &fs.PathError{Op: op, Path: d.name, Err: fs.ErrInvalid}
}
