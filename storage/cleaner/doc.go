// Package cleaner is the part of log compaction that knows no files: which records of a log stay, and what the batches that
// held them look like afterwards. Package storage chooses the logs, reads the segments, and puts the new ones in place.
//
// # A pass
//
// A log that is being compacted has a clean part, which a pass has been over before, followed by a dirty part. A pass reads
// the dirty part and notes the latest offset of each key in a [Map]; when the map is full, the pass covers the dirty part
// only up to there. Then it reads everything from the log's start up to that point and hands each batch to a [Filter],
// which drops
//
//   - records whose key has a later record in the map,
//   - tombstones, and markers of transactions without data, whose delete horizon has passed (KIP-534),
//   - data of aborted transactions,
//
// and keeps everything else: also records without a key, which a topic may hold from before it was compacted.
//
// # Invariants
//
//  1. Offsets don't change. A batch that loses records keeps its base offset, its last offset, and its producer's id, epoch
//     and sequence, so that a producer's next sequence number can still be told.
//  2. A batch is dropped as a whole only if it isn't the last one of a producer that is alive; that one stays, empty.
//  3. A tombstone gets its delete horizon in the pass that drops everything it supersedes, and goes in a later one. So
//     nothing that was deleted comes back, as long as what a tombstone supersedes is really dropped in that pass: see
//     [Stats.Superseded]. One whose key had no room in the map gets none, and stays until its key is written again.
//  4. A marker stays as long as a pass sees data of its transaction, and from then on until its delete horizon.
//
// # Terms
//
// Tombstone: a record with a key and a null value. Marker: a control batch that ends a transaction. Delete horizon: the time
// from which tombstones and markers of a batch may go; it stands in the place of the base timestamp, and a bit of the
// attributes says so. Digest: 16 bytes that stand for a key.
package cleaner
