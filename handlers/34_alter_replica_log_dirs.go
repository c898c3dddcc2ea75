package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// AlterReplicaLogDirs, versions 1 to 2. There is one data directory, so a replica can only be moved to where it is.

// alterReplicaLogDirs takes the data directory and refuses any other.
func (h *Handlers) alterReplicaLogDirs(r *protocol.Request, q *kmsg.AlterReplicaLogDirsRequest) protocol.Response {
	a := kmsg.NewPtrAlterReplicaLogDirsResponse()
	a.Version = q.Version
	places := make(topicPlaces)
	for _, m := range replicaMoves(q) {
		at, isNew := places.of(m.topic, len(a.Topics))
		if isNew {
			topic := kmsg.NewAlterReplicaLogDirsResponseTopic()
			topic.Topic = validUTF8(m.topic)
			a.Topics = append(a.Topics, topic)
		}
		answer := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
		answer.Partition, answer.ErrorCode = m.partition, int16(h.moveReplica(m.dir, m.topic, m.partition))
		a.Topics[at].Partitions = append(a.Topics[at].Partitions, answer)
	}
	return reply(r, a)
}

// replicaMove is where a partition is to go.
type replicaMove struct {
	named
	dir string
}

// replicaMoves lists what a request asks for. Of a partition that comes twice the last directory counts.
func replicaMoves(q *kmsg.AlterReplicaLogDirsRequest) []replicaMove {
	var all []replicaMove
	seen := make(map[named]int)
	for i := range q.Dirs {
		for _, t := range q.Dirs[i].Topics {
			for _, p := range t.Partitions {
				m := replicaMove{named{t.Topic, p}, q.Dirs[i].Dir}
				if at, twice := seen[m.named]; twice {
					all[at] = m
					continue
				}
				seen[m.named] = len(all)
				all = append(all, m)
			}
		}
	}
	return all
}

// moveReplica says what stands against a replica's lying in a directory.
func (h *Handlers) moveReplica(dir, topic string, partition int32) protocol.ErrorCode {
	t := h.topicByName(topic)
	switch {
	case dir != h.DataDir:
		return protocol.LogDirNotFound
	case t == nil || partition < 0 || partition >= t.Partitions:
		return protocol.UnknownTopicOrPartition
	}
	return protocol.None
}
