// Package storage is one partition's log, and the set of them.
//
// A [Log] takes validated record batches, gives each its offset, makes it durable by the mode of its [Config], and hands
// out ranges of verified bytes. A [Set] owns the directory they lie in: it opens and recovers logs, bounds their open
// files, and removes deleted ones. The format on disk, the order of writes and what recovery may do are described in
// docs/storage-format.md.
//
// # Terms
//
// Log end offset: the next offset to be assigned. High watermark: the end of what is acknowledged; readers see nothing
// beyond it. Last stable offset: the first offset of the earliest open transaction, or the high watermark. Segment: one
// file of batches and its side files. Commit group: the appends that share one fdatasync.
package storage
