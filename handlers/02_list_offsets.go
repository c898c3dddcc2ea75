package handlers

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// ListOffsets, versions 1 to 11. There is no tiered storage: what is asked of it (-5, -6) isn't there.

// The timestamps that stand for something else.
const (
	timestampLatest          = -1
	timestampEarliest        = -2
	timestampMax             = -3 // from version 7
	timestampEarliestLocal   = -4 // from version 8
	timestampLatestTiered    = -5 // from version 9
	timestampEarliestPending = -6 // from version 11
)

func (h *Handlers) listOffsets(r *protocol.Request, req *kmsg.ListOffsetsRequest) protocol.Response {
	body := kmsg.NewPtrListOffsetsResponse()
	body.Version = req.Version
	isolation, known := isolationOf(req.IsolationLevel)
	twice := listedTwice(req)
	answered := make(map[named]bool, len(twice))
	places := make(topicPlaces, len(req.Topics))
	for i := range req.Topics {
		name := req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			q := &req.Topics[i].Partitions[j]
			n := named{name, q.Partition}
			if answered[n] {
				continue
			}
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition = q.Partition
			switch {
			case !known:
				p.ErrorCode = int16(protocol.UnknownServerError)
			case twice[n]:
				answered[n] = true
				p.ErrorCode = int16(protocol.InvalidRequest)
			case q.Timestamp < 0 && req.Version < specialTimestampSince(q.Timestamp):
				p.ErrorCode = int16(protocol.UnsupportedVersion)
			default:
				h.listOffset(&p, name, q, isolation)
			}
			at, isNew := places.of(name, len(body.Topics))
			if isNew {
				t := kmsg.NewListOffsetsResponseTopic()
				t.Topic = name
				body.Topics = append(body.Topics, t)
			}
			body.Topics[at].Partitions = append(body.Topics[at].Partitions, p)
		}
	}
	return reply(r, body)
}

// listedTwice finds the partitions that are asked for more than once.
func listedTwice(req *kmsg.ListOffsetsRequest) map[named]bool {
	var twice map[named]bool
	seen := make(map[named]struct{})
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			n := named{req.Topics[i].Topic, req.Topics[i].Partitions[j].Partition}
			if _, again := seen[n]; !again {
				seen[n] = struct{}{}
				continue
			}
			if twice == nil {
				twice = make(map[named]bool)
			}
			twice[n] = true
		}
	}
	return twice
}

// listOffset answers for one partition. The answer holds -1 everywhere before.
func (h *Handlers) listOffset(p *kmsg.ListOffsetsResponseTopicPartition, name string,
	q *kmsg.ListOffsetsRequestTopicPartition, i storage.Isolation,
) {
	log, err := h.logByName(name, q.Partition)
	if err != nil {
		p.ErrorCode = int16(codeOf(err))
		return
	}
	if code := checkEpoch(log, q.CurrentLeaderEpoch); code != protocol.None {
		p.ErrorCode = int16(code)
		return
	}
	found, err := findOffset(log, q.Timestamp, i)
	if err != nil {
		p.ErrorCode = int16(codeOf(err))
		return
	}
	p.Offset, p.Timestamp, p.LeaderEpoch = found.Offset, found.Timestamp, found.LeaderEpoch
}

// findOffset finds what a timestamp stands for; -1 everywhere if there is nothing.
func findOffset(log Log, timestamp int64, i storage.Isolation) (storage.TimestampOffset, error) {
	nothing := storage.TimestampOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}
	now, err := standing(log)
	if err != nil {
		return nothing, err
	}
	var o storage.TimestampOffset
	var found bool
	switch timestamp {
	case timestampLatest:
		return storage.TimestampOffset{Offset: visibleEnd(now, i), Timestamp: -1, LeaderEpoch: log.LeaderEpoch()}, nil
	case timestampEarliest, timestampEarliestLocal:
		return earliest(log, now.Start), nil
	case timestampLatestTiered, timestampEarliestPending:
		return nothing, nil
	case timestampMax:
		o, found, err = log.MaxTimestamp(i)
	default:
		o, found, err = log.OffsetForTime(timestamp, i)
	}
	if err != nil {
		return nothing, fmt.Errorf("find offset for timestamp %d: %w", timestamp, err)
	}
	if !found {
		return nothing, nil
	}
	return o, nil
}

// specialTimestampSince is the first version that knows a negative timestamp.
func specialTimestampSince(timestamp int64) int16 {
	switch timestamp {
	case timestampLatest, timestampEarliest:
		return 1
	case timestampMax:
		return 7
	case timestampEarliestLocal:
		return 8
	case timestampLatestTiered:
		return 9
	case timestampEarliestPending:
		return 11
	default:
		return maxVersion
	}
}

// maxVersion is above the version of any request.
const maxVersion = 1<<15 - 1

// earliest is the log start with the epoch of the record there, or of the one to come.
func earliest(log Log, start int64) storage.TimestampOffset {
	epoch := log.EpochAt(start)
	if epoch < 0 {
		epoch = log.LeaderEpoch()
	}
	return storage.TimestampOffset{Offset: start, Timestamp: -1, LeaderEpoch: epoch}
}

// logByName finds the log of a partition. Errors: errUnknownTopic, errUnknownPartition, storage.ErrClosed.
func (h *Handlers) logByName(name string, partition int32) (Log, error) {
	t := h.topicByName(name)
	if t == nil {
		return nil, errUnknownTopic
	}
	return h.log(t, partition)
}
