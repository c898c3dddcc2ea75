package config_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/meta/config"
)

func TestListenersGetTheirProtocolAndAdvertisedAddress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listeners, advertised, protocols string
		want                             []config.Listener
	}{
		"one, advertising itself": {
			"PLAINTEXT://localhost:9092", "", "",
			[]config.Listener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092, Protocol: config.Plaintext, AdvertisedHost: "localhost"}},
		},
		"host and container network": {
			" internal://0.0.0.0:29092 , HOST://:9092", "INTERNAL://kafka:29092,HOST://localhost:19092", "Internal:plaintext,HOST:SSL",
			[]config.Listener{
				{Name: "INTERNAL", Host: "0.0.0.0", Port: 29092, Protocol: config.Plaintext, AdvertisedHost: "kafka", AdvertisedPort: 29092},
				{Name: "HOST", Port: 9092, Protocol: config.SSL, AdvertisedHost: "localhost", AdvertisedPort: 19092},
			},
		},
		"one port for both families": {
			"PLAINTEXT://127.0.0.1:9092,SASL_SSL://[::1]:9092", "", "",
			[]config.Listener{
				{Name: "PLAINTEXT", Host: "127.0.0.1", Port: 9092, Protocol: config.Plaintext, AdvertisedHost: "127.0.0.1"},
				{Name: "SASL_SSL", Host: "::1", Port: 9092, Protocol: config.SASLSSL, AdvertisedHost: "::1"},
			},
		},
		"two free ports": {
			"PLAINTEXT://h:0,SASL_PLAINTEXT://h:0", "", "",
			[]config.Listener{
				{Name: "PLAINTEXT", Host: "h", Protocol: config.Plaintext, AdvertisedHost: "h"},
				{Name: "SASL_PLAINTEXT", Host: "h", Protocol: config.SASLPlaintext, AdvertisedHost: "h"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := config.ParseListeners(c.listeners, c.advertised, c.protocols)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestWrongListenersAreRefusedWithTheSettingAndTheReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ listeners, advertised, protocols, key, reason string }{
		"none":                    {"", "", "", "listeners", "at least one"},
		"no scheme":               {"localhost:9092", "", "", "listeners", "NAME://HOST:PORT"},
		"no name":                 {"://localhost:9092", "", "", "listeners", "NAME://HOST:PORT"},
		"no port":                 {"PLAINTEXT://localhost", "", "", "listeners", "no port"},
		"port not a number":       {"PLAINTEXT://localhost:http", "", "", "listeners", "65535"},
		"port too large":          {"PLAINTEXT://localhost:65536", "", "", "listeners", "65535"},
		"negative port":           {"PLAINTEXT://localhost:-1", "", "", "listeners", "65535"},
		"path":                    {"PLAINTEXT://localhost/x:1", "", "", "listeners", "malformed host"},
		"bare IPv6":               {"PLAINTEXT://::1:9092", "", "", "listeners", "malformed host"},
		"bad IPv6":                {"PLAINTEXT://[x]:9092", "", "", "listeners", "malformed host"},
		"name twice":              {"PLAINTEXT://a:1,plaintext://b:2", "", "", "listeners", "PLAINTEXT is there twice"},
		"port twice":              {"PLAINTEXT://a:1,SSL://b:1", "", "", "listeners", "PLAINTEXT and SSL both have 1"},
		"empty entry":             {"PLAINTEXT://a:1,,SSL://b:2", "", "", "listeners", "NAME://HOST:PORT"},
		"no protocol":             {"EXTERNAL://a:1", "", "", "listener.security.protocol.map", "EXTERNAL:PLAINTEXT"},
		"unknown protocol":        {"A://a:1", "", "A:TLS", "listener.security.protocol.map", `"TLS"`},
		"malformed map":           {"A://a:1", "", "A", "listener.security.protocol.map", "NAME:PROTOCOL"},
		"map with a name twice":   {"A://a:1", "", "A:SSL,a:PLAINTEXT", "listener.security.protocol.map", "A is there twice"},
		"advertised unknown":      {"PLAINTEXT://a:1", "SSL://b:2", "", "advertised.listeners", "SSL isn't in listeners"},
		"advertised malformed":    {"PLAINTEXT://a:1", "b:2", "", "advertised.listeners", "NAME://HOST:PORT"},
		"all addresses":           {"PLAINTEXT://:1", "", "", "advertised.listeners", "PLAINTEXT://HOST:PORT"},
		"advertised unspecified":  {"PLAINTEXT://a:1", "PLAINTEXT://0.0.0.0:1", "", "advertised.listeners", "reach"},
		"advertised unspecified6": {"PLAINTEXT://a:1", "PLAINTEXT://[::]:1", "", "advertised.listeners", "reach"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.ParseListeners(c.listeners, c.advertised, c.protocols)
			var e *config.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if e.Key != c.key || !strings.Contains(e.Reason, c.reason) {
				t.Errorf("got %v, want %s: ...%s...", e, c.key, c.reason)
			}
		})
	}
}

func TestListenersOfControllersAreLeftOut(t *testing.T) {
	t.Parallel()
	b := static(t, map[string]string{
		"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "advertised.listeners": "PLAINTEXT://kafka:9092,CONTROLLER://kafka:9093",
		"controller.listener.names": "controller",
	})
	got, err := b.Listeners()
	if err != nil || len(got) != 1 || got[0].Name != "PLAINTEXT" || got[0].AdvertisedHost != "kafka" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzParseListeners(f *testing.F) {
	f.Add("PLAINTEXT://localhost:9092", "", "")
	f.Add("A://[::1]:0,B://:9", "B://h:1", "A:SSL,B:PLAINTEXT")
	f.Add("://:", ",", ":")
	f.Fuzz(func(t *testing.T, listeners, advertised, protocols string) {
		all, err := config.ParseListeners(listeners, advertised, protocols)
		if err == nil && len(all) == 0 {
			t.Error("neither listeners nor an error")
		}
		for _, l := range all {
			if l.Name == "" || l.AdvertisedHost == "" || l.Port < 0 || l.Port > 65535 {
				t.Errorf("%+v", l)
			}
		}
	})
}
