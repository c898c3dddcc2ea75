package segment

import (
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs"
)

// Damage is a range of acknowledged batches that don't verify.
type Damage struct {
	From, To    int64 // positions in the data file; equal if the bytes are missing
	First, Next int64 // the offsets lost: from First up to, not including, Next
	Kind        string
}

// Segment is an open segment. Calls of Write must be serial, and so must calls of Mark and Commit; the two may overlap.
// Activate, Repair and Rebuild want to be alone with both. The methods that read may be called at any time.
type Segment struct {
	Base int64

	dir      string
	files    *Files
	interval int64 // index interval in bytes
	data     *File
	index    atomic.Pointer[File] // replaced when the index is written anew
	header   Header

	mu           sync.Mutex
	size         int64 // bytes of batches
	next         int64 // the offset after the last batch
	maxTimestamp int64
	firstTime    int64 // maximum timestamp of the first batch; valid if firstKnown
	firstKnown   bool
	entries      uint32 // entries in the index file
	pending      []Run  // runs without an entry in the file yet
	open         bool   // whether the last pending run may grow
	verified     []span
	damage       []Damage
	stale        bool // the index file is known to be wrong and is to be rebuilt
	rebuilds     uint32
}

// Options is what all segments of a log share.
type Options struct {
	FS    vfs.FS
	Dir   string
	Files *Files
	// IndexInterval is the most bytes a run may have, unless it is a single batch.
	IndexInterval int64
}

func newSegment(o Options, base int64) *Segment {
	s := &Segment{
		Base: base, dir: o.Dir, files: o.Files, interval: o.IndexInterval,
		data:         o.Files.Add(filepath.Join(o.Dir, FileName(base, SuffixData)), false),
		next:         base,
		maxTimestamp: batch.NoTimestamp,
		firstTime:    batch.NoTimestamp,
	}
	s.index.Store(o.Files.Add(filepath.Join(o.Dir, FileName(base, SuffixIndex)), false))
	return s
}

// Create makes the files of an empty segment: first the index with its header, synced, then the data file, then the
// directory is synced. On an error nothing is left behind that recovery would take for a segment with data.
func Create(o Options, base, createdMs int64) (*Segment, error) {
	s := newSegment(o, base)
	s.header = Header{Base: base, CreatedMs: createdMs}
	err := writeNew(o.FS, s.index.Load().Name(), s.header.Append(nil, MagicIndex))
	if err == nil {
		err = createEmpty(o.FS, s.data.Name())
	}
	if err == nil {
		err = o.FS.SyncDir(o.Dir)
	}
	if err == nil {
		err = s.Activate()
	}
	if err != nil {
		s.Close()
		return nil, errors.Join(fmt.Errorf("create segment %d: %w", base, err), removeBoth(o.FS, s))
	}
	return s, nil
}

// removeBoth takes away what a failed Create made; what isn't there is no error.
func removeBoth(fs vfs.FS, s *Segment) error {
	for _, name := range []string{s.data.Name(), s.index.Load().Name()} {
		if _, err := fs.Stat(name); err != nil {
			continue
		}
		if err := fs.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

func createEmpty(fs vfs.FS, name string) error {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	return f.Close()
}

// writeNew makes a file with the given content and syncs it.
func writeNew(fs vfs.FS, name string, content []byte) error {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(content, 0); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Activate opens the files for writing. Like all files they are closed when they have not been used for long and others
// are, and opened again: a failure to write what is in the page cache is told to who syncs next, whether or not it had the file
// open at the time (docs/adr/0014). Nobody may be reading yet.
func (s *Segment) Activate() error {
	s.data = s.data.forWriting()
	s.index.Store(s.index.Load().forWriting())
	for _, f := range []*File{s.data, s.index.Load()} {
		if _, err := f.Acquire(); err != nil {
			return err
		}
		f.Release()
	}
	return nil
}

// Close gives the files up: they are closed as soon as no Range holds them, and no new ones are handed out.
func (s *Segment) Close() {
	s.data.Close()
	s.index.Load().Close()
}

// Names are the paths of the segment's files, the data file first. Not all need exist.
func (s *Segment) Names() []string {
	return []string{s.data.Name(), s.index.Load().Name(), filepath.Join(s.dir, FileName(s.Base, SuffixTxnIndex))}
}

// DataName is the data file's name without its directory.
func (s *Segment) DataName() string { return FileName(s.Base, SuffixData) }

// Write appends a batch, whose offset and leader epoch are set, at the end. On an error the file is cut back to where it
// was; if that fails too, ErrNotCut is in the chain and nothing more may be written.
func (s *Segment) Write(b batch.Batch) error {
	pos := s.Size()
	f, err := s.data.Acquire()
	if err != nil {
		return fmt.Errorf("append to %s: %w", s.DataName(), err)
	}
	defer s.data.Release()
	if _, err = f.WriteAt(b, pos); err != nil {
		if cut := f.Truncate(pos); cut != nil {
			return errors.Join(fmt.Errorf("append to %s: %w", s.DataName(), err), ErrNotCut, cut)
		}
		return fmt.Errorf("append to %s: %w", s.DataName(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(b, pos, int64(len(b)))
	s.trust(pos, s.size)
	return nil
}

// ErrNotCut is returned when the remains of a failed write could not be cut off.
var ErrNotCut = errors.New("remains of a failed write could not be cut off")

// note takes a batch that lies at pos into account. The caller holds mu.
func (s *Segment) note(b batch.Batch, pos, size int64) {
	if s.size == 0 {
		s.firstTime, s.firstKnown = batchTime(b), true
	}
	s.maxTimestamp = max(s.maxTimestamp, batchTime(b))
	if n := len(s.pending); !s.open || n == 0 || s.pending[n-1].Size+size > s.interval {
		s.pending = append(s.pending, Run{})
		s.open = true
	}
	s.pending[len(s.pending)-1].extend(b, pos, size, s.maxTimestamp)
	s.size = pos + size
	s.next = b.NextOffset()
}

// Mark is a point in a segment: everything before it can be committed together.
type Mark struct {
	Size int64 // bytes
	Next int64 // offset
}

// Mark ends the open run and returns the present end.
func (s *Segment) Mark() Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
	return Mark{Size: s.size, Next: s.next}
}

// SyncData makes the bytes written so far durable. A failed sync must not be tried again.
func (s *Segment) SyncData() error { return syncFile(s.data) }

// SyncIndex makes the entries written so far durable.
func (s *Segment) SyncIndex() error { return syncFile(s.index.Load()) }

func syncFile(f *File) error {
	open, err := f.Acquire()
	if err != nil {
		return err
	}
	defer f.Release()
	return open.SyncData()
}

// Commit writes the entries of the runs up to the mark. It must be called only after a sync that covers them has
// returned. On an error they stay pending, and the next Commit writes them again.
func (s *Segment) Commit(m Mark) error {
	s.mu.Lock()
	n := sort.Search(len(s.pending), func(i int) bool { return s.pending[i].End() > m.Size })
	number := s.entries
	runs := s.pending[:n:n]
	s.mu.Unlock()
	if n == 0 {
		return nil
	}
	var few [8 * EntrySize]byte
	buf := few[:0]
	for i, r := range runs {
		buf = r.entry(s.Base).Append(buf, s.header, number+uint32(i))
	}
	if err := s.writeEntries(buf, entryPosition(number)); err != nil {
		return fmt.Errorf("write index entries of segment %d: %w", s.Base, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries += uint32(n)
	s.pending = append(s.pending[:0], s.pending[n:]...)
	return nil
}

func (s *Segment) writeEntries(entries []byte, pos int64) error {
	index := s.index.Load()
	f, err := index.Acquire()
	if err != nil {
		return err
	}
	defer index.Release()
	_, err = f.WriteAt(entries, pos)
	return err
}

func entryPosition(number uint32) int64 { return HeaderSize + int64(number)*EntrySize }

// Size is the length of the batches in bytes.
func (s *Segment) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// Next is the offset after the last batch.
func (s *Segment) Next() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// MaxTimestamp is the largest timestamp of all batches, in ms, or NoTimestamp.
func (s *Segment) MaxTimestamp() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxTimestamp
}

// FirstTimestamp is the maximum timestamp of the first batch, in ms; NoTimestamp if it has none, there is no batch, or it
// can't be read.
func (s *Segment) FirstTimestamp() int64 {
	s.mu.Lock()
	first, known := s.firstTime, s.firstKnown || s.size == 0
	s.mu.Unlock()
	if known {
		return first
	}
	err := s.walk(0, 1, func(h batch.Batch, pos, _ int64) bool {
		if pos == 0 {
			first = batchTime(h)
		}
		return false
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.firstKnown = err == nil
	s.firstTime = first
	return first
}

// CreatedMs is when the segment was made.
func (s *Segment) CreatedMs() int64 { return s.header.CreatedMs }

// Generation is how often the segment was rewritten; if above 0, offsets may be missing.
func (s *Segment) Generation() uint32 { return s.header.Generation }

// IndexBytes is the length of the index with what is still to be written to it.
func (s *Segment) IndexBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return entryPosition(s.entries + uint32(len(s.pending)))
}

// Entries is how many entries the index file holds.
func (s *Segment) Entries() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries
}

// EntriesDue is how many entries the index holds once everything written has been committed.
func (s *Segment) EntriesDue() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries + uint32(len(s.pending))
}

// Damages lists the damaged ranges known.
func (s *Segment) Damages() []Damage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Damage(nil), s.damage...)
}

// Rebuilds is how often Rebuild has succeeded.
func (s *Segment) Rebuilds() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rebuilds
}

// Lose notes a damaged range that was found from outside: batches that should follow and don't.
func (s *Segment) Lose(d Damage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damage = append(s.damage, d)
	s.next = max(s.next, d.Next)
}
