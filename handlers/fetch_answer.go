package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

const (
	// inlineFetchBytes is up to what size a range of records is copied into the frame: below it, reading the bytes is
	// cheaper than the system calls of a part of its own.
	inlineFetchBytes = 16 << 10
	// inlineFetchTotal bounds what is copied into one frame.
	inlineFetchTotal = 1 << 20
)

// respond answers with what was read.
func (f *fetch) respond() protocol.Response {
	results, session, code := f.session.close(missingLast(f.results))
	if code != protocol.None {
		releaseAll(results)
		return f.h.fetchRefused(&f.request, f.query.version, session, code)
	}
	scratch := f.inline(results)
	body := kmsg.NewPtrFetchResponse()
	body.Version, body.SessionID = f.query.version, session
	f.fill(body, results)
	next := 0
	response := protocol.EncodeFetch(&f.request, body, func(int, int) protocol.FetchRecords {
		r := &results[next]
		next++
		switch {
		case r.inline:
			return protocol.FetchRecords{Bytes: (*scratch)[r.from:r.to]}
		case r.records != nil:
			return protocol.FetchRecords{File: r.records}
		default:
			return protocol.FetchRecords{}
		}
	})
	f.h.data.putScratch(scratch)
	if holdsRecords(results) {
		response.AddRelease(func() { releaseAll(results) })
	}
	return response
}

// inline reads small ranges into a buffer and releases them.
func (f *fetch) inline(results []fetchResult) *[]byte {
	scratch := f.h.data.getScratch()
	for i := range results {
		r := &results[i]
		size := r.size()
		if size == 0 || size > inlineFetchBytes || int64(len(*scratch))+size > inlineFetchTotal {
			continue
		}
		from := len(*scratch)
		b, err := r.records.AppendTo(*scratch)
		if err != nil || int64(len(b)-from) != size {
			f.h.Logger.Warn("read records for fetch", zap.String("topic", r.part.topic), zap.Stringer("topicID", r.part.id),
				zap.Int32("partition", r.part.partition), zap.Error(err))
			r.fail(protocol.KafkaStorageError)
			continue
		}
		*scratch = b
		r.inline, r.from, r.to = true, from, len(b)
		r.release()
	}
	return scratch
}

// fill sets the answer's topics from the results, those of one topic that follow each other together.
func (f *fetch) fill(body *kmsg.FetchResponse, results []fetchResult) {
	for i := 0; i < len(results); {
		p := &results[i].part
		end := i + 1
		for end < len(results) && results[end].part.topic == p.topic && results[end].part.id == p.id {
			end++
		}
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = p.topic, p.id
		t.Partitions = make([]kmsg.FetchResponseTopicPartition, end-i)
		for j := range t.Partitions {
			results[i+j].fill(&t.Partitions[j])
			if results[i+j].leaderEpoch >= 0 && f.query.version >= 16 {
				f.fillLeader(body, &t.Partitions[j], results[i+j].leaderEpoch)
			}
		}
		body.Topics = append(body.Topics, t)
		i = end
	}
}

// fill sets the answer of a partition, save for its records.
func (r *fetchResult) fill(p *kmsg.FetchResponseTopicPartition) {
	p.Default()
	p.Partition = r.part.partition
	p.ErrorCode = int16(r.code)
	p.HighWatermark = r.offsets.HighWatermark
	p.LastStableOffset = r.offsets.LastStable
	p.LogStartOffset = r.offsets.Start
	p.DivergingEpoch.Epoch = r.diverging.Epoch
	p.DivergingEpoch.EndOffset = r.diverging.EndOffset
	if r.aborted == nil {
		p.AbortedTransactions = nil
		return
	}
	p.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, len(r.aborted))
	for i, a := range r.aborted {
		p.AbortedTransactions[i].ProducerID = a.ProducerID
		p.AbortedTransactions[i].FirstOffset = a.FirstOffset
	}
}

// fillLeader tells a client with an old leader epoch who leads and where (KIP-951). A replica is told who alone.
func (f *fetch) fillLeader(body *kmsg.FetchResponse, p *kmsg.FetchResponseTopicPartition, epoch int32) {
	h := f.h
	p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = h.NodeID, epoch
	if len(body.Brokers) > 0 || f.query.follower {
		return
	}
	host, port, ok := h.Endpoints(f.request.Conn.Listener)
	if !ok {
		return
	}
	b := kmsg.NewFetchResponseBroker()
	b.NodeID, b.Host, b.Port, b.Rack = h.NodeID, host, port, h.Rack
	body.Brokers = append(body.Brokers, b)
}

// fetchRefused answers a request that fails as a whole, with no partitions.
func (h *Handlers) fetchRefused(r *protocol.Request, version int16, session int32, code protocol.ErrorCode) protocol.Response {
	body := kmsg.NewPtrFetchResponse()
	body.Version, body.SessionID, body.ErrorCode = version, session, int16(code)
	return reply(r, body)
}

// fetchFailed answers a request that fails as a whole, with the error also at each partition below version 13.
func (h *Handlers) fetchFailed(r *protocol.Request, req *kmsg.FetchRequest, code protocol.ErrorCode) protocol.Response {
	body := kmsg.NewPtrFetchResponse()
	body.Version, body.ErrorCode, body.SessionID = req.Version, int16(code), req.SessionID
	for i := range req.Topics {
		if req.Version >= 13 {
			break
		}
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		for j := range req.Topics[i].Partitions {
			failed := fetchResult{
				part:      fetchPartition{partition: req.Topics[i].Partitions[j].Partition},
				diverging: storage.EpochEnd{Epoch: -1, EndOffset: -1},
			}
			failed.fail(code)
			failed.aborted = []storage.AbortedTransaction{}
			p := kmsg.NewFetchResponseTopicPartition()
			failed.fill(&p)
			p.RecordBatches = []byte{}
			t.Partitions = append(t.Partitions, p)
		}
		body.Topics = append(body.Topics, t)
	}
	return reply(r, body)
}

func releaseAll(results []fetchResult) {
	for i := range results {
		results[i].release()
	}
}

func holdsRecords(results []fetchResult) bool {
	for i := range results {
		if results[i].records != nil {
			return true
		}
	}
	return false
}
