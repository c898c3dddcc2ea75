package handlers

import (
	"fmt"
	"sort"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// handler answers a decoded request.
type handler func(h *Handlers, r *protocol.Request, body kmsg.Request) protocol.Response

// row says who answers a key.
type row struct {
	key    int16
	handle handler
}

// rows is the dispatch table: what isn't here isn't served and isn't advertised. One line a key, by number; the handler
// stands in the file of that number.
func rows() []row {
	return []row{
		{protocol.KeyProduce, on((*Handlers).produce)},
		{protocol.KeyFetch, on((*Handlers).fetch)},
		{protocol.KeyListOffsets, on((*Handlers).listOffsets)},
		{protocol.KeyMetadata, on((*Handlers).metadata)},
		{protocol.KeyOffsetCommit, on((*Handlers).offsetCommit)},
		{protocol.KeyOffsetFetch, on((*Handlers).offsetFetch)},
		{protocol.KeyFindCoordinator, on((*Handlers).findCoordinator)},
		{protocol.KeyJoinGroup, on((*Handlers).joinGroup)},
		{protocol.KeyHeartbeat, on((*Handlers).heartbeat)},
		{protocol.KeyLeaveGroup, on((*Handlers).leaveGroup)},
		{protocol.KeySyncGroup, on((*Handlers).syncGroup)},
		{protocol.KeyDescribeGroups, on((*Handlers).describeGroups)},
		{protocol.KeyListGroups, on((*Handlers).listGroups)},
		{protocol.KeyApiVersions, on((*Handlers).apiVersions)},
		{protocol.KeyCreateTopics, on((*Handlers).createTopics)},
		{protocol.KeyDeleteTopics, on((*Handlers).deleteTopics)},
		{protocol.KeyDeleteRecords, on((*Handlers).deleteRecords)},
		{protocol.KeyInitProducerID, on((*Handlers).initProducerID)},
		{protocol.KeyOffsetForLeaderEpoch, on((*Handlers).offsetForLeaderEpoch)},
		{protocol.KeyAddPartitionsToTxn, on((*Handlers).addPartitionsToTxn)},
		{protocol.KeyAddOffsetsToTxn, on((*Handlers).addOffsetsToTxn)},
		{protocol.KeyEndTxn, on((*Handlers).endTxn)},
		{protocol.KeyWriteTxnMarkers, on((*Handlers).writeTxnMarkers)},
		{protocol.KeyTxnOffsetCommit, on((*Handlers).txnOffsetCommit)},
		{protocol.KeyDescribeConfigs, on((*Handlers).describeConfigs)},
		{protocol.KeyAlterConfigs, on((*Handlers).alterConfigs)},
		{protocol.KeyAlterReplicaLogDirs, on((*Handlers).alterReplicaLogDirs)},
		{protocol.KeyDescribeLogDirs, on((*Handlers).describeLogDirs)},
		{protocol.KeyCreatePartitions, on((*Handlers).createPartitions)},
		{protocol.KeyDeleteGroups, on((*Handlers).deleteGroups)},
		{protocol.KeyElectLeaders, on((*Handlers).electLeaders)},
		{protocol.KeyIncrementalAlterConfigs, on((*Handlers).incrementalAlterConfigs)},
		{protocol.KeyAlterPartitionReassignments, on((*Handlers).alterPartitionReassignments)},
		{protocol.KeyListPartitionReassignments, on((*Handlers).listPartitionReassignments)},
		{protocol.KeyOffsetDelete, on((*Handlers).offsetDelete)},
		{protocol.KeyDescribeQuorum, on((*Handlers).describeQuorum)},
		{protocol.KeyUpdateFeatures, on((*Handlers).updateFeatures)},
		{protocol.KeyDescribeCluster, on((*Handlers).describeCluster)},
		{protocol.KeyDescribeProducers, on((*Handlers).describeProducers)},
		{protocol.KeyUnregisterBroker, on((*Handlers).unregisterBroker)},
		{protocol.KeyDescribeTransactions, on((*Handlers).describeTransactions)},
		{protocol.KeyListTransactions, on((*Handlers).listTransactions)},
		{protocol.KeyConsumerGroupHeartbeat, on((*Handlers).consumerGroupHeartbeat)},
		{protocol.KeyConsumerGroupDescribe, on((*Handlers).consumerGroupDescribe)},
		{protocol.KeyListConfigResources, on((*Handlers).listConfigResources)},
		{protocol.KeyDescribeTopicPartitions, on((*Handlers).describeTopicPartitions)},
	}
}

// on adapts a handler of one request type to the table.
func on[R kmsg.Request](f func(*Handlers, *protocol.Request, R) protocol.Response) handler {
	return func(h *Handlers, r *protocol.Request, body kmsg.Request) protocol.Response {
		typed, ok := body.(R)
		if !ok {
			return protocol.Response{Close: true, Reason: fmt.Errorf("key %d decoded as %T", r.Header.Key, body)}
		}
		return f(h, r, typed)
	}
}

// entry is a served key.
type entry struct {
	protocol.API
	handle handler
}

// table finds rows by key. It doesn't change once made.
type table map[int16]entry

func newTable(all []row) (table, error) {
	t := make(table, len(all))
	for _, r := range all {
		api, known := protocol.Lookup(r.key)
		if _, twice := t[r.key]; twice || !known {
			return nil, fmt.Errorf("api key %d isn't known or has two handlers", r.key)
		}
		t[r.key] = entry{API: api, handle: r.handle}
	}
	return t, nil
}

// find returns the entry of a key that is served at the version.
func (t table) find(key, version int16) (entry, error) {
	e, ok := t[key]
	if !ok {
		return entry{}, fmt.Errorf("unknown api key %d", key)
	}
	if !e.Accepts(version) {
		return entry{}, fmt.Errorf("unsupported version %d of %s", version, e.Name)
	}
	return e, nil
}

// served lists the entries by key.
func (t table) served() []entry {
	all := make([]entry, 0, len(t))
	for _, e := range t {
		all = append(all, e)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Key < all[j].Key })
	return all
}
