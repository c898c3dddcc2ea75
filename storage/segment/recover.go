package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs"
)

// TempSuffix ends the names of files that are being written; recovery removes what a crash left of them.
const TempSuffix = ".tmp"

// Load opens a segment that is on disk and examines what the evidence doesn't cover. It changes nothing on disk; Repair
// does. A *VersionError means that the segment was written by a later version; other errors are of the disk.
func Load(o Options, base int64, ev Evidence) (*Segment, Outcome, error) {
	s := newSegment(o, base)
	out, err := s.load(ev)
	if err != nil {
		s.Close()
		return nil, Outcome{}, fmt.Errorf("load segment %d: %w", base, err)
	}
	return s, out, nil
}

func (s *Segment) load(ev Evidence) (Outcome, error) {
	data, err := s.data.Acquire()
	if err != nil {
		return Outcome{}, err
	}
	defer s.data.Release()
	size, err := data.Size()
	if err != nil {
		return Outcome{}, err
	}
	slots, indexed, err := s.readIndex(&ev, size)
	if err != nil {
		return Outcome{}, err
	}
	out, err := s.examine(data, size, indexed, slots, ev)
	if err == nil && out.rewrite && ev.Trusted.Entries > 0 {
		out, err = s.withTrusted(data, size, out, ev)
	}
	if err != nil {
		return Outcome{}, err
	}
	s.adopt(out, ev)
	return out, nil
}

// withTrusted completes the runs of an outcome by those that the checkpoint vouches for, for an index that has to be
// written anew. If one of them can't be read, everything is examined.
func (s *Segment) withTrusted(data io.ReaderAt, size int64, out Outcome, ev Evidence) (Outcome, error) {
	slots, err := s.allSlots(size)
	if err != nil {
		return Outcome{}, err
	}
	runs := make([]Run, 0, int(ev.Trusted.Entries)+len(out.runs))
	for _, sl := range slots[:min(len(slots), int(ev.Trusted.Entries))] {
		if !sl.ok {
			ev.Trusted = Trusted{}
			return s.examine(data, size, true, slots, ev)
		}
		runs = append(runs, sl.run)
	}
	out.runs = append(runs, out.runs...)
	return out, nil
}

func (s *Segment) examine(data io.ReaderAt, size int64, indexed bool, slots []slot, ev Evidence) (Outcome, error) {
	buf := s.files.scanBuffer()
	defer s.files.putScanBuffer(buf)
	gaps := s.header.Generation > 0 || (!indexed && ev.MayHaveGaps)
	return examine(data, size, *buf, s.Base, indexed, gaps, slots, s.interval, ev)
}

// adopt sets the segment's state to what an examination found. What the index file doesn't hold yet becomes pending.
func (s *Segment) adopt(out Outcome, ev Evidence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size, s.next = out.Size, out.Next
	s.maxTimestamp = max(s.maxTimestamp, out.MaxTimestamp)
	s.firstTime, s.firstKnown = out.FirstTime, out.FirstKnown
	s.damage = out.Damage
	s.verified = out.verified
	s.stale = out.rewrite
	s.open = false
	if out.rewrite {
		s.entries = 0
		s.pending = out.runs
		return
	}
	s.entries = ev.Trusted.Entries + uint32(out.inFile)
	s.pending = append([]Run(nil), out.runs[out.inFile:]...)
}

// Rebuild examines everything that has been committed, after an entry or a run turned out not to verify, and writes the
// index anew. Damage found is in Damages afterwards. No Write, Commit or Mark may run meanwhile.
func (s *Segment) Rebuild(o Options, gaps bool) error {
	committed, next := s.committed()
	ev := Evidence{Sealed: true, Next: next, MayHaveGaps: gaps, NowMs: s.header.CreatedMs}
	out, err := s.reexamine(committed, ev)
	if err == nil {
		err = s.replaceIndex(o, out.runs)
	}
	if err != nil {
		return fmt.Errorf("rebuild index of segment %d: %w", s.Base, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rebuilds++
	s.entries = uint32(len(out.runs))
	s.damage = out.Damage
	s.verified = addSpan(out.verified, span{committed, max(s.size, committed)})
	return nil
}

// committed is the position and offset up to which there are entries.
func (s *Segment) committed() (pos, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) > 0 {
		return s.pending[0].Position, s.pending[0].First
	}
	return s.size, s.next
}

func (s *Segment) reexamine(committed int64, ev Evidence) (Outcome, error) {
	data, err := s.data.Acquire()
	if err != nil {
		return Outcome{}, err
	}
	defer s.data.Release()
	slots, err := s.allSlots(committed)
	if errors.Is(err, fs.ErrNotExist) {
		return s.examine(data, committed, false, nil, ev)
	}
	if err != nil {
		return Outcome{}, err
	}
	return s.examine(data, committed, true, slots, ev)
}

// allSlots reads the whole index, for data of a size. Errors: fs.ErrNotExist; those of the disk.
func (s *Segment) allSlots(dataSize int64) ([]slot, error) {
	index := s.index.Load()
	f, err := index.Acquire()
	if err != nil {
		return nil, err
	}
	defer index.Release()
	length, err := f.Size()
	if err != nil {
		return nil, err
	}
	return s.readSlots(f, length, 0, dataSize)
}

// readIndex reads the index from the trusted entries on. If they don't say what the checkpoint says, trust is withdrawn in
// ev. indexed is false if the file is missing or its header is bad.
func (s *Segment) readIndex(ev *Evidence, dataSize int64) (slots []slot, indexed bool, err error) {
	index := s.index.Load()
	f, err := index.Acquire()
	if errors.Is(err, fs.ErrNotExist) {
		s.withoutIndex(ev)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer index.Release()
	err = s.readHeader(f)
	if errors.Is(err, ErrHeader) {
		s.withoutIndex(ev)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	length, err := f.Size()
	if err != nil {
		return nil, false, err
	}
	s.checkTrust(f, ev, dataSize)
	slots, err = s.readSlots(f, length, ev.Trusted.Entries, dataSize)
	return slots, true, err
}

// withoutIndex begins a new index and withdraws all trust: what the entries said is lost.
func (s *Segment) withoutIndex(ev *Evidence) {
	s.header = Header{Base: s.Base, CreatedMs: ev.NowMs}
	if ev.MayHaveGaps {
		s.header.Generation = UnknownGeneration
	}
	ev.Trusted = Trusted{}
}

func (s *Segment) readHeader(f vfs.File) error {
	var b [HeaderSize]byte
	name := filepath.Base(s.index.Load().Name())
	if err := readFull(f, b[:], 0); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s: %w: cut", name, ErrHeader)
		}
		return err
	}
	h, err := DecodeHeader(b[:], MagicIndex, name, s.Base)
	if err == nil {
		s.header = h
	}
	return err
}

// checkTrust compares the last trusted entry with what the checkpoint says, and takes the running maximum from it.
func (s *Segment) checkTrust(f io.ReaderAt, ev *Evidence, dataSize int64) {
	t := ev.Trusted
	if t.Entries == 0 {
		ev.Trusted = Trusted{}
		return
	}
	r, err := s.entryAt(f, t.Entries-1)
	if err != nil || r.End() != t.Size || r.Last+1 != t.Next || t.Size > dataSize {
		ev.Trusted = Trusted{}
		return
	}
	s.maxTimestamp = r.MaxTimestamp
}

func (s *Segment) entryAt(f io.ReaderAt, number uint32) (Run, error) {
	b := make([]byte, EntrySize)
	if err := readFull(f, b, entryPosition(number)); err != nil {
		return Run{}, err
	}
	return s.decodeRun(b, number)
}

// readSlots reads all slots from number on. A slot that is cut counts as a bad one. More slots than the data could have
// batches are not read: they are as bad as they are many.
func (s *Segment) readSlots(f io.ReaderAt, length int64, number uint32, dataSize int64) ([]slot, error) {
	total := (length - HeaderSize + EntrySize - 1) / EntrySize
	total = min(total, dataSize/batch.HeaderSize+blockEntries)
	if total <= int64(number) {
		return nil, nil
	}
	slots := make([]slot, 0, total-int64(number))
	block, scratch := make([]byte, blockEntries*EntrySize), make([]byte, seedSize)
	for int64(number) < total {
		n := min(blockEntries, total-int64(number)) * EntrySize
		n = min(n, length-entryPosition(number))
		if err := readFull(f, block[:n], entryPosition(number)); err != nil {
			return nil, err
		}
		for b := block[:n]; len(b) > 0; number++ {
			e, ok := decodeEntry(b, s.header, number, scratch)
			r := e.run(s.Base)
			slots = append(slots, slot{run: r, ok: ok && r.sane()})
			b = b[min(EntrySize, len(b)):]
		}
	}
	return slots, nil
}

// LoadSealed opens a segment with a successor without reading its data, if the last entry of its index says that it ends
// where it must. Otherwise it returns false, and Load is to be used.
func LoadSealed(o Options, base, next int64) (*Segment, bool, error) {
	s := newSegment(o, base)
	ok, err := s.loadSealed(next)
	if err != nil || !ok {
		s.Close()
		return nil, false, err
	}
	return s, true, nil
}

func (s *Segment) loadSealed(next int64) (bool, error) {
	data, err := s.data.Acquire()
	if err != nil {
		return false, err
	}
	defer s.data.Release()
	size, err := data.Size()
	if err != nil {
		return false, err
	}
	index := s.index.Load()
	f, err := index.Acquire()
	if err != nil {
		return false, notMissing(err)
	}
	defer index.Release()
	if err = s.readHeader(f); err != nil {
		return false, notHeader(err)
	}
	length, err := f.Size()
	if err != nil {
		return false, err
	}
	if size == 0 && length == HeaderSize && next == s.Base {
		return true, nil
	}
	if length <= HeaderSize || length%EntrySize != 0 || length > entryPosition(1<<31) {
		return false, nil
	}
	entries := uint32(length/EntrySize) - 1
	r, err := s.entryAt(f, entries-1)
	if errors.Is(err, ErrIndex) {
		return false, nil
	}
	if err != nil || r.End() != size || r.Last >= next || (r.Last+1 != next && s.header.Generation == 0) {
		return false, err
	}
	s.size, s.next, s.maxTimestamp, s.entries = size, r.Last+1, r.MaxTimestamp, entries
	return true, nil
}

func notMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func notHeader(err error) error {
	if errors.Is(err, ErrHeader) {
		return nil
	}
	return err
}

// Repair makes the disk agree with an outcome of Load: a torn write is cut off, batches taken in are written once more and synced,
// then their entries are written. keep, if not nil, is given the torn bytes before they are cut.
//
// The batches taken in may be there in the page cache alone: if a sync failed before the process ended, no sync writes them any
// more, nor fails, unless they are written again.
func (s *Segment) Repair(o Options, out Outcome, keep func(f io.ReaderAt, from, to int64) error) error {
	if !out.Torn && !s.Unmarked() {
		return nil
	}
	f, err := o.FS.OpenReadWrite(s.data.Name())
	if err != nil {
		return fmt.Errorf("repair segment %d: %w", s.Base, err)
	}
	if out.Torn && keep != nil {
		err = keep(f, out.Size, out.FileSize)
	}
	if out.Torn && err == nil {
		err = f.Truncate(out.Size)
	}
	if out.Accepted > 0 && err == nil {
		err = s.writeAgain(f, out.acceptedFrom, out.Size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("repair segment %d: %w", s.Base, err)
	}
	return s.WriteIndex(o)
}

// writeAgain writes the bytes of a range as they are, so that the next sync is about them.
func (s *Segment) writeAgain(f vfs.File, from, to int64) error {
	buf := s.files.scanBuffer()
	defer s.files.putScanBuffer(buf)
	for from < to {
		b := (*buf)[:min(int64(len(*buf)), to-from)]
		if err := readFull(f, b, from); err != nil {
			return err
		}
		if _, err := f.WriteAt(b, from); err != nil {
			return err
		}
		from += int64(len(b))
	}
	return nil
}

// Unmarked says whether there are runs without an entry, or an index that has to be written anew.
func (s *Segment) Unmarked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stale || len(s.pending) > 0
}

// WriteIndex writes and syncs the entries that are missing; the bytes they cover must have been synced. An index that is
// wrong is written to a new file that replaces it in one step.
func (s *Segment) WriteIndex(o Options) error {
	s.mu.Lock()
	stale, runs, number := s.stale, s.pending, s.entries
	s.mu.Unlock()
	var err error
	if stale {
		err = s.replaceIndex(o, runs)
	} else {
		err = s.appendIndex(o, runs, number)
	}
	if err != nil {
		return fmt.Errorf("write index of segment %d: %w", s.Base, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = number + uint32(len(runs))
	s.pending, s.open, s.stale = nil, false, false
	return nil
}

func (s *Segment) encode(dst []byte, runs []Run, number uint32) []byte {
	for i, r := range runs {
		dst = r.entry(s.Base).Append(dst, s.header, number+uint32(i))
	}
	return dst
}

func (s *Segment) appendIndex(o Options, runs []Run, number uint32) error {
	f, err := o.FS.OpenReadWrite(s.index.Load().Name())
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(s.encode(nil, runs, number), entryPosition(number)); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// replaceIndex writes all entries to a new file and renames it into place. The old file's handle is given up.
func (s *Segment) replaceIndex(o Options, runs []Run) error {
	name := s.index.Load().Name()
	content := s.encode(s.header.Append(make([]byte, 0, HeaderSize+len(runs)*EntrySize), MagicIndex), runs, 0)
	if err := writeNew(o.FS, name+TempSuffix, content); err != nil {
		return err
	}
	if err := o.FS.Rename(name+TempSuffix, name); err != nil {
		return err
	}
	old := s.index.Load()
	fresh := s.files.Add(name, old.writable)
	s.index.Store(fresh)
	old.Close()
	return o.FS.SyncDir(s.dir)
}
