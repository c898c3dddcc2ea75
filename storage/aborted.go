package storage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/kbroker/kbroker/storage/producer"
	"github.com/kbroker/kbroker/storage/segment"
)

// abortedTxn is a transaction whose abort marker lies in a segment.
type abortedTxn struct {
	producerID  int64
	firstOffset int64 // of the transaction's first batch, perhaps in an earlier segment
	lastOffset  int64 // of the marker
	lastStable  int64 // the last stable offset once the marker was written
}

// aborted is the aborted transactions of a log by the segment that holds the marker. Those of the last segment are in
// memory; of the others only how many there are, and a read that needs them reads their file.
type aborted struct {
	base  int64 // of the segment that recent belongs to
	list  []abortedTxn
	saved int // how many of list are in the file
	files map[int64]int
	// unnamed are those whose files, new by a replacement that failed, have their temporary names for good.
	unnamed map[int64]int
}

func (a *aborted) add(base int64, c producer.Completed) {
	if a.base != base {
		a.base, a.list, a.saved = base, nil, 0
	}
	a.list = append(a.list, abortedTxn{c.ProducerID, c.FirstOffset, c.LastOffset, c.LastStable})
}

// forget drops those of a segment that is no longer part of the log.
func (a *aborted) forget(base int64) {
	delete(a.files, base)
	if a.base == base {
		a.list, a.saved = nil, 0
	}
}

// counts is how many entries each .txnindex file must have. The caller holds mu.
func (a *aborted) counts() map[int64]int {
	if len(a.list) == 0 && len(a.files) == 0 {
		return nil
	}
	counts := make(map[int64]int, len(a.files)+1)
	for base, n := range a.files {
		counts[base] = n
	}
	if len(a.list) > 0 {
		counts[a.base] = len(a.list)
	}
	return counts
}

// The .txnindex file: side header with magic KBTX, base offset (8), then for each aborted transaction, in the order of
// the markers: producer id (8), first offset (8), last offset (8), last stable offset (8).
const (
	txnMagic     = string(segment.MagicTxnIndex)
	txnEntrySize = 32
)

func encodeAborted(base int64, list []abortedTxn) []byte {
	body := make([]byte, 0, 8+len(list)*txnEntrySize)
	body = binary.BigEndian.AppendUint64(body, uint64(base))
	for _, t := range list {
		body = binary.BigEndian.AppendUint64(body, uint64(t.producerID))
		body = binary.BigEndian.AppendUint64(body, uint64(t.firstOffset))
		body = binary.BigEndian.AppendUint64(body, uint64(t.lastOffset))
		body = binary.BigEndian.AppendUint64(body, uint64(t.lastStable))
	}
	return encodeSide(txnMagic, body)
}

func decodeAborted(base int64, b []byte) ([]abortedTxn, error) {
	name := segment.FileName(base, segment.SuffixTxnIndex)
	body, err := decodeSide(name, txnMagic, b)
	if err != nil {
		return nil, err
	}
	if len(body) < 8 || (len(body)-8)%txnEntrySize != 0 || int64(binary.BigEndian.Uint64(body)) != base {
		return nil, fmt.Errorf("%s: %w: length or base offset", name, errSideFile)
	}
	body = body[8:]
	list := make([]abortedTxn, 0, len(body)/txnEntrySize)
	for ; len(body) > 0; body = body[txnEntrySize:] {
		list = append(list, abortedTxn{
			producerID:  int64(binary.BigEndian.Uint64(body)),
			firstOffset: int64(binary.BigEndian.Uint64(body[8:])),
			lastOffset:  int64(binary.BigEndian.Uint64(body[16:])),
			lastStable:  int64(binary.BigEndian.Uint64(body[24:])),
		})
	}
	return list, nil
}

func (l *Log) txnName(base int64) string {
	return filepath.Join(l.dir, segment.FileName(base, segment.SuffixTxnIndex))
}

// saveAborted writes the aborted transactions of the last segment to their file.
func (l *Log) saveAborted() error {
	l.saving.Lock()
	defer l.saving.Unlock()
	l.mu.Lock()
	base, list, saved := l.mu.aborted.base, l.mu.aborted.list, l.mu.aborted.saved
	gone := l.mu.phase == closed
	l.mu.Unlock()
	if len(list) == saved || gone {
		return nil
	}
	if err := replaceFile(l.set.fs, l.txnName(base), encodeAborted(base, list)); err != nil {
		return fmt.Errorf("write aborted transactions: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.mu.aborted
	if a.files == nil {
		a.files = map[int64]int{}
	}
	a.files[base] = len(list)
	if a.base == base {
		a.saved = len(list)
	}
	return nil
}

// abortedIn lists the aborted transactions that overlap the offsets from first up to, not including, next, by first
// offset. from is the base of the segment that holds first: no marker in an earlier one matters.
func (l *Log) abortedIn(from, first, next int64) ([]AbortedTransaction, error) {
	l.mu.Lock()
	recent, swaps := l.mu.aborted.list, l.mu.swaps
	bases := l.mu.aborted.from(from)
	l.mu.Unlock()
	found := []AbortedTransaction{}
	ended := false
	for i := 0; i < len(bases) && !ended; i++ {
		list, err := l.knownAborted(bases[i], swaps)
		if err != nil {
			return nil, err
		}
		found, ended = overlapping(found, list, first, next)
	}
	if !ended {
		found, _ = overlapping(found, recent, first, next)
	}
	slices.SortFunc(found, func(a, b AbortedTransaction) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return found, nil
}

// manyAborted is from how many transactions on that may concern a read it is worth finding out where its records end.
const manyAborted = 64

// abortedFrom is how many transactions were aborted by markers in the segment with a base offset or later ones.
func (l *Log) abortedFrom(base int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.mu.aborted
	n := len(a.list)
	for b, count := range a.files {
		if b >= base && (b != a.base || len(a.list) == 0) {
			n += count
		}
	}
	return n
}

// from lists the segments that have a file, from a base on, without the one whose transactions are in memory.
func (a *aborted) from(base int64) []int64 {
	var bases []int64
	for b := range a.files {
		if b >= base && (b != a.base || len(a.list) == 0) {
			bases = append(bases, b)
		}
	}
	slices.Sort(bases)
	return bases
}

// overlapping adds the transactions of a list that overlap the offsets from first up to, not including, next. ended says that
// no marker behind the list matters: all transactions that began below next have ended.
func overlapping(dst []AbortedTransaction, list []abortedTxn, first, next int64) (found []AbortedTransaction, ended bool) {
	for _, t := range list {
		if t.firstOffset < next && t.lastOffset >= first {
			dst = append(dst, AbortedTransaction{ProducerID: t.producerID, FirstOffset: t.firstOffset})
		}
		if t.lastStable >= next {
			return dst, true
		}
	}
	return dst, false
}

// maxAbortedKept bounds the aborted transactions of earlier segments that are kept in memory, of all logs together: 8 MiB.
const maxAbortedKept = 1 << 18

// abortedCache keeps what was read of .txnindex files. Concurrent calls are allowed.
type abortedCache struct {
	mu struct {
		sync.Mutex
		lists map[abortedKey][]abortedTxn
		kept  int // transactions
	}
}

// abortedKey names what a file said while a log's segments were those they were.
type abortedKey struct {
	log   *Log
	base  int64
	swaps uint64
}

func (c *abortedCache) get(k abortedKey) (list []abortedTxn, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, ok = c.mu.lists[k]
	return list, ok
}

// put keeps a list, and forgets others if there are too many.
func (c *abortedCache) put(k abortedKey, list []abortedTxn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(list) > maxAbortedKept || k.log.isClosed() {
		return
	}
	c.mu.kept -= len(c.mu.lists[k])
	delete(c.mu.lists, k)
	for other, old := range c.mu.lists {
		if c.mu.kept+len(list) <= maxAbortedKept {
			break
		}
		c.mu.kept -= len(old)
		delete(c.mu.lists, other)
	}
	if c.mu.lists == nil {
		c.mu.lists = map[abortedKey][]abortedTxn{}
	}
	c.mu.lists[k] = list
	c.mu.kept += len(list)
}

// forget drops what is kept of a log that has been closed.
func (c *abortedCache) forget(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, list := range c.mu.lists {
		if k.log == l {
			c.mu.kept -= len(list)
			delete(c.mu.lists, k)
		}
	}
}

// knownAborted is loadAborted that remembers, as long as no segments are replaced.
func (l *Log) knownAborted(base int64, swaps uint64) ([]abortedTxn, error) {
	k := abortedKey{l, base, swaps}
	if list, ok := l.set.aborted.get(k); ok {
		return list, nil
	}
	list, err := l.loadAborted(base)
	if err == nil && swaps%2 == 0 {
		l.set.aborted.put(k, list)
	}
	return list, err
}

// loadAborted reads a .txnindex file. One that a trim has removed meanwhile is empty.
func (l *Log) loadAborted(base int64) ([]abortedTxn, error) {
	name := l.txnName(base)
	l.mu.Lock()
	if _, ok := l.mu.aborted.unnamed[base]; ok {
		name += segment.CleanSuffix
	}
	l.mu.Unlock()
	b, err := readFile(l.set.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, due := l.mu.aborted.files[base]; !due {
			return nil, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: read aborted transactions: %w", l.part, err)
	}
	list, err := decodeAborted(base, b)
	if err != nil {
		return nil, fmt.Errorf("%s: read aborted transactions: %w", l.part,
			&CorruptionError{Partition: l.part, Segment: filepath.Base(l.txnName(base)), Kind: err.Error()})
	}
	return list, nil
}
