package kbroker

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage"
)

// track is what is known of one partition.
type track struct {
	course  *course
	topic   string
	number  int32
	written []batch.Batch // as they were handed over, by offset

	acked      int64 // nothing below may be missing
	start      int64 // the log start can't be below
	trimmed    int64 // the log start was asked to be here
	base       int64 // where the log ended when nothing was left of what is known
	epochFloor int32

	sequence map[int64]int32
	open     map[int64][]int64 // base offsets of the open transaction's batches, by producer
	last     map[int64]batch.Batch
}

func newTrack(c *course, topic string, number int32) *track {
	t := &track{course: c, topic: topic, number: number}
	t.recount()
	return t
}

// String names the partition.
func (t *track) String() string { return fmt.Sprintf("%s-%d", t.topic, t.number) }

func (t *track) end() int64 {
	if n := len(t.written); n > 0 {
		return t.written[n-1].NextOffset()
	}
	return t.base
}

// note takes a batch in.
func (t *track) note(b batch.Batch) {
	t.written = append(t.written, b)
	t.count(b)
}

func (t *track) count(b batch.Batch) {
	id := b.ProducerID()
	switch {
	case id < 0:
	case b.IsControl():
		delete(t.open, id)
	default:
		t.sequence[id], t.last[id] = b.LastSequence()+1, b
		if b.IsTransactional() {
			t.open[id] = append(t.open[id], b.BaseOffset())
		}
	}
}

// recount works out the producers from what was written.
func (t *track) recount() {
	t.sequence, t.open, t.last = map[int64]int32{}, map[int64][]int64{}, map[int64]batch.Batch{}
	for _, b := range t.written {
		t.count(b)
	}
}

// check compares what is there after a restart with what must be, and goes on from what is there. After an unclean end the start
// is counted; what is intact lacks nothing that was written.
func (v *voyage) check(unclean, intact bool) {
	epoch := v.b.meta.Epoch()
	if epoch < v.lastEpoch || unclean && epoch == v.lastEpoch {
		v.fatal("start counter %d, was %d; unclean %v", epoch, v.lastEpoch, unclean)
	}
	raised := epoch > v.lastEpoch
	v.lastEpoch = epoch
	if intact {
		v.cursors = v.cursors[v.sure:]
	}
	v.checkTopics()
	v.checkCursors()
	first, err := v.b.meta.ReserveProducerIDs(1)
	if err != nil || first < v.nextPID {
		v.fatal("producer id %d, all below %d were handed out; %v", first, v.nextPID, err)
	}
	v.nextPID = first + 1
	for _, c := range v.topics {
		for _, t := range c.logs {
			if intact {
				t.acked = t.end()
			}
			v.checkLog(t, raised)
		}
	}
	v.verify()
}

// verify has everything read as by `storage verify`, in a copy, as the logs are being looked after meanwhile.
func (v *voyage) verify() {
	disk := v.disk.Snapshot()
	anything := func(string, []byte) error { return nil }
	c, err := meta.Check(disk, "data/meta", meta.Options{Clock: v.clock}, meta.CheckRecords{Group: anything, Transaction: anything})
	if err != nil || !c.Sound() {
		v.fatal("check metadata: %v\n%+v", err, c)
	}
	report, err := storage.VerifyWith(disk, "data", knowledge(c))
	if err != nil || !report.Sound() {
		v.fatal("verify: %v\n%v", err, report)
	}
}

func (v *voyage) checkTopics() {
	for _, name := range []string{"t0", "t1", "t2"} {
		c, found := v.topics[name], v.b.meta.Topics().Named(name)
		switch {
		case c != nil && found == nil && v.deleting[name]:
			v.gone[c.id] = name
			delete(v.topics, name)
		case c != nil && (found == nil || found.ID != c.id):
			v.fatal("topic %s is lost: %+v", name, found)
		case c == nil && found != nil && !v.creating[name]:
			v.fatal("topic %s was deleted and is there again", name)
		case c == nil && found != nil:
			v.adopt(found, kindOf(found))
		case c != nil:
			v.checkPartitions(name, c, found.Partitions)
		}
	}
	clear(v.creating)
	clear(v.deleting)
	clear(v.growing)
	v.checkDirectories()
}

func kindOf(t *meta.Topic) kind {
	return kind{compact: t.Configs["cleanup.policy"] != "delete", retain: t.Configs["retention.bytes"] != "-1"}
}

func (v *voyage) checkPartitions(name string, c *course, partitions int32) {
	had := int32(len(c.logs))
	if partitions != had && partitions != v.growing[name] {
		v.fatal("topic %s has %d partitions, had %d", name, partitions, had)
	}
	if partitions > had {
		c.logs = append(c.logs, newTrack(c, name, had))
	}
}

// checkDirectories finds files of what isn't there.
func (v *voyage) checkDirectories() {
	topics, err := v.disk.List("data/topics")
	if err != nil {
		v.fatal("list: %v", err)
	}
	for _, name := range topics {
		partitions, err := v.disk.List(filepath.Join("data/topics", name))
		if err != nil {
			v.fatal("list: %v", err)
		}
		c := v.topics[name]
		for _, p := range partitions {
			if c == nil || !slices.ContainsFunc(c.logs, func(t *track) bool { return fmt.Sprint(t.number) == p }) {
				v.fatal("directory %s/%s belongs to no topic", name, p)
			}
		}
	}
}

func (v *voyage) checkCursors() {
	found := map[string]int64{}
	err := v.b.meta.Cursors(func(group string, tp meta.TopicPartition, c meta.Cursor) error {
		found[group+"/"+tp.Topic] = c.Offset
		return nil
	})
	if err == nil {
		err = v.b.meta.Groups(func(group string, record []byte) error {
			var n int64
			_, scanErr := fmt.Sscan(string(record), &n)
			found[group] = n
			return scanErr
		})
	}
	if err != nil {
		v.fatal("read offsets: %v", err)
	}
	for _, state := range v.cursors {
		if maps.Equal(state, found) {
			v.cursors, v.sure = []map[string]int64{found}, 0
			return
		}
	}
	v.fatal("committed offsets are %v, which is none of %v", found, v.cursors)
}

func (v *voyage) checkLog(t *track, raised bool) {
	l, err := v.b.logs.Get(t.course.id, t.number)
	if err == nil {
		err = l.Err()
	}
	if err != nil {
		v.fatal("%s: %v", t, err)
	}
	o := l.Offsets()
	switch {
	case o.Start < t.start:
		v.fatal("%s: log start %d, was %d", t, o.Start, t.start)
	case o.Start > t.start && o.Start > t.trimmed && !t.course.kind.retain:
		v.fatal("%s: log start %d, was %d, and nobody asked for more than %d", t, o.Start, t.start, t.trimmed)
	case o.End < t.acked:
		v.fatal("%s: log end %d, though %d was acknowledged", t, o.End, t.acked)
	case o.HighWatermark != o.End:
		v.fatal("%s: high watermark %d, log end %d", t, o.HighWatermark, o.End)
	}
	if raised && len(t.written) > 0 {
		t.epochFloor = 1 + slices.MaxFunc(t.written, func(a, b batch.Batch) int { return int(a.LeaderEpoch() - b.LeaderEpoch()) }).LeaderEpoch()
	}
	v.compare(t, l, o)
	t.forget(o)
	v.checkProducers(t, l, o)
	v.checkCommitted(t, l, o)
}

// forget drops what a crash took.
func (t *track) forget(o storage.Offsets) {
	n := len(t.written)
	for n > 0 && t.written[n-1].NextOffset() > o.End {
		n--
	}
	t.written = t.written[:n:n]
	if n == 0 || t.end() < o.End {
		t.base = o.End // the log start is above what is left
	}
	t.acked, t.start = o.End, o.Start
	t.recount()
}

// compare reads everything and compares it with what was written.
func (v *voyage) compare(t *track, l *storage.Log, o storage.Offsets) {
	got := v.readAll(t, l, o.Start)
	if t.course.kind.compact {
		v.compareCompacted(t, got)
		return
	}
	i := 0
	for i < len(t.written) && t.written[i].NextOffset() <= o.Start {
		i++
	}
	for _, b := range got {
		if i == len(t.written) || !bytes.Equal(b, t.written[i]) {
			v.fatal("%s: batch at %d is not what was written", t, b.BaseOffset())
		}
		if e := l.EpochAt(b.BaseOffset()); e != b.LeaderEpoch() {
			v.fatal("%s: epoch at %d is %d, want %d", t, b.BaseOffset(), e, b.LeaderEpoch())
		}
		i++
	}
	if n := len(got); n > 0 && got[n-1].NextOffset() != o.End || n == 0 && o.Start != o.End {
		v.fatal("%s: %d batches of %+v", t, n, o)
	}
}

// compareCompacted checks that each record left is the one that was written at its offset.
func (v *voyage) compareCompacted(t *track, got []batch.Batch) {
	want := map[int64]string{}
	for _, b := range t.written {
		for _, r := range v.recordsOf(b) {
			want[r.offset] = r.text()
		}
	}
	last := int64(-1)
	for _, b := range got {
		for _, r := range v.recordsOf(b) {
			if r.offset <= last || want[r.offset] != r.text() {
				v.fatal("%s: record at %d, after %d, is %q, want %q", t, r.offset, last, r.text(), want[r.offset])
			}
			last = r.offset
		}
	}
}

func (v *voyage) checkProducers(t *track, l *storage.Log, o storage.Offsets) {
	whole := o.Start == 0
	known := map[int64]storage.ProducerState{}
	for _, p := range l.Producers() {
		known[p.ProducerID] = p
		if want := t.sequence[p.ProducerID] - 1; whole && p.LastSequence != want {
			v.fatal("%s: producer %d stands at sequence %d, want %d", t, p.ProducerID, p.LastSequence, want)
		}
		if open := p.TxnStartOffset >= 0; whole && open != (len(t.open[p.ProducerID]) > 0) {
			v.fatal("%s: producer %d: transaction open %v, want %v", t, p.ProducerID, open, t.open[p.ProducerID])
		}
	}
	for id := range t.sequence {
		p, ok := known[id]
		switch {
		case ok:
			t.sequence[id] = p.LastSequence + 1
		case whole:
			v.fatal("%s: producer %d is forgotten", t, id)
		default: // its batches were trimmed
			delete(t.sequence, id)
		}
	}
	for id := range t.open {
		if p := known[id]; !whole && (p.TxnStartOffset < 0 || known[id].ProducerID != id) {
			delete(t.open, id)
		}
	}
	for id := range t.last {
		if _, ok := known[id]; !ok {
			delete(t.last, id)
		}
	}
}

// checkCommitted compares what a consumer sees that reads only what is committed: all of it, or the latest of each key.
func (v *voyage) checkCommitted(t *track, l *storage.Log, o storage.Offsets) {
	if o.Start > 0 {
		return // what is left of a transaction need not be told apart from all of it
	}
	aborted := t.abortedBatches()
	want, got := map[int64]string{}, map[int64]string{}
	latest := map[string]record{}
	for _, b := range t.written {
		if b.BaseOffset() >= o.LastStable || aborted[b.BaseOffset()] {
			continue
		}
		for _, r := range v.recordsOf(b) {
			want[r.offset] = r.text()
			latest[r.key] = r
		}
	}
	for _, r := range v.readCommitted(t, l) {
		got[r.offset] = r.text()
	}
	if !t.course.kind.compact {
		if !maps.Equal(want, got) {
			v.fatal("%s: committed records are %v, want %v", t, got, want)
		}
		return
	}
	for offset, text := range got {
		if want[offset] != text {
			v.fatal("%s: committed record at %d is %q, want %q", t, offset, text, want[offset])
		}
	}
	for _, r := range latest {
		if r.value != "" && got[r.offset] != r.text() {
			v.fatal("%s: record at %d is the latest of %s, and gone", t, r.offset, r.key)
		}
	}
}

// abortedBatches are the base offsets of batches whose transaction was aborted.
func (t *track) abortedBatches() map[int64]bool {
	aborted, open := map[int64]bool{}, map[int64][]int64{}
	for _, b := range t.written {
		id := b.ProducerID()
		switch {
		case b.IsControl():
			if m, err := batch.ParseMarker(b); err == nil && !m.Commit {
				for _, o := range open[id] {
					aborted[o] = true
				}
			}
			delete(open, id)
		case b.IsTransactional():
			open[id] = append(open[id], b.BaseOffset())
		}
	}
	return aborted
}

// read calls yield for each batch from an offset on, with the aborted transactions that were told with it.
func (v *voyage) read(t *track, l *storage.Log, offset int64, i storage.Isolation, yield func(batch.Batch, []storage.AbortedTransaction)) {
	for {
		r, err := l.Read(offset, storage.ReadOptions{MaxBytes: 2500, WholeFirst: true, Isolation: i})
		if err != nil {
			v.fatal("%s: read at %d: %v", t, offset, err)
		}
		if r.Records == nil {
			return
		}
		all, err := r.Records.AppendTo(nil)
		r.Records.Release()
		if err != nil {
			v.fatal("%s: read at %d: %v", t, offset, err)
		}
		for len(all) > 0 {
			b, rest, err := batch.Next(all, 0)
			if err != nil {
				break // cut by the limit
			}
			if err = b.VerifyChecksum(); err != nil {
				v.fatal("%s: batch at %d: %v", t, b.BaseOffset(), err)
			}
			yield(bytes.Clone(b), r.Aborted)
			offset, all = b.NextOffset(), rest
		}
	}
}

func (v *voyage) readAll(t *track, l *storage.Log, offset int64) (all []batch.Batch) {
	v.read(t, l, offset, storage.ReadUncommitted, func(b batch.Batch, _ []storage.AbortedTransaction) { all = append(all, b) })
	return all
}

// readCommitted reads as a consumer does: a transaction is aborted from the offset told on, to its marker.
func (v *voyage) readCommitted(t *track, l *storage.Log) (all []record) {
	ended := map[storage.AbortedTransaction]bool{}
	v.read(t, l, l.Offsets().Start, storage.ReadCommitted, func(b batch.Batch, told []storage.AbortedTransaction) {
		aborted := false
		for _, a := range told {
			if a.ProducerID != b.ProducerID() || a.FirstOffset > b.LastOffset() || ended[a] {
				continue
			}
			aborted = true
			if b.IsControl() {
				ended[a] = true
			}
		}
		if !aborted {
			all = append(all, v.recordsOf(b)...)
		}
	})
	return all
}

// record is a record of a data batch.
type record struct {
	offset, timestamp int64
	key, value        string
}

func (r *record) text() string { return fmt.Sprintf("%s=%s at %d", r.key, r.value, r.timestamp) }

// recordsOf takes a batch apart; a marker has none.
func (v *voyage) recordsOf(b batch.Batch) (all []record) {
	if b.IsControl() {
		return nil
	}
	rs, err := b.Records(1 << 20)
	if err != nil {
		v.fatal("records at %d: %v", b.BaseOffset(), err)
	}
	defer rs.Release()
	for rs.Next() {
		r := rs.Record()
		all = append(all, record{b.BaseOffset() + int64(r.OffsetDelta), b.BaseTimestamp() + r.TimestampDelta, string(r.Key), string(r.Value)})
	}
	if rs.Err() != nil {
		v.fatal("records at %d: %v", b.BaseOffset(), rs.Err())
	}
	return all
}

// records is how many acknowledged offsets are known.
func (v *voyage) records() (n uint64) {
	for _, c := range v.topics {
		for _, t := range c.logs {
			n += uint64(t.acked - t.start)
		}
	}
	return n
}
