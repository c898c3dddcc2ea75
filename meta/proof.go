package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/record"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs"
)

// Pebble takes the first chunk that doesn't verify for the end of a log unless a later block of the log (of 32 KiB) says
// that it had been synced, and for the end of a manifest in any case. A store of a few topics has one block: a flipped bit
// there would take back topics, or the cluster's identity, without a word. So beside Pebble's files lies one that proves
// what had been made durable of its append-only files: for each, the length that a sync covered and the checksum of the
// bytes up to there. A proof is written after the sync that it speaks of, and not synced itself: after a power cut an older
// one may be found, which claims less, but nothing that isn't so.
//
// Each file has two slots, written in turn, so that a torn one leaves the one before. A slot, big-endian:
//
//	magic "kbpr" | version u8 | kind u8 | 0 u16 | file number u64 | length u64 | CRC-32C of the bytes | CRC-32C of the slot
//
// File numbers are not used again while a store is open. They may be after a crash, so slots of files that aren't there any
// more are erased, and synced, before Pebble opens.
const (
	proofName      = "PROOF"
	proofVersion   = 1
	proofSlotBytes = 32
	proofPairs     = 64 // slots are made for so many files at first
)

// kindLog and kindManifest are the files there are proofs of.
const (
	kindLog      byte = 1
	kindManifest byte = 2
)

// markerPrefix begins the names of the empty files by which Pebble keeps a value in a name, and manifestMarker those by which
// it says which manifest counts: the number of the marker and the manifest's name follow.
const (
	markerPrefix   = "marker."
	manifestMarker = markerPrefix + "manifest."
)

var errProof = errors.New("bytes that were synced have changed or are missing")

// appendOnly tells the kind and number of a file there are proofs of; kind 0 if it isn't one.
func appendOnly(name string) (kind byte, number uint64) {
	base := filepath.Base(name)
	digits, isLog := strings.CutSuffix(base, ".log")
	kind = kindLog
	if !isLog {
		var isManifest bool
		if digits, isManifest = strings.CutPrefix(base, "MANIFEST-"); !isManifest {
			return 0, 0
		}
		kind = kindManifest
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, 0
	}
	return kind, number
}

// proof says that the first length bytes of a file are durable, and what their checksum is.
type proof struct {
	kind   byte
	number uint64
	length int64
	sum    uint32
}

func (p proof) encode() []byte {
	b := append(make([]byte, 0, proofSlotBytes), "kbpr"...)
	b = append(b, proofVersion, p.kind, 0, 0)
	b = binary.BigEndian.AppendUint64(b, p.number)
	b = binary.BigEndian.AppendUint64(b, uint64(p.length))
	b = binary.BigEndian.AppendUint32(b, p.sum)
	return binary.BigEndian.AppendUint32(b, batch.Checksum(b))
}

// decodeProof reads a slot; ok is false for one that is empty or torn.
func decodeProof(b []byte) (p proof, ok bool, err error) {
	if len(b) != proofSlotBytes || string(b[:4]) != "kbpr" {
		return p, false, nil
	}
	if binary.BigEndian.Uint32(b[28:]) != batch.Checksum(b[:28]) {
		return p, false, nil
	}
	if b[4] != proofVersion {
		return p, false, fmt.Errorf("%s: format version %d, this broker knows %d: %w", proofName, b[4], proofVersion, ErrSchema)
	}
	p = proof{
		kind: b[5], number: binary.BigEndian.Uint64(b[8:]), length: int64(binary.BigEndian.Uint64(b[16:])),
		sum: binary.BigEndian.Uint32(b[24:]),
	}
	return p, p.length >= 0, nil
}

// proofs is the file of proofs. Concurrent calls are allowed.
type proofs struct {
	disk vfs.FS
	dir  string
	log  *zap.Logger

	mu struct {
		sync.Mutex
		file   vfs.File
		pairs  map[string]*proofPair // by the files' names
		free   []int                 // pairs given back
		next   int                   // the first pair never used
		failed bool                  // a write failed, and was reported
	}
}

// proofPair is where a file's proofs lie, and the one that claims most.
type proofPair struct {
	index int
	last  int // the slot written last, 0 or 1
	best  proof
}

// openProofs reads the proofs in a directory, and makes the file if there is none.
func openProofs(disk vfs.FS, dir string, log *zap.Logger) (*proofs, error) {
	p := &proofs{disk: disk, dir: dir, log: log}
	p.mu.pairs = make(map[string]*proofPair)
	file, err := disk.OpenReadWrite(filepath.Join(dir, proofName))
	if err != nil {
		return nil, err
	}
	p.mu.file = file
	if err = p.read(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return p, nil
}

// read takes in all slots and erases those of files that aren't there.
func (p *proofs) read() error {
	size, err := p.mu.file.Size()
	if err != nil {
		return err
	}
	if size < proofPairs*2*proofSlotBytes { // made new, or what a crash left of that
		size = proofPairs * 2 * proofSlotBytes
		if err = p.mu.file.Truncate(size); err != nil {
			return err
		}
	}
	erased := false
	slot := make([]byte, proofSlotBytes)
	for i := range size / proofSlotBytes {
		if _, err = p.mu.file.ReadAt(slot, i*proofSlotBytes); err != nil {
			return err
		}
		found, ok, decodeErr := decodeProof(slot)
		if decodeErr != nil {
			return decodeErr
		}
		p.mu.next = int(i/2) + 1
		switch name := found.name(); {
		case !ok:
		case !p.exists(name):
			erased = true
			if _, err = p.mu.file.WriteAt(make([]byte, proofSlotBytes), i*proofSlotBytes); err != nil {
				return err
			}
		default:
			p.take(name, found, int(i))
		}
	}
	p.findFree()
	if erased {
		return p.mu.file.SyncData()
	}
	return nil
}

// name is the file that a proof speaks of.
func (p proof) name() string {
	if p.kind == kindLog {
		return fmt.Sprintf("%06d.log", p.number)
	}
	return fmt.Sprintf("MANIFEST-%06d", p.number)
}

func (p *proofs) exists(name string) bool {
	_, err := p.disk.Stat(filepath.Join(p.dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// take notes a proof that was read.
func (p *proofs) take(name string, found proof, slot int) {
	known := p.mu.pairs[name]
	if known == nil || found.length > known.best.length {
		p.mu.pairs[name] = &proofPair{index: slot / 2, last: slot % 2, best: found}
	}
}

// findFree collects the pairs below next that no file uses.
func (p *proofs) findFree() {
	used := make(map[int]bool)
	for _, pair := range p.mu.pairs {
		used[pair.index] = true
	}
	for i := range p.mu.next {
		if !used[i] {
			p.mu.free = append(p.mu.free, i)
		}
	}
}

// prove notes that the first length bytes of a file are durable. A failure is reported and otherwise left alone: the proof
// then claims less than it could.
func (p *proofs) prove(name string, length int64, sum uint32) {
	name = filepath.Base(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	pair := p.mu.pairs[name]
	if pair == nil {
		kind, number := appendOnly(name)
		pair = &proofPair{index: p.allot(), best: proof{kind: kind, number: number, length: -1}}
		p.mu.pairs[name] = pair
	}
	if length <= pair.best.length || p.mu.file == nil {
		return
	}
	pair.best.length, pair.best.sum = length, sum
	pair.last = 1 - pair.last
	_, err := p.mu.file.WriteAt(pair.best.encode(), int64(pair.index*2+pair.last)*proofSlotBytes)
	if err != nil && !p.mu.failed {
		p.mu.failed = true
		p.log.Warn("metadata store: can't note what is durable", zap.String("dir", p.dir), zap.Error(err))
	}
}

// allot finds a pair of slots for a file.
func (p *proofs) allot() int {
	if last := len(p.mu.free) - 1; last >= 0 {
		index := p.mu.free[last]
		p.mu.free = p.mu.free[:last]
		return index
	}
	p.mu.next++
	return p.mu.next - 1
}

// forget gives back the slots of a file that is about to be removed.
func (p *proofs) forget(name string) {
	name = filepath.Base(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	pair := p.mu.pairs[name]
	if pair == nil {
		return
	}
	delete(p.mu.pairs, name)
	p.mu.free = append(p.mu.free, pair.index)
	if p.mu.file != nil { // spares the next start the work; an error changes nothing
		_, _ = p.mu.file.WriteAt(make([]byte, 2*proofSlotBytes), int64(pair.index)*2*proofSlotBytes)
	}
}

// sync makes the proofs durable.
func (p *proofs) sync() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.file == nil {
		return nil
	}
	return p.mu.file.SyncData()
}

func (p *proofs) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.file == nil {
		return nil
	}
	err := p.mu.file.Close()
	p.mu.file = nil
	return err
}

// verify checks the append-only files that count against their proofs, and cuts from the newest log what a crash left
// behind its last sound record. Only the newest can have such a tail: a log is synced before it gets a successor.
func (p *proofs) verify() error {
	names, err := p.disk.List(p.dir)
	if err != nil {
		return err
	}
	newest, manifest := "", currentManifest(names)
	for _, name := range names {
		if kind, number := appendOnly(name); kind == kindLog {
			if _, last := appendOnly(newest); newest == "" || number > last {
				newest = name
			}
		}
	}
	for _, name := range names {
		kind, _ := appendOnly(name)
		if kind == kindLog || kind == kindManifest && name == manifest {
			err = p.verifyFile(name, name == newest)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// currentManifest finds the manifest that counts, which the newest of its markers names; older ones are kept for a while.
func currentManifest(names []string) string {
	manifest, newest := "", uint64(0)
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, manifestMarker)
		version, target, found := strings.Cut(rest, ".")
		n, err := strconv.ParseUint(version, 10, 64)
		if ok && found && err == nil && n >= newest {
			newest, manifest = n, target
		}
	}
	return manifest
}

// verifyFile checks one file. What is sound in a log beyond what is proven is made durable here, so that all logs but the
// newest are.
func (p *proofs) verifyFile(name string, newest bool) error {
	path := filepath.Join(p.dir, name)
	f, err := p.disk.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	var proven proof
	if pair := p.mu.pairs[name]; pair != nil {
		proven = pair.best
	}
	sum, err := checksum(f, proven.length)
	if err != nil {
		return err
	}
	if sum != proven.sum {
		return fmt.Errorf("%w: %s: %w: its first %d bytes", ErrDamaged, path, errProof, proven.length)
	}
	kind, number := appendOnly(name)
	if kind != kindLog {
		return nil
	}
	end, err := soundEnd(f, number)
	torn := errors.Is(err, errTail)
	switch {
	case err != nil && !torn:
		return fmt.Errorf("%s: %w", path, err)
	case torn && !newest:
		return nil // Pebble refuses it, unless it has no use for it any more
	}
	return p.accept(name, torn, max(end, proven.length), proven.length)
}

// accept makes a log durable that is sound up to end, and cuts off what comes after if that is torn. Between the last sound
// record and what is proven lies at most the filling of a block. What isn't proven is written again: a sync that failed
// before may have left it in the page cache, marked as written, and then another sync would do nothing.
func (p *proofs) accept(name string, torn bool, end, proven int64) error {
	path := filepath.Join(p.dir, name)
	f, err := p.disk.OpenReadWrite(path)
	if err != nil {
		return err
	}
	size, err := f.Size()
	switch {
	case err != nil:
	case torn:
		p.log.Warn("metadata store: cut the end of a log that was being written when the broker ended",
			zap.String("file", path), zap.Int64("position", end), zap.Int64("bytes", size-end))
		err = f.Truncate(end)
	default:
		end = size
	}
	if err == nil && (torn || end > proven) {
		if err = rewrite(f, proven, end); err == nil {
			err = p.syncAndProve(f, name, end)
		}
	}
	return errors.Join(err, f.Close())
}

// rewrite writes a part of a file as it is.
func rewrite(f vfs.File, from, to int64) error {
	buf := make([]byte, max(min(to-from, 64<<10), 0))
	for from < to {
		chunk := buf[:min(int64(len(buf)), to-from)]
		if _, err := f.ReadAt(chunk, from); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := f.WriteAt(chunk, from); err != nil {
			return err
		}
		from += int64(len(chunk))
	}
	return nil
}

func (p *proofs) syncAndProve(f vfs.File, name string, length int64) error {
	if err := f.Sync(); err != nil {
		return err
	}
	sum, err := checksum(f, length)
	if err == nil {
		p.prove(name, length, sum)
	}
	return err
}

// checksum is the checksum of the first bytes of a file.
func checksum(f vfs.File, length int64) (uint32, error) {
	var sum uint32
	buf := make([]byte, min(length, 64<<10))
	for at := int64(0); at < length; {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), length-at)], at)
		sum = batch.UpdateChecksum(sum, buf[:n])
		at += int64(n)
		switch {
		case errors.Is(err, io.EOF) && at < length:
			return 0, fmt.Errorf("%w: %s: %w: it ends at byte %d of %d", ErrDamaged, f.Name(), errProof, at, length)
		case err != nil && !errors.Is(err, io.EOF):
			return 0, err
		}
	}
	return sum, nil
}

// errTail says that a log ends in something that isn't a record.
var errTail = errors.New("not a sound record")

// soundEnd finds where the records of a log end: the error is nil if nothing comes after them, and errTail if something
// does.
func soundEnd(f vfs.File, number uint64) (int64, error) {
	r := recordReader(record.NewReader, f, number)
	for {
		end := r.Offset()
		next, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, next)
		}
		switch {
		case errors.Is(err, io.EOF):
			return end, nil
		case record.IsInvalidRecord(err), errors.Is(err, record.ErrInvalidChunk):
			return end, fmt.Errorf("%w: %w", errTail, err)
		case err != nil:
			return end, err
		}
	}
}

// recordReader makes a reader of records; Pebble doesn't export the type of its file numbers.
func recordReader[N ~uint64](open func(io.Reader, N) *record.Reader, f io.Reader, number uint64) *record.Reader {
	return open(f, N(number))
}
