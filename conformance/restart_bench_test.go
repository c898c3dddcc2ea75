package conformance

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	restartPartitions = 4
	restartBytes      = 1500 << 20 // in all partitions together
	restartFresh      = 60 << 20   // a partition, before each SIGKILL: nearly what may lie behind a checkpoint
)

// BenchmarkRestart starts the broker on 1.5 GB, until a consumer has the last record of each partition, client included; and
// says how long it took until it accepted connections, and the most memory that it held.
func BenchmarkRestart(b *testing.B) {
	for _, end := range []struct {
		name   string
		signal syscall.Signal
		fresh  int
	}{
		{"after a clean stop", syscall.SIGTERM, 0},
		{"after SIGKILL", syscall.SIGKILL, restartFresh},
	} {
		b.Run(end.name, func(b *testing.B) {
			r := newRestarted(b)
			r.start(b)
			r.fill(b, restartBytes/restartPartitions)
			var accepted, memory float64
			rounds := 0
			for b.Loop() {
				b.StopTimer()
				r.fill(b, end.fresh)
				r.end(b, end.signal)
				b.StartTimer()
				began := time.Now()
				r.start(b)
				accepted += float64(time.Since(began).Microseconds()) / 1000
				r.lastRecords(b)
				b.StopTimer()
				memory = max(memory, r.peakMemory(b))
				rounds++
				b.StartTimer()
			}
			b.ReportMetric(accepted/float64(rounds), "ms-to-accept")
			b.ReportMetric(memory, "peak-MB")
		})
	}
}

// restarted is a broker in a process of its own that is ended and started again.
type restarted struct {
	dir, addr string
	cmd       *exec.Cmd
	ends      [restartPartitions]int64
}

func newRestarted(b *testing.B) *restarted {
	b.Helper()
	r := &restarted{dir: b.TempDir(), addr: reserve(b)}
	b.Cleanup(func() { r.end(b, syscall.SIGKILL) })
	return r
}

// start returns as soon as the broker accepts connections.
func (r *restarted) start(b *testing.B) {
	b.Helper()
	binary, err := built()
	if err != nil {
		b.Fatal(err)
	}
	r.cmd = exec.Command(binary, "--data", r.dir, "--listen", r.addr, "--admin", "off", "--sync", "none")
	if err := r.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 10_000 {
		if c, err := net.Dial("tcp", r.addr); err == nil {
			_ = c.Close()
			return
		}
		<-tick.C
	}
	b.Fatal("the broker doesn't come up")
}

// end ends the process, if it runs, and waits until it is gone.
func (r *restarted) end(b *testing.B, signal syscall.Signal) {
	b.Helper()
	if r.cmd == nil {
		return
	}
	if err := r.cmd.Process.Signal(signal); err != nil {
		b.Error(err)
	}
	if err := r.cmd.Wait(); err != nil && signal == syscall.SIGTERM {
		b.Error(err)
	}
	r.cmd = nil
}

// fill produces records of 1 KiB, so many bytes to each partition.
func (r *restarted) fill(b *testing.B, bytes int) {
	b.Helper()
	if bytes == 0 {
		return
	}
	const size = 1 << 10
	cl := r.client(b, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("restart"), kgo.MaxBufferedRecords(10_000))
	defer cl.Close()
	if r.ends[0] == 0 {
		created, err := kadm.NewClient(cl).CreateTopic(b.Context(), restartPartitions, 1, nil, "restart")
		if err != nil || created.Err != nil {
			b.Fatal(err, created.Err)
		}
	}
	value := make([]byte, size)
	for range bytes / size {
		for p := range r.ends {
			cl.Produce(b.Context(), &kgo.Record{Partition: int32(p), Value: value}, func(record *kgo.Record, err error) {
				if err != nil {
					b.Error(err)
				}
			})
			r.ends[p]++
		}
	}
	if err := cl.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// lastRecords reads the last record of each partition.
func (r *restarted) lastRecords(b *testing.B) {
	b.Helper()
	last := map[int32]kgo.Offset{}
	for p, end := range r.ends {
		last[int32(p)] = kgo.NewOffset().At(end - 1)
	}
	cl := r.client(b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"restart": last}))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(b.Context(), answerLimit)
	defer cancel()
	for len(last) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			b.Fatal(err)
		}
		fetches.EachRecord(func(record *kgo.Record) { delete(last, record.Partition) })
	}
}

func (r *restarted) client(b *testing.B, opts ...kgo.Opt) *kgo.Client {
	b.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(r.addr), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }))...)
	if err != nil {
		b.Fatal(err)
	}
	return cl
}

// peakMemory is the most that was resident so far, in MB, as Linux tells.
func (r *restarted) peakMemory(b *testing.B) float64 {
	b.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			var kb float64
			if _, err := fmt.Sscan(text, &kb); err != nil {
				b.Fatal(err)
			}
			return kb * 1024 / 1e6
		}
	}
	b.Fatal("no VmHWM")
	return 0
}
