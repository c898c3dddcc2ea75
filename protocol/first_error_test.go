package protocol

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFirstErrorOfAnAnswer(t *testing.T) {
	t.Parallel()
	commit := func(codes ...int16) *kmsg.OffsetCommitResponse {
		a := kmsg.NewPtrOffsetCommitResponse()
		for _, c := range codes {
			a.Topics = append(a.Topics, kmsg.OffsetCommitResponseTopic{
				Partitions: []kmsg.OffsetCommitResponseTopicPartition{{}, {ErrorCode: c}},
			})
		}
		return a
	}
	tests := map[string]struct {
		body kmsg.Response
		want ErrorCode
	}{
		"none":                         {commit(0, 0), None},
		"of an entry":                  {commit(0, 25, 3), UnknownMemberID},
		"no entries":                   {commit(), None},
		"the answer's own":             {&kmsg.HeartbeatResponse{ErrorCode: 27}, RebalanceInProgress},
		"the answer's before an entry": {&kmsg.DeleteTopicsResponse{Topics: []kmsg.DeleteTopicsResponseTopic{{ErrorCode: -1}}}, UnknownServerError},
		"an answer without":            {&kmsg.GetTelemetrySubscriptionsResponse{}, None},
		"own and entry": {&kmsg.ElectLeadersResponse{ErrorCode: 41, Topics: []kmsg.ElectLeadersResponseTopic{
			{Partitions: []kmsg.ElectLeadersResponseTopicPartition{{ErrorCode: 3}}},
		}}, ErrorCode(41)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := FirstError(test.body); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
			r := &Request{Header: RequestHeader{Key: test.body.Key()}}
			answer := EncodeResponse(r, test.body)
			answer.Release()
			if answer.ErrorCode != test.want {
				t.Errorf("the framed answer says %v, want %v", answer.ErrorCode, test.want)
			}
		})
	}
}

func BenchmarkFirstError(b *testing.B) {
	a := kmsg.NewPtrOffsetCommitResponse()
	a.Topics = []kmsg.OffsetCommitResponseTopic{{Partitions: make([]kmsg.OffsetCommitResponseTopicPartition, 10)}}
	b.ReportAllocs()
	for b.Loop() {
		if FirstError(a) != None {
			b.Fatal("an error where there is none")
		}
	}
}

func TestFirstErrorOfAFetch(t *testing.T) {
	t.Parallel()
	body := kmsg.NewPtrFetchResponse()
	body.Version = 12
	topic := kmsg.NewFetchResponseTopic()
	topic.Partitions = []kmsg.FetchResponseTopicPartition{kmsg.NewFetchResponseTopicPartition(), kmsg.NewFetchResponseTopicPartition()}
	topic.Partitions[1].ErrorCode = int16(OffsetOutOfRange)
	body.Topics = append(body.Topics, topic)
	answer := EncodeFetch(&Request{Header: RequestHeader{Key: KeyFetch, Version: 12}}, body, func(int, int) FetchRecords {
		return FetchRecords{}
	})
	defer answer.Release()
	if answer.ErrorCode != OffsetOutOfRange {
		t.Errorf("%v, want %v", answer.ErrorCode, OffsetOutOfRange)
	}
}
