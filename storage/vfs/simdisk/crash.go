package simdisk

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
)

// sectorBytes is what a disk writes as a whole, when it isn't torn at some byte.
const sectorBytes = 512

// Crash cuts the power and returns a disk as it may be found afterwards, decided by rng: all bytes and names that were
// synced, and of the rest any part. The old disk and its handles are dead; Crash may be called on it again, for another
// outcome of the same crash. Hook and capacity are not taken over.
func (d *Disk) Crash(rng *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	next := &Disk{locked: make(map[*inode]bool), rng: rng, ops: d.ops, nextID: d.nextID}
	t := transplant{copies: make(map[*inode]*inode)}
	next.root = t.copyOf(d.root)
	journal := t.journal(d.journal)
	settle(journal, survivors(len(journal), rng))
	found := make(map[*inode]bool)
	next.root.reach(found)
	for _, n := range slices.SortedFunc(maps.Keys(found), func(a, b *inode) int { return cmp.Compare(a.id, b.id) }) {
		if n.isDir() {
			continue
		}
		n.durable = survivor(&n.durable, n.pending, rng)
		n.now, n.pending = n.durable.share(), nil
		next.used += n.now.size
	}
	return next
}

// Kill ends the process and returns the disk as the next process finds it: as it was, with what was unsynced still
// unsynced. The old disk and its handles are dead, also for Crash. Capacity is taken over, the hook isn't.
func (d *Disk) Kill() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := &Disk{
		root: d.root, journal: d.journal, locked: make(map[*inode]bool), rng: d.rng,
		nextID: d.nextID, ops: d.ops, used: d.used, capacity: d.capacity,
	}
	d.dead, d.journal, d.root = true, nil, d.newInode(true)
	return next
}

// transplant copies inodes to another disk: what is durable of them and what is pending, and also what they are now if
// whole is set.
type transplant struct {
	copies map[*inode]*inode
	whole  bool
}

func (t *transplant) journal(journal []dirOp) []dirOp {
	copied := make([]dirOp, len(journal))
	for i, o := range journal {
		copied[i] = dirOp{from: t.placeOf(o.from), to: t.placeOf(o.to), target: t.copyOf(o.target)}
	}
	return copied
}

func (t *transplant) placeOf(p place) place {
	if p.dir == nil {
		return place{}
	}
	return place{t.copyOf(p.dir), p.name}
}

func (t *transplant) copyOf(n *inode) *inode {
	if known := t.copies[n]; known != nil {
		return known
	}
	c := &inode{id: n.id, mtime: n.mtime, pending: slices.Clip(n.pending)}
	t.copies[n] = c
	if !n.isDir() {
		c.durable = n.durable.share()
		if t.whole {
			c.now, c.links = n.now.share(), n.links
		}
		return c
	}
	c.entries, c.durableEntries = make(map[string]*inode), t.copyNames(n.durableEntries)
	if t.whole {
		c.entries, c.links = t.copyNames(n.entries), n.links
	}
	return c
}

func (t *transplant) copyNames(names map[string]*inode) map[string]*inode {
	copied := make(map[string]*inode, len(names))
	for name, n := range names {
		copied[name] = t.copyOf(n)
	}
	return copied
}

// reach makes the durable names below a directory its present ones, counts links, and collects the inodes.
func (n *inode) reach(found map[*inode]bool) {
	if found[n] {
		return
	}
	found[n] = true
	if !n.isDir() {
		return
	}
	n.entries = maps.Clone(n.durableEntries)
	for _, child := range n.entries {
		child.links++
		child.reach(found)
	}
}

// survivors decides which of the unsynced directory operations happened: none, all, those before some moment, or any.
func survivors(count int, rng *rand.Rand) func(i int) bool {
	limit := 0
	switch rng.IntN(4) {
	case 0:
	case 1:
		limit = count
	case 2:
		limit = rng.IntN(count + 1)
	default:
		return func(int) bool { return rng.IntN(2) == 0 }
	}
	return func(i int) bool { return i < limit }
}

// survivor is what the disk holds of a file after a crash, given what was durable and the changes since.
func survivor(durable *content, pending []change, rng *rand.Rand) content {
	c := durable.share()
	const none, all, prefix, kinds = 0, 1, 2, 6
	mode, limit := rng.IntN(kinds), 0
	if mode == prefix {
		limit = rng.IntN(len(pending) + 1)
	}
	lost := int64(1<<63 - 1) // a truncation to here got lost, and with it what was written behind
	for i, p := range pending {
		end := p.off + int64(len(p.data))
		whole := mode == all || mode == prefix && i < limit || mode > prefix && rng.IntN(2) == 0
		torn := mode == prefix && i == limit || mode > prefix && !whole && rng.IntN(2) == 0
		switch {
		case end > lost || mode == none:
		case p.data == nil && whole:
			c.truncate(p.off)
		case p.data == nil:
			lost = min(lost, p.off)
		case whole:
			c.writeAt(p.data, p.off)
		case torn:
			tear(&c, p, rng)
		}
	}
	return c
}

// tear lets a part of a write survive. What is missing keeps its old bytes, or reads as zeros where the write extended the
// file.
func tear(c *content, p change, rng *rand.Rand) {
	how, cut := rng.IntN(4), rng.IntN(len(p.data)+1)
	if how == 0 {
		c.writeAt(p.data[:cut], p.off)
		return
	}
	c.truncate(max(c.size, p.off+int64(len(p.data))))
	switch how {
	case 1:
		c.writeAt(p.data[cut:], p.off+int64(cut))
	case 2:
		for from := 0; from < len(p.data); {
			to := min(from+sectorBytes-int((p.off+int64(from))%sectorBytes), len(p.data))
			if rng.IntN(2) == 0 {
				c.writeAt(p.data[from:to], p.off+int64(from))
			}
			from = to
		}
	}
}

// failSync leaves of what a failed sync should have made durable any part, and forgets the rest.
func (d *Disk) failSync(n *inode) {
	n.durable = survivor(&n.durable, n.pending, d.rng)
	n.pending = nil
}

// Snapshot returns a second disk in the state of this one, which goes on: a fork of the machine. What is unsynced is so on
// both. Locks, hook and handles are not taken over.
func (d *Disk) Snapshot() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := transplant{copies: make(map[*inode]*inode), whole: true}
	next := &Disk{
		locked: make(map[*inode]bool), rng: rand.New(rand.NewPCG(uint64(d.ops), uint64(d.nextID))),
		ops: d.ops, nextID: d.nextID, used: d.used, capacity: d.capacity,
	}
	next.root = t.copyOf(d.root)
	next.journal = t.journal(d.journal)
	return next
}
