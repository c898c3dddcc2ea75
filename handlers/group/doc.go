// Package group is the group coordinator: membership of consumer groups in the classic protocol and in that of KIP-848,
// and the offsets that groups commit.
//
// It is a state machine that can be replayed. A request and a time go in; records and an answer come out. What must
// outlast the process is committed to the metadata store first, then applied to memory, then answered. Nothing here
// opens a socket or asks the system for the time or for randomness: they are injected by [Options].
//
// # Parts
//
//   - [Coordinator] is what handlers call: it finds the group, takes its lock, tells the time and arms its timer.
//   - A group holds at most one membership machine, classic (classic.go, states drawn there) or consumer (consumer.go),
//     and always an offsets table (offsets.go). A group of offsets only has no machine.
//   - records.go is the layout of what is kept in the store, and where it is read back.
//
// # Time
//
// Deadlines are durations since the coordinator started, taken from the clock's monotonic reading, so that a step of the
// wall clock expires nobody. A group has one timer, armed for its earliest deadline. A heartbeat only moves a deadline
// back and doesn't touch the timer; when the timer fires too early it is armed again.
//
// # Locks
//
// group.mu comes before offsets.mu and before the registry's lock. A commit of membership is made under group.mu, since
// the requests of a group must see its outcome in order. Offset commits are made under neither lock: those of a group that
// arrive while one is being written share the next write.
package group
