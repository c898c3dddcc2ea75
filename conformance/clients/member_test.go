package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker"
)

// roleVariable makes this binary a member or a broker instead of the tests.
const roleVariable = "TURMOIL_ROLE"

const (
	memberSession   = 3 * time.Second
	memberRebalance = 30 * time.Second
	memberBatch     = 100
)

// play plays the role the environment names; false if it names none.
func play() (code int, played bool) {
	role := os.Getenv(roleVariable)
	if role == "" {
		return 0, false
	}
	working, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { // the end of the input is the sign to leave, also if the parent is gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	roles := map[string]func(context.Context) error{
		"broker": playBroker, "franz-go": playFranz, "librdkafka": playConfluent, "teller": playTeller,
	}
	if err := roles[role](working); err != nil {
		fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), role+":", err)
		return 1, true
	}
	return 0, true
}

// tell prints what a process does or knows. The line is out before anything else happens, however the process ends.
func tell(kind, what string) {
	_, _ = fmt.Fprintf(os.Stdout, "%d %s %s\n", time.Now().UnixNano(), kind, what)
}

func playBroker(working context.Context) error {
	signal.Ignore(os.Interrupt)
	b, err := kbroker.Start(context.Background(), kbroker.Options{
		DataDir: os.Getenv("TURMOIL_DIR"), Listen: []string{os.Getenv("TURMOIL_ADDR")}, Admin: "off",
		Set: map[string]string{"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "200"},
	})
	if err != nil {
		return err
	}
	tell("ready", b.Addr())
	<-working.Done()
	return b.Close()
}

// pause lets time pass where nothing is waited for: work that a process pretends to do, or chance, which decides when something
// happens to it.
func pause(d time.Duration) { <-time.After(d) }

// report collects a member's events; what it says is out before the next commit is sent.
type report struct {
	mu   sync.Mutex
	text strings.Builder
	span map[int32][2]int64 // per partition what is read and not committed: from, to
}

func newReport() *report { return &report{span: map[int32][2]int64{}} }

// say adds a line: time, kind, partition, from, to, value.
func (r *report) say(kind string, partition int32, from, to int64, value string) {
	fmt.Fprintf(&r.text, "%d %s %d %d %d %s\n", time.Now().UnixNano(), kind, partition, from, to, value)
}

func (r *report) flush() {
	_, _ = os.Stdout.WriteString(r.text.String())
	r.text.Reset()
}

func (r *report) assigned(partitions ...int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range partitions {
		r.say("assigned", p, 0, 0, "-")
	}
	r.flush()
}

func (r *report) read(partition int32, offset int64, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.say("read", partition, offset, offset+1, value)
	s, ok := r.span[partition]
	if !ok {
		s[0] = offset
	}
	s[1] = offset + 1
	r.span[partition] = s
}

// commit commits what was read with f, which gets the next offset of each partition and may be called again, and forgets it: what
// couldn't be committed is for whoever gets the partition next.
func (r *report) commit(f func(next map[int32]int64) error, worthwhile func(error) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.span) == 0 {
		return
	}
	r.flush()
	pause(time.Duration(rand.IntN(80)) * time.Millisecond) // the processing: what freezes or dies here hasn't committed
	next := map[int32]int64{}
	for p, s := range r.span {
		next[p] = s[1]
	}
	err := f(next)
	for end := time.Now().Add(memberRebalance / 2); err != nil && worthwhile(err) && time.Now().Before(end); err = f(next) {
		pause(50 * time.Millisecond)
	}
	for p, s := range r.span {
		if err == nil {
			r.say("committed", p, s[0], s[1], "-")
		}
	}
	r.flush()
	clear(r.span)
	if err != nil {
		fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), "commit:", err)
	}
}

func playFranz(working context.Context) error {
	topic, r := os.Getenv("TURMOIL_TOPIC"), newReport()
	c, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("TURMOIL_ADDR")), kgo.ConsumerGroup(os.Getenv("TURMOIL_GROUP")),
		kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(memberSession), kgo.HeartbeatInterval(500*time.Millisecond), kgo.RebalanceTimeout(memberRebalance),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { r.assigned(ps[topic]...) }),
	)
	if err != nil {
		return err
	}
	defer c.CloseAllowingRebalance()
	for working.Err() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		c.PollRecords(ctx, memberBatch).EachRecord(func(rec *kgo.Record) { r.read(rec.Partition, rec.Offset, string(rec.Value)) })
		cancel()
		r.commit(func(next map[int32]int64) error { return franzCommit(c, topic, next) }, func(err error) bool {
			var ke *kerr.Error
			return !errors.As(err, &ke) || ke.Retriable && !errors.Is(err, kerr.RebalanceInProgress)
		})
		c.AllowRebalance()
	}
	return nil
}

func franzCommit(c *kgo.Client, topic string, next map[int32]int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), memberRebalance/2)
	defer cancel()
	offsets := map[int32]kgo.EpochOffset{}
	for p, o := range next {
		offsets[p] = kgo.EpochOffset{Epoch: -1, Offset: o}
	}
	var failed error
	c.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if failed = err; err != nil {
				return
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					failed = errors.Join(failed, kerr.ErrorForCode(p.ErrorCode))
				}
			}
		})
	return failed
}

func playConfluent(working context.Context) error {
	topic, r := os.Getenv("TURMOIL_TOPIC"), newReport()
	c, err := kafka.NewConsumer(&kafka.ConfigMap{
		"bootstrap.servers": os.Getenv("TURMOIL_ADDR"), "group.id": os.Getenv("TURMOIL_GROUP"), "auto.offset.reset": "earliest",
		"enable.auto.commit": false, "session.timeout.ms": int(memberSession.Milliseconds()), "heartbeat.interval.ms": 500,
		"max.poll.interval.ms": int(memberRebalance.Milliseconds()), "fetch.wait.max.ms": 200,
		"reconnect.backoff.max.ms": 500,
	})
	if err != nil {
		return err
	}
	commit := func() {
		r.commit(func(next map[int32]int64) error { return confluentCommit(c, topic, next) }, func(err error) bool {
			var ke kafka.Error
			return errors.As(err, &ke) && (ke.IsRetriable() || ke.Code() < 0 && ke.Code() != kafka.ErrNoOffset) && !c.AssignmentLost()
		})
	}
	// The assignment only changes while the member polls, so a commit never speaks for partitions of another generation.
	rebalance := func(c *kafka.Consumer, e kafka.Event) error {
		switch e := e.(type) {
		case kafka.AssignedPartitions:
			for _, p := range e.Partitions {
				r.assigned(p.Partition)
			}
			return c.Assign(e.Partitions)
		case kafka.RevokedPartitions:
			commit()
			return c.Unassign()
		}
		return nil
	}
	if err := c.SubscribeTopics([]string{topic}, rebalance); err != nil {
		return err
	}
	for working.Err() == nil {
		wait := 200
		for range memberBatch {
			e := c.Poll(wait)
			if e == nil {
				break
			}
			wait = 0
			switch e := e.(type) {
			case *kafka.Message:
				r.read(e.TopicPartition.Partition, int64(e.TopicPartition.Offset), string(e.Value))
			case kafka.Error:
				if e.IsFatal() {
					return e
				}
			}
		}
		commit()
	}
	return c.Close()
}

var errLost = errors.New("the assignment is lost")

func confluentCommit(c *kafka.Consumer, topic string, next map[int32]int64) error {
	if c.AssignmentLost() {
		return errLost
	}
	offsets := make([]kafka.TopicPartition, 0, len(next))
	for p, o := range next {
		offsets = append(offsets, kafka.TopicPartition{Topic: &topic, Partition: p, Offset: kafka.Offset(o)})
	}
	answer, err := c.CommitOffsets(offsets)
	if err != nil {
		return err
	}
	for _, p := range answer {
		if p.Error != nil {
			return p.Error
		}
	}
	return nil
}
