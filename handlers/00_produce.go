package handlers

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
)

// Produce, versions 3 to 13; 0 to 2 are advertised for old clients and closed, as by Kafka.
//
// Batches are validated and appended in the order of the request before the handler returns; what follows is only the wait
// for their syncs. Acks 1 is answered by the same rule as -1: once the log has acknowledged the batch.
//
// Kept apart from Kafka: null records are refused with INVALID_RECORD where Kafka never answers.

// adminClientID is the client id that may write to internal topics, as in Kafka. Here their logs refuse all the same.
const adminClientID = "__admin_client"

// produce is a Produce under way.
type produce struct {
	h         *Handlers
	req       *kmsg.ProduceRequest
	inTxn     bool // the request has a transactional id
	admin     bool
	badAcks   bool
	nowMs     int64
	body      *kmsg.ProduceResponse
	failed    protocol.ErrorCode  // the first error of the answer
	lastTopic int                 // of the request, that was answered last
	topicAt   int                 // where in the answer it is
	topics    map[producedKey]int // where topics are in the answer, if one may come twice; by topic and id alone

	waiting    []pendingCommit
	unverified []unverifiedBatch
}

// place is where a partition stands in the answer.
type place struct{ topic, partition int }

// pendingCommit is a batch that waits for its commit group.
type pendingCommit struct {
	place
	commit storage.Commit
}

// unverifiedBatch is a transactional batch that isn't in the log, since its transaction isn't open there: the
// coordinator must vouch for it. One with a fault isn't appended even then, but the coordinator has the first word.
type unverifiedBatch struct {
	place
	ready
	topic     string
	partition int32
	fault     error
}

// ready is a valid batch and where it goes.
type ready struct {
	log        Log
	batch      batch.Batch
	appendTime int64 // what the answer gives as log append time; -1 for a topic with the producers' times
}

func (h *Handlers) produce(r *protocol.Request, req *kmsg.ProduceRequest) protocol.Response {
	p := &produce{
		h:         h,
		req:       req,
		inTxn:     req.TransactionID != nil,
		admin:     r.Header.ClientID == adminClientID,
		badAcks:   req.Acks < -1 || req.Acks > 1,
		nowMs:     clock.UnixMilli(h.Clock),
		body:      kmsg.NewPtrProduceResponse(),
		lastTopic: -1,
	}
	p.body.Version = req.Version
	p.run()
	switch {
	case req.Acks == 0 && p.failed != protocol.None:
		return protocol.Response{
			Close: true, ErrorCode: p.failed,
			Reason: fmt.Errorf("produce with acks 0: %w", p.failed),
		}
	case req.Acks == 0:
		return protocol.Response{NoAnswer: true}
	case len(p.waiting) == 0:
		return reply(r, p.body)
	}
	w := &produceWait{
		clock:   h.Clock,
		request: protocol.Request{Header: r.Header, Conn: r.Conn},
		body:    p.body,
		waiting: p.waiting,
		timeout: time.Duration(req.TimeoutMillis) * time.Millisecond,
	}
	return protocol.Response{Later: w.wait, Overlap: true}
}

// run appends what can be appended and fills the answer.
func (p *produce) run() {
	whole := p.leading()
	mixed := whole == nil && p.inTxn && p.mixesProducers()
	last := lastOfDuplicates(p.req)
	for i := range p.req.Topics {
		t := &p.req.Topics[i]
		topic, code := p.topic(t)
		for j := range t.Partitions {
			q := &t.Partitions[j]
			if last != nil && last[producedKey{t.Topic, t.TopicID, q.Partition}] != (place{i, j}) {
				continue
			}
			at := p.add(i, q.Partition, last != nil)
			switch {
			case whole != nil:
				p.invalid(at, nil, whole)
			case mixed:
				p.failWith(at, protocol.InvalidProducerIDMapping, "Transactional records contained more than one producer ID")
			case code != protocol.None:
				p.fail(at, code)
			default:
				p.partition(at, topic, q)
			}
		}
	}
	p.appendVerified()
}

// leading looks for what fails the request as a whole, up to the first transactional batch: a first batch that can't be told
// apart, and a transactional one without a transactional id. The error is a *[batch.ValidationError].
func (p *produce) leading() error {
	for i := range p.req.Topics {
		for j := range p.req.Topics[i].Partitions {
			transactional, err := batch.Leading(p.req.Topics[i].Partitions[j].Records)
			switch {
			case err != nil:
				return fmt.Errorf("topic %d, partition %d of the request: %w", i, j, err)
			case transactional && !p.inTxn:
				return &batch.ValidationError{Kind: batch.KindTransactionalID, Detail: "transactional batch without a transactional id"}
			case transactional:
				return nil
			}
		}
	}
	return nil
}

// mixesProducers says whether the request has transactional batches of several producers, for partitions that are there.
func (p *produce) mixesProducers() bool {
	var first batch.Batch
	for i := range p.req.Topics {
		t := &p.req.Topics[i]
		for j := range t.Partitions {
			if transactional, _ := batch.Leading(t.Partitions[j].Records); !transactional {
				continue
			}
			b := batch.Batch(t.Partitions[j].Records)
			if first != nil && b.ProducerID() == first.ProducerID() && b.ProducerEpoch() == first.ProducerEpoch() {
				continue
			}
			topic, _ := p.topic(t)
			if topic == nil || t.Partitions[j].Partition < 0 || t.Partitions[j].Partition >= topic.Partitions || b.ProducerID() < 0 {
				continue
			}
			if first != nil {
				return true
			}
			first = b
		}
	}
	return false
}

// topic finds a topic by its name, or from version 13 by its id.
func (p *produce) topic(t *kmsg.ProduceRequestTopic) (*meta.Topic, protocol.ErrorCode) {
	if p.req.Version >= 13 {
		if found := p.h.topicByID(t.TopicID); found != nil {
			return found, protocol.None
		}
		return nil, protocol.UnknownTopicID
	}
	return p.h.fetchTopicByName(t.Topic)
}

// add makes a place in the answer for a partition of the request's topic i, with -1 everywhere. A topic that is twice in the
// request is once in the answer; again says that this may be so.
func (p *produce) add(i int, partition int32, again bool) place {
	if p.lastTopic != i {
		p.lastTopic, p.topicAt = i, len(p.body.Topics)
		t := &p.req.Topics[i]
		if again {
			p.topicAt = p.answered(t)
		}
		if p.topicAt == len(p.body.Topics) {
			p.body.Topics = append(p.body.Topics, kmsg.ProduceResponseTopic{
				Topic:      strings.Clone(t.Topic),
				TopicID:    t.TopicID,
				Partitions: make([]kmsg.ProduceResponseTopicPartition, 0, len(t.Partitions)),
			})
		}
	}
	t := &p.body.Topics[p.topicAt]
	t.Partitions = append(t.Partitions, kmsg.NewProduceResponseTopicPartition())
	answer := &t.Partitions[len(t.Partitions)-1]
	answer.Partition = partition
	answer.BaseOffset, answer.LogAppendTime, answer.LogStartOffset = -1, -1, -1
	return place{p.topicAt, len(t.Partitions) - 1}
}

// answered is where a topic is in the answer; at its end if it isn't there.
func (p *produce) answered(t *kmsg.ProduceRequestTopic) int {
	key := producedKey{topic: t.Topic, id: t.TopicID}
	at, there := p.topics[key]
	if there {
		return at
	}
	if p.topics == nil {
		p.topics = make(map[producedKey]int)
	}
	p.topics[key] = len(p.body.Topics)
	return len(p.body.Topics)
}

func (p *produce) answer(at place) *kmsg.ProduceResponseTopicPartition {
	return &p.body.Topics[at.topic].Partitions[at.partition]
}

func (p *produce) fail(at place, code protocol.ErrorCode) {
	p.answer(at).ErrorCode = int16(code)
	if p.failed == protocol.None {
		p.failed = code
	}
}

// partition validates and appends what the request has for one partition.
func (p *produce) partition(at place, topic *meta.Topic, q *kmsg.ProduceRequestTopicPartition) {
	log, err := p.h.log(topic, q.Partition)
	switch {
	case err != nil:
		p.fail(at, codeOf(err))
		return
	case p.badAcks:
		p.fail(at, protocol.InvalidRequiredAcks)
		return
	case !p.admin && p.h.internal.has(topic):
		p.fail(at, protocol.InvalidTopicException)
		return
	}
	rules := p.rules(topic, q.Partition)
	valid, err := batch.Validate(q.Records, &rules)
	if err != nil {
		if !p.asksFirst(q.Records, err) {
			p.invalid(at, log, err)
			return
		}
		p.unverified = append(p.unverified, unverifiedBatch{
			place: at, ready: ready{log: log, batch: batch.Batch(q.Records)}, topic: topic.Name, partition: q.Partition, fault: err,
		})
		return
	}
	b := ready{log: log, batch: valid.Batch, appendTime: -1}
	if rules.AppendTime {
		b.appendTime = p.nowMs
	}
	err = p.append(at, b, storage.AppendOptions{TransactionV2: p.transactionsV2()})
	if errors.Is(err, storage.ErrTransactionNotOpen) {
		p.unverified = append(p.unverified, unverifiedBatch{place: at, ready: b, topic: topic.Name, partition: q.Partition})
		return
	}
	p.refused(at, log, err)
}

// asksFirst says whether a batch with a fault is one whose transaction the coordinator is asked about before.
func (p *produce) asksFirst(records []byte, err error) bool {
	var fault *batch.ValidationError
	if !p.inTxn || !errors.As(err, &fault) || fault.Early {
		return false
	}
	b := batch.Batch(records)
	return b.IsTransactional() && b.ProducerID() >= 0
}

// transactionsV2 says that batches add their partition to the transaction, from version 12 (KIP-890).
func (p *produce) transactionsV2() bool { return p.inTxn && p.req.Version >= 12 }

// rules are what the topic and the request demand of a batch.
func (p *produce) rules(t *meta.Topic, partition int32) batch.Rules {
	c := p.h.topicConfig(t)
	return batch.Rules{
		Topic:                t.Name,
		Partition:            partition,
		Version:              p.req.Version,
		TransactionalID:      p.inTxn,
		MaxBatchBytes:        int(c.MaxMessageBytes),
		MaxDecompressedBytes: int(c.MaxDecompressedBytes),
		Compact:              c.Compact(),
		AppendTime:           c.LogAppendTime(),
		NowMs:                p.nowMs,
		BeforeMaxMs:          c.TimestampBeforeMaxMs,
		AfterMaxMs:           c.TimestampAfterMaxMs,
		Compression:          compressionOf(c),
	}
}

// compressionOf is what compression.type makes of a topic's batches.
func compressionOf(c *config.TopicConfig) batch.Compression {
	switch c.CompressionType {
	case "uncompressed":
		return batch.Compression{Fixed: true, Codec: batch.CodecNone}
	case "gzip":
		return batch.Compression{Fixed: true, Codec: batch.CodecGzip, Level: int(c.GzipLevel)}
	case "snappy":
		return batch.Compression{Fixed: true, Codec: batch.CodecSnappy}
	case "lz4":
		return batch.Compression{Fixed: true, Codec: batch.CodecLZ4, Level: int(c.LZ4Level)}
	case "zstd":
		return batch.Compression{Fixed: true, Codec: batch.CodecZstd, Level: int(c.ZstdLevel)}
	default:
		return batch.Compression{}
	}
}

// append puts a batch into its log and the answer. An error is not answered yet.
func (p *produce) append(at place, b ready, o storage.AppendOptions) error {
	done, err := b.log.Append(b.batch, o)
	if err != nil {
		return err
	}
	answer := p.answer(at)
	answer.BaseOffset, answer.LogStartOffset, answer.LogAppendTime = done.BaseOffset, done.LogStart, b.appendTime
	if done.Duplicate {
		answer.LogAppendTime = done.DuplicateTimestamp
	}
	if done.Commit != nil {
		p.waiting = append(p.waiting, pendingCommit{at, done.Commit})
	}
	return nil
}

// refused answers a batch that the log didn't take, if there was an error.
func (p *produce) refused(at place, log Log, err error) {
	if err == nil {
		return
	}
	code := codeOf(err)
	p.fail(at, code)
	switch {
	case errors.Is(err, storage.ErrOutOfOrderSequence), errors.Is(err, storage.ErrProducerEpoch),
		errors.Is(err, storage.ErrTransactionOpen):
		p.answer(at).LogStartOffset = log.Offsets().Start
	case code == protocol.KafkaStorageError || code == protocol.UnknownServerError:
		p.h.Logger.Warn("append of a produced batch", zap.Error(err))
	}
}

// invalid answers records that aren't a valid batch; the log may be nil if the fault lies before it.
func (p *produce) invalid(at place, log Log, err error) {
	p.fail(at, codeOf(err))
	p.h.Logger.Debug("produced records refused", zap.String("topic", p.body.Topics[at.topic].Topic),
		zap.Int32("partition", p.answer(at).Partition), zap.Error(err))
	var fault *batch.ValidationError
	if !errors.As(err, &fault) {
		return
	}
	answer := p.answer(at)
	if fault.LogReached && log != nil {
		answer.LogStartOffset = log.Offsets().Start
	}
	if fault.Message != "" {
		answer.ErrorMessage = &fault.Message
	}
	for i := range fault.RecordErrors {
		e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		e.RelativeOffset, e.ErrorMessage = fault.RecordErrors[i].Index, &fault.RecordErrors[i].Message
		answer.ErrorRecords = append(answer.ErrorRecords, e)
	}
}

// producedKey names a partition in a request.
type producedKey struct {
	topic     string
	id        storage.TopicID
	partition int32
}

// lastOfDuplicates finds, if a partition comes twice in the request, where each comes last: that alone is appended and
// answered, as by Kafka. Nil if none does.
func lastOfDuplicates(req *kmsg.ProduceRequest) map[producedKey]place {
	if !mayHaveDuplicates(req) {
		return nil
	}
	last := make(map[producedKey]place)
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			last[producedKey{t.Topic, t.TopicID, t.Partitions[j].Partition}] = place{i, j}
		}
	}
	return last
}

// mayHaveDuplicates is a quick look that spares most requests the map.
func mayHaveDuplicates(req *kmsg.ProduceRequest) bool {
	const few = 16
	if len(req.Topics) > few {
		return true
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		for k := range i {
			if req.Topics[k].Topic == t.Topic && req.Topics[k].TopicID == t.TopicID {
				return true
			}
		}
		if len(t.Partitions) > few {
			return true
		}
		for j := range t.Partitions {
			for k := range j {
				if t.Partitions[k].Partition == t.Partitions[j].Partition {
					return true
				}
			}
		}
	}
	return false
}
