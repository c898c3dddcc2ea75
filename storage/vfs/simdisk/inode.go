package simdisk

import (
	"io/fs"
	"time"
)

// inode is a file or a directory. The disk's lock guards it.
type inode struct {
	id    int64 // in the order of creation
	links int   // names it has now; a directory has one
	mtime time.Time

	// Of a file: what is read now, what has been synced, and the changes in between, oldest first.
	now     content
	durable content
	pending []change

	// Of a directory: its names now, and those that a directory sync has made durable. Nil for a file.
	entries        map[string]*inode
	durableEntries map[string]*inode
}

func (n *inode) isDir() bool { return n.entries != nil }

// change is an unsynced change of a file: bytes written at off, or, with data nil, the size set to off.
type change struct {
	off  int64
	data []byte
}

// write changes the file, unsynced.
func (n *inode) write(b []byte, off int64) {
	if len(b) == 0 {
		return
	}
	n.now.writeAt(b, off)
	n.pending = append(n.pending, change{off: off, data: append([]byte(nil), b...)})
}

func (n *inode) truncate(size int64) {
	if size == n.now.size {
		return
	}
	n.now.truncate(size)
	n.pending = append(n.pending, change{off: size})
}

// sync makes durable what was written since the last sync, whole pages at a time: as in a page cache, a byte that a failed
// sync has lost is written after all if its page is written to again.
func (n *inode) sync() {
	for _, c := range n.pending {
		n.durable.adopt(&n.now, c.off, max(int64(len(c.data)), 1))
	}
	n.durable.truncate(n.now.size)
	n.pending = nil // copies of the disk may share it
}

// dirOp is an unsynced change of one or, for a rename, two names: from is removed and target put at to. It happens as a whole
// or not at all.
type dirOp struct {
	from, to place // either may be empty
	target   *inode
}

// place is a name in a directory.
type place struct {
	dir  *inode
	name string
}

// touches says whether the operation changes a name in the directory.
func (o *dirOp) touches(dir *inode) bool { return o.from.dir == dir || o.to.dir == dir }

// apply carries the operation out on the durable names.
func (o *dirOp) apply() {
	if o.from.dir != nil && o.from.dir.durableEntries[o.from.name] == o.target {
		delete(o.from.dir.durableEntries, o.from.name)
	}
	if o.to.dir != nil {
		o.to.dir.durableEntries[o.to.name] = o.target
	}
}

// settle applies the operations of the journal that are chosen, and those before them that changed the same names: a
// filesystem may lose later operations on a name, but doesn't skip earlier ones. It returns the others, in order.
func settle(journal []dirOp, chosen func(i int) bool) (rest []dirOp) {
	take := make([]bool, len(journal))
	names := make(map[place]bool)
	for i := len(journal) - 1; i >= 0; i-- {
		o := &journal[i]
		if !names[o.from] && !names[o.to] && !chosen(i) {
			continue
		}
		take[i] = true
		for _, p := range []place{o.from, o.to} {
			if p.dir != nil {
				names[p] = true
			}
		}
	}
	for i := range journal {
		if take[i] {
			journal[i].apply()
		} else {
			rest = append(rest, journal[i])
		}
	}
	return rest
}

// info describes an inode for Stat.
type info struct {
	name  string
	size  int64
	dir   bool
	mtime time.Time
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return i.mtime }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o750
	}
	return 0o640
}
