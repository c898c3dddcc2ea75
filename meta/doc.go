// Package meta keeps what the broker must remember beside the logs, in one Pebble store below the data directory: who the
// cluster and the broker are, topics, log start offsets, committed offsets, the records of the group and transaction
// coordinators, and configurations.
//
// # Keys
//
//	meta/schema-version            int64, big-endian
//	cluster/current, cluster/<id>  the cluster's identity
//	broker/current, broker/<id>    the broker's identity and its start counter
//	topic/<name>                   a Topic
//	partition/<topic>/<number>     log start offset of a partition, where it isn't 0
//	cursor/<group>/<topic>/<p>     a committed offset
//	group/<group>                  a record of the group coordinator
//	txn/<transactional id>         a record of the transaction coordinator
//	config/<type>/<name>           dynamic configuration of a broker, the cluster, a group or client metrics
//	producer/next                  the first producer id not handed out in a block
//
// Parts that come from clients (group ids, transactional ids, names of resources) are escaped so that they cannot contain
// the separator. Values carry a format version in their first byte.
//
// Beside Pebble's own files the directory holds LOCK, which keeps a second broker out, and PROOF, which tells what had
// been made durable of Pebble's logs and manifest; see proof.go.
//
// # What lasts
//
// Identities, topics, log start offsets, configurations and blocks of producer ids are durable when the call that changes
// them returns. Commits of the coordinators follow the store's [Durability], and survive the end of the process in any
// case. All changes go through one log in order, so that a crash takes back the latest at most, never one from the middle.
//
// What had been made durable and is found damaged is never dropped: opening fails with [ErrDamaged] and says what to do.
//
// # Life
//
// Opening marks the store as in use before it returns, Close as stopped cleanly; a start that finds it in use raises the
// start counter, [Store.Epoch]. When the disk fails or is full, changes return its error, nothing more reaches the disk, and
// the store tries to open what is there anew, at growing intervals, when the next change comes.
package meta
