package handlers

import (
	"crypto/sha256"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
)

// DescribeQuorum, versions 0 to 2. There is no metadata log; the broker answers as the only voter of one, so that tools
// that describe a cluster work. Offsets are 0, and the controller's listener is the one that was asked.

// metadataTopic is the topic by which Kafka's controllers replicate the cluster's metadata. To clients it isn't there.
const metadataTopic = "__cluster_metadata"

// describeQuorum answers who votes.
func (h *Handlers) describeQuorum(r *protocol.Request, q *kmsg.DescribeQuorumRequest) protocol.Response {
	a := kmsg.NewPtrDescribeQuorumResponse()
	a.Version = q.Version
	a.ErrorMessage = kmsg.StringPtr("")
	alone := len(q.Topics) == 1 && len(q.Topics[0].Partitions) == 1 // beside anything else it isn't answered
	for i := range q.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = validUTF8(q.Topics[i].Topic)
		for _, p := range q.Topics[i].Partitions {
			known := alone && q.Topics[i].Topic == metadataTopic && p.Partition == 0
			topic.Partitions = append(topic.Partitions, h.quorum(p.Partition, known))
			if known && q.Version >= 2 && len(a.Nodes) == 0 {
				a.Nodes = h.quorumNodes(r)
			}
		}
		a.Topics = append(a.Topics, topic)
	}
	return reply(r, a)
}

// quorum answers one partition.
func (h *Handlers) quorum(partition int32, known bool) kmsg.DescribeQuorumResponseTopicPartition {
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.Partition = partition
	if !known {
		p.ErrorCode, p.ErrorMessage = int16(codeOf(errUnknownTopic)), textOf(errUnknownTopic)
		return p
	}
	p.ErrorMessage = kmsg.StringPtr("")
	p.LeaderID = h.NodeID
	voter := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	voter.ReplicaID = h.NodeID
	sum := sha256.Sum256([]byte(h.Meta.ClusterID() + "/directory"))
	copy(voter.ReplicaDirectoryID[:], sum[:])
	now := clock.UnixMilli(h.Clock)
	voter.LastFetchTimestamp, voter.LastCaughtUpTimestamp = now, now
	p.CurrentVoters = append(p.CurrentVoters, voter)
	return p
}

// quorumNodes answers where the voters are.
func (h *Handlers) quorumNodes(r *protocol.Request) []kmsg.DescribeQuorumResponseNode {
	host, port, ok := h.Endpoints(r.Conn.Listener)
	if !ok {
		return nil
	}
	l := kmsg.NewDescribeQuorumResponseNodeListener()
	l.Name, l.Host, l.Port = "CONTROLLER", host, uint16(port)
	n := kmsg.NewDescribeQuorumResponseNode()
	n.NodeID = h.NodeID
	n.Listeners = append(n.Listeners, l)
	return []kmsg.DescribeQuorumResponseNode{n}
}
