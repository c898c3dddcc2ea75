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
	for _, t := range describedLogs(q) {
		if found := h.topicByName(t.Topic); found != nil {
			if a := h.topicSizes(found, t.Partitions); len(a.Partitions) > 0 {
				dir.Topics = append(dir.Topics, a)
			}
		}
	}
	a := kmsg.NewPtrDescribeLogDirsResponse()
	a.Version = q.Version
	a.Dirs = append(a.Dirs, dir)
	return reply(r, a)
}

// describedLogs lists what a request names, each topic and each partition once.
func describedLogs(q *kmsg.DescribeLogDirsRequest) []kmsg.DescribeLogDirsRequestTopic {
	var all []kmsg.DescribeLogDirsRequestTopic
	places := make(topicPlaces)
	seen := make(map[named]struct{})
	for i := range q.Topics {
		name := q.Topics[i].Topic
		at, isNew := places.of(name, len(all))
		if isNew {
			all = append(all, kmsg.DescribeLogDirsRequestTopic{Topic: name})
		}
		for _, p := range q.Topics[i].Partitions {
			if _, twice := seen[named{name, p}]; !twice {
				seen[named{name, p}] = struct{}{}
				all[at].Partitions = append(all[at].Partitions, p)
			}
		}
	}
	return all
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
