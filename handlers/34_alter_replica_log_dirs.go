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
	for i := range q.Dirs {
		for _, t := range q.Dirs[i].Topics {
			topic := kmsg.NewAlterReplicaLogDirsResponseTopic()
			topic.Topic = validUTF8(t.Topic)
			for _, p := range t.Partitions {
				answer := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				answer.Partition, answer.ErrorCode = p, int16(h.moveReplica(q.Dirs[i].Dir, t.Topic, p))
				topic.Partitions = append(topic.Partitions, answer)
			}
			a.Topics = append(a.Topics, topic)
		}
	}
	return reply(r, a)
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
