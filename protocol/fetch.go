package protocol

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// inlineBytes is up to what size record bytes are copied into the frame rather than sent as a part of their own.
const inlineBytes = 16 << 10

// FetchRecords are the records of one partition in a Fetch answer: bytes, or a range of a file; the zero value is none.
// What they refer to must stay valid until the answer's Release is called.
type FetchRecords struct {
	Bytes []byte
	File  FileRange
}

// Size is the length in bytes.
func (r FetchRecords) Size() int64 {
	if r.File != nil {
		return r.File.Size()
	}
	return int64(len(r.Bytes))
}

// EncodeFetch frames a Fetch answer in the version that is set in it. The records of partition p of topic t are what
// records(t, p) returns, which is called once for each, in order; RecordBatches in resp is not looked at. An absence of
// records is sent as empty, never as null. Records from files, and bytes too many to copy, go out as parts; give small
// ranges of files as Bytes. The frame lies in a pooled buffer, which Release gives back; what the records hold on to
// is released by [Response.AddRelease].
func EncodeFetch(r *Request, resp *kmsg.FetchResponse, records func(topic, partition int) FetchRecords) Response {
	loan := getBuffer()
	e := fetchEncoder{buf: (*loan.b)[:0], version: resp.Version, flexible: resp.Version >= 12, records: records}
	e.buf = appendResponseHeader(e.buf, r, resp.Key(), resp.Version)
	e.response(resp)
	frame, parts := e.split()
	release := func() { loan.put(e.buf) }
	if !finishFrame(e.buf, e.external) {
		release()
		return tooLarge(r)
	}
	return Response{Frame: frame, Parts: parts, Release: release, ErrorCode: FirstError(resp)}
}

// fetchEncoder encodes a FetchResponse as kmsg does, save that records are left out of the buffer: cuts says where.
type fetchEncoder struct {
	buf      []byte
	version  int16
	flexible bool
	records  func(topic, partition int) FetchRecords
	cuts     []fetchCut
	external int64 // bytes of records that are not in buf
}

// fetchCut is a place in the buffer where a part goes in between.
type fetchCut struct {
	at   int
	part Part
}

// split cuts the buffer where records go in between. It is called when the buffer doesn't grow any more.
func (e *fetchEncoder) split() (frame []byte, parts []Part) {
	if len(e.cuts) == 0 {
		return e.buf, nil
	}
	parts = make([]Part, 0, 2*len(e.cuts))
	for i, c := range e.cuts {
		parts = append(parts, c.part)
		end := len(e.buf)
		if i+1 < len(e.cuts) {
			end = e.cuts[i+1].at
		}
		if end > c.at {
			parts = append(parts, Part{Bytes: e.buf[c.at:end]})
		}
	}
	return e.buf[:e.cuts[0].at], parts
}

func (e *fetchEncoder) response(v *kmsg.FetchResponse) {
	e.int32(v.ThrottleMillis)
	if e.version >= 7 {
		e.int16(v.ErrorCode)
		e.int32(v.SessionID)
	}
	e.arrayLen(len(v.Topics))
	for t := range v.Topics {
		e.topic(t, &v.Topics[t])
	}
	if !e.flexible {
		return
	}
	if len(v.Brokers) == 0 {
		e.noTags()
		return
	}
	e.uvarint(1)
	e.tag(0, func() { e.brokers(v.Brokers) })
}

func (e *fetchEncoder) topic(t int, v *kmsg.FetchResponseTopic) {
	if e.version >= 13 {
		e.buf = append(e.buf, v.TopicID[:]...)
	} else {
		e.string(v.Topic)
	}
	e.arrayLen(len(v.Partitions))
	for p := range v.Partitions {
		e.partition(&v.Partitions[p], e.records(t, p))
	}
	e.noTags()
}

func (e *fetchEncoder) partition(v *kmsg.FetchResponseTopicPartition, records FetchRecords) {
	e.int32(v.Partition)
	e.int16(v.ErrorCode)
	e.int64(v.HighWatermark)
	e.int64(v.LastStableOffset)
	if e.version >= 5 {
		e.int64(v.LogStartOffset)
	}
	e.aborted(v.AbortedTransactions)
	if e.version >= 11 {
		e.int32(v.PreferredReadReplica)
	}
	e.recordBytes(records)
	if e.flexible {
		e.partitionTags(v)
	}
}

func (e *fetchEncoder) aborted(v []kmsg.FetchResponseTopicPartitionAbortedTransaction) {
	if v == nil {
		e.nullArray()
		return
	}
	e.arrayLen(len(v))
	for i := range v {
		e.int64(v[i].ProducerID)
		e.int64(v[i].FirstOffset)
		e.noTags()
	}
}

func (e *fetchEncoder) recordBytes(records FetchRecords) {
	size := records.Size()
	if e.flexible {
		e.buf = binary.AppendUvarint(e.buf, uint64(size)+1)
	} else {
		e.int32(int32(size))
	}
	if records.File == nil && size <= inlineBytes {
		e.buf = append(e.buf, records.Bytes...)
		return
	}
	if size > 0 {
		e.external += size
		e.cuts = append(e.cuts, fetchCut{at: len(e.buf), part: Part(records)})
	}
}

func (e *fetchEncoder) partitionTags(v *kmsg.FetchResponseTopicPartition) {
	diverging := v.DivergingEpoch.Epoch != -1 || v.DivergingEpoch.EndOffset != -1
	leader := v.CurrentLeader.LeaderID != -1 || v.CurrentLeader.LeaderEpoch != -1
	snapshot := v.SnapshotID.EndOffset != -1 || v.SnapshotID.Epoch != -1
	count := uint32(0)
	for _, there := range [...]bool{diverging, leader, snapshot} {
		if there {
			count++
		}
	}
	e.uvarint(count)
	if diverging {
		e.uvarint(0)
		e.uvarint(4 + 8 + 1)
		e.int32(v.DivergingEpoch.Epoch)
		e.int64(v.DivergingEpoch.EndOffset)
		e.noTags()
	}
	if leader {
		e.uvarint(1)
		e.uvarint(4 + 4 + 1)
		e.int32(v.CurrentLeader.LeaderID)
		e.int32(v.CurrentLeader.LeaderEpoch)
		e.noTags()
	}
	if snapshot {
		e.uvarint(2)
		e.uvarint(8 + 4 + 1)
		e.int64(v.SnapshotID.EndOffset)
		e.int32(v.SnapshotID.Epoch)
		e.noTags()
	}
}

func (e *fetchEncoder) brokers(v []kmsg.FetchResponseBroker) {
	e.arrayLen(len(v))
	for i := range v {
		e.int32(v[i].NodeID)
		e.string(v[i].Host)
		e.int32(v[i].Port)
		e.nullableString(v[i].Rack)
		e.noTags()
	}
}

// tag writes a tagged field: its number, the length of what write appends, and that.
func (e *fetchEncoder) tag(number uint32, write func()) {
	e.uvarint(number)
	outer := e.buf
	e.buf = nil
	write()
	value := e.buf
	e.buf = binary.AppendUvarint(outer, uint64(len(value)))
	e.buf = append(e.buf, value...)
}

func (e *fetchEncoder) int16(v int16) { e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(v)) }

func (e *fetchEncoder) int32(v int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }

func (e *fetchEncoder) int64(v int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }

func (e *fetchEncoder) uvarint(v uint32) { e.buf = binary.AppendUvarint(e.buf, uint64(v)) }

// noTags ends a flexible structure that has no tagged fields.
func (e *fetchEncoder) noTags() {
	if e.flexible {
		e.buf = append(e.buf, 0)
	}
}

func (e *fetchEncoder) arrayLen(n int) {
	if e.flexible {
		e.uvarint(uint32(n) + 1)
		return
	}
	e.int32(int32(n))
}

func (e *fetchEncoder) nullArray() {
	if e.flexible {
		e.uvarint(0)
		return
	}
	e.int32(-1)
}

func (e *fetchEncoder) string(s string) {
	if e.flexible {
		e.uvarint(uint32(len(s)) + 1)
	} else {
		e.int16(int16(len(s)))
	}
	e.buf = append(e.buf, s...)
}

func (e *fetchEncoder) nullableString(s *string) {
	switch {
	case s != nil:
		e.string(*s)
	case e.flexible:
		e.uvarint(0)
	default:
		e.int16(-1)
	}
}
