package conformance

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a broker in a process of its own, which a test may kill and start again on the same data and address.
type process struct {
	t    *testing.T
	dir  string
	addr string
	args []string
	as   *syscall.Credential // nil: as the test
	cmd  *exec.Cmd
	mu   sync.Mutex
	log  []string
}

// binaries is where the command is built; TestMain removes it.
var binaries = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "kbroker-conformance-") })

// built builds the command once for all tests of this package.
var built = sync.OnceValues(func() (string, error) {
	dir, err := binaries()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "kbroker")
	build := exec.Command("go", "build", "-o", out, "github.com/kbroker/kbroker/cmd/kbroker")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, text)
	}
	return out, nil
})

func buildBroker(t *testing.T) string {
	t.Helper()
	out, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// startProcess starts a broker on a free port with an empty data directory; it ends with the test.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, dir: t.TempDir(), addr: l.Addr().String()}
	_ = l.Close()
	p.args = append([]string{buildBroker(t), "--data", p.dir, "--listen", p.addr, "--admin", "off"}, args...)
	p.start()
	t.Cleanup(p.kill)
	return p
}

// start starts the process and waits until it accepts connections.
func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	out, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Stdout = p.cmd.Stderr
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go p.keepLog(bufio.NewScanner(out))
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.Dial("tcp", p.addr); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.t.Fatalf("the broker doesn't come up:\n%s", p.text())
		}
	}
}

func (p *process) keepLog(lines *bufio.Scanner) {
	for lines.Scan() {
		p.mu.Lock()
		p.log = append(p.log, lines.Text())
		p.mu.Unlock()
	}
}

// text is what the broker has printed.
func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, "\n")
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait()
}

// stop ends the process with SIGTERM and returns what Wait says.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	return p.cmd.Wait()
}
