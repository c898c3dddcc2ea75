package simdisk

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kbroker/kbroker/storage/vfs"
)

// unlimitedBytes is the size that DiskUsage reports for a disk without a limit.
const unlimitedBytes = 1 << 40

// Disk is a simulated disk. Relative names are taken from its root. Concurrent calls are allowed.
type Disk struct {
	hook atomic.Pointer[func(Op) error]

	mu       sync.Mutex
	dead     bool
	root     *inode
	journal  []dirOp // unsynced directory operations, oldest first
	locked   map[*inode]bool
	rng      *rand.Rand // decides on what failing operations leave behind
	nextID   int64
	ops      int64 // operations so far, which serve as the time
	used     int64
	capacity int64
}

var _ vfs.FS = (*Disk)(nil)

// New makes an empty disk. The seed decides on what failing operations leave behind.
func New(seed uint64) *Disk {
	d := &Disk{locked: make(map[*inode]bool), rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
	d.root = d.newInode(true)
	return d
}

func (d *Disk) newInode(dir bool) *inode {
	d.nextID++
	n := &inode{id: d.nextID, mtime: d.time()}
	if dir {
		n.entries, n.durableEntries = make(map[string]*inode), make(map[string]*inode)
	}
	return n
}

// time is a clock that moves with the operations, so that runs are the same each time.
func (d *Disk) time() time.Time { return time.UnixMilli(d.ops) }

// split cuts a name into its elements.
func split(name string) []string {
	name = strings.Trim(filepath.Clean(name), string(filepath.Separator))
	if name == "." || name == "" {
		return nil
	}
	return strings.Split(name, string(filepath.Separator))
}

// lookup finds a file or directory.
func (d *Disk) lookup(name string) (*inode, error) {
	n := d.root
	for _, element := range split(name) {
		if !n.isDir() {
			return nil, syscall.ENOTDIR
		}
		n = n.entries[element]
		if n == nil {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

// locate finds the directory of a name, which itself need not be there.
func (d *Disk) locate(name string) (place, error) {
	elements := split(name)
	if len(elements) == 0 {
		return place{}, syscall.EINVAL
	}
	last := len(elements) - 1
	dir, err := d.lookup(filepath.Join(elements[:last]...))
	if err != nil {
		return place{}, err
	}
	if !dir.isDir() {
		return place{}, syscall.ENOTDIR
	}
	return place{dir, elements[last]}, nil
}

// file finds a regular file.
func (d *Disk) file(op Op, name string) (*inode, error) {
	n, err := d.lookup(name)
	if err == nil && n.isDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError(op, err)
	}
	return n, nil
}

// enter gives an inode a name.
func (d *Disk) enter(at place, n *inode) {
	at.dir.entries[at.name] = n
	n.links++
	d.journal = append(d.journal, dirOp{to: at, target: n})
}

// leave takes a name away.
func (d *Disk) leave(at place) {
	n := at.dir.entries[at.name]
	delete(at.dir.entries, at.name)
	d.unlink(n)
	d.journal = append(d.journal, dirOp{from: at, target: n})
}

func (d *Disk) unlink(n *inode) {
	n.links--
	if n.links == 0 {
		d.used -= n.now.size
	}
}

// Create implements vfs.FS.
func (d *Disk) Create(name string) (vfs.File, error) {
	return d.open(Op{Kind: Create, Name: name}, true, true)
}

// Open implements vfs.FS.
func (d *Disk) Open(name string) (vfs.File, error) {
	return d.open(Op{Kind: Open, Name: name}, false, false)
}

// OpenReadWrite implements vfs.FS.
func (d *Disk) OpenReadWrite(name string) (vfs.File, error) {
	return d.open(Op{Kind: OpenReadWrite, Name: name}, true, false)
}

func (d *Disk) open(op Op, writable, truncate bool) (vfs.File, error) {
	err := d.begin(op)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	n, err := d.openInode(op.Name, writable)
	if err != nil {
		return nil, pathError(op, err)
	}
	if truncate {
		d.resize(n, 0)
	}
	return &file{disk: d, inode: n, name: op.Name, writable: writable}, nil
}

// openInode finds a file, or makes it.
func (d *Disk) openInode(name string, create bool) (*inode, error) {
	at, err := d.locate(name)
	if err != nil {
		return nil, err
	}
	n := at.dir.entries[at.name]
	switch {
	case n != nil && n.isDir():
		return nil, syscall.EISDIR
	case n != nil:
		return n, nil
	case !create:
		return nil, syscall.ENOENT
	}
	n = d.newInode(false)
	d.enter(at, n)
	return n, nil
}

// resize truncates a file and keeps the account of the space.
func (d *Disk) resize(n *inode, size int64) {
	if n.links > 0 {
		d.used += size - n.now.size
	}
	n.truncate(size)
	n.mtime = d.time()
}

// SyncDir implements vfs.FS.
func (d *Disk) SyncDir(name string) error {
	op := Op{Kind: SyncDir, Name: name}
	err := d.begin(op)
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	dir, err := d.lookup(name)
	if err == nil && !dir.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError(op, err)
	}
	d.journal = settle(d.journal, func(i int) bool { return d.journal[i].touches(dir) })
	return nil
}

// Remove implements vfs.FS.
func (d *Disk) Remove(name string) error {
	op := Op{Kind: Remove, Name: name}
	err := d.begin(op)
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	at, err := d.locate(name)
	if err != nil {
		return pathError(op, err)
	}
	n := at.dir.entries[at.name]
	switch {
	case n == nil:
		return pathError(op, syscall.ENOENT)
	case len(n.entries) > 0:
		return pathError(op, syscall.ENOTEMPTY)
	}
	d.leave(at)
	return nil
}

// RemoveAll implements vfs.FS.
func (d *Disk) RemoveAll(name string) error {
	names, err := d.List(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	for _, child := range names {
		if err = d.RemoveAll(filepath.Join(name, child)); err != nil {
			return err
		}
	}
	if err = d.Remove(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Rename implements vfs.FS.
func (d *Disk) Rename(oldName, newName string) error {
	op := Op{Kind: Rename, Name: oldName, NewName: newName}
	err := d.begin(op)
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	if err = d.rename(oldName, newName); err != nil {
		return pathError(op, err)
	}
	return nil
}

func (d *Disk) rename(oldName, newName string) error {
	from, err := d.locate(oldName)
	if err != nil {
		return err
	}
	to, err := d.locate(newName)
	if err != nil {
		return err
	}
	n, replaced := from.dir.entries[from.name], to.dir.entries[to.name]
	switch {
	case n == nil:
		return syscall.ENOENT
	case n == replaced:
		return nil
	case n.isDir() && below(newName, oldName):
		return syscall.EINVAL
	case replaced != nil && replaced.isDir() && !n.isDir():
		return syscall.EISDIR
	case replaced != nil && !replaced.isDir() && n.isDir():
		return syscall.ENOTDIR
	case replaced != nil && len(replaced.entries) > 0:
		return syscall.ENOTEMPTY
	case replaced != nil:
		d.unlink(replaced)
	}
	delete(from.dir.entries, from.name)
	to.dir.entries[to.name] = n
	d.journal = append(d.journal, dirOp{from: from, to: to, target: n})
	return nil
}

// below says whether name lies in the directory dir, at any depth.
func below(name, dir string) bool {
	inner, outer := split(name), split(dir)
	return len(inner) > len(outer) && slices.Equal(inner[:len(outer)], outer)
}

// Link implements vfs.FS.
func (d *Disk) Link(oldName, newName string) error {
	op := Op{Kind: Link, Name: oldName, NewName: newName}
	err := d.begin(op)
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	n, err := d.lookup(oldName)
	if err != nil {
		return pathError(op, err)
	}
	at, err := d.locate(newName)
	switch {
	case err != nil:
		return pathError(op, err)
	case n.isDir():
		return pathError(op, syscall.EPERM)
	case at.dir.entries[at.name] != nil:
		return pathError(op, syscall.EEXIST)
	}
	d.enter(at, n)
	return nil
}

// MkdirAll implements vfs.FS. The permissions are ignored.
func (d *Disk) MkdirAll(name string, perm fs.FileMode) error {
	parent := filepath.Dir(name)
	if parent != name {
		if err := d.MkdirAll(parent, perm); err != nil {
			return err
		}
	}
	return d.mkdir(name)
}

// mkdir makes a directory unless it is there.
func (d *Disk) mkdir(name string) error {
	op := Op{Kind: Mkdir, Name: name}
	if d.isDir(name) {
		return nil
	}
	err := d.begin(op)
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	at, err := d.locate(name)
	if err != nil {
		return pathError(op, err)
	}
	switch n := at.dir.entries[at.name]; {
	case n == nil:
		d.enter(at, d.newInode(true))
	case !n.isDir():
		return pathError(op, syscall.ENOTDIR)
	}
	return nil
}

func (d *Disk) isDir(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.lookup(name)
	return err == nil && n.isDir() && !d.dead
}

// Lock implements vfs.FS. The lock ends with the disk: after [Disk.Kill] or [Disk.Crash] the new disk has none.
func (d *Disk) Lock(name string) (io.Closer, error) {
	op := Op{Kind: Lock, Name: name}
	err := d.begin(op)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	n, err := d.openInode(name, true)
	switch {
	case err != nil:
		return nil, pathError(op, err)
	case d.locked[n]:
		return nil, pathError(op, vfs.ErrLocked)
	}
	d.locked[n] = true
	return &lock{disk: d, inode: n}, nil
}

type lock struct {
	disk  *Disk
	inode *inode
	once  sync.Once
}

// Close releases the lock.
func (l *lock) Close() error {
	l.once.Do(func() {
		l.disk.mu.Lock()
		defer l.disk.mu.Unlock()
		delete(l.disk.locked, l.inode)
	})
	return nil
}

// List implements vfs.FS.
func (d *Disk) List(name string) ([]string, error) {
	op := Op{Kind: List, Name: name}
	err := d.begin(op)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	n, err := d.lookup(name)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError(op, err)
	}
	return slices.Sorted(maps.Keys(n.entries)), nil
}

// Stat implements vfs.FS.
func (d *Disk) Stat(name string) (fs.FileInfo, error) {
	op := Op{Kind: Stat, Name: name}
	err := d.begin(op)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	n, err := d.lookup(name)
	if err != nil {
		return nil, pathError(op, err)
	}
	return n.info(name), nil
}

func (n *inode) info(name string) fs.FileInfo {
	return info{name: filepath.Base(name), size: n.now.size, dir: n.isDir(), mtime: n.mtime}
}

// DiskUsage implements vfs.FS.
func (d *Disk) DiskUsage(name string) (vfs.Usage, error) {
	op := Op{Kind: DiskUsage, Name: name}
	err := d.begin(op)
	defer d.mu.Unlock()
	if err != nil {
		return vfs.Usage{}, err
	}
	if _, err = d.lookup(name); err != nil {
		return vfs.Usage{}, pathError(op, err)
	}
	total := d.capacity
	if total == 0 {
		total = unlimitedBytes
	}
	return vfs.Usage{TotalBytes: uint64(total), AvailableBytes: uint64(max(total-d.used, 0))}, nil
}
