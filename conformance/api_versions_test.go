package conformance

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func apiVersions(t *testing.T) map[int16]kmsg.ApiVersionsResponseApiKey {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "conformance", "1.0"
	resp := ask[*kmsg.ApiVersionsResponse](dial(t), req, 3)
	out := map[int16]kmsg.ApiVersionsResponseApiKey{}
	for _, k := range resp.ApiKeys {
		out[k.ApiKey] = k
	}
	return out
}

// Each version of ApiVersions is answered with header version 0; a tag byte there would shift the body.
func TestApiVersionsIsAnsweredAtEveryVersion(t *testing.T) {
	t.Parallel()
	c := dial(t)
	for version := range int16(5) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "conformance", "1.0"
		resp := ask[*kmsg.ApiVersionsResponse](c, req, version)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) == 0 {
			t.Fatalf("v%d: error %d, %d keys", version, resp.ErrorCode, len(resp.ApiKeys))
		}
	}
}

// KIP-511: version 0 body, error 35, and the one key the client needs to ask again.
func TestUnsupportedApiVersionsGetsOneKey(t *testing.T) {
	t.Parallel()
	c := dial(t)
	c.write(framed(append(header(18, 99, 5, -1, ""), 0)))
	b, err := c.frame()
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrApiVersionsRequest()
	resp, err := decode(req, 5, b)
	if err != nil {
		t.Fatal(err)
	}
	v, ok := resp.(*kmsg.ApiVersionsResponse)
	if !ok || v.ErrorCode != 35 || len(v.ApiKeys) != 1 || v.ApiKeys[0].ApiKey != 18 || v.ApiKeys[0].MaxVersion < 3 {
		t.Fatalf("got %+v", v)
	}
	c.alive()
}

func TestClientSoftwareNamesAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, software, version string
		code                    int16
	}{
		{"usual", "franz-go", "1.2.3", 0},
		{"one letter", "a", "1", 0},
		{"empty name", "", "1.0", 42},
		{"empty version", "x", "", 42},
		{"space", "my client", "1.0", 42},
		{"leading dash", "-x", "1.0", 42},
		{"trailing dot", "x.", "1.0", 42},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t)
			req := kmsg.NewPtrApiVersionsRequest()
			req.ClientSoftwareName, req.ClientSoftwareVersion = c.software, c.version
			if resp := ask[*kmsg.ApiVersionsResponse](conn, req, 3); resp.ErrorCode != c.code {
				t.Fatalf("error %d, want %d", resp.ErrorCode, c.code)
			}
			conn.alive()
		})
	}
}

// librdkafka turns compression, transactions and group support on by these lower bounds.
func TestAdvertisedRangesServeOldClients(t *testing.T) {
	t.Parallel()
	keys := apiVersions(t)
	for _, c := range []struct{ key, atMost, atLeast int16 }{
		{0, 0, 10},
		{1, 4, 16},
		{2, 1, 7},
		{3, 0, 12},
		{8, 2, 9},
		{9, 1, 9},
		{10, 0, 4},
		{11, 0, 9},
		{12, 0, 4},
		{13, 0, 5},
		{14, 0, 5},
		{15, 0, 5},
		{16, 0, 5},
		{18, 0, 3},
		{19, 2, 7},
		{20, 1, 6},
		{21, 0, 2},
		{22, 0, 4},
		{23, 2, 4},
		{32, 1, 4},
		{37, 0, 3},
		{42, 0, 2},
		{47, 0, 0},
		{60, 0, 1},
	} {
		k, ok := keys[c.key]
		if !ok || k.MinVersion > c.atMost || k.MaxVersion < c.atLeast {
			t.Errorf("key %d: advertised %d-%d (%v), want %d-%d within", c.key, k.MinVersion, k.MaxVersion, ok, c.atMost, c.atLeast)
		}
	}
}

// A version that carries topic ids is of use only with a Metadata that returns them.
func TestTopicIDVersionsComeWithTopicIDsInMetadata(t *testing.T) {
	t.Parallel()
	keys := apiVersions(t)
	if keys[0].MaxVersion >= 13 || keys[1].MaxVersion >= 13 || keys[8].MaxVersion >= 10 {
		if keys[3].MaxVersion < 10 {
			t.Fatalf("Metadata only up to %d", keys[3].MaxVersion)
		}
	}
	topic := name(t, "t")
	if id := createTopic(t, topic, 1); id == ([16]byte{}) {
		t.Fatal("CreateTopics answers a zero topic id")
	}
	if md := metadata(t, 12, false, topic); md.Topics[0].TopicID == ([16]byte{}) {
		t.Fatal("Metadata answers a zero topic id")
	}
}

// Every advertised version of every key is answered in its own schema: decoding is strict about left-over bytes. Requests
// are empty, so that they change nothing of a broker that is in use.
func TestEveryAdvertisedVersionIsAnsweredInItsSchema(t *testing.T) {
	t.Parallel()
	for key, k := range apiVersions(t) {
		for v := k.MinVersion; v <= k.MaxVersion; v++ {
			if key == 0 && v < 3 {
				continue // advertised for old clients, which look for it, and gone
			}
			req := emptyRequest(key)
			if req == nil {
				t.Errorf("no case knows the advertised key %d", key)
				break
			}
			c := dial(t)
			c.receive(req, c.send(req, v))
			c.alive()
		}
	}
}

// emptyRequest asks for nothing and is answered at once.
func emptyRequest(key int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		r.Acks = -1
	case *kmsg.FetchRequest:
		r.SessionEpoch = -1
	case *kmsg.UnregisterBrokerRequest:
		r.BrokerID = -1
	}
	return req
}
