package clients

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kbroker/kbroker"
)

var addrFlag = flag.String("addr", "", "address of the broker to test; empty starts one")

var (
	broker string
	names  atomic.Int64
)

func TestMain(m *testing.M) {
	if code, played := play(); played {
		os.Exit(code)
	}
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if broker = *addrFlag; broker != "" {
		return m.Run()
	}
	b, err := kbroker.Start(context.Background(), kbroker.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		return 1
	}
	broker = b.Addr()
	code := m.Run()
	if err := b.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "close:", err)
		return 1
	}
	return code
}

// limit is how long a test waits for a client before it calls it stuck.
const limit = 60 * time.Second

// library is one client library. Each method uses the library's defaults but for what its arguments say.
type library struct {
	name   string
	codecs []string
	// produce sends values to a topic that may not exist yet and returns once all are acknowledged.
	produce func(t *testing.T, topic, codec string, values []string)
	// consume reads n values of a topic from its beginning, without a group.
	consume func(t *testing.T, topic string, n int) []string
	// join starts a member of a consumer group.
	join func(t *testing.T, group, topic string) member
}

// member is one consumer of a group.
type member interface {
	// poll returns the values read since the last call; it may wait a little if there are none.
	poll(t *testing.T) []string
	// assigned is the number of partitions the member owns.
	assigned() int
	// commit commits what has been polled.
	commit(t *testing.T)
	// leave closes the member.
	leave(t *testing.T)
}

func libraries() []library { return []library{franz(), confluent(), saramaLibrary(), segmentio()} }

// fresh makes a name of its own.
func fresh(what string) string { return fmt.Sprintf("%s-%d-%d", what, os.Getpid(), names.Add(1)) }

func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%05d", prefix, i)
	}
	return out
}

func TestProduceAndConsumeWithEveryCodec(t *testing.T) {
	for _, lib := range libraries() {
		for _, codec := range lib.codecs {
			t.Run(lib.name+"/"+codec, func(t *testing.T) {
				t.Parallel()
				topic := fresh("records")
				sent := numbered(codec, 500)
				lib.produce(t, topic, codec, sent)
				got := lib.consume(t, topic, len(sent))
				if !slices.Equal(got, sent) {
					t.Fatalf("got %d values back of %d, or in another order", len(got), len(sent))
				}
			})
		}
	}
}

// What one library writes, every other reads.
func TestLibrariesReadEachOther(t *testing.T) {
	for _, writer := range libraries() {
		topic := fresh("shared")
		sent := numbered(writer.name, 100)
		writer.produce(t, topic, writer.codecs[len(writer.codecs)-1], sent)
		for _, reader := range libraries() {
			t.Run(writer.name+"/"+reader.name, func(t *testing.T) {
				t.Parallel()
				if got := reader.consume(t, topic, len(sent)); !slices.Equal(got, sent) {
					t.Fatalf("got %d values of %d, or in another order", len(got), len(sent))
				}
			})
		}
	}
}

// Two members share the partitions; when one leaves, the other takes over; a new member resumes from the commits.
func TestGroupSharesRebalancesAndResumes(t *testing.T) {
	for _, lib := range libraries() {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			topic, group := fresh("topic"), fresh("group")
			makeTopic(t, topic, 4)
			first := lib.join(t, group, topic)
			second := lib.join(t, group, topic)
			await(t, limit, "both members to own two partitions", func() bool {
				first.poll(t)
				second.poll(t)
				return first.assigned() == 2 && second.assigned() == 2
			})

			sent := numbered("a", 200)
			franz().produce(t, topic, "none", sent)
			var got []string
			await(t, limit, "all records to be read", func() bool {
				got = append(got, first.poll(t)...)
				got = append(got, second.poll(t)...)
				return len(got) >= len(sent)
			})
			requireSame(t, got, sent)
			first.commit(t)
			second.commit(t)

			second.leave(t)
			await(t, limit, "the one left to own all partitions", func() bool {
				first.poll(t)
				return first.assigned() == 4
			})
			first.leave(t)

			more := numbered("b", 100)
			franz().produce(t, topic, "none", more)
			third := lib.join(t, group, topic)
			var resumed []string
			await(t, limit, "the new records to be read", func() bool {
				resumed = append(resumed, third.poll(t)...)
				return len(resumed) >= len(more)
			})
			requireSame(t, resumed, more)
			third.leave(t)
		})
	}
}

// requireSame compares two lists whose order may differ.
func requireSame(t *testing.T, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Fatalf("got %d values, want %d: %.200v", len(got), len(want), got)
	}
}

// await asks until done says so: what a broker or a library brings about within itself tells nobody here.
func await(t *testing.T, within time.Duration, what string, done func() bool) {
	t.Helper()
	tick, late := time.NewTicker(10*time.Millisecond), time.After(within)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// shut closes what a test has opened; that it can't be closed is a failure.
func shut(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
