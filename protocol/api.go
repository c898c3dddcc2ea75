package protocol

// The API keys that a Kafka broker answers, by Kafka's names. Keys that only controllers answer are left out: to clients
// they don't exist.
const (
	KeyProduce                               int16 = 0
	KeyFetch                                 int16 = 1
	KeyListOffsets                           int16 = 2
	KeyMetadata                              int16 = 3
	KeyOffsetCommit                          int16 = 8
	KeyOffsetFetch                           int16 = 9
	KeyFindCoordinator                       int16 = 10
	KeyJoinGroup                             int16 = 11
	KeyHeartbeat                             int16 = 12
	KeyLeaveGroup                            int16 = 13
	KeySyncGroup                             int16 = 14
	KeyDescribeGroups                        int16 = 15
	KeyListGroups                            int16 = 16
	KeySASLHandshake                         int16 = 17
	KeyApiVersions                           int16 = 18 //nolint:revive // as kmsg and every client spell it
	KeyCreateTopics                          int16 = 19
	KeyDeleteTopics                          int16 = 20
	KeyDeleteRecords                         int16 = 21
	KeyInitProducerID                        int16 = 22
	KeyOffsetForLeaderEpoch                  int16 = 23
	KeyAddPartitionsToTxn                    int16 = 24
	KeyAddOffsetsToTxn                       int16 = 25
	KeyEndTxn                                int16 = 26
	KeyWriteTxnMarkers                       int16 = 27
	KeyTxnOffsetCommit                       int16 = 28
	KeyDescribeACLs                          int16 = 29
	KeyCreateACLs                            int16 = 30
	KeyDeleteACLs                            int16 = 31
	KeyDescribeConfigs                       int16 = 32
	KeyAlterConfigs                          int16 = 33
	KeyAlterReplicaLogDirs                   int16 = 34
	KeyDescribeLogDirs                       int16 = 35
	KeySASLAuthenticate                      int16 = 36
	KeyCreatePartitions                      int16 = 37
	KeyCreateDelegationToken                 int16 = 38
	KeyRenewDelegationToken                  int16 = 39
	KeyExpireDelegationToken                 int16 = 40
	KeyDescribeDelegationToken               int16 = 41
	KeyDeleteGroups                          int16 = 42
	KeyElectLeaders                          int16 = 43
	KeyIncrementalAlterConfigs               int16 = 44
	KeyAlterPartitionReassignments           int16 = 45
	KeyListPartitionReassignments            int16 = 46
	KeyOffsetDelete                          int16 = 47
	KeyDescribeClientQuotas                  int16 = 48
	KeyAlterClientQuotas                     int16 = 49
	KeyDescribeUserSCRAMCredentials          int16 = 50
	KeyAlterUserSCRAMCredentials             int16 = 51
	KeyDescribeQuorum                        int16 = 55
	KeyUpdateFeatures                        int16 = 57
	KeyDescribeCluster                       int16 = 60
	KeyDescribeProducers                     int16 = 61
	KeyUnregisterBroker                      int16 = 64
	KeyDescribeTransactions                  int16 = 65
	KeyListTransactions                      int16 = 66
	KeyConsumerGroupHeartbeat                int16 = 68
	KeyConsumerGroupDescribe                 int16 = 69
	KeyGetTelemetrySubscriptions             int16 = 71
	KeyPushTelemetry                         int16 = 72
	KeyListConfigResources                   int16 = 74
	KeyDescribeTopicPartitions               int16 = 75
	KeyShareGroupHeartbeat                   int16 = 76
	KeyShareGroupDescribe                    int16 = 77
	KeyShareFetch                            int16 = 78
	KeyShareAcknowledge                      int16 = 79
	KeyAddRaftVoter                          int16 = 80
	KeyRemoveRaftVoter                       int16 = 81
	KeyInitializeShareGroupState             int16 = 83
	KeyReadShareGroupState                   int16 = 84
	KeyWriteShareGroupState                  int16 = 85
	KeyDeleteShareGroupState                 int16 = 86
	KeyReadShareGroupStateSummary            int16 = 87
	KeyStreamsGroupHeartbeat                 int16 = 88
	KeyStreamsGroupDescribe                  int16 = 89
	KeyDescribeShareGroupOffsets             int16 = 90
	KeyAlterShareGroupOffsets                int16 = 91
	KeyDeleteShareGroupOffsets               int16 = 92
	KeyStreamsGroupTopologyDescriptionUpdate int16 = 93
	KeyUnregisterController                  int16 = 94
)

// API is what is true of one API key whoever handles it.
type API struct {
	Key  int16
	Name string // as Kafka spells it
	// Min and Max are the versions to advertise: those that Apache Kafka 4.4 and kmsg have in common.
	Min, Max int16
	// AcceptMin is the lowest version that is answered. It is Min but for Produce, which is advertised from 0, since old
	// librdkafka looks for that before it compresses (KAFKA-18659), though 0 to 2 are gone (KIP-896).
	AcceptMin int16
	// FlexibleFrom is the first version with compact types and tagged fields (KIP-482), NeverFlexible if there is none.
	FlexibleFrom int16
}

// NeverFlexible is the FlexibleFrom of an API that has no flexible version.
const NeverFlexible int16 = 1<<15 - 1

// Accepts says whether requests of a version are answered.
func (a API) Accepts(version int16) bool { return a.AcceptMin <= version && version <= a.Max }

// Lookup returns the facts of a key, and whether brokers have it at all. Whether this broker answers it is the business
// of the table of handlers.
func Lookup(key int16) (API, bool) {
	if key < 0 || int(key) >= len(apiIndex) || apiIndex[key] == 0 {
		return API{}, false
	}
	return apiTable[apiIndex[key]-1], true
}

// APIs returns all keys a broker may have, by key. The slice is the caller's.
func APIs() []API { return append([]API(nil), apiTable[:]...) }

// RequestHeaderFlexible says whether requests of a key and version carry header version 2, with tagged fields. Versions
// above the newest count as flexible, as they do for Kafka, which reads the header before it refuses the version.
func RequestHeaderFlexible(key, version int16) bool {
	a, ok := Lookup(key)
	return ok && version >= a.FlexibleFrom
}

// ResponseHeaderFlexible says whether answers of a key and version carry header version 1, with tagged fields. ApiVersions
// never does, so that a client that doesn't know the broker's versions can read its answer (KIP-511).
func ResponseHeaderFlexible(key, version int16) bool {
	return key != KeyApiVersions && RequestHeaderFlexible(key, version)
}

// apiIndex holds, for each key, its place in apiTable plus one.
var apiIndex = indexAPIs()

func indexAPIs() (index [128]uint8) {
	for i, a := range apiTable {
		index[a.Key] = uint8(i + 1)
	}
	return index
}

// apiTable is sorted by key. Source: Apache Kafka 4.4's message schemas; recorded of a 4.4.0 broker.
var apiTable = [...]API{
	{KeyProduce, "Produce", 0, 13, 3, 9},
	{KeyFetch, "Fetch", 4, 18, 4, 12},
	{KeyListOffsets, "ListOffsets", 1, 11, 1, 6},
	{KeyMetadata, "Metadata", 0, 13, 0, 9},
	{KeyOffsetCommit, "OffsetCommit", 2, 10, 2, 8},
	{KeyOffsetFetch, "OffsetFetch", 1, 10, 1, 6},
	{KeyFindCoordinator, "FindCoordinator", 0, 6, 0, 3},
	{KeyJoinGroup, "JoinGroup", 0, 9, 0, 6},
	{KeyHeartbeat, "Heartbeat", 0, 4, 0, 4},
	{KeyLeaveGroup, "LeaveGroup", 0, 5, 0, 4},
	{KeySyncGroup, "SyncGroup", 0, 5, 0, 4},
	{KeyDescribeGroups, "DescribeGroups", 0, 6, 0, 5},
	{KeyListGroups, "ListGroups", 0, 5, 0, 3},
	{KeySASLHandshake, "SaslHandshake", 0, 1, 0, NeverFlexible},
	{KeyApiVersions, "ApiVersions", 0, 5, 0, 3},
	{KeyCreateTopics, "CreateTopics", 2, 7, 2, 5},
	{KeyDeleteTopics, "DeleteTopics", 1, 6, 1, 4},
	{KeyDeleteRecords, "DeleteRecords", 0, 2, 0, 2},
	{KeyInitProducerID, "InitProducerId", 0, 5, 0, 2},
	{KeyOffsetForLeaderEpoch, "OffsetForLeaderEpoch", 2, 4, 2, 4},
	{KeyAddPartitionsToTxn, "AddPartitionsToTxn", 0, 5, 0, 3},
	{KeyAddOffsetsToTxn, "AddOffsetsToTxn", 0, 4, 0, 3},
	{KeyEndTxn, "EndTxn", 0, 5, 0, 3},
	{KeyWriteTxnMarkers, "WriteTxnMarkers", 1, 2, 1, 1},
	{KeyTxnOffsetCommit, "TxnOffsetCommit", 0, 6, 0, 3},
	{KeyDescribeACLs, "DescribeAcls", 1, 3, 1, 2},
	{KeyCreateACLs, "CreateAcls", 1, 3, 1, 2},
	{KeyDeleteACLs, "DeleteAcls", 1, 3, 1, 2},
	{KeyDescribeConfigs, "DescribeConfigs", 1, 4, 1, 4},
	{KeyAlterConfigs, "AlterConfigs", 0, 2, 0, 2},
	{KeyAlterReplicaLogDirs, "AlterReplicaLogDirs", 1, 2, 1, 2},
	{KeyDescribeLogDirs, "DescribeLogDirs", 1, 5, 1, 2},
	{KeySASLAuthenticate, "SaslAuthenticate", 0, 2, 0, 2},
	{KeyCreatePartitions, "CreatePartitions", 0, 3, 0, 2},
	{KeyCreateDelegationToken, "CreateDelegationToken", 1, 3, 1, 2},
	{KeyRenewDelegationToken, "RenewDelegationToken", 1, 2, 1, 2},
	{KeyExpireDelegationToken, "ExpireDelegationToken", 1, 2, 1, 2},
	{KeyDescribeDelegationToken, "DescribeDelegationToken", 1, 3, 1, 2},
	{KeyDeleteGroups, "DeleteGroups", 0, 3, 0, 2},
	{KeyElectLeaders, "ElectLeaders", 0, 2, 0, 2},
	{KeyIncrementalAlterConfigs, "IncrementalAlterConfigs", 0, 1, 0, 1},
	{KeyAlterPartitionReassignments, "AlterPartitionReassignments", 0, 1, 0, 0},
	{KeyListPartitionReassignments, "ListPartitionReassignments", 0, 0, 0, 0},
	{KeyOffsetDelete, "OffsetDelete", 0, 0, 0, NeverFlexible},
	{KeyDescribeClientQuotas, "DescribeClientQuotas", 0, 1, 0, 1},
	{KeyAlterClientQuotas, "AlterClientQuotas", 0, 1, 0, 1},
	{KeyDescribeUserSCRAMCredentials, "DescribeUserScramCredentials", 0, 0, 0, 0},
	{KeyAlterUserSCRAMCredentials, "AlterUserScramCredentials", 0, 0, 0, 0},
	{KeyDescribeQuorum, "DescribeQuorum", 0, 2, 0, 0},
	{KeyUpdateFeatures, "UpdateFeatures", 0, 2, 0, 0},
	{KeyDescribeCluster, "DescribeCluster", 0, 2, 0, 0},
	{KeyDescribeProducers, "DescribeProducers", 0, 0, 0, 0},
	{KeyUnregisterBroker, "UnregisterBroker", 0, 0, 0, 0},
	{KeyDescribeTransactions, "DescribeTransactions", 0, 0, 0, 0},
	{KeyListTransactions, "ListTransactions", 0, 2, 0, 0},
	{KeyConsumerGroupHeartbeat, "ConsumerGroupHeartbeat", 0, 1, 0, 0},
	{KeyConsumerGroupDescribe, "ConsumerGroupDescribe", 0, 1, 0, 0},
	{KeyGetTelemetrySubscriptions, "GetTelemetrySubscriptions", 0, 0, 0, 0},
	{KeyPushTelemetry, "PushTelemetry", 0, 0, 0, 0},
	{KeyListConfigResources, "ListConfigResources", 0, 1, 0, 0},
	{KeyDescribeTopicPartitions, "DescribeTopicPartitions", 0, 0, 0, 0},
	{KeyShareGroupHeartbeat, "ShareGroupHeartbeat", 1, 1, 1, 0},
	{KeyShareGroupDescribe, "ShareGroupDescribe", 1, 1, 1, 0},
	{KeyShareFetch, "ShareFetch", 1, 2, 1, 0},
	{KeyShareAcknowledge, "ShareAcknowledge", 1, 2, 1, 0},
	{KeyAddRaftVoter, "AddRaftVoter", 0, 1, 0, 0},
	{KeyRemoveRaftVoter, "RemoveRaftVoter", 0, 0, 0, 0},
	{KeyInitializeShareGroupState, "InitializeShareGroupState", 0, 0, 0, 0},
	{KeyReadShareGroupState, "ReadShareGroupState", 0, 0, 0, 0},
	{KeyWriteShareGroupState, "WriteShareGroupState", 0, 1, 0, 0},
	{KeyDeleteShareGroupState, "DeleteShareGroupState", 0, 0, 0, 0},
	{KeyReadShareGroupStateSummary, "ReadShareGroupStateSummary", 0, 1, 0, 0},
	{KeyStreamsGroupHeartbeat, "StreamsGroupHeartbeat", 0, 1, 0, 0},
	{KeyStreamsGroupDescribe, "StreamsGroupDescribe", 0, 1, 0, 0},
	{KeyDescribeShareGroupOffsets, "DescribeShareGroupOffsets", 0, 1, 0, 0},
	{KeyAlterShareGroupOffsets, "AlterShareGroupOffsets", 0, 0, 0, 0},
	{KeyDeleteShareGroupOffsets, "DeleteShareGroupOffsets", 0, 0, 0, 0},
	{KeyStreamsGroupTopologyDescriptionUpdate, "StreamsGroupTopologyDescriptionUpdate", 0, 0, 0, 0},
	{KeyUnregisterController, "UnregisterController", 0, 0, 0, 0},
}
