package cleaner

import (
	"fmt"

	"github.com/kbroker/kbroker/protocol/batch"
)

// NoOffset stands for an offset that isn't there.
const NoOffset = -1

// LastBatch is what a producer that is alive wrote last.
type LastBatch struct {
	LastOffset int64 // of its last batch with data; NoOffset if only markers are known
	Epoch      int16
}

// Options is what holds for all batches of a pass.
type Options struct {
	Keys *Map
	// Txns is at the start of the log, or of the range that the filter begins with.
	Txns *Transactions
	// Last is what the producers that are alive wrote last, by producer id.
	Last map[int64]LastBatch

	NowMs             int64
	DeleteRetentionMs int64 // from when a tombstone gets its delete horizon until that
	// MaxRecordsBytes bounds what the records of a batch may decompress to. Batches that exceed it stay as they are.
	MaxRecordsBytes int
}

// Stats counts what a filter has done.
type Stats struct {
	Batches, Records         int64 // read
	Bytes                    int64
	KeptBatches, KeptRecords int64
	KeptBytes                int64
	// Superseded is how many records were dropped because of a tombstone. Where one is, the segment must be replaced, or what
	// was deleted would come back once the tombstone is gone.
	Superseded int64
	// Unreadable is how many batches stay as they are because their records can't be decompressed within the bound.
	Unreadable int64
}

// Filter decides what stays of the batches of a log, handed to it in the order of their offsets. It is used by one goroutine
// at a time.
type Filter struct {
	Options
	Stats

	builder batch.Builder
	out     []byte
	drop    []bool // by record of the batch at hand
}

// NewFilter makes a filter.
func NewFilter(o Options) *Filter { return &Filter{Options: o} }

// Kept is what stays of a batch.
type Kept struct {
	// Batch is nil if nothing stays. It is the batch itself, if that is as it was, or memory that is valid until the next
	// call.
	Batch batch.Batch
	// Aborted is the aborted transaction that the batch, a marker, ends, if there was still data of it.
	Aborted *AbortedTxn
}

// Batch decides on a batch, whose checksum has been verified.
func (f *Filter) Batch(b batch.Batch) (Kept, error) {
	f.Batches++
	f.Bytes += int64(len(b))
	var kept Kept
	var err error
	if b.IsControl() {
		kept, err = f.control(b)
	} else {
		kept.Batch, err = f.data(b)
	}
	if err != nil {
		return Kept{}, fmt.Errorf("compact the batch at %d: %w", b.BaseOffset(), err)
	}
	if kept.Batch != nil {
		f.KeptBatches++
		f.KeptBytes += int64(len(kept.Batch))
	}
	return kept, nil
}

// control decides on a control batch. A marker whose transaction has no data left gets a delete horizon, and goes when that
// has passed.
func (f *Filter) control(b batch.Batch) (Kept, error) {
	idle, aborted := f.Txns.Control(b)
	count := int64(b.NumRecords())
	f.Records += count
	switch {
	case idle && (count == 0 || f.expired(b)):
		rest, err := f.empty(b)
		return Kept{Batch: rest, Aborted: aborted}, err
	case idle && !b.HasDeleteHorizon():
		f.KeptRecords += count
		f.noDrops(int(count))
		rest, err := f.rebuild(b, b.Payload(), true)
		return Kept{Batch: rest, Aborted: aborted}, err
	default:
		f.KeptRecords += count
		return Kept{Batch: b, Aborted: aborted}, nil
	}
}

// expired says whether a batch has a delete horizon that has passed.
func (f *Filter) expired(b batch.Batch) bool {
	return b.HasDeleteHorizon() && b.BaseTimestamp() <= f.NowMs
}

// data decides on a batch of data.
func (f *Filter) data(b batch.Batch) (batch.Batch, error) {
	aborted := f.Txns.Data(b)
	f.Records += int64(b.NumRecords())
	if aborted || b.NumRecords() == 0 {
		return f.empty(b)
	}
	records, err := b.Records(f.MaxRecordsBytes)
	if err != nil {
		f.Unreadable++
		f.KeptRecords += int64(b.NumRecords())
		return b, nil // what can't be read is kept
	}
	defer records.Release()
	kept, due, err := f.judge(b, &records.Iterator)
	f.KeptRecords += int64(kept)
	horizon := due && !b.HasDeleteHorizon()
	switch {
	case err != nil:
		f.Unreadable++
		return b, nil
	case kept == 0:
		return f.empty(b)
	case kept == int(b.NumRecords()) && !horizon:
		return b, nil
	default:
		return f.rebuild(b, records.Payload, horizon)
	}
}

// judge fills drop, and says how many records stay and whether a delete horizon is due: there are tombstones among them, and
// this pass drops all that they supersede. Where a key had no room in the map it doesn't.
func (f *Filter) judge(b batch.Batch, it *batch.Iterator) (kept int, due bool, err error) {
	f.drop = f.drop[:0]
	expired := f.expired(b)
	superseded, tombstones, noted := int64(0), 0, 0
	for it.Next() {
		r := it.Record()
		drop := false
		if r.Key != nil {
			latest, tombstone, found := f.Keys.Get(r.Key)
			offset := b.BaseOffset() + int64(r.OffsetDelta)
			drop = found && offset < latest
			switch {
			case drop && tombstone:
				superseded++
			case r.Value == nil && expired:
				drop = true
			case r.Value == nil && !drop:
				tombstones++
				if found && offset == latest {
					noted++
				}
			}
		}
		f.drop = append(f.drop, drop)
		if !drop {
			kept++
		}
	}
	if err = it.Err(); err != nil {
		return int(b.NumRecords()), false, err
	}
	f.Superseded += superseded
	return kept, tombstones > 0 && noted == tombstones, nil
}

func (f *Filter) noDrops(n int) {
	f.drop = f.drop[:0]
	for range n {
		f.drop = append(f.drop, false)
	}
}

// rebuild makes a batch of the records that stay, with a delete horizon from now if horizon is set.
func (f *Filter) rebuild(b batch.Batch, payload []byte, horizon bool) (batch.Batch, error) {
	m := b.Meta()
	if horizon {
		m.BaseTimestamp, m.HasDeleteHorizon = f.NowMs+f.DeleteRetentionMs, true
	}
	f.builder.Reset(m)
	it := batch.Iterate(payload, b.NumRecords())
	for i, first := 0, true; it.Next(); i++ {
		if f.drop[i] {
			continue
		}
		r := it.Record()
		timestamp := b.BaseTimestamp() + r.TimestampDelta
		if b.IsAppendTime() { // the maximum stands for every record's
			timestamp = b.MaxTimestamp()
		}
		if first && !m.HasDeleteHorizon { // the first record kept gives the base, as in Kafka
			m.BaseTimestamp = timestamp
			f.builder.Reset(m)
		}
		first = false
		f.builder.AppendRecord(r, timestamp, b.BaseTimestamp(), r.OffsetDelta)
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	return f.finish(b)
}

func (f *Filter) finish(b batch.Batch) (batch.Batch, error) {
	f.builder.SetLastOffsetDelta(b.LastOffsetDelta())
	out, err := f.builder.AppendTo(f.out[:0])
	if err != nil {
		return nil, err
	}
	f.out = out
	return out, nil
}

// empty is what stays of a batch without records: nothing, or an empty batch if it is its producer's last one.
func (f *Filter) empty(b batch.Batch) (batch.Batch, error) {
	if !f.isLast(b) {
		return nil, nil
	}
	if b.NumRecords() == 0 {
		return b, nil
	}
	m := b.Meta()
	m.BaseTimestamp, m.HasDeleteHorizon, m.Codec = batch.NoTimestamp, false, batch.CodecNone
	f.builder.Reset(m)
	out, err := f.finish(b)
	if err == nil && !out.IsAppendTime() {
		out.SetCreateTime(b.MaxTimestamp()) // it says when the producer was last seen
	}
	return out, err
}

// isLast says whether a batch is the one from which the state of its producer can be told.
func (f *Filter) isLast(b batch.Batch) bool {
	last, alive := f.Last[b.ProducerID()]
	switch {
	case !alive || b.ProducerID() < 0:
		return false
	case last.LastOffset != NoOffset:
		return b.LastOffset() == last.LastOffset
	default:
		return b.IsControl() && b.ProducerEpoch() == last.Epoch
	}
}

// Note puts the keys of a batch of the dirty part into a map. What was aborted doesn't count. It returns ErrFull if a key
// doesn't fit; those that did are in the map then, which does no harm.
func Note(keys *Map, txns *Transactions, b batch.Batch, maxRecordsBytes int) error {
	if b.IsControl() {
		txns.Control(b)
		return nil
	}
	if txns.Data(b) || b.NumRecords() == 0 {
		return nil
	}
	records, err := b.Records(maxRecordsBytes)
	if err != nil {
		return nil // its records stay, and what they supersede too
	}
	defer records.Release()
	for records.Next() {
		r := records.Record()
		if r.Key == nil {
			continue
		}
		if err = keys.Put(r.Key, b.BaseOffset()+int64(r.OffsetDelta), r.Value == nil); err != nil {
			return err
		}
	}
	return nil
}
