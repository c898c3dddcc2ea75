// Package producer is what one partition knows of the producers that write to it: which batches it has seen, so that a
// retry isn't stored twice, and which transactions are open, so that a reader can stop before them (KIP-98, KIP-890).
//
// # Life cycle
//
// A [State] belongs to one log and is used under that log's lock. Before an append, [State.Check] says whether the batch
// may be stored, or is a duplicate and of which batch; once it is written, [State.Append] takes note of it. Recovery starts
// from a decoded checkpoint, or from nothing, and calls [State.Replay] for each batch behind it, without checks: what is in
// the log is true, and compaction and retention leave gaps. [State.Expire] forgets producers that have been silent for
// long.
//
// # Terms
//
// Sequence window: the last five batches of a producer. A batch with the same epoch and exactly the sequence numbers of
// one of them is a duplicate. Epoch: raised when a producer starts anew or a transaction ends; what comes with a lower
// one is from a zombie. Marker: the control batch that ends a transaction in a partition. Coordinator epoch: the
// transaction coordinator's, raised when it moves; markers with a lower one are refused. First unstable offset: where the
// earliest transaction begins that isn't over, or whose marker isn't durable yet.
//
// # Invariants
//
//  1. open holds exactly the producers whose transaction is open, in the order of its first offset.
//  2. A producer's window is ordered by offset and holds batches of its current epoch alone.
//  3. A producer with an open transaction is never forgotten.
package producer
