//go:build linux

package conformance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// createTopicOn is createTopic on another broker than the one of all tests.
func createTopicOn(c *conn, topic string, partitions int32, configs ...string) int16 {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, 1
	for i := 0; i+1 < len(configs); i += 2 {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = configs[i], kmsg.StringPtr(configs[i+1])
		rt.Configs = append(rt.Configs, rc)
	}
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.CreateTopicsResponse](c, req, 7).Topics[0].ErrorCode
}

func deleteTopicOn(c *conn, topic string) int16 {
	c.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = 10000, []string{topic}
	return ask[*kmsg.DeleteTopicsResponse](c, req, 4).Topics[0].ErrorCode
}

// writer writes numbered values to partition 0 of a topic and remembers those that were acknowledged.
type writer struct {
	c     *conn
	topic string
	acked []string
	n     int
}

// try writes one value of about a size and returns the error code.
func (w *writer) try(size int) int16 {
	w.c.t.Helper()
	w.n++
	value := fmt.Sprintf("%d %0*d", w.n, size, 0)
	p := produce(w.c.t, w.c, w.topic, plain(value))
	if p.ErrorCode == 0 {
		w.acked = append(w.acked, value)
	}
	return p.ErrorCode
}

// fill writes until the disk takes no more.
func (w *writer) fill(size int) {
	w.c.t.Helper()
	for range 100000 {
		switch code := w.try(size); code {
		case 0:
		case kafkaStorageError:
			return
		default:
			w.c.t.Fatalf("write %d: error %d, want %d", w.n, code, kafkaStorageError)
		}
	}
	w.c.t.Fatal("the disk doesn't get full")
}

// resumes waits until writes are taken again.
func (w *writer) resumes(size int) {
	w.c.t.Helper()
	eventually(w.c.t, "a write taken again", func() (bool, any) {
		code := w.try(size)
		return code == 0, code
	})
}

// check reads everything: all that was acknowledged is there, in order, and besides nothing but what was sent.
func (w *writer) check(c *conn) {
	c.t.Helper()
	got := values(fetchAll(c.t, c, w.topic, 0))
	i := 0
	for _, v := range got {
		if i < len(w.acked) && v == w.acked[i] {
			i++
			continue
		}
		var n int
		if _, err := fmt.Sscan(v, &n); err != nil || n < 1 || n > w.n {
			c.t.Fatalf("read a value that nobody wrote: %.40q", v)
		}
	}
	if i < len(w.acked) {
		c.t.Fatalf("%.20q was acknowledged and isn't there; %d of %d are", w.acked[i], i, len(w.acked))
	}
}

func TestAFullDiskRefusesWritesUntilThereIsSpace(t *testing.T) {
	t.Parallel()
	needMount(t)
	dir := mount(t, "-t", "tmpfs", "-o", "size=24m", "tmpfs")
	p := startProcessIn(t, filepath.Join(dir, "data"))
	c := dialTo(t, p.addr)
	for _, topic := range []string{"big", "small"} {
		if code := createTopicOn(c, topic, 1, "internal.segment.bytes", "1000000"); code != 0 {
			t.Fatalf("create: error %d", code)
		}
	}
	big, small := &writer{c: c, topic: "big"}, &writer{c: c, topic: "small"}
	for range 20 {
		if code := small.try(1000); code != 0 {
			t.Fatalf("error %d", code)
		}
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 24<<20), 0o600); !errors.Is(err, syscall.ENOSPC) { // to the last byte
		t.Fatal(err)
	}
	big.fill(100000)
	for range 50 {
		small.fill(5000)
	}
	if n := strings.Count(p.text(), "append of a produced batch"); n > 25 {
		t.Errorf("%d lines about the same", n)
	}
	if text := p.text(); !strings.Contains(text, "write "+filepath.Join(p.dir, "topics")) {
		t.Errorf("the log doesn't say which write the disk refused:\n%s", text)
	}
	if err := os.WriteFile(filler, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	big.fill(100000)
	for range 5 { // what is left is used by smaller writes
		small.fill(5000)
	}
	small.check(c)
	big.check(c)
	if text := p.text(); !strings.Contains(text, "no space left on device") {
		t.Errorf("the log doesn't say that the disk is full:\n%s", text)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	big.resumes(10000)
	small.resumes(10000)
	big.fill(100000)
	if code := deleteTopicOn(c, "big"); code != 0 {
		t.Fatalf("delete a topic on a full disk: error %d", code)
	}
	small.resumes(100000)
	small.check(c)
	p.kill()
	p.start()
	small.check(readyConn(t, p, "small"))
	verifyClean(t, p)
}

// What makes room is written down first, so that a broker whose records fill the disk has to leave some for that.
func TestADiskFullOfRecordsTakesWhatMakesRoom(t *testing.T) {
	t.Parallel()
	needMount(t)
	dir := mount(t, "-t", "tmpfs", "-o", "size=24m", "tmpfs")
	p := startProcessIn(t, filepath.Join(dir, "data"), "--set", "log.retention.check.interval.ms=100")
	c := dialTo(t, p.addr)
	topics := []string{"deleted", "trimmed", "retained"}
	for _, topic := range topics {
		if code := createTopicOn(c, topic, 1, "internal.segment.bytes", "1000000"); code != 0 {
			t.Fatalf("create: error %d", code)
		}
		w := &writer{c: c, topic: topic}
		for range 40 {
			if code := w.try(100000); code != 0 {
				t.Fatalf("error %d", code)
			}
		}
	}
	w := &writer{c: c, topic: "retained"}
	for _, size := range []int{100000, 10000, 1000, 10} {
		w.fill(size)
	}
	commitMany(c, 500)
	p.kill()
	p.start()
	c = readyConn(t, p, "retained")
	commitMany(c, 500)
	if code := deleteTopicOn(c, "deleted"); code != 0 {
		t.Errorf("delete a topic: error %d", code)
	}
	if code := trimOn(c, "trimmed"); code != 0 {
		t.Errorf("delete records: error %d", code)
	}
	if code := alterOn(c, "retained", "retention.bytes", "1"); code != 0 {
		t.Errorf("shorten retention: error %d", code)
	}
	eventually(t, "retention", func() (bool, any) {
		code := fetchPartition(c, "retained", 0, 0).ErrorCode
		return code == 1, code // offset out of range
	})
	w.c = c
	w.resumes(100000)
	verifyClean(t, p)
}

// commitMany commits offsets with as much metadata as they may have.
func commitMany(c *conn, n int) {
	c.t.Helper()
	for i := range n {
		req := commitRequest("g", "retained", 0, int64(i))
		req.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("m", 4096))
		if code := ask[*kmsg.OffsetCommitResponse](c, req, 7).Topics[0].Partitions[0].ErrorCode; code != 0 {
			c.t.Fatalf("commit %d: error %d", i, code)
		}
	}
}

// trimOn deletes all records of partition 0.
func trimOn(c *conn, topic string) int16 {
	c.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10000
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Offset = -1
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.DeleteRecordsResponse](c, req, 2).Topics[0].Partitions[0].ErrorCode
}

// alterOn sets one of a topic's settings.
func alterOn(c *conn, topic, key, value string) int16 {
	c.t.Helper()
	rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	rc.Name, rc.Op, rc.Value = key, kmsg.IncrementalAlterConfigOpSet, &value
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName, rr.Configs = kmsg.ConfigResourceTypeTopic, topic, append(rr.Configs, rc)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, rr)
	return ask[*kmsg.IncrementalAlterConfigsResponse](c, req, 1).Resources[0].ErrorCode
}

// verifyClean stops a broker and has its data verified.
func verifyClean(t *testing.T, p *process) {
	t.Helper()
	p.kill()
	if out, err := runProgram(p.args[0], "storage", "verify", p.dir); err != nil {
		t.Fatalf("verify: %v\n%s", err, out)
	}
}

// A limit on the size of files cuts a write in its middle.
func TestAShortWriteTearsNothing(t *testing.T) {
	t.Parallel()
	p := startProcessIn(t, filepath.Join(t.TempDir(), "data"))
	c := dialTo(t, p.addr)
	if code := createTopicOn(c, "t", 1); code != 0 {
		t.Fatalf("create: error %d", code)
	}
	w := &writer{c: c, topic: "t"}
	for range 20 {
		if code := w.try(10000); code != 0 {
			t.Fatalf("error %d", code)
		}
	}
	var before unix.Rlimit
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 250_007, Max: unix.RLIM_INFINITY}, &before); err != nil {
		t.Skipf("limiting the size of another process's files is not allowed here: run the tests as root: prlimit: %v", err)
	}
	w.fill(10000)
	w.check(c)
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &before, nil); err != nil {
		t.Fatal(err)
	}
	w.resumes(10000)
	w.check(c)
	p.kill()
	p.start()
	w.check(readyConn(t, p, "t"))
	verifyClean(t, p)
}

func TestThousandsOfSegmentsWithFewFileDescriptors(t *testing.T) {
	t.Parallel()
	const limit, partitions, rounds = 256, 300, 4
	p := newProcess(t, filepath.Join(t.TempDir(), "data"), "--sync", "none")
	p.args = append([]string{"/bin/sh", "-c", fmt.Sprintf("ulimit -n %d; exec \"$0\" \"$@\"", limit)}, p.args...)
	p.start()
	c := dialTo(t, p.addr)
	if code := createTopicOn(c, "t", partitions, "internal.segment.bytes", "400", "retention.ms", "-1"); code != 0 {
		t.Fatalf("create: error %d", code)
	}
	value := func(round, partition int) string { return fmt.Sprintf("%d of %d %0300d", round, partition, 0) }
	for round := range rounds {
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = -1, 10000
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic = "t"
		for i := range partitions {
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Partition, rp.Records = int32(i), plain(value(round, i)).bytes()
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		for _, rp := range ask[*kmsg.ProduceResponse](c, req, 9).Topics[0].Partitions {
			if rp.ErrorCode != 0 {
				t.Fatalf("round %d, partition %d: error %d\n%s", round, rp.Partition, rp.ErrorCode, p.text())
			}
		}
	}
	check := func(c *conn) {
		t.Helper()
		for i := range partitions {
			for round := range rounds {
				got := fetchPartition(c, "t", int32(i), int64(round))
				if rs := records(t, got.RecordBatches); got.ErrorCode != 0 || len(rs) == 0 || string(rs[0].value) != value(round, i) {
					t.Fatalf("partition %d at %d: error %d, %d records\n%s", i, round, got.ErrorCode, len(rs), p.text())
				}
			}
		}
	}
	check(c)
	p.kill()
	p.start()
	c = dialTo(t, p.addr)
	waitReady(c, "t", partitions)
	check(c)
}

// More partitions are written to at once than files may be open, and each is synced.
func TestThousandsOfSyncsWithFewFileDescriptors(t *testing.T) {
	t.Parallel()
	const limit, partitions = 128, 300
	p := newProcess(t, filepath.Join(t.TempDir(), "data"))
	p.args = append([]string{"/bin/sh", "-c", fmt.Sprintf("ulimit -n %d; exec \"$0\" \"$@\"", limit)}, p.args...)
	p.start()
	c := dialTo(t, p.addr)
	if code := createTopicOn(c, "t", partitions, "retention.ms", "-1"); code != 0 {
		t.Fatalf("create: error %d", code)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = "t"
	for i := range int32(partitions) {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = i, plain("value").bytes()
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	for round := range 4 {
		for _, rp := range ask[*kmsg.ProduceResponse](c, req, 9).Topics[0].Partitions {
			if rp.ErrorCode != 0 {
				t.Fatalf("round %d, partition %d: error %d\n%s", round, rp.Partition, rp.ErrorCode, p.text())
			}
		}
	}
}

// fetchPartition reads at an offset of any partition.
func fetchPartition(c *conn, topic string, partition int32, offset int64) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	req := fetchRequest(topic, partition, offset)
	req.MaxWaitMillis = 0
	resp := ask[*kmsg.FetchResponse](c, req, 12)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 {
		c.t.Fatalf("fetch: error %d, %d topics", resp.ErrorCode, len(resp.Topics))
	}
	return resp.Topics[0].Partitions[0]
}

// readyConn is a connection to a broker that has recovered a topic's first partition.
func readyConn(t *testing.T, p *process, topic string) *conn {
	t.Helper()
	c := dialTo(t, p.addr)
	waitReady(c, topic, 1)
	return c
}

// waitReady waits until no partition is being recovered any more.
func waitReady(c *conn, topic string, partitions int) {
	c.t.Helper()
	for i := range int32(partitions) {
		eventually(c.t, fmt.Sprintf("partition %d recovered", i), func() (bool, any) {
			code := fetchPartition(c, topic, i, 0).ErrorCode
			return code != 5 && code != 6 && code != 9, code // no leader yet
		})
	}
}

func TestAReadOnlyFilesystemIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	needMount(t)
	dir := mount(t, "-t", "tmpfs", "-o", "size=24m", "tmpfs")
	p := startProcessIn(t, filepath.Join(dir, "data"))
	c := dialTo(t, p.addr)
	if code := createTopicOn(c, "t", 1); code != 0 {
		t.Fatalf("create: error %d", code)
	}
	w := &writer{c: c, topic: "t"}
	if code := w.try(100); code != 0 {
		t.Fatalf("error %d", code)
	}
	p.kill()
	if out, err := runProgram("mount", "-o", "remount,ro", dir); err != nil {
		t.Fatalf("remount: %v: %s", err, out)
	}
	wantWords(t, p.refused(), p.dir, "read-only file system", "remount")
	if out, err := runProgram(p.args[0], "storage", "verify", p.dir); err != nil {
		t.Errorf("verify on a read-only filesystem: %v\n%s", err, out)
	}
	if out, err := runProgram("mount", "-o", "remount,rw", dir); err != nil {
		t.Fatalf("remount: %v: %s", err, out)
	}
	p.start()
	w.check(readyConn(t, p, "t"))
}

// wantWords fails unless a message has all of the words, and is short.
func wantWords(t *testing.T, message string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(message, word) {
			t.Errorf("the message lacks %q:\n%s", word, message)
		}
	}
	if strings.Count(message, "\n") > 3 {
		t.Errorf("that is no message:\n%s", message)
	}
}

func TestWhatMayNotBeReadOrWrittenIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("making files of somebody else needs root: run the tests as root")
	}
	top, err := os.MkdirTemp("", "kbroker-permission-") //nolint:usetesting // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	if err = os.Chmod(top, 0o755); err != nil { //nolint:gosec // others must get in
		t.Fatal(err)
	}
	binary, err := os.ReadFile(buildBroker(t))
	if err != nil {
		t.Fatal(err)
	}
	command := filepath.Join(top, "kbroker")
	if err = os.WriteFile(command, binary, 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	const nobody = 65534
	asNobody := func(p *process) *process {
		p.args[0] = command
		p.as = &syscall.Credential{Uid: nobody, Gid: nobody}
		return p
	}
	t.Run("no directory can be made", func(t *testing.T) {
		p := asNobody(newProcess(t, filepath.Join(top, "none")))
		wantWords(t, p.refused(), p.dir, "permission denied", "--data")
	})
	for _, part := range []string{"LOCK", "meta", "topics/t/0"} {
		t.Run(part, func(t *testing.T) {
			dir := filepath.Join(top, strings.ReplaceAll(part, "/", "-"))
			if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as above
				t.Fatal(err)
			}
			if err := os.Chown(dir, nobody, nobody); err != nil {
				t.Fatal(err)
			}
			p := asNobody(newProcess(t, dir))
			p.start()
			c := dialTo(t, p.addr)
			for _, topic := range []string{"t", "u"} {
				if code := createTopicOn(c, topic, 1); code != 0 {
					t.Fatalf("create: error %d", code)
				}
			}
			w, other := &writer{c: c, topic: "t"}, &writer{c: c, topic: "u"}
			if a, b := w.try(100), other.try(100); a != 0 || b != 0 {
				t.Fatalf("errors %d, %d", a, b)
			}
			p.kill()
			takeAway(t, filepath.Join(dir, part))
			if part != "topics/t/0" {
				wantWords(t, p.refused(), part, "permission denied", "owner")
				return
			}
			p.start() // one partition is no reason not to serve the others
			c = readyConn(t, p, "u")
			other.check(c)
			if got := fetchPartition(c, "t", 0, 0); got.ErrorCode != kafkaStorageError {
				t.Errorf("fetch: error %d, want %d", got.ErrorCode, kafkaStorageError)
			}
			if text := p.text(); !strings.Contains(text, "topics/t/0") || !strings.Contains(text, "permission denied") {
				t.Errorf("the log doesn't say what is wrong:\n%s", text)
			}
		})
	}
}

// takeAway gives a file or directory with all that is in it to root, who alone may read it.
func takeAway(t *testing.T, name string) {
	t.Helper()
	err := filepath.WalkDir(name, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Chown(path, 0, 0)
		}
		if err == nil {
			err = os.Chmod(path, 0o700) //nolint:gosec // a directory too
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
