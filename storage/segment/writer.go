package segment

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs"
)

const (
	// CleanSuffix ends the names of files that are to take the place of others.
	CleanSuffix = ".clean" + TempSuffix

	writeBufferBytes = 256 << 10
	// syncEveryBytes keeps what a sync has to write small: a large one holds up those of other files.
	syncEveryBytes = 16 << 20

	// UnknownGeneration is set in the generation of an index that was made anew for a segment that may have been compacted:
	// how often is no longer known, nor whether at all.
	UnknownGeneration = 1 << 31
)

// NewFile is a file that has been written under its temporary name.
type NewFile struct {
	Base   int64
	Suffix string
	Size   int64
	CRC    uint32 // CRC-32C of the whole file
}

// Name is the file's name once it is in place.
func (f NewFile) Name() string { return FileName(f.Base, f.Suffix) }

// TempName is its name until then.
func (f NewFile) TempName() string { return f.Name() + CleanSuffix }

// CreateFile makes a file; the caller of NewWriter decides whether it still may be made.
type CreateFile func(name string) (vfs.File, error)

// Writer writes a segment that takes the place of others: data and index under temporary names. It is used by one goroutine
// at a time. After an error, or instead of Finish, call Abort.
type Writer struct {
	seg    *Segment
	header Header
	data   sumWriter
	index  sumWriter
	run    Run
	count  uint32 // entries written
	synced int64
}

// NewWriter begins a segment. pace, if not nil, is called before so many bytes are written.
func NewWriter(o Options, h Header, create CreateFile, pace func(bytes int) error) (*Writer, error) {
	w := &Writer{seg: newSegment(o, h.Base), header: h}
	w.seg.header = h
	var err error
	if w.data.file, err = create(filepath.Join(o.Dir, FileName(h.Base, SuffixData)+CleanSuffix)); err != nil {
		return nil, err
	}
	if w.index.file, err = create(filepath.Join(o.Dir, FileName(h.Base, SuffixIndex)+CleanSuffix)); err != nil {
		return nil, errors.Join(err, w.data.file.Close())
	}
	w.data.pace, w.index.pace = pace, pace
	return w, w.index.write(h.Append(nil, MagicIndex))
}

// Base is the segment's base offset.
func (w *Writer) Base() int64 { return w.header.Base }

// Size is the length of the data so far.
func (w *Writer) Size() int64 { return w.seg.size }

// Append adds a batch, whose offset must follow.
func (w *Writer) Append(b batch.Batch) error {
	s := w.seg
	size := int64(len(b))
	if s.size+size > MaxSize || b.LastOffset()-s.Base > MaxRelativeOffset {
		return fmt.Errorf("segment %d has no room for the batch at %d", s.Base, b.BaseOffset())
	}
	if err := w.data.write(b); err != nil {
		return err
	}
	if w.run.Size > 0 && w.run.Size+size > s.interval {
		if err := w.endRun(); err != nil {
			return err
		}
	}
	if s.size == 0 {
		s.firstTime, s.firstKnown = batchTime(b), true
	}
	s.maxTimestamp = max(s.maxTimestamp, batchTime(b))
	w.run.extend(b, s.size, size, s.maxTimestamp)
	s.size += size
	s.next = b.NextOffset()
	if w.data.off-w.synced >= syncEveryBytes {
		w.synced = w.data.off
		return w.data.file.SyncData()
	}
	return nil
}

func (w *Writer) endRun() error {
	if w.run.Size == 0 {
		return nil
	}
	err := w.index.write(w.run.entry(w.seg.Base).Append(nil, w.header, w.count))
	w.count++
	w.run = Run{}
	return err
}

// Finish makes both files durable and returns the segment they will be, and the files. Their names are not durable yet.
func (w *Writer) Finish() (*Segment, []NewFile, error) {
	if err := w.endRun(); err != nil {
		return nil, nil, err
	}
	for _, f := range []*sumWriter{&w.data, &w.index} {
		if err := f.finish(); err != nil {
			return nil, nil, err
		}
	}
	s := w.seg
	s.entries = w.count
	if s.size > 0 {
		s.verified = []span{{0, s.size}}
	}
	s.data.name += CleanSuffix
	s.index.Load().name += CleanSuffix
	return s, []NewFile{
		{Base: s.Base, Suffix: SuffixData, Size: w.data.size(), CRC: w.data.sum},
		{Base: s.Base, Suffix: SuffixIndex, Size: w.index.size(), CRC: w.index.sum},
	}, nil
}

// Abort closes the files. They stay where they are.
func (w *Writer) Abort() {
	for _, f := range []*sumWriter{&w.data, &w.index} {
		if f.file != nil {
			_ = f.file.Close() // nobody will read it
		}
	}
}

// sumWriter writes a file from the beginning and sums it up.
type sumWriter struct {
	file vfs.File
	pace func(bytes int) error
	buf  []byte
	off  int64 // where buf goes
	sum  uint32
}

func (w *sumWriter) size() int64 { return w.off + int64(len(w.buf)) }

func (w *sumWriter) write(b []byte) error {
	w.sum = batch.UpdateChecksum(w.sum, b)
	if len(w.buf)+len(b) > writeBufferBytes {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(b) >= writeBufferBytes {
		return w.put(b)
	}
	w.buf = append(w.buf, b...)
	return nil
}

func (w *sumWriter) flush() error {
	b := w.buf
	w.buf = w.buf[:0]
	return w.put(b)
}

func (w *sumWriter) put(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if w.pace != nil {
		if err := w.pace(len(b)); err != nil {
			return err
		}
	}
	_, err := w.file.WriteAt(b, w.off)
	w.off += int64(len(b))
	return err
}

// finish writes what is left, syncs and closes the file.
func (w *sumWriter) finish() error {
	err := w.flush()
	if err == nil {
		err = w.file.Sync()
	}
	err = errors.Join(err, w.file.Close())
	w.file = nil
	return err
}

// Settle gives the files of a segment made by a Writer, which is in use already, their final names. No new file is opened
// meanwhile.
func (s *Segment) Settle(o Options) error {
	for _, f := range []*File{s.data, s.index.Load()} {
		if err := f.rename(o.FS); err != nil {
			return fmt.Errorf("put segment %d in place: %w", s.Base, err)
		}
	}
	return nil
}

// rename takes the suffix off a file's name.
func (f *File) rename(fs vfs.FS) error {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	final := f.name[:len(f.name)-len(CleanSuffix)]
	if err := fs.Rename(f.name, final); err != nil {
		return err
	}
	f.name = final
	return nil
}

// batchTime is the largest timestamp of a batch's records, in ms, or NoTimestamp. A batch that compaction has emptied has a
// time, but no record of it.
func batchTime(b batch.Batch) int64 {
	if b.NumRecords() == 0 {
		return batch.NoTimestamp
	}
	return b.MaxTimestamp()
}
