package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// swap is a replacement of segments by others, as its .swap file says. From the moment that file is in place, durably, the
// new files take the place of the old ones, whatever happens.
//
// The file has the name of the first segment replaced. Side header with magic KBSW, then:
//
//	8   16  topic id
//	24  4   number of segments replaced; of each: base offset (8), ascending
//	-   4   number of new files; of each, 24 bytes:
//	          8  base offset
//	          4  kind: 0 .log, 1 .index, 2 .txnindex
//	          8  size in bytes
//	          4  CRC-32C of the file
//	-   4   CRC-32C
//
// Until it is renamed, a new file has its final name and ".clean.tmp" after it.
type swap struct {
	id       TopicID
	replaced []int64
	files    []segment.NewFile
}

const (
	swapMagic     = "KBSW"
	swapSuffix    = ".swap"
	swapFixedSize = 20 // topic id and number of segments
	swapFileSize  = 24
)

// swapKinds are the suffixes by kind.
func swapKinds() []string {
	return []string{segment.SuffixData, segment.SuffixIndex, segment.SuffixTxnIndex}
}

func (s *swap) encode() []byte {
	body := make([]byte, 0, swapFixedSize+8*len(s.replaced)+4+swapFileSize*len(s.files))
	body = append(body, s.id[:]...)
	body = binary.BigEndian.AppendUint32(body, uint32(len(s.replaced)))
	for _, base := range s.replaced {
		body = binary.BigEndian.AppendUint64(body, uint64(base))
	}
	body = binary.BigEndian.AppendUint32(body, uint32(len(s.files)))
	for _, f := range s.files {
		body = binary.BigEndian.AppendUint64(body, uint64(f.Base))
		body = binary.BigEndian.AppendUint32(body, uint32(slices.Index(swapKinds(), f.Suffix)))
		body = binary.BigEndian.AppendUint64(body, uint64(f.Size))
		body = binary.BigEndian.AppendUint32(body, f.CRC)
	}
	return encodeSide(swapMagic, body)
}

// decodeSwap reads a .swap file. Errors: errSideFile; *segment.VersionError.
func decodeSwap(name string, b []byte) (*swap, error) {
	body, err := decodeSide(name, swapMagic, b)
	if err != nil {
		return nil, err
	}
	bad := func(what string) error { return fmt.Errorf("%s: %w: %s", name, errSideFile, what) }
	if len(body) < swapFixedSize {
		return nil, bad("length")
	}
	s := &swap{id: TopicID(body[:16])}
	count := int64(binary.BigEndian.Uint32(body[16:]))
	body = body[swapFixedSize:]
	if int64(len(body)) < 8*count+4 || count == 0 {
		return nil, bad("number of segments")
	}
	for range count {
		s.replaced = append(s.replaced, int64(binary.BigEndian.Uint64(body)))
		body = body[8:]
	}
	files := int64(binary.BigEndian.Uint32(body))
	body = body[4:]
	if int64(len(body)) != swapFileSize*files || files == 0 {
		return nil, bad("number of files")
	}
	kinds := swapKinds()
	for ; len(body) > 0; body = body[swapFileSize:] {
		kind := binary.BigEndian.Uint32(body[8:])
		f := segment.NewFile{
			Base: int64(binary.BigEndian.Uint64(body)), Size: int64(binary.BigEndian.Uint64(body[12:])),
			CRC: binary.BigEndian.Uint32(body[20:]),
		}
		if int(kind) >= len(kinds) || f.Base < 0 || f.Size < 0 {
			return nil, bad("file")
		}
		f.Suffix = kinds[kind]
		s.files = append(s.files, f)
	}
	if !slices.IsSorted(s.replaced) || s.replaced[0] < 0 {
		return nil, bad("order")
	}
	return s, nil
}

// name is the .swap file's.
func (s *swap) name() string { return segment.FileName(s.replaced[0], swapSuffix) }

// superseded lists the names of the replaced segments' files that no new file takes.
func (s *swap) superseded() []string {
	taken := map[string]bool{}
	for _, f := range s.files {
		taken[f.Name()] = true
	}
	var names []string
	for _, base := range s.replaced {
		for _, suffix := range swapKinds() {
			if name := segment.FileName(base, suffix); !taken[name] {
				names = append(names, name)
			}
		}
	}
	return names
}

// remove removes the files that are superseded; it is no error if they are gone.
func (s *swap) remove(files vfs.FS, dir string) error {
	for _, name := range s.superseded() {
		if err := files.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// touchesAborted says whether the swap changes which .txnindex files there are, given those of before.
func (s *swap) touchesAborted(counts map[int64]int) bool {
	for _, base := range s.replaced {
		if _, ok := counts[base]; ok {
			return true
		}
	}
	return slices.ContainsFunc(s.files, func(f segment.NewFile) bool { return f.Suffix == segment.SuffixTxnIndex })
}

// adjust makes the numbers of entries in .txnindex files those of after the swap.
func (s *swap) adjust(counts map[int64]int) map[int64]int {
	for _, base := range s.replaced {
		delete(counts, base)
	}
	for _, f := range s.files {
		if f.Suffix != segment.SuffixTxnIndex {
			continue
		}
		if counts == nil {
			counts = map[int64]int{}
		}
		counts[f.Base] = txnEntries(f.Size)
	}
	return counts
}

// txnEntries is how many entries a .txnindex file of a size has.
func txnEntries(size int64) int {
	return int((size - sideHeaderSize - 8 - sideChecksumSize) / txnEntrySize)
}

// adjustSnapshot makes the snapshot on disk agree with a swap that is in place, so that it is still believed. If there is no
// space for another it goes: what it says can be found out. The caller holds saving, or is alone.
func (l *Log) adjustSnapshot(s *swap) error {
	c, err := l.readSnapshot()
	if errors.Is(err, errSideFile) {
		return nil // it will be discarded
	}
	if err != nil {
		return err
	}
	if c == nil || !s.touchesAborted(c.aborted) {
		return nil
	}
	c.aborted = s.adjust(c.aborted)
	name := filepath.Join(l.dir, snapshotName)
	if err = replaceFile(l.set.fs, name, c.encode()); !vfs.IsNoSpace(err) {
		return err
	}
	l.snapshotEnd, l.snapshotStart = 0, 0
	return errors.Join(removeIfThere(l.set.fs, name+segment.TempSuffix), removeIfThere(l.set.fs, name), l.set.fs.SyncDir(l.dir))
}

// finishSwaps completes the replacements that a crash interrupted, and says whether there were any.
func (l *Log) finishSwaps(names []string) (found bool, err error) {
	for _, name := range names {
		if _, suffix, ok := segment.ParseFileName(name); !ok || suffix != swapSuffix {
			continue
		}
		found = true
		if err = l.finishSwap(name); err != nil {
			return found, fmt.Errorf("finish %s: %w", name, err)
		}
	}
	return found, nil
}

func (l *Log) finishSwap(name string) error {
	files := l.set.fs
	b, err := readFile(files, filepath.Join(l.dir, name))
	var s *swap
	if err == nil {
		s, err = decodeSwap(name, b)
	}
	if errors.Is(err, errSideFile) {
		kind := strings.TrimPrefix(err.Error(), name+": ") + "; `kbroker storage repair` decides"
		return &CorruptionError{Partition: l.part, Segment: name, Kind: kind}
	}
	if err != nil {
		return err
	}
	todo, sound, err := l.pending(s)
	if err != nil {
		return err
	}
	if s.id != l.part.ID || !sound {
		if err = files.Remove(filepath.Join(l.dir, name)); err != nil {
			return err
		}
		return files.SyncDir(l.dir) // before the new files go: without them it would seem to have been carried out
	}
	for _, f := range todo {
		if err = files.Rename(filepath.Join(l.dir, f.TempName()), filepath.Join(l.dir, f.Name())); err != nil {
			return err
		}
	}
	if err = s.remove(files, l.dir); err != nil {
		return err
	}
	if err = files.SyncDir(l.dir); err != nil {
		return err
	}
	if err = l.adjustSnapshot(s); err != nil {
		return err
	}
	l.set.logger.Info("interrupted compaction is finished", zap.Stringer("partition", l.part), zap.String("file", name))
	return files.Remove(filepath.Join(l.dir, name))
}

// pending lists the files that are still to be renamed. sound is false if none has been yet and one of them has rotted: then
// the old ones stay.
func (l *Log) pending(s *swap) (todo []segment.NewFile, sound bool, err error) {
	rotten := ""
	for _, f := range s.files {
		size, sum, err := sumFile(l.set.fs, filepath.Join(l.dir, f.TempName()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has been, or a trim has removed it since
		}
		if err != nil {
			return nil, false, err
		}
		if size != f.Size || sum != f.CRC {
			rotten = f.TempName()
		}
		todo = append(todo, f)
	}
	if rotten == "" {
		return todo, true, nil
	}
	l.set.logger.Error("a file of an interrupted compaction doesn't verify",
		zap.Stringer("partition", l.part), zap.String("file", rotten))
	// Where some of the old files are gone already, what is bad is found when the segment is examined.
	return todo, len(todo) < len(s.files), nil
}

// sumFile is the size and the CRC-32C of a file.
func sumFile(files vfs.FS, name string) (size int64, sum uint32, err error) {
	f, err := files.Open(name)
	if err != nil {
		return 0, 0, err
	}
	buf := make([]byte, 256<<10)
	for {
		n, err := f.ReadAt(buf, size)
		sum = batch.UpdateChecksum(sum, buf[:n])
		size += int64(n)
		if errors.Is(err, io.EOF) {
			return size, sum, f.Close()
		}
		if err != nil {
			return 0, 0, errors.Join(err, f.Close())
		}
	}
}
