package handlers

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// DeleteRecords, versions 0 to 2. It answers once the new log start is durable.

// toHighWatermark asks for everything that is visible to be deleted.
const toHighWatermark = -1

// deletion is one partition of a request.
type deletion struct {
	named
	offset int64
}

func (h *Handlers) deleteRecords(r *protocol.Request, req *kmsg.DeleteRecordsRequest) protocol.Response {
	version, wanted := req.Version, deletions(req)
	return later(r, func(context.Context) kmsg.Response {
		body := kmsg.NewPtrDeleteRecordsResponse()
		body.Version = version
		places := make(topicPlaces)
		for i := range wanted {
			d := &wanted[i]
			at, isNew := places.of(d.topic, len(body.Topics))
			if isNew {
				t := kmsg.NewDeleteRecordsResponseTopic()
				t.Topic = d.topic
				body.Topics = append(body.Topics, t)
			}
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition, p.LowWatermark = d.partition, -1
			if start, err := h.trim(d); err != nil {
				p.ErrorCode = int16(codeOf(err))
			} else {
				p.LowWatermark = start
			}
			t := &body.Topics[at]
			t.Partitions = append(t.Partitions, p)
		}
		return body
	})
}

// deletions copies what a request asks for. Of a partition that comes twice the last offset counts.
func deletions(req *kmsg.DeleteRecordsRequest) []deletion {
	var all []deletion
	seen := make(map[named]int)
	for i := range req.Topics {
		name := strings.Clone(req.Topics[i].Topic)
		for _, p := range req.Topics[i].Partitions {
			d := deletion{named{name, p.Partition}, p.Offset}
			if at, twice := seen[d.named]; twice {
				all[at] = d
				continue
			}
			seen[d.named] = len(all)
			all = append(all, d)
		}
	}
	return all
}

// trim moves the log start of one partition and returns where it is then.
func (h *Handlers) trim(d *deletion) (int64, error) {
	t := h.topicByName(d.topic)
	if t == nil {
		return 0, errUnknownTopic
	}
	log, err := h.log(t, d.partition)
	if err != nil {
		return 0, err
	}
	if h.internal.has(t) {
		return 0, errInternalTopic
	}
	if h.compactOnly(t) {
		return 0, protocol.PolicyViolation
	}
	now, err := standing(log)
	if err != nil {
		return 0, err
	}
	offset := d.offset
	if offset == toHighWatermark {
		offset = now.HighWatermark
	}
	if offset < 0 || offset > now.HighWatermark {
		return 0, protocol.OffsetOutOfRange
	}
	start, err := log.Trim(offset)
	if err != nil {
		return 0, fmt.Errorf("delete records below %d: %w", offset, err)
	}
	return start, nil
}
