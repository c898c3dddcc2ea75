package config_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/meta/config"
)

func TestPropertiesAreReadAsJavaReadsThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want map[string]string
	}{
		"plain":                     {"a=1\nb=2", map[string]string{"a": "1", "b": "2"}},
		"carriage returns":          {"a=1\r\nb=2\r\n", map[string]string{"a": "1", "b": "2"}},
		"comments and empty lines":  {"# a=1\n  ! b=2\n\n   \nc=3 # kept", map[string]string{"c": "3 # kept"}},
		"separators":                {"a : 1\nb 2\nc\t=\t3\nd=:4\ne", map[string]string{"a": "1", "b": "2", "c": "3", "d": ":4", "e": ""}},
		"no value":                  {"a=\nb:", map[string]string{"a": "", "b": ""}},
		"white space at the end":    {"a=1  ", map[string]string{"a": "1  "}},
		"continuation":              {"a=1,\\\n   2,\\\n\t3\nb=4", map[string]string{"a": "1,2,3", "b": "4"}},
		"continued comment":         {"# a\\\nb=1", map[string]string{"b": "1"}},
		"even backslashes":          {"a=1\\\\\nb=2", map[string]string{"a": `1\`, "b": "2"}},
		"continuation at the end":   {"a=1\\", map[string]string{"a": "1"}},
		"escapes":                   {`a\=\:\ b=\t\n\r\f\q\\`, map[string]string{"a=: b": "\t\n\r\fq\\"}},
		"unicode":                   {`a=\u00e9\u20AC\uD83D\uDE00`, map[string]string{"a": "é€😀"}},
		"later counts":              {"a=1\na=2", map[string]string{"a": "2"}},
		"equals signs in the value": {"a=b=c", map[string]string{"a": "b=c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := config.ParseProperties(strings.NewReader(c.text))
			if err != nil || !maps.Equal(got, c.want) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestMalformedPropertiesNameTheLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"escape":             {"a=1\nb=\\\n\\u12", "line 2"},
		"escape, no hex":     {"a=\\uwxyz", "line 1"},
		"line too long":      {"a=" + strings.Repeat("x", 2<<20), "too long"},
		"continued too long": {strings.Repeat("x", 600<<10) + "\\\n" + strings.Repeat("x", 600<<10), "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := config.ParseProperties(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.100v, want %s", err, c.want)
			}
		})
	}
}

func FuzzParseProperties(f *testing.F) {
	f.Add("a=1\n#\nb\\\n c")
	f.Add(`\u0041\ud83d\ude00=\\`)
	f.Add("=\n:\n \\")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := config.ParseProperties(strings.NewReader(text))
		if err == nil && len(got) > strings.Count(text, "\n")+1 {
			t.Errorf("%d settings in %q", len(got), text)
		}
	})
}

func TestEnvironmentNamesKeysAsTheContainerImageDoes(t *testing.T) {
	t.Parallel()
	got, ignored := config.NewTable().ParseEnvironment([]string{
		"KAFKA_LOG_RETENTION_MS=5", "PATH=/bin", "KAFKA_HEAP_OPTS=-Xmx1g", "KAFKA_PORT_9092_TCP=tcp://10.0.0.1:9092", "KAFKA_=x", "KAFKA",
		"KAFKA_LISTENER_NAME_MY___LISTENER_SASL_ENABLED_MECHANISMS=PLAIN", "KAFKA_LISTENERS=PLAINTEXT://:1=2",
		"KAFKA_LISTENER_NAME_A__B_SSL_KEY_PASSWORD=p",
	})
	want := map[string]string{
		"log.retention.ms": "5", "listeners": "PLAINTEXT://:1=2", "listener.name.my-listener.sasl.enabled.mechanisms": "PLAIN",
		"listener.name.a_b.ssl.key.password": "p",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if strings.Join(ignored, " ") != "KAFKA_HEAP_OPTS KAFKA_PORT_9092_TCP" {
		t.Errorf("ignored %q", ignored)
	}
}

func TestFlagsOverrideVariablesOverrideTheFile(t *testing.T) {
	t.Parallel()
	flags, err := config.ParseFlags([]string{"a=1", "a=flag", "e="})
	if err != nil {
		t.Fatal(err)
	}
	got := config.Merge(map[string]string{"a": "file", "b": "file", "c": "file"}, map[string]string{"a": "env", "b": "env"}, flags)
	if want := map[string]string{"a": "flag", "b": "env", "c": "file", "e": ""}; !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, bad := range []string{"a", "=1", " =1", ""} {
		if _, err := config.ParseFlags([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
