package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// DeleteTopics, versions 1 to 6. Internal topics can't be deleted (Kafka would make them again):
// INVALID_TOPIC_EXCEPTION.

// deleteTopics deletes topics, each with an error of its own.
func (h *Handlers) deleteTopics(r *protocol.Request, q *kmsg.DeleteTopicsRequest) protocol.Response {
	a := kmsg.NewPtrDeleteTopicsResponse()
	a.Version = q.Version
	d := topicDeletion{h: h, names: map[string]int{}, ids: map[storage.TopicID]int{}}
	d.count(q)
	if !h.topicDeletionEnabled() {
		d.refused = deletionDisabled(q.Version)
	} else {
		d.refused = checkTime(q.TimeoutMillis)
	}
	for _, t := range requestedDeletions(q) {
		d.add(t.Topic, t.TopicID)
	}
	d.remove()
	a.Topics = d.answer
	return reply(r, a)
}

// deletionDisabled is the error for delete.topic.enable=false; below version 3 its code didn't exist.
func deletionDisabled(version int16) error {
	code := protocol.TopicDeletionDisabled
	if version < 3 {
		code = protocol.InvalidRequest
	}
	return &wireError{code, "Topic deletion is disabled."}
}

// requestedDeletions is the request's list, which below version 6 has only names.
func requestedDeletions(q *kmsg.DeleteTopicsRequest) []kmsg.DeleteTopicsRequestTopic {
	if q.Version >= 6 {
		return q.Topics
	}
	all := make([]kmsg.DeleteTopicsRequestTopic, len(q.TopicNames))
	for i := range q.TopicNames {
		all[i].Topic = &q.TopicNames[i]
	}
	return all
}

// topicDeletion works through one request: it answers entry by entry, then deletes what can be, all at once. A topic that is
// named twice, be it by name and by id, is not deleted and answered once.
type topicDeletion struct {
	h       *Handlers
	names   map[string]int          // how often each name stands in the request; 0 once it has been answered
	ids     map[storage.TopicID]int // the same for ids
	refused error                   // why nothing is deleted
	answer  []kmsg.DeleteTopicsResponseTopic
	doomed  []storage.TopicID // topics to be deleted
	places  []int             // of those in the answer
}

func (d *topicDeletion) count(q *kmsg.DeleteTopicsRequest) {
	for _, t := range requestedDeletions(q) {
		switch {
		case t.Topic == nil:
			d.ids[t.TopicID]++
		case t.TopicID == [16]byte{}:
			d.names[*t.Topic]++
		}
	}
}

// add answers one entry of the request.
func (d *topicDeletion) add(name *string, id storage.TopicID) {
	none := id == storage.TopicID{}
	switch {
	case d.refused != nil:
		d.fail(name, id, d.refused)
	case name == nil && none:
		d.fail(nil, id, &wireError{protocol.InvalidRequest, "Neither topic name nor id were specified."})
	case name != nil && !none:
		d.fail(name, id, &wireError{protocol.InvalidRequest, "You may not specify both topic name and topic id."})
	case name != nil:
		d.addName(*name)
	default:
		d.addID(id)
	}
}

func (d *topicDeletion) addName(name string) {
	n := d.names[name]
	d.names[name] = 0
	switch {
	case n == 0: // answered already
		return
	case n > 1:
		d.fail(&name, storage.TopicID{}, errDuplicateTopic)
		return
	}
	t := d.h.topicByName(name)
	switch {
	case t == nil:
		d.fail(&name, storage.TopicID{}, errUnknownTopic)
	case d.ids[t.ID] > 0:
		d.ids[t.ID] = 0
		d.fail(&name, t.ID, errSameTopic)
	default:
		d.doom(&t.Name, t.ID)
	}
}

// errSameTopic is returned for a topic that is given by its name and by its id.
var errSameTopic error = &wireError{protocol.InvalidRequest, "The provided topic name maps to an ID that was already supplied."}

func (d *topicDeletion) addID(id storage.TopicID) {
	n := d.ids[id]
	d.ids[id] = 0
	switch {
	case n == 0: // answered already
		return
	case n > 1:
		d.fail(nil, id, &wireError{protocol.InvalidRequest, "Duplicate topic id."})
		return
	}
	t := d.h.topicByID(id)
	switch {
	case t == nil:
		d.fail(nil, id, errUnknownTopicID)
	case d.names[t.Name] > 0:
		d.names[t.Name] = 0
		d.fail(&t.Name, id, errSameTopic)
	default:
		d.doom(&t.Name, id)
	}
}

// doom answers for a topic that is there, and is going to be deleted.
func (d *topicDeletion) doom(name *string, id storage.TopicID) {
	if d.h.internal.withID(id) != nil {
		d.fail(name, id, &wireError{protocol.InvalidTopicException, "Internal topics can't be deleted."})
		return
	}
	d.doomed, d.places = append(d.doomed, id), append(d.places, len(d.answer))
	a := kmsg.NewDeleteTopicsResponseTopic()
	a.Topic, a.TopicID = name, id
	d.answer = append(d.answer, a)
}

// remove deletes the topics that are to be deleted.
func (d *topicDeletion) remove() {
	if len(d.doomed) == 0 {
		return
	}
	for i, err := range d.h.removeTopics(d.doomed) {
		a := &d.answer[d.places[i]]
		a.ErrorCode, a.ErrorMessage = int16(codeOf(err)), textOf(err)
	}
}

func (d *topicDeletion) fail(name *string, id storage.TopicID, err error) {
	a := kmsg.NewDeleteTopicsResponseTopic()
	if name != nil {
		valid := validUTF8(*name)
		name = &valid
	}
	a.Topic, a.TopicID, a.ErrorCode, a.ErrorMessage = name, id, int16(codeOf(err)), textOf(err)
	d.answer = append(d.answer, a)
}
