package conformance

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker"
)

var rotAll = flag.Bool("rot.all", false, "damage every file in many places, not one of each kind in a few")

// library is a data directory of a broker, and what clients read from it.
type library struct {
	dir     string
	batches map[string][][]byte // by topic, as they are read one by one
	aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
	ends    map[string]int64
	offset  int64 // committed by the group
}

const (
	rotTopic, soundTopic, rotGroup = "rotten", "sound", "readers"
)

// TestDamageFromOutsideIsRefusedByNameOrHarmless damages a file of a stopped broker's directory, whatever file, and starts the
// broker. Either that says which file it is and what to do, or clients read what they read before, or an error where the
// damage is; never anything else.
func TestDamageFromOutsideIsRefusedByNameOrHarmless(t *testing.T) {
	t.Parallel()
	killed, clean := makeLibraries(t)
	for _, l := range []*library{killed, clean} {
		for _, file := range l.files(t) {
			t.Run(filepath.Base(l.dir)+"/"+file, func(t *testing.T) {
				for _, d := range damages(t, filepath.Join(l.dir, file)) {
					l.judge(t, file, d)
				}
			})
		}
	}
}

// makeLibraries fills a directory, and returns it as a SIGKILL and as a clean stop leaves it.
func makeLibraries(t *testing.T) (killed, clean *library) {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "clean")
	b, err := kbroker.Start(t.Context(), kbroker.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	fillLibrary(t, b.Addr())
	read := readLibrary(t, b.Addr())
	read.dir = filepath.Join(top, "killed")
	if err = os.CopyFS(read.dir, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err = b.Close(); err != nil {
		t.Fatal(err)
	}
	other := *read
	other.dir = dir
	return read, &other
}

func fillLibrary(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin := kadm.NewClient(client(t, addr))
	segment := "1500"
	for _, topic := range []string{rotTopic, soundTopic} {
		if _, err := admin.CreateTopic(ctx, 1, 1, map[string]*string{"internal.segment.bytes": &segment}, topic); err != nil {
			t.Fatal(err)
		}
	}
	c := client(t, addr, kgo.TransactionalID("librarian"))
	for n := range 10 {
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, topic := range []string{rotTopic, soundTopic} {
			for i := range 2 {
				r := &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "value %d of %d in %s %0*d", i, n, topic, 10*n, 0)}
				if err := c.ProduceSync(ctx, r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := c.EndTransaction(ctx, kgo.TransactionEndTry(n%3 > 0)); err != nil {
			t.Fatal(err)
		}
	}
	var offsets kadm.Offsets
	offsets.AddOffset(soundTopic, 0, 7, -1)
	if resp, err := admin.CommitOffsets(ctx, rotGroup, offsets); err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
}

// readLibrary reads everything, batch by batch.
func readLibrary(t *testing.T, addr string) *library {
	t.Helper()
	l := &library{batches: map[string][][]byte{}, ends: map[string]int64{}, offset: 7}
	c := dialTo(t, addr)
	for _, topic := range []string{rotTopic, soundTopic} {
		for offset := int64(0); ; {
			p := readOne(c, topic, offset)
			if p.ErrorCode != 0 {
				t.Fatalf("read %s at %d: error %d", topic, offset, p.ErrorCode)
			}
			if len(p.RecordBatches) == 0 {
				l.ends[topic] = p.HighWatermark
				break
			}
			l.batches[topic] = append(l.batches[topic], p.RecordBatches)
			_, offset = span(p.RecordBatches)
		}
	}
	l.aborted = abortedIn(c, rotTopic).AbortedTransactions
	if len(l.aborted) == 0 || len(l.batches[rotTopic]) < 20 {
		t.Fatalf("the library has %d batches and %d aborted transactions", len(l.batches[rotTopic]), len(l.aborted))
	}
	return l
}

// span tells the first offset of a batch and the one after its last.
func span(b []byte) (first, next int64) {
	for _, c := range b[:8] {
		first = first<<8 | int64(c)
	}
	delta := int64(b[23])<<24 | int64(b[24])<<16 | int64(b[25])<<8 | int64(b[26])
	return first, first + delta + 1
}

// readOne reads the one batch that holds an offset.
func readOne(c *conn, topic string, offset int64) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	req := fetchRequest(topic, 0, offset)
	req.MaxWaitMillis, req.Topics[0].Partitions[0].PartitionMaxBytes = 0, 1
	var p kmsg.FetchResponseTopicPartition
	eventually(c.t, topic+" recovered", func() (bool, any) {
		p = ask[*kmsg.FetchResponse](c, req, 12).Topics[0].Partitions[0]
		return p.ErrorCode != 5 && p.ErrorCode != 6, p.ErrorCode
	})
	return p
}

// abortedIn asks for all aborted transactions.
func abortedIn(c *conn, topic string) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	req := fetchRequest(topic, 0, 0)
	req.MaxWaitMillis, req.IsolationLevel = 0, 1
	return ask[*kmsg.FetchResponse](c, req, 12).Topics[0].Partitions[0]
}

// files lists the files to be damaged: all, or of each kind one or two.
func (l *library) files(t *testing.T) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(os.DirFS(l.dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(path, "topics/"+soundTopic) {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if *rotAll {
		return all
	}
	digits := regexp.MustCompile(`[0-9]+`)
	first, last := map[string]string{}, map[string]string{}
	for _, path := range all {
		kind := digits.ReplaceAllString(path, "N")
		if _, ok := first[kind]; !ok {
			first[kind] = path
		}
		last[kind] = path
	}
	var some []string
	for kind, path := range first {
		some = append(some, path)
		if last[kind] != path {
			some = append(some, last[kind])
		}
	}
	slices.Sort(some)
	return some
}

// damage is something done to a file.
type damage struct {
	what string
	do   func(name string) error
}

// damages are those for a file: flipped bits, cuts, and that it is gone.
func damages(t *testing.T, name string) []damage {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	all := []damage{{"removed", os.Remove}}
	size := info.Size()
	if size == 0 {
		return all
	}
	rng := rand.New(rand.NewPCG(uint64(size), uint64(len(name))))
	flips, cuts := []int64{rng.Int64N(size)}, []int64{rng.Int64N(size)}
	if *rotAll {
		flips, cuts = append(flips, 0, size/2, size-1), append(cuts, 0, size/2, size-1)
		for range 8 {
			flips = append(flips, rng.Int64N(size))
		}
	}
	for _, at := range flips {
		bit := byte(1) << rng.IntN(8)
		all = append(all, damage{fmt.Sprintf("bit %#x of byte %d of %d flipped", bit, at, size), func(name string) error {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			b[at] ^= bit
			return os.WriteFile(name, b, 0o600)
		}})
	}
	for _, at := range cuts {
		all = append(all, damage{fmt.Sprintf("cut to %d of %d bytes", at, size), func(name string) error { return os.Truncate(name, at) }})
	}
	return all
}

// judge damages a file of a copy and looks at what clients get.
func (l *library) judge(t *testing.T, file string, d damage) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(l.dir)); err != nil {
		t.Fatal(err)
	}
	if err := d.do(filepath.Join(dir, file)); err != nil {
		t.Fatal(err)
	}
	b, err := kbroker.Start(t.Context(), kbroker.Options{DataDir: dir})
	if err != nil {
		refusedByName(t, file, d, err.Error())
		return
	}
	defer b.Close() //nolint:errcheck // a partition that is refused may say so again
	c := dialTo(t, b.Addr())
	if damaged := l.compare(c, soundTopic); damaged > 0 {
		t.Errorf("%s: %d batches of another topic can't be read", d.what, damaged)
	}
	damaged := l.compare(c, rotTopic)
	if inLog := strings.HasPrefix(file, "topics/"); !inLog && damaged > 0 {
		t.Errorf("%s: %d batches can't be read", d.what, damaged)
	}
	if got := abortedIn(c, rotTopic); got.ErrorCode == 0 && damaged == 0 && !slices.EqualFunc(got.AbortedTransactions, l.aborted, sameTransaction) {
		t.Errorf("%s: aborted transactions are %v, want %v", d.what, got.AbortedTransactions, l.aborted)
	}
	if got := committedOn(c, rotGroup, soundTopic); got != l.offset {
		t.Errorf("%s: committed offset %d, want %d", d.what, got, l.offset)
	}
	if p := produce(t, c, rotTopic, plain("new")); p.ErrorCode == 0 && p.BaseOffset < l.ends[rotTopic] {
		t.Errorf("%s: offset %d was given out again", d.what, p.BaseOffset)
	}
	_ = c.c.Close()
}

func sameTransaction(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) bool {
	return a.ProducerID == b.ProducerID && a.FirstOffset == b.FirstOffset
}

// refusedByName checks that a broker that doesn't start says why. Only metadata may keep it from starting.
func refusedByName(t *testing.T, file string, d damage, message string) {
	t.Helper()
	if !strings.HasPrefix(file, "meta/") {
		t.Errorf("%s: the broker doesn't start: %s", d.what, message)
	}
	if !strings.Contains(message, "meta") || !regexp.MustCompile("restore|put the metadata|move").MatchString(message) {
		t.Errorf("%s: the message doesn't say what to do: %s", d.what, message)
	}
}

// compare reads a topic batch by batch, and returns how many can't be read. All others must be what they were.
func (l *library) compare(c *conn, topic string) (damaged int) {
	c.t.Helper()
	for _, want := range l.batches[topic] {
		first, _ := span(want)
		switch p := readOne(c, topic, first); {
		case p.ErrorCode == kafkaStorageError:
			damaged++
		case p.ErrorCode != 0:
			c.t.Errorf("read %s at %d: error %d", topic, first, p.ErrorCode)
		case !bytes.Equal(p.RecordBatches, want):
			c.t.Errorf("read %s at %d: %d bytes that aren't what was written", topic, first, len(p.RecordBatches))
		case p.HighWatermark < l.ends[topic]:
			c.t.Errorf("%s ends at %d, ended at %d", topic, p.HighWatermark, l.ends[topic])
		}
	}
	return damaged
}

// kafkaStorageError is KAFKA_STORAGE_ERROR: what is answered where the disk fails.
const kafkaStorageError = 56

// committedOn is a group's offset, as another broker than that of all tests has it.
func committedOn(c *conn, group, topic string) int64 {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{0}
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.OffsetFetchResponse](c, req, 7).Topics[0].Partitions[0].Offset
}
