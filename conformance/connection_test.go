package conformance

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// framed puts the length in front.
func framed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// header builds a request header of version 1; a negative idLength other than -1 is written as it is.
func header(key, version int16, id int32, idLength int16, clientID string) []byte {
	b := kbin.AppendInt16(nil, key)
	b = kbin.AppendInt16(b, version)
	b = kbin.AppendInt32(b, id)
	b = kbin.AppendInt16(b, idLength)
	return append(b, clientID...)
}

func TestConnectionIsClosedOn(t *testing.T) {
	t.Parallel()
	metadata := func(tail ...byte) []byte { return append(header(3, 4, 1, -1, ""), tail...) }
	for _, c := range []struct {
		name string
		send []byte
	}{
		{"a negative length", kbin.AppendInt32(nil, -1)},
		{"a length of zero", kbin.AppendInt32(nil, 0)},
		{"a length above the limit", kbin.AppendInt32(nil, 1<<30)},
		{"an unknown key", framed(header(9999, 0, 1, -1, ""))},
		{"a negative key", framed(header(-5, 0, 1, -1, ""))},
		{"an unsupported version", framed(header(3, 99, 1, -1, ""))},
		{"a negative version", framed(header(3, -1, 1, -1, ""))},
		{"a frame shorter than a header", framed([]byte{0, 3})},
		{"a client id beyond the frame", framed(header(3, 4, 1, 300, "x"))},
		{"a body that is cut", framed(metadata(0, 0, 0, 1))},
		{"an array longer than the frame", framed(metadata(0x7f, 0xff, 0xff, 0xff))},
		{"a string longer than the frame", framed(metadata(0, 0, 0, 1, 0x7f, 0xff))},
		{"a request of another protocol", []byte("GET / HTTP/1.1\r\nHost: kafka\r\n\r\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t)
			conn.write(c.send)
			conn.closed()
			dial(t).alive() // others don't notice
		})
	}
}

func TestOddButLegalFramesAreAnswered(t *testing.T) {
	t.Parallel()
	brokersOnly := []byte{0, 0, 0, 0, 0}
	for _, c := range []struct {
		name string
		send []byte
	}{
		{"a null client id", append(header(3, 4, 7, -1, ""), brokersOnly...)},
		{"an empty client id", append(header(3, 4, 7, 0, ""), brokersOnly...)},
		{"a client id length below -1", append(header(3, 4, 7, -7, ""), brokersOnly...)},
		{"bytes after the body", append(append(header(3, 4, 7, -1, ""), brokersOnly...), 1, 2, 3)},
		{"a boolean that isn't 0 or 1", append(header(3, 4, 7, -1, ""), 0, 0, 0, 0, 0x42)},
		{"a null client id in a flexible header", append(header(3, 9, 7, -1, ""), 0, 1, 0, 0, 0, 0)},
		{"an unknown tag in header and body", append(header(3, 9, 7, -1, ""), 1, 99, 2, 1, 2, 1, 0, 0, 0, 1, 99, 1, 5)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t)
			conn.write(framed(c.send))
			b, err := conn.frame()
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			if id := int32(binary.BigEndian.Uint32(b)); id != 7 {
				t.Fatalf("correlation id %d, want 7", id)
			}
			conn.alive()
		})
	}
}

func TestRequestInPiecesIsAnswered(t *testing.T) {
	t.Parallel()
	c := dial(t)
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(9)
	for _, b := range formatter.AppendRequest(nil, req, 3) {
		c.write([]byte{b})
	}
	c.receive(req, 3)
}

func TestAnswersComeInTheOrderOfRequests(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	var reqs []kmsg.Request
	var ids []int32
	send := func(req kmsg.Request, version int16) {
		reqs, ids = append(reqs, req), append(ids, c.send(req, version))
	}
	for i := range 30 {
		switch i % 3 {
		case 0:
			send(produceRequest(topic, 0, -1, plain("x").bytes()), 9)
		case 1:
			send(fetchRequest(topic, 0, 0), 12)
		default:
			send(kmsg.NewPtrApiVersionsRequest(), 3)
		}
	}
	for i, req := range reqs {
		c.receive(req, ids[i])
	}
}

func TestRequestBehindALongPollWaits(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	poll := fetchRequest(topic, 0, 0)
	poll.MaxWaitMillis = 400
	first := c.send(poll, 12)
	second := kmsg.NewPtrApiVersionsRequest()
	id := c.send(second, 0)
	c.receive(poll, first)
	c.receive(second, id)
}

func TestPipelinedProducesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	const n = 200
	ids := make([]int32, 0, n)
	req := produceRequest(topic, 0, -1, nil)
	for i := range n {
		req = produceRequest(topic, 0, -1, plain(string(rune('a'+i%26))).bytes())
		ids = append(ids, c.send(req, 9))
	}
	for i, id := range ids {
		resp, ok := c.receive(req, id).(*kmsg.ProduceResponse)
		if !ok || resp.Topics[0].Partitions[0].BaseOffset != int64(i) {
			t.Fatalf("answer %d: %+v", i, resp)
		}
	}
}

func TestUnacknowledgedProduceTakesNoAnswer(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	c := dial(t)
	for range 3 {
		c.send(produceRequest(topic, 0, 0, plain("x").bytes()), 9)
	}
	c.alive()                                           // the next answer on the connection is this one's
	eventually(t, "three records", func() (bool, any) { // visible once durable, which nobody was told of
		got := fetchAll(t, c, topic, 0)
		return len(got) == 3, values(got)
	})
}

func TestUnacknowledgedProduceThatFailsClosesTheConnection(t *testing.T) {
	t.Parallel()
	c := dial(t)
	c.send(produceRequest(name(t, "missing"), 0, 0, plain("x").bytes()), 9)
	c.closed()
}

func TestManyIdleConnectionsThatAnnounceLargeFramesLeaveTheBrokerUsable(t *testing.T) {
	t.Parallel()
	for range 200 {
		c := dial(t)
		c.write(kbin.AppendInt32(nil, 90<<20))
		c.write(bytes.Repeat([]byte{0}, 100))
	}
	c := dial(t)
	c.alive()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	mustProduce(t, c, topic, plain("x"))
}
