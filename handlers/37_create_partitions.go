package handlers

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol"
)

// CreatePartitions, versions 0 to 3. The partitions of internal topics are set by the broker's configuration alone:
// INVALID_TOPIC_EXCEPTION.

// createPartitions adds partitions to topics, each with an error of its own.
func (h *Handlers) createPartitions(r *protocol.Request, q *kmsg.CreatePartitionsRequest) protocol.Response {
	a := kmsg.NewPtrCreatePartitionsResponse()
	a.Version = q.Version
	count := make(map[string]int, len(q.Topics))
	for i := range q.Topics {
		count[q.Topics[i].Topic]++
	}
	refused := checkTime(q.TimeoutMillis)
	if refused == nil {
		refused = h.checkAllGrowth(q)
	}
	for i := range q.Topics {
		t := &q.Topics[i]
		n := count[t.Topic]
		count[t.Topic] = 0
		var err error
		switch {
		case n == 0: // answered already
			continue
		case n > 1:
			err = errDuplicateTopic
		case refused != nil:
			err = refused
		default:
			err = h.growRequested(t, q.ValidateOnly)
		}
		answer := kmsg.NewCreatePartitionsResponseTopic()
		answer.Topic, answer.ErrorCode, answer.ErrorMessage = validUTF8(t.Topic), int16(codeOf(err)), textOf(err)
		a.Topics = append(a.Topics, answer)
	}
	return reply(r, a)
}

// checkAllGrowth bounds what one request may add.
func (h *Handlers) checkAllGrowth(q *kmsg.CreatePartitionsRequest) error {
	total := int64(0)
	for i := range q.Topics {
		if t := h.topicByName(q.Topics[i].Topic); t != nil {
			total += max(0, int64(q.Topics[i].Count)-int64(t.Partitions))
		}
	}
	if total > maxNewPartitions {
		return &wireError{protocol.PolicyViolation, "Excessively large number of additional partitions per request."}
	}
	return nil
}

// growRequested adds partitions to one topic, or only says whether it could.
func (h *Handlers) growRequested(q *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	t := h.topicByName(q.Topic)
	if t == nil {
		return &wireError{code: protocol.UnknownTopicOrPartition}
	}
	if err := h.checkGrowth(t, q); err != nil {
		return err
	}
	if h.internal.has(t) {
		return &wireError{protocol.InvalidTopicException, "The partitions of internal topics are set by the broker's configuration."}
	}
	if validateOnly {
		return nil
	}
	return h.growTopic(t.ID, q.Count)
}

// checkGrowth says what is wrong with the number of partitions asked for, or with their assignment.
func (h *Handlers) checkGrowth(t *meta.Topic, q *kmsg.CreatePartitionsRequestTopic) error {
	if q.Count <= t.Partitions {
		return errNotMorePartitions(t, q.Count)
	}
	more := int64(q.Count) - int64(t.Partitions)
	if q.Assignment == nil {
		return nil
	}
	if n := len(q.Assignment); int64(n) != more {
		return &wireError{protocol.InvalidReplicaAssignment, fmt.Sprintf(
			"Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", more, n)}
	}
	for _, p := range q.Assignment {
		if err := h.checkReplicas(p.Replicas); err != nil {
			return err
		}
	}
	return nil
}
