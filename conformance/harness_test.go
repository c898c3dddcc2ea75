package conformance

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker"
)

var addrFlag = flag.String("addr", "", "address of the broker to test; empty starts one")

// broker is the address under test; set once before the tests run.
var broker string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	defer func() {
		if dir, err := binaries(); err == nil {
			_ = os.RemoveAll(dir)
		}
	}()
	if *addrFlag != "" {
		broker = *addrFlag
		return m.Run()
	}
	b, err := kbroker.Start(context.Background(), kbroker.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		return 1
	}
	broker = b.Addr()
	code := m.Run()
	if err := b.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "close:", err)
		return 1
	}
	return code
}

// answerLimit is how long a test waits for an answer before it calls the broker hung.
const answerLimit = 30 * time.Second

var names atomic.Int64

// name makes a name of its own for a topic, group or client of this test.
func name(t *testing.T, part string) string {
	t.Helper()
	clean := strings.NewReplacer("/", "-", " ", "-", "_", "-", "=", "-", ",", "-").Replace(t.Name())
	if len(clean) > 120 {
		clean = clean[:120]
	}
	return fmt.Sprintf("%s-%s-%d-%d", clean, part, os.Getpid(), names.Add(1))
}

// conn is a raw connection: it frames what it is given and decodes nothing on its own.
type conn struct {
	t  *testing.T
	c  net.Conn
	id int32
}

// dial connects to the broker under test; the connection is closed with the test.
func dial(t *testing.T) *conn {
	t.Helper()
	return dialTo(t, broker)
}

// dialTo is dial to another broker than the one of all tests.
func dialTo(t *testing.T, addr string) *conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, answerLimit)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &conn{t: t, c: c}
}

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("conformance"))

// send writes a request at a version and returns its correlation id.
func (c *conn) send(req kmsg.Request, version int16) int32 {
	c.t.Helper()
	req.SetVersion(version)
	c.id++
	c.write(formatter.AppendRequest(nil, req, c.id))
	return c.id
}

// write sends bytes as they are, length included.
func (c *conn) write(b []byte) {
	c.t.Helper()
	if _, err := c.c.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// frame reads one answer without its length.
func (c *conn) frame() ([]byte, error) {
	_ = c.c.SetReadDeadline(time.Now().Add(answerLimit))
	var length [4]byte
	if _, err := io.ReadFull(c.c, length[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(length[:]))
	if n < 4 || n > 200<<20 {
		return nil, fmt.Errorf("answer of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(c.c, b)
	return b, err
}

// receive reads the answer to req, sent with that id, and decodes it strictly: bytes left over are an error.
func (c *conn) receive(req kmsg.Request, id int32) kmsg.Response {
	c.t.Helper()
	b, err := c.frame()
	if err != nil {
		c.t.Fatalf("%T v%d: read answer: %v", req, req.GetVersion(), err)
	}
	resp, err := decode(req, id, b)
	if err != nil {
		c.t.Fatalf("%T v%d: %v", req, req.GetVersion(), err)
	}
	return resp
}

// decode checks the header and decodes the body of an answer.
func decode(req kmsg.Request, id int32, b []byte) (kmsg.Response, error) {
	r := kbin.Reader{Src: b}
	if got := r.Int32(); got != id {
		return nil, fmt.Errorf("correlation id %d, want %d", got, id)
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if req.IsFlexible() && req.Key() != 18 {
		if tags := r.Uvarint(); tags != 0 {
			return nil, fmt.Errorf("%d tags in the answer's header", tags)
		}
	}
	body := r.Src
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if again := resp.AppendTo(nil); len(again) != len(body) {
		return nil, fmt.Errorf("answer has %d bytes, its fields make %d", len(body), len(again))
	}
	return resp, nil
}

// ask sends a request and returns its answer.
func ask[R kmsg.Response](c *conn, req kmsg.Request, version int16) R {
	c.t.Helper()
	resp := c.receive(req, c.send(req, version))
	typed, ok := resp.(R)
	if !ok {
		c.t.Fatalf("answer is a %T", resp)
	}
	return typed
}

// closed asserts that the broker closes the connection without an answer.
func (c *conn) closed() {
	c.t.Helper()
	b, err := c.frame()
	if err == nil {
		c.t.Fatalf("got an answer of %d bytes, want the connection closed", len(b))
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Fatal("the connection stays open, want it closed")
	}
}

// alive asserts that the connection still answers.
func (c *conn) alive() {
	c.t.Helper()
	ask[*kmsg.ApiVersionsResponse](c, kmsg.NewPtrApiVersionsRequest(), 0)
}

// createTopic makes a topic and returns its id. Nothing in it gets too old: the records of these cases are of 1970.
func createTopic(t *testing.T, topic string, partitions int32, configs ...string) [16]byte {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, 1
	configs = append([]string{"retention.ms", "-1"}, configs...)
	for i := 0; i+1 < len(configs); i += 2 {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = configs[i], kmsg.StringPtr(configs[i+1])
		rt.Configs = append(rt.Configs, rc)
	}
	req.Topics = append(req.Topics, rt)
	resp := ask[*kmsg.CreateTopicsResponse](dial(t), req, 7)
	if code := resp.Topics[0].ErrorCode; code != 0 {
		t.Fatalf("create %s: error %d", topic, code)
	}
	return resp.Topics[0].TopicID
}

// eventually asks until what is wanted is there, for that which a broker does after it has answered and tells nobody about. ask
// also returns what it has seen, for the message.
func eventually(t *testing.T, what string, ask func() (there bool, seen any)) {
	t.Helper()
	tick, late := time.NewTicker(5*time.Millisecond), time.After(answerLimit)
	defer tick.Stop()
	for {
		there, seen := ask()
		if there {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain for %s: %v", what, seen)
		}
	}
}

// requireBytes fails unless got is want.
func requireBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: got %x, want %x", what, got, want)
	}
}
