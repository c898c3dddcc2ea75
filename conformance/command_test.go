package conformance

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestSIGTERMClosesCleanlyAndNothingIsLost(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	topic := name(t, "t")
	c := client(t, p.addr, kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(20))
	if err := c.ProduceSync(t.Context(), kgo.StringRecord("kept")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := p.stop(); err != nil {
		t.Fatalf("exit: %v\n%s", err, p.text())
	}
	p.start()
	reader := client(t, p.addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	fs := reader.PollFetches(t.Context())
	if rs := fs.Records(); fs.Err() != nil || len(rs) != 1 || string(rs[0].Value) != "kept" {
		t.Fatalf("read %v, %v", fs.Records(), fs.Err())
	}
}

func TestWhatIsTakenIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"data directory", []string{"--data", p.dir, "--listen", "127.0.0.1:0"}, []string{p.dir, "--data"}},
		{"port", []string{"--data", t.TempDir(), "--listen", p.addr}, []string{p.addr, "--listen"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), p.args[0], append(c.args, "--admin", "off")...).CombinedOutput()
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("the message doesn't name %s:\n%s", want, out)
				}
			}
		})
	}
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatalf("the first broker has gone: %v", err)
	}
	_ = conn.Close()
}
