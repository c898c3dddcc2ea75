package simdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// ErrPowerCut is returned by every operation on a disk, and on the files opened on it, after the power was cut or the
// process killed. A hook that returns it cuts the power before the operation.
var ErrPowerCut = errors.New("simulated disk has no power")

// Kind says what an operation does.
type Kind int

// The kinds of operations.
const (
	Create Kind = iota + 1
	Open
	OpenReadWrite
	Read
	Write
	Truncate
	Sync
	SyncDir
	Remove
	Rename
	Link
	Mkdir
	Lock
	List
	Stat
	DiskUsage
	Close
)

// Changes says whether operations of this kind can change what a crash leaves behind.
func (k Kind) Changes() bool {
	switch k {
	case Create, OpenReadWrite, Write, Truncate, Sync, SyncDir, Remove, Rename, Link, Mkdir, Lock:
		return true
	default:
		return false
	}
}

// String is the name of the kind, as in errors.
func (k Kind) String() string {
	names := [...]string{
		Create: "create", Open: "open", OpenReadWrite: "open", Read: "read", Write: "write", Truncate: "truncate",
		Sync: "sync", SyncDir: "syncdir", Remove: "remove", Rename: "rename", Link: "link", Mkdir: "mkdir", Lock: "lock",
		List: "list", Stat: "stat", DiskUsage: "statfs", Close: "close",
	}
	if k <= 0 || int(k) >= len(names) {
		return fmt.Sprintf("kind %d", int(k))
	}
	return names[k]
}

// Op is an operation about to happen. SyncData counts as Sync, each read of SendTo as Read, and RemoveAll and MkdirAll as
// what they do one by one.
type Op struct {
	Kind    Kind
	Name    string // as the caller gave it, or as the file was opened
	NewName string // of a rename or link
	Offset  int64  // of a read or write; the size for a truncate
	Length  int64  // of a read or write
}

// ShortWrite is an error for a hook to return from a write: the first Bytes bytes land, yet the write reports none and
// fails with Err.
type ShortWrite struct {
	Bytes int
	Err   error
}

// Error describes the underlying failure.
func (s *ShortWrite) Error() string { return fmt.Sprintf("short write: %v", s.Err) }

// Unwrap returns the underlying failure.
func (s *ShortWrite) Unwrap() error { return s.Err }

// OnOp sets the function that is asked before every operation; nil removes it. It is called without locks held, possibly
// from several goroutines at once, and may panic or block. Nil lets the operation happen. [ErrPowerCut] cuts the power
// before it. Any other error is returned by the operation, which then doesn't happen, except that a write given a
// [*ShortWrite] leaves bytes behind, and that a failed sync throws away what it should have made durable: it can still be
// read, but later syncs don't write it.
func (d *Disk) OnOp(hook func(Op) error) {
	if hook == nil {
		d.hook.Store(nil)
		return
	}
	d.hook.Store(&hook)
}

// begin asks the hook and takes the lock, which the caller releases whatever is returned.
func (d *Disk) begin(op Op) error {
	var fault error
	if hook := d.hook.Load(); hook != nil {
		fault = (*hook)(op)
	}
	d.mu.Lock()
	d.ops++
	if errors.Is(fault, ErrPowerCut) {
		d.dead = true
	}
	if d.dead {
		return pathError(op, ErrPowerCut)
	}
	if fault != nil {
		return pathError(op, fault)
	}
	return nil
}

func pathError(op Op, err error) error {
	return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: err}
}

// CutPower ends all operations from now on, as a power cut does; [Disk.Crash] tells what is left.
func (d *Disk) CutPower() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

// SetCapacity limits the total size of all files, in bytes; writes beyond fail with ENOSPC, of which some bytes may have
// landed. 0 is no limit.
func (d *Disk) SetCapacity(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = bytes
}

// FlipBit inverts a bit of a file, on the disk and in what is read now. Bits count from the lowest of byte 0.
func (d *Disk) FlipBit(name string, bit int64) error {
	return d.rot(name, bit/8, func(b []byte) { b[0] ^= 1 << (bit % 8) }, 1)
}

// Overwrite puts bytes into a file, on the disk and in what is read now, within its length. It is damage, not a write.
func (d *Disk) Overwrite(name string, off int64, bytes []byte) error {
	return d.rot(name, off, func(b []byte) { copy(b, bytes) }, len(bytes))
}

func (d *Disk) rot(name string, off int64, damage func([]byte), length int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	op := Op{Kind: Write, Name: name}
	n, err := d.file(op, name)
	if err != nil {
		return err
	}
	if off < 0 || off+int64(length) > n.now.size {
		return pathError(op, syscall.EINVAL)
	}
	for _, c := range []*content{&n.now, &n.durable} {
		b := make([]byte, length)
		got := c.readAt(b, off)
		damage(b)
		if got > 0 {
			c.writeAt(b[:got], off)
		}
	}
	return nil
}
