package protocol

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func request(key, version int16) *Request {
	return &Request{Header: RequestHeader{Key: key, Version: version, CorrelationID: -559038737}}
}

// framed is a frame by hand.
func framed(correlation int32, tags bool, body []byte) []byte {
	out := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(correlation))
	if tags {
		out = append(out, 0)
	}
	out = append(out, body...)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

func TestEncodeResponseFramesEveryVersion(t *testing.T) {
	t.Parallel()
	for _, a := range APIs() {
		for v := a.AcceptMin; v <= a.Max; v++ {
			req := kmsg.RequestForKey(a.Key)
			req.SetVersion(v)
			body := req.ResponseKind()
			got := EncodeResponse(request(a.Key, v), body)
			want := framed(-559038737, body.IsFlexible() && a.Key != KeyApiVersions, body.AppendTo(nil))
			if !bytes.Equal(got.Frame, want) {
				t.Errorf("%s version %d: %x, want %x", a.Name, v, got.Frame, want)
			}
			got.Release()
		}
	}
}

func TestEncodeResponseAnswersInTheBodysVersion(t *testing.T) {
	t.Parallel()
	body := kmsg.NewPtrApiVersionsResponse()
	body.ErrorCode = int16(UnsupportedVersion)
	got := EncodeResponse(request(KeyApiVersions, 99), body)
	defer got.Release()
	if want := framed(-559038737, false, []byte{0, 35, 0, 0, 0, 0}); !bytes.Equal(got.Frame, want) {
		t.Errorf("%x, want %x", got.Frame, want)
	}
}

func TestEncodeResponseDoesNotMixConcurrentAnswers(t *testing.T) {
	t.Parallel()
	for range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for i := range 200 {
				body := kmsg.NewPtrHeartbeatResponse()
				body.ErrorCode = int16(i)
				a, b := EncodeResponse(request(KeyHeartbeat, 0), body), EncodeResponse(request(KeyHeartbeat, 0), body)
				want := framed(-559038737, false, []byte{byte(i >> 8), byte(i)})
				if !bytes.Equal(a.Frame, want) || !bytes.Equal(b.Frame, want) {
					t.Errorf("%x and %x, want %x", a.Frame, b.Frame, want)
				}
				a.Release()
				b.Release()
			}
		})
	}
}

func TestAddReleaseKeepsTheOrder(t *testing.T) {
	t.Parallel()
	var calls string
	var r Response
	r.AddRelease(func() { calls += "a" })
	r.AddRelease(func() { calls += "b" })
	r.Release()
	if calls != "ab" {
		t.Errorf("called %q", calls)
	}
}

func BenchmarkEncodeResponse(b *testing.B) {
	body := kmsg.NewPtrProduceResponse()
	body.Version = 9
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic = "orders"
	topic.Partitions = append(topic.Partitions, kmsg.NewProduceResponseTopicPartition())
	body.Topics = append(body.Topics, topic)
	r := request(KeyProduce, 9)
	b.ReportAllocs()
	for b.Loop() {
		resp := EncodeResponse(r, body)
		resp.Release()
	}
}
