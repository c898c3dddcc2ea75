//go:build linux

package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sys/unix"
)

var powercutRounds = flag.Int("powercut.rounds", 0, "how often TestNothingAcknowledgedIsLostToAPowerCut cuts the power; 0 skips it")

// ext4Shutdown is EXT4_IOC_SHUTDOWN: the filesystem ends as if the power were out.
const ext4Shutdown = 0x8004587d

// What becomes of ext4's journal at a shutdown: nothing more is written to it but what a sync has been told, all of it, or it
// is flushed and the filesystem frozen first.
var shutdowns = []uint32{2, 1, 0}

// disk is an ext4 in a file, as a machine's disk.
type disk struct {
	t     *testing.T
	image string
	dir   string
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	needMount(t, "mkfs.ext4", "losetup")
	image := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(image)
	if err == nil {
		err = f.Truncate(256 << 20)
		_ = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := runProgram("mkfs.ext4", "-q", "-F", image); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	return &disk{t: t, image: image, dir: mount(t, "-o", "loop", image)}
}

// cut cuts the power. The broker is held up just before, in the middle of its system calls: Linux lets a sync that runs while the
// filesystem is being shut down say that it was done when it wasn't, which a disk without power has no way to do, and of
// which nobody must hear.
func (d *disk) cut(p *process, how uint32) {
	d.t.Helper()
	f, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // a directory
	p.hold()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), ext4Shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		d.t.Skipf("cutting an ext4's power is not allowed here: run the test on Linux 4.11 or later as root: EXT4_IOC_SHUTDOWN: %v", errno)
	}
}

// hold stops a process without ending it, and returns when each of its threads has stopped or is in a system call that it has yet
// to come back from.
func (p *process) hold() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	eventually(p.t, "all threads stopped", func() (bool, any) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		if err != nil || len(threads) == 0 {
			p.t.Fatalf("the broker's threads: %v, %v", threads, err)
		}
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it has ended
			}
			if err != nil {
				p.t.Fatal(err)
			}
			if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "D") {
				return false, string(text)
			}
		}
		return true, nil
	})
}

// revive mounts the disk again, which replays the journal.
func (d *disk) revive() {
	d.t.Helper()
	unmount(d.t, d.dir)
	if out, err := runProgram("mount", "-o", "loop", d.image, d.dir); err != nil {
		d.t.Fatalf("mount: %v: %s", err, out)
	}
}

// Producers and groups work while the power of the disk is cut again and again, in the middle of what the filesystem does. What
// was acknowledged is there, each time.
func TestNothingAcknowledgedIsLostToAPowerCut(t *testing.T) {
	if *powercutRounds == 0 {
		t.Skip("takes long: run it with -powercut.rounds N, as root, with mkfs.ext4 and loop devices")
	}
	const partitions, writers, groups = 4, 16, 4
	d := newDisk(t)
	p := startProcessIn(t, filepath.Join(d.dir, "data"), "--sync", "every-write", "--set", "log.retention.check.interval.ms=200")
	topic := name(t, "t")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	segments := "20000" // they roll all the time
	if _, err := kadm.NewClient(client(t, p.addr)).CreateTopic(ctx, partitions, 1, map[string]*string{"internal.segment.bytes": &segments}, topic); err != nil {
		t.Fatal(err)
	}
	o := newOracle()
	stop := o.load(ctx, t, p.addr, topic, writers, groups)
	rng := rand.New(rand.NewPCG(2, 2))
	for round := range *powercutRounds {
		<-time.After(time.Duration(100+rng.IntN(600)) * time.Millisecond)
		d.cut(p, shutdowns[round%len(shutdowns)])
		p.kill()
		d.revive()
		if out, err := runProgram(p.args[0], "storage", "verify", p.dir); err != nil {
			t.Fatalf("round %d: verify: %v\n%s", round, err, out)
		}
		p.start()
	}
	stop()
	o.check(ctx, t, p.addr, topic, partitions)
	t.Logf("%d power cuts, %d records acknowledged", *powercutRounds, len(o.acked))
	if len(o.acked) < 100 {
		t.Fatalf("only %d records were acknowledged: the test shows nothing", len(o.acked))
	}
	p.kill()
}
