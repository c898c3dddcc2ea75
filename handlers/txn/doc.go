// Package txn is the transaction coordinator: it knows each transactional id's producer id and epoch, which partitions
// its open transaction has, and how the last one ended.
//
// It is a state machine that can be replayed. A request and a time go in; the next [State] and an answer come out
// (machine*.go, which do nothing else). The runner around it (coordinator.go) makes the next state durable in the metadata
// store, then applies it to memory, then answers. Nothing here opens a socket or asks the system for the time, and logs
// and groups are reached through the interfaces [Logs] and [Offsets].
//
// # States
//
//	        add                  end                        markers written
//	Empty ------> Ongoing ------------> PrepareCommit ------------------> CompleteCommit
//	  ^  <--------------- \-----------> PrepareAbort  ------------------> CompleteAbort
//	  |     InitProducerId       end, timeout, fence                        |    |
//	  +---------------------------------------------------------------------+    | add
//	                                                                 Ongoing <---+
//
// With transactions v2 (KIP-890) an abort without a transaction goes through PrepareAbort too, to get a new epoch.
//
// # Steps and crashes
//
//  1. A transaction's partitions are durable before a batch of it is in their logs ([Coordinator.Verify] vouches for it).
//  2. The decision (Prepare*) is durable before its first marker is written and before the client hears of it.
//  3. All markers are durable, and the transaction's offsets count or are gone, before Complete* holds in memory.
//  4. Complete* is written to the store a little later (see settle.go), or never, if the producer's next transaction is
//     written first.
//
// A process that starts and finds Prepare* in the store doesn't know which markers are written, and writes all of them.
// A marker where nothing is open changes nothing.
//
// # Invariants
//
//  1. What is in memory is in the store, or the store has a state that leads to it by itself (step 4), or entry.unsettled
//     is set and nobody is answered before the store has been made to agree.
//  2. No batch that was vouched for is appended after the transaction's markers: they wait for entry.guards to be 0.
//
// # Locks
//
// entry.mu comes before the registry's lock. It is held while the entry's state is committed, so the requests of one
// transactional id are one after the other; those of different ids share the store's group commit. Only the settler holds
// more than one entry.mu; nobody waits for one while holding another.
package txn
