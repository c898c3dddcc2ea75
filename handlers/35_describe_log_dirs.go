package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// DescribeLogDirs, versions 1 to 5. There is one data directory; what isn't there is left out. Internal topics, which
// have no files, have size 0.

// describeLogDirs answers the sizes of partitions, and of the disk.
func (h *Handlers) describeLogDirs(r *protocol.Request, q *kmsg.DescribeLogDirsRequest) protocol.Response {
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = h.DataDir
	if h.DiskSpace != nil && q.Version >= 4 {
		total, usable, err := h.DiskSpace()
		if err == nil {
			dir.TotalBytes, dir.UsableBytes = total, usable
		}
	}
	if q.Topics == nil {
		for _, t := range h.allTopics() {
			dir.Topics = append(dir.Topics, h.topicSizes(t, partitionsOf(t)))
		}
	}
	for i := range q.Topics {
		if t := h.topicByName(q.Topics[i].Topic); t != nil {
			dir.Topics = append(dir.Topics, h.topicSizes(t, q.Topics[i].Partitions))
		}
	}
	a := kmsg.NewPtrDescribeLogDirsResponse()
	a.Version = q.Version
	a.Dirs = append(a.Dirs, dir)
	return reply(r, a)
}

// partitionsOf lists the partitions of a topic.
func partitionsOf(t *meta.Topic) []int32 {
	all := make([]int32, t.Partitions)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// topicSizes answers the sizes of the partitions given.
func (h *Handlers) topicSizes(t *meta.Topic, partitions []int32) kmsg.DescribeLogDirsResponseDirTopic {
	a := kmsg.NewDescribeLogDirsResponseDirTopic()
	a.Topic = t.Name
	for _, number := range partitions {
		l, err := h.log(t, number)
		if err != nil {
			continue
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size = number, l.Size()
		a.Partitions = append(a.Partitions, p)
	}
	return a
}
