// Package segment is one segment of a partition's log: the data file with its batches, the sparse index that is also the
// record of what was committed, the index of aborted transactions, and what recovery may conclude from them. It knows no
// partitions, no producers and no high watermark; package storage does.
//
// # Files
//
// A segment with base offset B is three files whose names start with B in 20 digits: .log holds record batches back to
// back and nothing else; .index holds a header of 32 bytes and entries of 32 bytes; .txnindex, which exists only if a
// transaction was aborted in the segment, lists those; package storage reads and writes it. The bytes are drawn in
// docs/storage-format.md.
//
// # Invariants
//
//  1. The index file with its header is durable before the first byte of the data file.
//  2. An index entry is written only after a sync that covers the bytes of its run has returned. So an entry, even a slot
//     that holds a bad one, says that bytes were acknowledged.
//  3. Entries are in the order of their runs; runs are contiguous, in bytes always, in offsets until a compaction.
//  4. Bytes are served only if this process wrote them or has verified them since it opened the segment.
//
// # Terms
//
// Run: the batches one index entry covers. They became durable together, and are at most the index interval long, or one
// batch. Proven: known to have been synced. Damage: proven bytes that don't verify. Generation: how often the segment has
// been rewritten by compaction.
package segment
