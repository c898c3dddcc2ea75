//go:build linux

package conformance

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needMount skips a test where filesystems can't be mounted.
func needMount(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a filesystem needs root: run the tests as root")
	}
	for _, p := range append(programs, "mount", "umount") {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is missing: install it (Debian's packages mount, e2fsprogs)", p)
		}
	}
}

// runProgram runs a program and returns what it printed.
func runProgram(args ...string) (string, error) {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// mount mounts something for the test, and skips it where the machine doesn't let it.
func mount(t *testing.T, args ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "mnt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := runProgram(append(append([]string{"mount"}, args...), dir)...); err != nil {
		t.Skipf("mount %v is not allowed here: run the tests where it is, such as in a privileged container: %v: %s", args, err, out)
	}
	t.Cleanup(func() { unmount(t, dir) })
	return dir
}

// unmount takes a filesystem away, once the processes that were killed have let go of it. It is no error if it is gone.
func unmount(t *testing.T, dir string) {
	t.Helper()
	eventually(t, "the filesystem unmounted", func() (bool, any) {
		out, err := runProgram("umount", dir)
		return err == nil || strings.Contains(out, "not mounted"), out
	})
}

// refused starts a broker that must not come up, and returns what it says.
func (p *process) refused() string {
	p.t.Helper()
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	hung := time.AfterFunc(answerLimit, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !hung.Stop() || err == nil {
		p.t.Fatalf("the broker wasn't refused:\n%s", out.String())
	}
	return strings.TrimSpace(out.String())
}
