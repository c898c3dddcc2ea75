package handlers

import (
	"sort"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// DescribeTopicPartitions, version 0. Topics come by name; an answer holds so many partitions as the request or
// max.request.partition.size.limit allows, and a cursor to where the next one goes on.

// describeTopicPartitions answers a part of the partitions of the topics asked for, or of all.
func (h *Handlers) describeTopicPartitions(r *protocol.Request, q *kmsg.DescribeTopicPartitionsRequest) protocol.Response {
	a := kmsg.NewPtrDescribeTopicPartitionsResponse()
	if code := checkDescribed(q); code != protocol.None {
		for i := range q.Topics {
			a.Topics = append(a.Topics, describedTopicError(q.Topics[i].Topic, code))
		}
		return reply(r, a)
	}
	limit := min(max(q.ResponsePartitionLimit, 1), h.maxDescribedPartitions())
	d := topicDescription{h: h, self: []int32{h.NodeID}, left: limit, answer: a}
	for _, name := range h.describedNames(q) {
		first := int32(0)
		if q.Cursor != nil && q.Cursor.Topic == name {
			first = q.Cursor.Partition
		}
		if !d.add(name, first) {
			break
		}
	}
	return reply(r, a)
}

// checkDescribed says what is wrong with the request as a whole. Kafka fails on an empty name when it asks what may be done
// with the topic.
func checkDescribed(q *kmsg.DescribeTopicPartitionsRequest) protocol.ErrorCode {
	listed, empty := len(q.Topics) == 0, false
	for i := range q.Topics {
		listed = listed || q.Cursor != nil && q.Topics[i].Topic == q.Cursor.Topic
		empty = empty || q.Topics[i].Topic == ""
	}
	switch {
	case q.Cursor != nil && (!listed || q.Cursor.Partition < 0):
		return protocol.InvalidRequest
	case empty && (q.Cursor == nil || q.Cursor.Topic == ""):
		return protocol.UnknownServerError
	}
	return protocol.None
}

// describedNames lists the topics to answer, sorted, without those before the cursor.
func (h *Handlers) describedNames(q *kmsg.DescribeTopicPartitionsRequest) []string {
	var names []string
	for i := range q.Topics {
		names = append(names, q.Topics[i].Topic)
	}
	if len(q.Topics) == 0 {
		for _, t := range h.allTopics() {
			names = append(names, t.Name)
		}
	}
	sort.Strings(names)
	kept := names[:0]
	for i, name := range names {
		if i > 0 && name == names[i-1] || q.Cursor != nil && name < q.Cursor.Topic {
			continue
		}
		kept = append(kept, name)
	}
	return kept
}

// topicDescription fills an answer up to a number of partitions.
type topicDescription struct {
	h      *Handlers
	self   []int32
	left   int32
	answer *kmsg.DescribeTopicPartitionsResponse
}

// add answers a topic's partitions from first on, and says whether there is room for more.
func (d *topicDescription) add(name string, first int32) bool {
	if d.left == 0 { // whether the topic is there will be seen
		d.next(name, 0)
		return false
	}
	if checkTopicName(name) != nil {
		d.fail(name, protocol.InvalidTopicException)
		return true
	}
	t := d.h.topicByName(name)
	if t == nil {
		d.fail(name, protocol.UnknownTopicOrPartition)
		return true
	}
	a := kmsg.NewDescribeTopicPartitionsResponseTopic()
	a.Topic, a.TopicID, a.IsInternal, a.AuthorizedOperations = &t.Name, t.ID, d.h.internal.has(t), topicOperations
	p := first
	for ; p < t.Partitions && d.left > 0; p++ {
		a.Partitions = append(a.Partitions, d.partition(t, p))
		d.left--
	}
	d.answer.Topics = append(d.answer.Topics, a)
	if p < t.Partitions {
		d.next(name, p)
		return false
	}
	return true
}

func (d *topicDescription) partition(t *meta.Topic, partition int32) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	p.Partition, p.LeaderID, p.LeaderEpoch = partition, d.h.NodeID, d.h.leaderEpoch(t, partition)
	p.Replicas, p.ISR = d.self, d.self
	p.EligibleLeaderReplicas, p.LastKnownELR = []int32{}, []int32{}
	return p
}

func (d *topicDescription) next(topic string, partition int32) {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	d.answer.NextCursor = &c
}

func (d *topicDescription) fail(name string, code protocol.ErrorCode) {
	a := describedTopicError(name, code)
	a.AuthorizedOperations = topicOperations
	d.answer.Topics = append(d.answer.Topics, a)
}

func describedTopicError(name string, code protocol.ErrorCode) kmsg.DescribeTopicPartitionsResponseTopic {
	a := kmsg.NewDescribeTopicPartitionsResponseTopic()
	valid := validUTF8(name)
	a.Topic, a.ErrorCode = &valid, int16(code)
	return a
}
