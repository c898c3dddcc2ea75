package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a broker may take to start or to stop.
const patience = 30 * time.Second

// output is a writer whose contents may be read meanwhile.
type output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{} // there is something new; holds one
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// brokerRun is a command that runs a broker.
type brokerRun struct {
	out    *output
	cancel context.CancelFunc
	ended  chan struct{}
	status int // once it has ended
}

// start runs the command until stop.
func start(t *testing.T, args ...string) *brokerRun {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &brokerRun{out: &output{wrote: make(chan struct{}, 1)}, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.status = run(ctx, args, strings.NewReader(""), r.out, r.out)
	}()
	t.Cleanup(cancel)
	return r
}

// address waits for the line at the start and takes the address for clients out of it.
func (r *brokerRun) address(t *testing.T) string {
	t.Helper()
	line := regexp.MustCompile(`clients connect to ([0-9.:]+)`)
	for late := time.After(patience); ; {
		if m := line.FindStringSubmatch(r.out.String()); m != nil {
			return m[1]
		}
		select {
		case <-r.out.wrote:
		case <-r.ended:
			t.Fatalf("the broker ended with status %d: %s", r.status, r.out)
		case <-late:
			t.Fatalf("the broker isn't ready: %s", r.out)
		}
	}
}

func (r *brokerRun) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	select {
	case <-r.ended:
		if r.status != exitOK {
			t.Errorf("exit status %d: %s", r.status, r.out)
		}
	case <-time.After(patience):
		t.Fatal("the broker doesn't stop")
	}
}

func TestABrokerSaysWhereItIsAndThatItStopped(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	r := start(t, "--listen", "127.0.0.1:0", "--data", dir, "--admin", "off", "--sync", "interval", "--set", "num.partitions=3")
	address := r.address(t)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	r.stop(t)
	lines := strings.Split(strings.TrimSpace(r.out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[1], "stopped") {
		t.Fatalf("got %q", lines)
	}
	for _, want := range []string{address, dir, "cluster ", "sync interval"} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%q doesn't say %q", lines[0], want)
		}
	}
}

func TestWhoeverCannotStartSaysWhatToDo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	r := start(t, "--listen", "127.0.0.1:0", "--data", dir, "--admin", "off")
	address := r.address(t)
	for name, c := range map[string]struct {
		args   []string
		status int
		says   []string
	}{
		"directory in use": {[]string{"--listen", "127.0.0.1:0", "--data", dir, "--admin", "off"}, exitFailed, []string{dir, "--data"}},
		"port taken":       {[]string{"--listen", address, "--data", filepath.Join(t.TempDir(), "d"), "--admin", "off"}, exitFailed, []string{address, "--listen"}},
		"unknown flag":     {[]string{"--nope"}, exitMisused, []string{"--nope", "--help"}},
		"argument":         {[]string{"start"}, exitMisused, []string{"start"}},
		"sync mode":        {[]string{"--sync", "sometimes"}, exitMisused, []string{"sometimes", "every-write"}},
		"set without =":    {[]string{"--set", "a"}, exitMisused, []string{"KEY=VALUE"}},
		"unknown key":      {[]string{"--set", "num.partition=3"}, exitMisused, []string{"num.partitions"}},
		"address":          {[]string{"--listen", "9092"}, exitMisused, []string{"HOST:PORT"}},
		"no such file":     {[]string{"--config", filepath.Join(dir, "no")}, exitFailed, []string{"no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out output
			if status := run(t.Context(), c.args, strings.NewReader(""), &out, &out); status != c.status {
				t.Errorf("exit status %d, want %d", status, c.status)
			}
			for _, want := range c.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q doesn't say %q", out.String(), want)
				}
			}
		})
	}
	r.stop(t)
}

func TestHelpShowsEveryFlagAndExamples(t *testing.T) {
	t.Parallel()
	var out, errors output
	if status := run(t.Context(), []string{"--help"}, strings.NewReader(""), &out, &errors); status != exitOK || errors.String() != "" {
		t.Fatalf("exit status %d, %s", status, &errors)
	}
	for _, want := range []string{
		"--listen", "--data", "--admin", "--sync", "--set", "--config", "--version", "Examples:", "advertised.listeners",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestTheVersionIsOneLine(t *testing.T) {
	t.Parallel()
	var out output
	if status := run(t.Context(), []string{"--version"}, strings.NewReader(""), &out, &out); status != exitOK ||
		!strings.HasPrefix(out.String(), "kbroker ") || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("exit status %d, %q", status, &out)
	}
}

// A server.properties says where to listen and what to keep where; flags win.
func TestAPropertiesFileIsTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "server.properties")
	data := filepath.Join(dir, "kafka-logs")
	text := "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://:9093\nlog.dirs=" + data + "\nprocess.roles=broker,controller\n" +
		"controller.quorum.voters=1@localhost:9093\ncontroller.listener.names=CONTROLLER\nnode.id=1\nlog.sync=none\nadmin.listener=\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, "--config", file, "--sync", "interval")
	r.address(t)
	r.stop(t)
	for _, want := range []string{data, "sync interval"} {
		if !strings.Contains(r.out.String(), want) {
			t.Errorf("%q doesn't say %q", r.out, want)
		}
	}
}
