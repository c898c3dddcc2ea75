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
// What must last is committed with a sync before the call returns.
package meta
