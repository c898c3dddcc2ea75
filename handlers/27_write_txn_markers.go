package handlers

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
)

// WriteTxnMarkers, versions 1 to 2. Markers go past the coordinator: by them an operator ends a transaction that hangs. They
// are not checked against its state, as by Kafka. A request with a marker of no producer is refused as a whole.

// markersWait is a WriteTxnMarkers whose markers are in their logs but not durable yet.
type markersWait struct {
	body    *kmsg.WriteTxnMarkersResponse
	pending []struct {
		code   *int16
		commit storage.Commit
	}
}

func (h *Handlers) writeTxnMarkers(r *protocol.Request, req *kmsg.WriteTxnMarkersRequest) protocol.Response {
	w := markersWait{body: kmsg.NewPtrWriteTxnMarkersResponse()}
	w.body.Version = req.Version
	refused := slices.ContainsFunc(req.Markers, func(m kmsg.WriteTxnMarkersRequestMarker) bool {
		return m.ProducerID < 0 || m.ProducerEpoch < 0
	})
	for i := range req.Markers {
		asked := &req.Markers[i]
		answer := kmsg.NewWriteTxnMarkersResponseMarker()
		answer.ProducerID = asked.ProducerID
		for j := range asked.Topics {
			if len(asked.Topics[j].Partitions) > 0 {
				answer.Topics = append(answer.Topics, h.markTopic(&w, asked, &asked.Topics[j], refused))
			}
		}
		if len(answer.Topics) > 0 {
			w.body.Markers = append(w.body.Markers, answer)
		}
	}
	if len(w.pending) == 0 {
		return reply(r, w.body)
	}
	return later(r, w.wait)
}

// markTopic writes a marker to partitions of one topic, unless the request is refused.
func (h *Handlers) markTopic(w *markersWait, asked *kmsg.WriteTxnMarkersRequestMarker, topic *kmsg.WriteTxnMarkersRequestMarkerTopic,
	refused bool,
) kmsg.WriteTxnMarkersResponseMarkerTopic {
	answer := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
	answer.Topic = validUTF8(topic.Topic)
	answer.Partitions = make([]kmsg.WriteTxnMarkersResponseMarkerTopicPartition, len(topic.Partitions))
	for i, number := range topic.Partitions {
		p := &answer.Partitions[i]
		p.Partition = number
		if refused {
			p.ErrorCode = int16(protocol.UnknownServerError)
			continue
		}
		commit, err := h.mark(asked, topic.Topic, number)
		p.ErrorCode = int16(codeOf(err))
		if commit != nil {
			w.pending = append(w.pending, struct {
				code   *int16
				commit storage.Commit
			}{&p.ErrorCode, commit})
		}
	}
	return answer
}

// mark ends a producer's transaction in one partition.
func (h *Handlers) mark(asked *kmsg.WriteTxnMarkersRequestMarker, name string, number int32) (storage.Commit, error) {
	t := h.topicByName(name)
	if t == nil {
		return nil, errUnknownTopic
	}
	log, err := h.log(t, number)
	if err != nil {
		return nil, err
	}
	if t.Name == offsetsTopic {
		return nil, h.Groups.CompleteTransaction(asked.ProducerID, asked.Committed)
	}
	m := txn.Marker{
		ProducerID: asked.ProducerID, Epoch: asked.ProducerEpoch, Commit: asked.Committed, Version: int16(asked.TransactionVersion),
	}
	return appendMarker(log, m, asked.CoordinatorEpoch, clock.UnixMilli(h.Clock))
}

// wait waits until the markers are durable.
func (w *markersWait) wait(ctx context.Context) kmsg.Response {
	for _, p := range w.pending {
		*p.code = int16(codeOf(p.commit.Wait(ctx)))
	}
	return w.body
}
