package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
	"github.com/kbroker/kbroker/storage/vfs"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// testDir is below a directory that the store has to make.
const testDir = "data/meta"

func testOptions() Options {
	return Options{Clock: clock.NewManual(time.UnixMilli(1_700_000_000_000)), NodeID: 1}
}

// open opens a store that is closed at the end of the test.
func open(t *testing.T, disk vfs.FS, o Options) *Store {
	t.Helper()
	s, err := Open(disk, testDir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func mustClose(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// createTopic and deleteTopic are CreateTopics and DeleteTopics for one.
func createTopic(s *Store, t Topic) (*Topic, error) {
	made, err := s.CreateTopics([]Topic{t})
	if err != nil {
		return nil, err
	}
	return made[0], nil
}

func deleteTopic(s *Store, id storage.TopicID) (*Topic, error) {
	gone, err := s.DeleteTopics([]storage.TopicID{id})
	if err != nil {
		return nil, err
	}
	return gone[0], nil
}

func mustCreate(t *testing.T, s *Store, name string) *Topic {
	t.Helper()
	topic, err := createTopic(s, Topic{Name: name, Partitions: 3, Configs: map[string]string{"retention.ms": "5"}})
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

func mustCommit(t *testing.T, s *Store, fill func(b *Batch)) {
	t.Helper()
	var b Batch
	fill(&b)
	if err := s.Commit(&b); err != nil {
		t.Fatal(err)
	}
}

func putCursor(group, topic string, offset int64) func(*Batch) {
	return func(b *Batch) {
		b.PutCursor(group, TopicPartition{topic, 0}, Cursor{Offset: offset, LeaderEpoch: -1, ExpireMs: -1})
	}
}

// dump writes down everything that a store holds, but identities, the start counter and producer ids.
func dump(t *testing.T, s *Store) string {
	t.Helper()
	var lines []string
	add := func(format string, args ...any) error {
		lines = append(lines, fmt.Sprintf(format, args...))
		return nil
	}
	for _, topic := range s.Topics().All() {
		_ = add("topic %+v", *topic)
		for p := range topic.Partitions {
			if start := s.LogStart(topic.ID, p); start != 0 {
				_ = add("start %s-%d %d", topic.Name, p, start)
			}
		}
	}
	err := errors.Join(
		s.Cursors(func(group string, tp TopicPartition, c Cursor) error { return add("cursor %q %v %+v", group, tp, c) }),
		s.Groups(func(group string, record []byte) error { return add("group %q %s", group, short(record)) }),
		s.Transactions(func(id string, record []byte) error { return add("txn %q %s", id, short(record)) }),
		s.Configs(func(kind, name string, c map[string]string) error { return add("config %q %q %v", kind, name, c) }),
	)
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// short stands for a record.
func short(record []byte) string {
	return fmt.Sprintf("%d bytes %08x", len(record), batch.Checksum(record))
}

func TestClusterIDIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	s := open(t, disk, testOptions())
	id := s.ClusterID()
	if !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{21}$`).MatchString(id) {
		t.Errorf("cluster id %q", id)
	}
	mustClose(t, s)
	s = open(t, disk, testOptions())
	if s.ClusterID() != id {
		t.Errorf("cluster id %q, was %q", s.ClusterID(), id)
	}
}

func TestStoreThatMustBeThereIsNotMade(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	existing := testOptions()
	existing.Existing = true
	for range 2 { // the second time over what the first has left
		if s, err := Open(disk, testDir, existing); !errors.Is(err, ErrMissing) {
			t.Fatalf("got %v, %v", s, err)
		}
	}
	mustClose(t, open(t, disk, testOptions()))
	mustClose(t, open(t, disk, existing))
}

func TestIDsNeverBeginWithADash(t *testing.T) {
	t.Parallel()
	o := testOptions()
	// The first id's text would begin with a dash.
	o.Random = strings.NewReader("\xf8" + strings.Repeat("a", 15) + strings.Repeat("b", 16))
	s := open(t, simdisk.New(1), o)
	if s.ClusterID() != "YmJiYmJiQmKiYmJiYmJiYg" {
		t.Errorf("cluster id %q", s.ClusterID())
	}
}

func TestStartCounterRisesOnlyAfterAnUncleanEnd(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	epoch := func(want int32) *Store {
		t.Helper()
		s := open(t, disk, testOptions())
		if s.Epoch() != want {
			t.Fatalf("start counter %d, want %d", s.Epoch(), want)
		}
		return s
	}
	mustClose(t, epoch(0))
	mustClose(t, epoch(0))
	epoch(0)
	disk = disk.Kill()
	epoch(1)
	disk = disk.Crash(rand.New(rand.NewPCG(1, 1)))
	mustClose(t, epoch(2))
	mustClose(t, epoch(2))
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(t *testing.T, disk *simdisk.Disk) Options
		want    error
		text    string
	}{
		{
			"another node id", func(*testing.T, *simdisk.Disk) Options {
				o := testOptions()
				o.NodeID = 7
				return o
			}, ErrNodeID, "node.id 1, and this one has 7",
		},
		{"a store in use", func(t *testing.T, disk *simdisk.Disk) Options {
			t.Helper()
			open(t, disk, testOptions())
			return testOptions()
		}, ErrLocked, "another broker"},
		{"a newer schema", func(t *testing.T, disk *simdisk.Disk) Options {
			t.Helper()
			s := open(t, disk, testOptions())
			mustCommit(t, s, func(b *Batch) { b.set([]byte(schemaKey), binary.BigEndian.AppendUint64(nil, 2)) })
			mustClose(t, s)
			return testOptions()
		}, ErrSchema, "schema version 2, this broker knows 1"},
		{"a value of a newer format", func(t *testing.T, disk *simdisk.Disk) Options {
			t.Helper()
			s := open(t, disk, testOptions())
			mustCommit(t, s, func(b *Batch) { b.set(topicKey("t"), []byte{2}) })
			mustClose(t, s)
			return testOptions()
		}, ErrSchema, "topic t: format version 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			disk := simdisk.New(1)
			mustClose(t, open(t, disk, testOptions()))
			o := tt.prepare(t, disk)
			_, err := Open(disk, testDir, o)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), testDir) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRefusedOpenLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	mustClose(t, open(t, disk, testOptions()))
	o := testOptions()
	o.NodeID = 2
	if _, err := Open(disk, testDir, o); !errors.Is(err, ErrNodeID) {
		t.Fatal(err)
	}
	open(t, disk, testOptions())
}

func TestTopicLife(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	s := open(t, disk, testOptions())
	a := mustCreate(t, s, "a")
	b := mustCreate(t, s, "b")
	if a.ID == b.ID || a.CreatedMs != 1_700_000_000_000 || a.EpochBase != 0 {
		t.Errorf("%+v %+v", a, b)
	}
	if _, err := createTopic(s, Topic{Name: "a"}); !errors.Is(err, ErrTopicExists) {
		t.Errorf("create again: %v", err)
	}
	if grown, err := s.GrowTopic(a.ID, 9); err != nil || grown.Partitions != 9 || a.Partitions != 3 {
		t.Errorf("grow: %+v %v", grown, err)
	}
	if set, err := s.SetTopicConfigs(b.ID, map[string]string{"x": "y"}); err != nil || set.Configs["x"] != "y" {
		t.Errorf("configure: %+v %v", set, err)
	}
	if _, err := s.DeleteTopics([]storage.TopicID{a.ID, {1}, b.ID}); !errors.Is(err, ErrNoTopic) || s.Topics().Len() != 2 {
		t.Errorf("delete with one that isn't there: %v, %d topics left", err, s.Topics().Len())
	}
	before := s.Topics()
	if gone, err := deleteTopic(s, a.ID); err != nil || gone.Name != "a" {
		t.Errorf("delete: %+v %v", gone, err)
	}
	if before.Named("a") == nil || s.Topics().Named("a") != nil || s.Topics().WithID(a.ID) != nil {
		t.Error("a view changed, or the new one didn't")
	}
	for what, err := range map[string]error{
		"delete":    second(deleteTopic(s, a.ID)),
		"grow":      second(s.GrowTopic(a.ID, 10)),
		"configure": second(s.SetTopicConfigs(a.ID, nil)),
		"log start": s.SetLogStart(a.ID, 0, 1),
	} {
		if !errors.Is(err, ErrNoTopic) {
			t.Errorf("%s of a deleted topic: %v", what, err)
		}
	}
	want := dump(t, s)
	mustClose(t, s)
	if got := dump(t, open(t, disk, testOptions())); got != want {
		t.Errorf("after a restart:\n%s\nwant\n%s", got, want)
	}
}

func second[T any](_ T, err error) error { return err }

func TestTopicMadeAfterAnUncleanStartBeginsAtItsStartCounter(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	open(t, disk, testOptions())
	s := open(t, disk.Kill(), testOptions())
	if a := mustCreate(t, s, "a"); a.EpochBase != 1 {
		t.Errorf("epoch base %d", a.EpochBase)
	}
}

func TestTopicMadeAgainInheritsNothing(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	s := open(t, disk, testOptions())
	a, ab, other := mustCreate(t, s, "a"), mustCreate(t, s, "a.b"), mustCreate(t, s, "other")
	for _, topic := range []*Topic{a, ab, other} {
		if err := s.SetLogStart(topic.ID, 1, 77); err != nil {
			t.Fatal(err)
		}
		mustCommit(t, s, putCursor("g", topic.Name, 5))
		mustCommit(t, s, putCursor("with/slash", topic.Name, 6))
	}
	if gone, err := s.DeleteTopics([]storage.TopicID{a.ID, other.ID, a.ID}); err != nil || len(gone) != 2 {
		t.Fatal(gone, err)
	}
	mustCommit(t, s, putCursor("g", "a", 9)) // was on its way when the topic went
	mustCommit(t, s, putCursor("g", "other", 9))
	again := mustCreate(t, s, "a")
	if again.ID == a.ID {
		t.Error("the id was inherited")
	}
	if s.LogStart(again.ID, 1) != 0 || s.LogStart(a.ID, 1) != 0 {
		t.Error("the log start was inherited")
	}
	check := func(s *Store) {
		t.Helper()
		var found []string
		err := s.Cursors(func(group string, tp TopicPartition, _ Cursor) error {
			found = append(found, group+" "+tp.Topic)
			return nil
		})
		if got := fmt.Sprint(found); err != nil || got != "[g a.b with/slash a.b]" {
			t.Errorf("cursors %s, %v", got, err)
		}
		if start := s.LogStart(ab.ID, 1); start != 77 {
			t.Errorf("the other topic's log start is %d", start)
		}
	}
	check(s)
	mustClose(t, s)
	s = open(t, disk, testOptions())
	check(s)
	mustCommit(t, s, putCursor("g", "a", 1))
	if got := dump(t, s); !strings.Contains(got, `cursor "g" {a 0}`) {
		t.Errorf("a cursor on the new topic is missing in\n%s", got)
	}
}

func TestRecordsComeBackAsTheyWerePut(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	s := open(t, disk, testOptions())
	names := []string{"", "plain", "a/b", "100%", "%2F", "/", "ü\x00\xff", strings.Repeat("x", 300)}
	mustCommit(t, s, func(b *Batch) {
		for i, name := range names {
			b.PutGroup(name, []byte("group "+name))
			b.PutTransaction(name, nil)
			b.PutCursor(name, TopicPartition{"t", int32(i)}, Cursor{
				Offset: int64(i), LeaderEpoch: -1, Metadata: name, CommitMs: 3, ExpireMs: -1,
			})
		}
	})
	for _, name := range names {
		if err := s.PutConfig("group", name, map[string]string{"k": name}); err != nil {
			t.Fatal(err)
		}
	}
	mustCommit(t, s, func(b *Batch) {
		b.DeleteGroup("a/b")
		b.DeleteTransaction("a/b")
		b.DeleteCursor("a/b", TopicPartition{"t", 2})
	})
	if err := s.DeleteConfig("group", "a/b"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	var want []string
	for i, name := range names {
		if name == "a/b" {
			continue
		}
		want = append(want,
			fmt.Sprintf("cursor %q {t %d} %+v", name, i, Cursor{int64(i), -1, name, 3, -1}),
			fmt.Sprintf("group %q %s", name, short([]byte("group "+name))),
			fmt.Sprintf("txn %q %s", name, short(nil)),
			fmt.Sprintf("config %q %q map[k:%s]", "group", name, name),
		)
	}
	sort.Strings(want)
	if got := dump(t, open(t, disk, testOptions())); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestProducerIDsAreHandedOutOnce(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	next := int64(0)
	for range 3 {
		s := open(t, disk, testOptions())
		for range 2 {
			first, err := s.ReserveProducerIDs(1000)
			if err != nil || first < next {
				t.Fatalf("block at %d, %v; handed out up to %d", first, err, next)
			}
			next = first + 1000
		}
		disk = disk.Kill()
	}
}

func TestClosedStoreSaysSo(t *testing.T) {
	t.Parallel()
	s := open(t, simdisk.New(1), testOptions())
	topic := mustCreate(t, s, "a")
	mustClose(t, s)
	mustClose(t, s)
	var b Batch
	putCursor("g", "t", 1)(&b)
	for what, err := range map[string]error{
		"commit": s.Commit(&b), "create": second(createTopic(s, Topic{Name: "t"})), "delete": second(deleteTopic(s, topic.ID)),
		"log start": s.SetLogStart(topic.ID, 0, 1), "producer ids": second(s.ReserveProducerIDs(1)),
		"groups": s.Groups(nil), "config": s.PutConfig("a", "b", nil),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestYieldsErrorEndsReading(t *testing.T) {
	t.Parallel()
	s := open(t, simdisk.New(1), testOptions())
	mustCommit(t, s, putCursor("g", "t", 1))
	mustCommit(t, s, putCursor("h", "t", 1))
	calls := 0
	err := s.Cursors(func(string, TopicPartition, Cursor) error {
		calls++
		return storage.ErrClosed
	})
	if !errors.Is(err, storage.ErrClosed) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
