package conformance

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// kcat runs kcat with its own defaults and returns what it prints.
func kcat(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("kcat")
	if err != nil {
		t.Skip("kcat is missing: install it (Debian's package kcat)")
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"-b", broker}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("kcat %v: %v\n%s", args, err, errs.String())
	}
	return out.String()
}

// The topic is made on the fly, and what goes in comes out.
func TestKcatProducesAndConsumes(t *testing.T) {
	t.Parallel()
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			t.Parallel()
			topic := name(t, "orders")
			sent := strings.Repeat("a line that compresses well\n", 200)
			kcat(t, sent, "-P", "-t", topic, "-z", codec)
			if got := kcat(t, "", "-C", "-t", topic, "-o", "beginning", "-e", "-q"); got != sent {
				t.Fatalf("%d bytes came back, %d were sent", len(got), len(sent))
			}
			compressed := false
			for _, rb := range batches(t, fetch(t, dial(t), topic, 0).RecordBatches) {
				compressed = compressed || rb.Attributes&7 != 0
			}
			if compressed != (codec != "none") {
				t.Errorf("compressed: %v", compressed) // kcat looks at the versions of Produce before it does
			}
		})
	}
}

func TestKcatKeepsKeysTombstonesAndTimes(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	kcat(t, "k1:v1\nk2:\n", "-P", "-t", topic, "-K", ":", "-Z", "-H", "trace=7")
	got := kcat(t, "", "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%o %k %S %h\n")
	if want := "0 k1 2 trace=7\n1 k2 -1 trace=7\n"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	if got = kcat(t, "", "-Q", "-t", topic+":0:0"); !strings.Contains(got, "offset 0") {
		t.Fatalf("offset for time 0: %q", got)
	}
	if got = kcat(t, "", "-L", "-t", topic); !strings.Contains(got, `topic "`+topic+`" with 1 partitions`) {
		t.Fatalf("listed as %q", got)
	}
}

// librdkafka's balanced consumer, as kcat uses it.
func TestKcatConsumesInAGroupAndResumes(t *testing.T) {
	t.Parallel()
	topic, group := name(t, "t"), name(t, "g")
	kcat(t, "one\ntwo\n", "-P", "-t", topic)
	consume := func() string {
		return kcat(t, "", "-G", group, "-X", "auto.offset.reset=earliest", "-e", "-q", topic)
	}
	if got := consume(); got != "one\ntwo\n" {
		t.Fatalf("first: %q", got)
	}
	kcat(t, "three\n", "-P", "-t", topic)
	if got := consume(); got != "three\n" {
		t.Fatalf("resumed with %q", got)
	}
}
