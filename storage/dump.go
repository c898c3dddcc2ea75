package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/producer"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// DumpOptions says what Dump shows.
type DumpOptions struct {
	// Topic and Partition choose from a data directory; "" and a negative number choose all.
	Topic     string
	Partition int32
	// Records shows the records in the batches, Index the entries of the indexes.
	Records, Index bool
}

// maxDumpedRecords bounds the records of one batch once they are decompressed.
const maxDumpedRecords = 1 << 30

// Dump shows what is in a data directory, in the directory of a partition, or in one file, which may be one that Apache
// Kafka wrote. emit gets one item after the other, each to be kept; an error of it ends the dump. What doesn't verify, or
// can't be read, is a DumpProblem, and the dump goes on behind it. Nothing is changed. Errors are emit's, or of the disk.
func Dump(files vfs.FS, path string, o DumpOptions, emit func(DumpItem) error) error {
	d := &dumper{fs: files, options: o, sink: emit}
	info, err := files.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("dump: %w", err)
	case !info.IsDir():
		d.where = filepath.Dir(path)
		d.single(filepath.Base(path))
		return d.result()
	}
	if _, err = files.Stat(filepath.Join(path, topicsName)); errors.Is(err, fs.ErrNotExist) {
		d.partition(path, path)
		return d.result()
	}
	w := &walker{fs: files, dir: path}
	found := false
	w.visit = func(topic string, number int32) error {
		if (o.Topic != "" && o.Topic != topic) || (o.Partition >= 0 && o.Partition != number) {
			return nil
		}
		found = true
		name := filepath.Join(topicsName, topic, strconv.Itoa(int(number)))
		d.partition(filepath.Join(path, name), name)
		return nil
	}
	if err = w.walk(); err != nil {
		d.errs = append(d.errs, err)
	}
	if !found && (o.Topic != "" || o.Partition >= 0) {
		d.errs = append(d.errs, fmt.Errorf("dump: %w: %s", fs.ErrNotExist, o.chosen()))
	}
	return d.result()
}

// chosen names what the options choose.
func (o *DumpOptions) chosen() string {
	switch {
	case o.Topic == "":
		return fmt.Sprintf("no topic has files of partition %d", o.Partition)
	case o.Partition < 0:
		return fmt.Sprintf("topic %q has no files", o.Topic)
	default:
		return fmt.Sprintf("partition %d of topic %q has no files", o.Partition, o.Topic)
	}
}

// dumper shows files one after the other.
type dumper struct {
	fs      vfs.FS
	options DumpOptions
	sink    func(DumpItem) error
	where   string // the directory at hand, as the user knows it

	ended error   // of sink, which ends everything
	errs  []error // of the disk
}

func (d *dumper) result() error {
	if d.ended != nil {
		return d.ended
	}
	return errors.Join(d.errs...)
}

func (d *dumper) emit(i DumpItem) error {
	if d.ended == nil {
		d.ended = d.sink(i)
	}
	return d.ended
}

func (d *dumper) problem(file string, pos int64, kind string) error {
	return d.emit(DumpProblem{Type: "problem", Directory: d.where, File: file, Position: pos, Kind: kind})
}

// partition shows a partition's directory: first what is said of it as a whole, then its segments.
func (d *dumper) partition(dir, name string) {
	d.where = name
	names, err := d.fs.List(dir)
	if err != nil {
		d.errs = append(d.errs, fmt.Errorf("dump: %w", err))
		_ = d.problem("", -1, "can't be read: "+err.Error())
		return
	}
	p := DumpPartition{Type: "partition", Directory: name}
	id, err := readID(d.fs, dir)
	if err == nil {
		p.TopicID = id.String()
	}
	_ = d.emit(p)
	slices.SortStableFunc(names, func(a, b string) int { return dumpOrder(a) - dumpOrder(b) })
	for _, file := range names {
		if d.ended != nil {
			return
		}
		d.checked(file, d.file(dir, file))
	}
}

// dumpOrder puts what is said of the partition before its segments, which follow by name.
func dumpOrder(name string) int {
	switch _, _, ok := segment.ParseFileName(name); {
	case ok:
		return 1
	default:
		return 0
	}
}

// single shows a file that was asked for by name: what recovery cut off as if it were a segment.
func (d *dumper) single(name string) {
	if strings.Contains(name, tornInfix) {
		d.checked(name, d.data(d.where, name, 0))
		return
	}
	if d.checked(name, d.file(d.where, name)) && fileKind(name) == "unknown" && !slices.Contains(swapKinds(), filepath.Ext(name)) {
		_ = d.problem(name, -1, "nothing is known of such a file")
	}
}

// checked makes a problem of what is wrong with a file, and says whether nothing is.
func (d *dumper) checked(name string, err error) bool {
	switch {
	case err == nil || d.ended != nil:
		return err == nil
	case errors.Is(err, errSideFile), errors.Is(err, segment.ErrHeader), errors.Is(err, producer.ErrCheckpoint),
		errors.Is(err, producer.ErrVersion), isVersion(err):
		_ = d.problem(name, -1, strings.TrimPrefix(err.Error(), name+": "))
	default:
		d.errs = append(d.errs, fmt.Errorf("dump: %w", err))
		_ = d.problem(name, -1, "can't be read: "+err.Error())
	}
	return false
}

// file shows one file.
func (d *dumper) file(dir, name string) error {
	base, suffix, ok := segment.ParseFileName(name)
	if !ok {
		suffix = filepath.Ext(name)
	}
	switch {
	case name == epochsName:
		return d.epochs(dir)
	case name == snapshotName:
		return d.snapshot(dir)
	case name == idName:
		_, err := readID(d.fs, dir)
		return err
	case suffix == segment.SuffixData:
		return d.data(dir, name, base)
	case suffix == segment.SuffixIndex:
		return d.index(dir, name, base)
	case suffix == segment.SuffixTxnIndex:
		return d.txnIndex(dir, name, base)
	case suffix == swapSuffix:
		return d.swap(dir, name)
	default:
		return d.other(dir, name)
	}
}

// other shows that there is a file that holds nothing of the log.
func (d *dumper) other(dir, name string) error {
	info, err := d.fs.Stat(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return d.emit(DumpFile{Type: "file", File: name, SizeBytes: info.Size(), Kind: fileKind(name)})
}

// fileKind says what a file is for that is none of those that hold a log.
func fileKind(name string) string {
	switch {
	case strings.HasSuffix(name, segment.TempSuffix):
		return "temporary"
	case strings.Contains(name, tornInfix):
		return "torn"
	case name == idName, name == epochsName, name == snapshotName, ours(name):
		return "log"
	default:
		return "unknown"
	}
}

// swap shows what an interrupted compaction is about.
func (d *dumper) swap(dir, name string) error {
	b, err := readFile(d.fs, filepath.Join(dir, name))
	var s *swap
	if err == nil {
		s, err = decodeSwap(name, b)
	}
	if err != nil {
		return err
	}
	item := DumpSwap{Type: "swap", File: name, TopicID: s.id.String(), Replaced: s.replaced, Files: []DumpSwapFile{}}
	for _, f := range s.files {
		item.Files = append(item.Files, DumpSwapFile{File: f.Name(), SizeBytes: f.Size, CRC: f.CRC})
	}
	return d.emit(item)
}

func (d *dumper) epochs(dir string) error {
	b, err := readFile(d.fs, filepath.Join(dir, epochsName))
	var list []epochStart
	if err == nil {
		list, err = decodeEpochs(b)
	}
	if err != nil {
		return err
	}
	item := DumpEpochs{Type: "epochs", Epochs: []DumpEpoch{}}
	for _, e := range list {
		item.Epochs = append(item.Epochs, DumpEpoch{Epoch: e.epoch, StartOffset: e.start})
	}
	return d.emit(item)
}

func (d *dumper) snapshot(dir string) error {
	b, err := readFile(d.fs, filepath.Join(dir, snapshotName))
	var s *snapshot
	if err == nil {
		s, err = decodeSnapshot(b)
	}
	if err != nil {
		return err
	}
	item := DumpSnapshot{
		Type: "snapshot", TopicID: s.id.String(), LogStart: s.start, LogEnd: s.end, Segment: s.base, SegmentBytes: s.size,
		IndexEntries: s.entries, Generation: s.generation, Aborted: s.aborted, Producers: []DumpProducer{},
	}
	if len(s.producers) > 0 {
		state, err := producer.Decode(s.producers, -1)
		if err != nil {
			return err
		}
		for _, p := range state.Producers() {
			item.Producers = append(item.Producers, DumpProducer(p))
		}
	}
	return d.emit(item)
}

// data shows the batches of a data file, and the transactions that were aborted in it, as its markers say.
func (d *dumper) data(dir, name string, base int64) error {
	f, err := d.fs.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	size, err := f.Size()
	if err != nil {
		return err
	}
	if err = d.emit(DumpSegment{Type: "segment", File: name, BaseOffset: base, SizeBytes: size}); err != nil {
		return err
	}
	state := producer.New(-1)
	return segment.Scan(f, func(b batch.Batch, pos int64) error {
		if err := d.batch(name, b, pos); err != nil || b.ProducerID() < 0 {
			return err
		}
		done, ok := state.Replay(b)
		if !ok || !done.Aborted {
			return nil
		}
		return d.emit(DumpAborted{
			Type: "abortedTransaction", File: name, ProducerID: done.ProducerID, FirstOffset: done.FirstOffset,
			LastOffset: done.LastOffset, LastStableOffset: done.LastStable,
		})
	}, func(from, to int64, why error) error {
		return d.problem(name, from, fmt.Sprintf("%d bytes are no batch: %v", to-from, why))
	})
}

func (d *dumper) batch(name string, b batch.Batch, pos int64) error {
	item := DumpBatch{
		Type: "batch", Position: pos, SizeBytes: len(b), BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), Records: b.NumRecords(),
		LeaderEpoch: b.LeaderEpoch(), Compression: b.Codec().String(), TimestampType: "CreateTime",
		BaseTimestamp: b.BaseTimestamp(), MaxTimestamp: b.MaxTimestamp(), Transactional: b.IsTransactional(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(), CRC: b.CRC(),
	}
	if b.IsAppendTime() {
		item.TimestampType = "LogAppendTime"
	}
	if b.HasDeleteHorizon() {
		horizon := b.BaseTimestamp()
		item.DeleteHorizon = &horizon
	}
	if b.IsControl() {
		item.Control = controlType(b)
	}
	if err := d.emit(item); err != nil {
		return err
	}
	return d.records(name, b, pos)
}

// controlType names the marker in a control batch.
func controlType(b batch.Batch) string {
	m, err := batch.ParseMarker(b)
	switch {
	case err != nil:
		return "other"
	case m.Commit:
		return "commit"
	default:
		return "abort"
	}
}

// records shows the records of a batch. Unless they are asked for, they are only checked.
func (d *dumper) records(name string, b batch.Batch, pos int64) error {
	bad := func(err error) error {
		return d.problem(name, pos, "records: "+err.Error())
	}
	records, err := b.Records(maxDumpedRecords)
	if err != nil {
		return bad(err)
	}
	defer records.Release()
	for records.Next() {
		if !d.options.Records {
			continue
		}
		if err = d.emit(newDumpRecord(b, records.Record())); err != nil {
			return err
		}
	}
	if err = records.Err(); err != nil {
		return bad(err)
	}
	return nil
}

func newDumpRecord(b batch.Batch, r *batch.Record) DumpRecord {
	item := DumpRecord{
		Type: "record", Offset: b.BaseOffset() + int64(r.OffsetDelta), Timestamp: b.BaseTimestamp() + r.TimestampDelta,
		Key: newDumpBytes(r.Key), Value: newDumpBytes(r.Value),
	}
	if b.IsAppendTime() {
		item.Timestamp = b.MaxTimestamp()
	}
	for _, h := range r.AppendHeaders(nil) {
		item.Headers = append(item.Headers, newDumpHeader(h))
	}
	return item
}

// index shows an index file.
func (d *dumper) index(dir, name string, base int64) error {
	f, err := d.fs.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	item := DumpIndex{Type: "index", File: name, Entries: []DumpEntry{}}
	h, err := segment.Entries(f, name, base, func(number uint32, r segment.Run, ok bool) error {
		e := DumpEntry{Number: number, Sound: ok}
		if ok {
			e.FirstOffset, e.LastOffset, e.Position, e.SizeBytes = r.First, r.Last, r.Position, r.Size
			e.MaxTimestamp = r.MaxTimestamp
		} else {
			item.Bad++
		}
		item.Count++
		if d.options.Index {
			item.Entries = append(item.Entries, e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	item.Generation, item.CreatedMs = h.Generation, h.CreatedMs
	return d.emit(item)
}

// txnIndex shows an index of aborted transactions, the broker's or Apache Kafka's.
func (d *dumper) txnIndex(dir, name string, base int64) error {
	b, err := readFile(d.fs, filepath.Join(dir, name))
	if err != nil {
		return err
	}
	list, err := decodeAborted(base, b)
	if errors.Is(err, errSideFile) {
		if theirs, ok := decodeKafkaAborted(b); ok {
			list, err = theirs, nil
		}
	}
	if err != nil {
		return err
	}
	for _, t := range list {
		err = d.emit(DumpAborted{
			Type: "abortedTransaction", File: name, ProducerID: t.producerID, FirstOffset: t.firstOffset,
			LastOffset: t.lastOffset, LastStableOffset: t.lastStable,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Apache Kafka's index of aborted transactions is entries of 34 bytes: version 0 (2), producer id (8), first offset (8),
// last offset (8), last stable offset (8).
const kafkaTxnEntrySize = 34

func decodeKafkaAborted(b []byte) (list []abortedTxn, ok bool) {
	if len(b)%kafkaTxnEntrySize != 0 {
		return nil, false
	}
	for ; len(b) > 0; b = b[kafkaTxnEntrySize:] {
		if binary.BigEndian.Uint16(b) != 0 {
			return nil, false
		}
		list = append(list, abortedTxn{
			producerID:  int64(binary.BigEndian.Uint64(b[2:])),
			firstOffset: int64(binary.BigEndian.Uint64(b[10:])),
			lastOffset:  int64(binary.BigEndian.Uint64(b[18:])),
			lastStable:  int64(binary.BigEndian.Uint64(b[26:])),
		})
	}
	return list, true
}
