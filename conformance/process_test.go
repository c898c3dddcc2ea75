package conformance

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	said chan struct{} // closed once all that the process of cmd has printed is in log
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

// reserve takes a free address for the brokers of a test, which start there again and again, and keeps it from everybody else
// meanwhile: on Linux a socket that is bound and doesn't listen lets another listen at its address, but the system gives its
// port to nobody who asks for any. Elsewhere the port is only likely to stay free.
func reserve(tb testing.TB) string {
	tb.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		tb.Fatal(os.NewSyscallError("socket", err))
	}
	syscall.CloseOnExec(fd)
	held := os.NewFile(uintptr(fd), "reserved")
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		tb.Fatal(os.NewSyscallError("setsockopt", err))
	}
	if err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatal(os.NewSyscallError("bind", err))
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		tb.Fatal(os.NewSyscallError("getsockname", err))
	}
	if runtime.GOOS == "linux" {
		tb.Cleanup(func() { _ = held.Close() })
	} else {
		_ = held.Close()
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port) //nolint:forcetypeassert // what it was bound to
}

// newProcess is a broker that is yet to be started; it ends with the test.
func newProcess(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{t: t, dir: dir, addr: reserve(t)}
	p.args = append([]string{buildBroker(t), "--data", p.dir, "--listen", p.addr, "--admin", "off"}, args...)
	t.Cleanup(p.kill)
	return p
}

// startProcess starts a broker with an empty data directory.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	return startProcessIn(t, t.TempDir(), args...)
}

// startProcessIn starts a broker in a data directory.
func startProcessIn(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := newProcess(t, dir, args...)
	p.start()
	return p
}

// start starts the process and waits until it says that it is ready.
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
	ready := make(chan struct{})
	p.said = make(chan struct{})
	go p.keepLog(bufio.NewReader(out), ready, p.said)
	select {
	case <-ready:
	case <-p.said:
		p.t.Fatalf("the broker has ended instead of listening at %s: %v\n%s", p.addr, p.cmd.Wait(), p.text())
	case <-time.After(answerLimit):
		p.t.Fatalf("the broker doesn't get ready at %s:\n%s", p.addr, p.text())
	}
}

// keepLog keeps what the process prints, and tells when it is ready and when it has said all.
func (p *process) keepLog(r *bufio.Reader, ready, said chan<- struct{}) {
	defer close(said)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		p.mu.Lock()
		p.log = append(p.log, strings.TrimSuffix(line, "\n"))
		p.mu.Unlock()
		if ready != nil && strings.Contains(line, "clients connect to") {
			close(ready)
			ready = nil
		}
	}
}

// text is what the broker has printed.
func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, "\n")
}

// kill ends the process with SIGKILL, if it runs, and waits until it is gone.
func (p *process) kill() {
	if p.said == nil {
		return // it was never started
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.said
	_ = p.cmd.Wait()
}

// stop ends the process with SIGTERM and returns what Wait says.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.said
	return p.cmd.Wait()
}
