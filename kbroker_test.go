package kbroker

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kbroker/kbroker/meta/config"
)

// patience is how long a test waits for what takes milliseconds on a machine that isn't busy.
const patience = 30 * time.Second

// ask sends a request with a client that knows one address.
func ask(t *testing.T, address string, q kmsg.Request) kmsg.Response {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.Request(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// brokers asks for Metadata.
func brokers(t *testing.T, address string) *kmsg.MetadataResponse {
	t.Helper()
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = []kmsg.MetadataRequestTopic{}
	a, ok := ask(t, address, q).(*kmsg.MetadataResponse)
	if !ok || len(a.Brokers) != 1 {
		t.Fatalf("got %+v", a)
	}
	return a
}

// advertised is the address that clients of another address are told.
func advertised(t *testing.T, address string) string {
	t.Helper()
	b := brokers(t, address).Brokers[0]
	return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
}

func TestTheZeroOptionsGiveABrokerThatLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	b, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a := brokers(t, b.Addr()); *a.ClusterID != b.ClusterID() || a.Brokers[0].NodeID != 1 || a.ControllerID != 1 {
		t.Errorf("got %+v of cluster %s", a, b.ClusterID())
	}
	if got := advertised(t, b.Addr()); got != b.Addr() || !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("%s is advertised at %s", b.Addr(), got)
	}
	if b.AdminAddr() != "" {
		t.Error("there is an admin listener though nobody asked")
	}
	for range 2 {
		if err = b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = os.Stat(b.DataDir()); !os.IsNotExist(err) {
		t.Errorf("the data directory is still there: %v", err)
	}
	if c, err := net.Dial("tcp", b.Addr()); err == nil {
		_ = c.Close()
		t.Error("the listener is still open")
	}
}

func TestTheClusterIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "data")
	var ids []string
	for range 2 {
		b, err := Start(t.Context(), Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, b.ClusterID())
		if err = b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if ids[0] != ids[1] || len(ids[0]) != 22 {
		t.Errorf("ids %v", ids)
	}
}

func TestTwoBrokersDoNotTouchEachOther(t *testing.T) {
	t.Parallel()
	one, two := StartTest(t), StartTest(t)
	q := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "orders", 1, 1
	q.Topics = append(q.Topics, topic)
	ask(t, one.Addr(), q)
	all := kmsg.NewPtrMetadataRequest()
	for b, want := range map[*Broker]int{one: 1, two: 0} {
		a, ok := ask(t, b.Addr(), all).(*kmsg.MetadataResponse)
		if !ok {
			t.Fatal("no metadata")
		}
		n := 0
		for _, topic := range a.Topics {
			if !topic.IsInternal {
				n++
			}
		}
		if n != want {
			t.Errorf("%d topics, want %d", n, want)
		}
	}
	if one.ClusterID() == two.ClusterID() {
		t.Error("two brokers are one cluster")
	}
}

func TestASecondBrokerOnADirectoryIsRefused(t *testing.T) {
	t.Parallel()
	b := StartTest(t)
	_, err := Start(t.Context(), Options{DataDir: b.DataDir()})
	if err == nil || !strings.Contains(err.Error(), b.DataDir()) || !strings.Contains(err.Error(), "--data") || IsMisconfigured(err) {
		t.Fatalf("got %v", err)
	}
	brokers(t, b.Addr()) // the first doesn't notice
}

func TestATakenPortIsRefused(t *testing.T) {
	t.Parallel()
	b := StartTest(t)
	dir := filepath.Join(t.TempDir(), "data")
	_, err := Start(t.Context(), Options{DataDir: dir, Listen: []string{b.Addr()}})
	if err == nil || !strings.Contains(err.Error(), b.Addr()) || !strings.Contains(err.Error(), "--listen") || IsMisconfigured(err) {
		t.Fatalf("got %v", err)
	}
	if _, err = os.Stat(dir); !os.IsNotExist(err) {
		t.Error("a data directory was made for a broker that couldn't start")
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options Options
		says    string
	}{
		"unknown key":     {Options{Set: map[string]string{"num.partition": "1"}}, "num.partitions"},
		"wrong value":     {Options{Set: map[string]string{"num.partitions": "none"}}, "num.partitions"},
		"sync mode":       {Options{Sync: "sometimes"}, "log.sync"},
		"no port":         {Options{Listen: []string{"localhost"}}, "HOST:PORT"},
		"all addresses":   {Options{Listen: []string{"0.0.0.0:0"}}, "advertised.listeners"},
		"node id":         {Options{NodeID: -3}, "node.id"},
		"two directories": {Options{Set: map[string]string{"log.dirs": "a,b"}}, "log.dirs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := Start(t.Context(), c.options)
			if err == nil {
				_ = b.Close()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.says) || !IsMisconfigured(err) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// A host and a container network reach the broker by different names; each is told the one that it came by.
func TestMetadataAnswersWithTheListenerThatWasAsked(t *testing.T) {
	t.Parallel()
	b := StartTest(t, Options{Set: map[string]string{
		"listeners":                      "HOST://127.0.0.1:0,NET://127.0.0.2:0",
		"advertised.listeners":           "NET://127.0.0.2:19092,HOST://127.0.0.1:29092",
		"listener.security.protocol.map": "HOST:PLAINTEXT,NET:PLAINTEXT",
	}})
	if got := strings.Join(b.Addrs(), " "); got != "127.0.0.1:29092 127.0.0.2:19092" {
		t.Fatalf("addresses %s", got)
	}
	for i, want := range b.Addrs() {
		bound := b.listeners[i].sockets[0].Addr().String()
		q := kmsg.NewPtrMetadataRequest()
		c, err := kgo.NewClient(kgo.SeedBrokers(bound))
		if err != nil {
			t.Fatal(err)
		}
		a, err := q.RequestWith(t.Context(), c.SeedBrokers()[0])
		c.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := net.JoinHostPort(a.Brokers[0].Host, strconv.Itoa(int(a.Brokers[0].Port))); got != want {
			t.Errorf("who asks %s is told %s, want %s", bound, got, want)
		}
	}
}

func TestLocalhostIsBothLoopbackAddresses(t *testing.T) {
	t.Parallel()
	b := StartTest(t, Options{Listen: []string{"localhost:0"}})
	port := strconv.Itoa(b.listeners[0].Port)
	if b.Addr() != "127.0.0.1:"+port {
		t.Errorf("advertised at %s", b.Addr())
	}
	if len(b.listeners[0].sockets) < 2 {
		t.Skip("::1 is missing: run the tests on a machine with IPv6 on its loopback interface")
	}
	if got := advertised(t, "[::1]:"+port); got != b.Addr() {
		t.Errorf("who asks ::1 is told %s", got)
	}
}

func TestSeveralAddressesGetNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := StartTest(t, Options{Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}})
	if len(b.Addrs()) != 2 || b.Addrs()[0] == b.Addrs()[1] {
		t.Fatalf("addresses %v", b.Addrs())
	}
	for _, a := range b.Addrs() {
		if got := advertised(t, a); got != a {
			t.Errorf("who asks %s is told %s", a, got)
		}
	}
}

// Flags override variables, and those a file.
func TestLaterLayersOfSettingsWin(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte("node.id=7\nnum.partitions=2\nlog.retention.hours=5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := StartTest(t, Options{
		PropertiesFile: file,
		Environ:        []string{"KAFKA_NUM_PARTITIONS=3", "KAFKA_LOG_RETENTION_HOURS=6", "KAFKA_PORT_1234=tcp://x", "PATH=/bin"},
		Set:            map[string]string{"log.retention.hours": "8"},
		Defaults:       map[string]string{"num.partitions": "9", "group.max.size": "11"},
	})
	for key, want := range map[string]int{"node.id": 7, "num.partitions": 3, "log.retention.hours": 8, "group.max.size": 11} {
		if got := b.config.Int(key); got != want {
			t.Errorf("%s is %d, want %d", key, got, want)
		}
	}
	if got := brokers(t, b.Addr()).Brokers[0].NodeID; got != 7 {
		t.Errorf("node id %d", got)
	}
	if groups := newSettings(b.config, groupSettings).get(); groups.MaxSize != 11 || groups.InitialRebalanceDelay != 0 {
		t.Errorf("the coordinator's settings are %+v", groups)
	}
}

// get reads a page.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestTheAdminListenerShowsHealthAndMetrics(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	for name, o := range map[string]Options{
		"own registry":      {Admin: "127.0.0.1:0"},
		"registry given":    {Admin: "127.0.0.1:0", Registerer: r},
		"registerer prefix": {Admin: "127.0.0.1:0", Registerer: prometheus.WrapRegistererWithPrefix("x_", prometheus.NewRegistry())},
	} {
		t.Run(name, func(t *testing.T) {
			b := StartTest(t, o)
			brokers(t, b.Addr())
			for path, want := range map[string]string{
				"/healthz": "ok", "/readyz": "ready", "/metrics": `kbroker_requests_total{api="Metadata"}`,
			} {
				// A request is counted once it has been answered, which may be after the client has seen the answer.
				status, body := get(t, "http://"+b.AdminAddr()+path)
				for end := time.Now().Add(patience); !strings.Contains(body, want) && time.Now().Before(end); {
					status, body = get(t, "http://"+b.AdminAddr()+path)
				}
				if status != http.StatusOK || !strings.Contains(body, want) {
					t.Errorf("%s: %d, without %q", path, status, want)
				}
			}
		})
	}
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		t.Errorf("%s is still registered after Close", family.GetName())
	}
}

func TestATakenAdminPortIsAWarning(t *testing.T) {
	t.Parallel()
	one := StartTest(t, Options{Admin: "127.0.0.1:0"})
	core, lines := observer.New(zap.WarnLevel)
	two := StartTest(t, Options{Admin: one.AdminAddr(), Logger: zap.New(core)})
	brokers(t, two.Addr())
	if two.AdminAddr() != "" || lines.FilterMessageSnippet("--admin").Len() != 1 {
		t.Errorf("admin at %q, %d warnings", two.AdminAddr(), lines.Len())
	}
}

// The limits hold as they are at the moment, and other ones for some addresses.
func TestConnectionLimitsFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	b := StartTest(t, Options{Set: map[string]string{
		"max.connections": "7", "max.connections.per.ip": "5", "max.connections.per.ip.overrides": "127.0.0.2:9,[::1]:8,nonsense",
	}})
	for address, want := range map[string]int{"127.0.0.1": 5, "127.0.0.2": 9, "::1": 8} {
		if all, of := b.connectionLimits(netip.MustParseAddr(address)); all != 7 || of != want {
			t.Errorf("%s: %d and %d", address, all, of)
		}
	}
	if err := b.config.SetDynamic(config.KindClusterDefault, "", map[string]string{"max.connections": "3"}); err != nil {
		t.Fatal(err)
	}
	if all, _ := b.connectionLimits(netip.Addr{}); all != 3 {
		t.Errorf("%d after the change", all)
	}
}

func TestAStartMayBeGivenUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Start(ctx, Options{DataDir: dir}); err == nil {
		t.Fatal("it started")
	}
	b := StartTest(t, Options{DataDir: dir}) // nothing of it is left
	brokers(t, b.Addr())
}

// One line at the start, one at the end, none between.
func TestTheLogIsQuiet(t *testing.T) {
	t.Parallel()
	core, lines := observer.New(zap.InfoLevel)
	b := StartTest(t, Options{Logger: zap.New(core)})
	brokers(t, b.Addr())
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	all := lines.All()
	if len(all) != 2 {
		t.Fatalf("%d lines: %v", len(all), all)
	}
	for _, want := range []string{b.Addr(), b.DataDir(), b.ClusterID(), "none"} {
		if !strings.Contains(all[0].Message, want) {
			t.Errorf("the first line, %q, doesn't say %q", all[0].Message, want)
		}
	}
}

// The directories of topics unknown to the metadata are removed at the start, so lost metadata must not look like none.
func TestLogsWithoutTheirMetadataAreRefusedAndKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func() (*Broker, error) { return Start(t.Context(), Options{DataDir: dir}) }
	b, err := start()
	if err != nil {
		t.Fatal(err)
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	err = c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("kept")}).FirstErr()
	c.Close()
	if err = errors.Join(err, b.Close(), os.Rename(filepath.Join(dir, "meta"), filepath.Join(dir, "elsewhere"))); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also after what the refused start has left
		if _, err = start(); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "meta")) {
			t.Fatalf("got %v, want a refusal that names the metadata's place", err)
		}
	}
	meta := filepath.Join(dir, "meta")
	if err = errors.Join(os.RemoveAll(meta), os.Rename(filepath.Join(dir, "elsewhere"), meta)); err != nil {
		t.Fatal(err)
	}
	if b, err = start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	fs := reader.PollFetches(ctx)
	if rs := fs.Records(); fs.Err() != nil || len(rs) != 1 || string(rs[0].Value) != "kept" {
		t.Errorf("read %v, %v", rs, fs.Err())
	}
}
