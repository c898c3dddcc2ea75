package clients

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

var (
	rebalanceFor  = flag.Duration("rebalance.for", 10*time.Second, "how long members come, go and freeze in the test of rebalances")
	rebalanceSeed = flag.Uint64("rebalance.seed", 0, "seed of what happens in the test of rebalances; 0 takes one from the clock")
)

const (
	rebalancePartitions = 6
	rebalanceMembers    = 5
	// settle bounds how long the group may take to read all that is left once nothing disturbs it any more.
	settle = 3 * time.Minute
)

// child is this test binary in a process of its own, as a member of the group or as the broker.
type child struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	said   chan struct{} // closed once all output is read
	news   chan struct{} // a line has come; holds one
	thawed time.Time     // when a frozen member goes on; zero if it isn't frozen

	mu    sync.Mutex
	lines []string
	errs  strings.Builder
}

// Write keeps what the process prints to its standard error.
func (c *child) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.errs.Write(p)
}

func spawn(t *testing.T, name, role string, env ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{name: name, cmd: exec.Command(self), said: make(chan struct{}), news: make(chan struct{}, 1)}
	c.cmd.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
	c.cmd.Stderr = c
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.listen(bufio.NewReader(out))
	return c
}

// listen keeps whole lines; a process that is killed may leave half of one.
func (c *child) listen(r *bufio.Reader) {
	defer close(c.said)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		c.mu.Lock()
		c.lines = append(c.lines, strings.TrimSuffix(line, "\n"))
		c.mu.Unlock()
		select {
		case c.news <- struct{}{}:
		default:
		}
	}
}

// await waits until the process has printed what makes cond true; false if that doesn't come, or not in time.
func (c *child) await(within time.Duration, cond func() bool) bool {
	for late := time.After(within); !cond(); {
		select {
		case <-c.news:
		case <-c.said:
			return cond()
		case <-late:
			return false
		}
	}
	return true
}

// ready tells whether the process has said that it is.
func (c *child) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.lines, func(line string) bool { return strings.Contains(line, " ready ") })
}

// over tells whether the process has ended.
func (c *child) over() bool {
	select {
	case <-c.said:
		return true
	default:
		return false
	}
}

// complaints is what the process has printed to its standard error.
func (c *child) complaints() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.errs.String()
}

func (c *child) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) }

func (c *child) freeze(until time.Time) {
	c.signal(syscall.SIGSTOP)
	c.thawed = until
}

func (c *child) thaw() {
	c.signal(syscall.SIGCONT)
	c.thawed = time.Time{}
}

// kill ends the process with SIGKILL and waits for what it has printed.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.said
	_ = c.cmd.Wait()
}

// leave lets the process end in order: it leaves the group. One that takes too long is killed.
func (c *child) leave() {
	_ = c.stdin.Close()
	select {
	case <-c.said:
	case <-time.After(limit):
		c.signal(syscall.SIGKILL)
		<-c.said
	}
	_ = c.cmd.Wait()
}

// chance is what decides what happens in a test that kills brokers of its own.
func chance(t *testing.T, stream uint64) *rand.Rand {
	t.Helper()
	if *addrFlag != "" {
		t.Skip("needs a broker that it may kill: run it without -addr")
	}
	t.Parallel()
	seed := *rebalanceSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-rebalance.seed=%d", seed)
	return rand.New(rand.NewPCG(seed, stream))
}

// turmoil is a group whose members and broker come and go.
type turmoil struct {
	t            *testing.T
	rng          *rand.Rand
	addr, dir    string
	group, topic string
	broker       *child
	steady       *child   // the member nothing happens to: the group is never empty, as a frozen member could commit to that
	members      []*child // without the steady one
	gone         []*child
	started      int
	happened     map[string]int
}

func newTurmoil(t *testing.T, rng *rand.Rand) *turmoil {
	t.Helper()
	tm := &turmoil{
		t: t, rng: rng, addr: steadyAddress(t), dir: t.TempDir(), group: "readers", topic: "numbers", happened: map[string]int{},
	}
	t.Cleanup(tm.end)
	tm.startBroker()
	return tm
}

// steadyAddress is a free address that stays free while the broker is away: its port is below those the system gives to outgoing
// connections, of which one could otherwise take it.
func steadyAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// end kills what still runs.
func (tm *turmoil) end() {
	for _, c := range append(tm.members, tm.steady, tm.broker) {
		if c != nil {
			c.kill()
		}
	}
}

func (tm *turmoil) startBroker() {
	tm.t.Helper()
	tm.broker = spawn(tm.t, "broker", "broker", "TURMOIL_ADDR="+tm.addr, "TURMOIL_DIR="+tm.dir)
	if !tm.broker.await(limit, tm.broker.ready) {
		tm.t.Fatalf("the broker doesn't come up at %s:\n%s", tm.addr, tm.broker.complaints())
	}
}

// startMember starts a member; the libraries take turns.
func (tm *turmoil) startMember() *child {
	tm.t.Helper()
	roles := []string{"franz-go", "librdkafka"}
	role := roles[tm.started%len(roles)]
	name := fmt.Sprintf("%s-%d", role, tm.started)
	tm.started++
	return spawn(tm.t, name, role, "TURMOIL_ADDR="+tm.addr, "TURMOIL_GROUP="+tm.group, "TURMOIL_TOPIC="+tm.topic)
}

// take picks a member at random that isn't frozen and takes it out; nil if there is none.
func (tm *turmoil) take() *child {
	for _, i := range tm.rng.Perm(len(tm.members)) {
		if c := tm.members[i]; c.thawed.IsZero() {
			tm.members = append(tm.members[:i:i], tm.members[i+1:]...)
			return c
		}
	}
	return nil
}

// happen lets one thing happen.
func (tm *turmoil) happen(what string) {
	tm.t.Helper()
	switch what {
	case "start":
		if len(tm.members) >= rebalanceMembers {
			return
		}
		tm.members = append(tm.members, tm.startMember())
	case "restart the broker":
		tm.broker.kill()
		pause(time.Duration(tm.rng.IntN(500)) * time.Millisecond)
		tm.startBroker()
	default:
		c := tm.take()
		if c == nil {
			return
		}
		tm.befall(c, what)
	}
	tm.happened[what]++
}

// befall lets something happen to a member.
func (tm *turmoil) befall(c *child, what string) {
	switch what {
	case "stop":
		c.leave()
		tm.gone = append(tm.gone, c)
	case "kill":
		c.kill()
		tm.gone = append(tm.gone, c)
	case "freeze":
		c.freeze(time.Now().Add(time.Duration(500+tm.rng.IntN(8000)) * time.Millisecond))
		tm.members = append(tm.members, c)
	}
}

// run lets things happen for a while; each kind as often as it stands in the list, in random order.
func (tm *turmoil) run(d time.Duration) {
	tm.t.Helper()
	kinds := []string{"start", "start", "start", "start", "freeze", "freeze", "kill", "stop", "restart the broker"}
	for end := time.Now().Add(d); ; {
		for _, i := range tm.rng.Perm(len(kinds)) {
			if time.Now().After(end) {
				return
			}
			tm.happen(kinds[i])
			ms := 200 + tm.rng.IntN(800)
			if tm.rng.IntN(3) == 0 { // time for the group to settle and for members to read
				ms += tm.rng.IntN(5000)
			}
			pause(time.Duration(ms) * time.Millisecond)
			for _, c := range tm.members {
				if !c.thawed.IsZero() && time.Now().After(c.thawed) {
					c.thaw()
				}
			}
		}
	}
}

// calm lets frozen members go on.
func (tm *turmoil) calm() {
	for _, c := range tm.members {
		c.thaw()
	}
}

// dismiss lets all members leave; their output is complete then.
func (tm *turmoil) dismiss() {
	all := append(tm.members, tm.steady)
	tm.members, tm.steady = nil, nil
	for _, c := range all {
		c.leave()
	}
	tm.gone = append(tm.gone, all...)
}

// place is where a record lies.
type place struct {
	partition int32
	offset    int64
}

// produceNumbers writes numbered records until stop closes and returns where each acknowledged one lies.
func produceNumbers(ctx context.Context, t *testing.T, addr, topic string, stop <-chan struct{}) map[place]string {
	t.Helper()
	acked := map[place]string{}
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Error(err)
		return acked
	}
	defer c.Close()
	for n := 0; ; {
		select {
		case <-stop:
			return acked
		case <-time.After(20 * time.Millisecond):
		}
		records := make([]*kgo.Record, 2*rebalancePartitions)
		for i := range records {
			records[i] = &kgo.Record{Partition: int32(n % rebalancePartitions), Value: fmt.Appendf(nil, "n-%d", n)}
			n++
		}
		for _, r := range c.ProduceSync(ctx, records...) {
			if r.Err != nil {
				t.Errorf("produce: %v", r.Err)
				return acked
			}
			acked[place{r.Record.Partition, r.Record.Offset}] = string(r.Record.Value)
		}
	}
}

// commits watches a group's committed offsets.
type commits struct {
	c            *kgo.Client
	group, topic string
	last         map[int32]int64
}

func watchCommits(t *testing.T, addr, group, topic string) *commits {
	t.Helper()
	most := kversion.Stable()
	most.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 9) // later versions want topic ids
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MaxVersions(most))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &commits{c: c, group: group, topic: topic, last: map[int32]int64{}}
}

// look reads the committed offsets; a failure says that they went back. No answer isn't a failure: the broker may be away.
func (w *commits) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = w.group
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic = w.topic
	for p := range int32(rebalancePartitions) {
		rt.Partitions = append(rt.Partitions, p)
	}
	g.Topics = append(g.Topics, rt)
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, w.c)
	if err != nil || len(resp.Groups) != 1 || resp.Groups[0].ErrorCode != 0 {
		return nil
	}
	for _, topic := range resp.Groups[0].Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode != 0 {
				continue
			}
			if last, ok := w.last[p.Partition]; ok && p.Offset < last {
				return fmt.Errorf("the commit of partition %d went back from %d to %d", p.Partition, last, p.Offset)
			}
			w.last[p.Partition] = p.Offset
		}
	}
	return nil
}

// watch looks again and again until stop closes.
func (w *commits) watch(ctx context.Context, t *testing.T, stop <-chan struct{}) {
	t.Helper()
	for {
		select {
		case <-stop:
			return
		case <-time.After(30 * time.Millisecond):
		}
		if err := w.look(ctx); err != nil {
			t.Error(err)
			return
		}
	}
}

// awaitAll waits until the commits have reached the end of what was acknowledged.
func (w *commits) awaitAll(t *testing.T, acked map[place]string) {
	t.Helper()
	ends := map[int32]int64{}
	for at := range acked {
		ends[at.partition] = max(ends[at.partition], at.offset+1)
	}
	await(t, settle, fmt.Sprintf("the commits to reach the ends %v", ends), func() bool {
		if err := w.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		for p, end := range ends {
			if w.last[p] < end {
				return false
			}
		}
		return true
	})
}

// Members of two libraries come, go, freeze and are killed while the broker is killed and comes back: every acknowledged record
// is read, none again after its commit was acknowledged, and commits never go back.
func TestGroupKeepsItsPromisesWhileMembersAndBrokerComeAndGo(t *testing.T) {
	tm := newTurmoil(t, chance(t, 0))
	makeTopicAt(t, tm.addr, tm.topic, rebalancePartitions)
	tm.steady = tm.startMember()
	tm.members = append(tm.members, tm.startMember())

	ctx, cancel := context.WithTimeout(context.Background(), *rebalanceFor+settle)
	defer cancel()
	written, watched := make(chan map[place]string, 1), make(chan struct{})
	stopWriting, stopWatching := make(chan struct{}), make(chan struct{})
	w := watchCommits(t, tm.addr, tm.group, tm.topic)
	go func() { written <- produceNumbers(ctx, t, tm.addr, tm.topic, stopWriting) }()
	go func() {
		defer close(watched)
		w.watch(ctx, t, stopWatching)
	}()
	stopAll := sync.OnceFunc(func() { close(stopWriting); close(stopWatching); <-watched })
	defer stopAll()

	tm.run(*rebalanceFor)
	tm.calm()
	stopAll()
	acked := <-written
	w.awaitAll(t, acked)
	tm.dismiss()
	judge(t, tm.gone, acked, w.last)
	t.Logf("%d records, %d members, %v", len(acked), tm.started, tm.happened)
	if t.Failed() {
		for _, c := range tm.gone {
			t.Logf("%s: %.2000s", c.name, c.complaints())
		}
		t.Logf("broker: %.4000s", tm.broker.complaints())
	}
}

// event is one line of a member.
type event struct {
	at        int64 // ns since 1970, the same clock in all processes
	kind      string
	partition int32
	from, to  int64
	value     string
}

func parseEvent(line string) (event, error) {
	var e event
	_, err := fmt.Sscanf(line, "%d %s %d %d %d %s", &e.at, &e.kind, &e.partition, &e.from, &e.to, &e.value)
	return e, err
}

// judge holds what the members did to what a group promises.
func judge(t *testing.T, members []*child, acked map[place]string, committed map[int32]int64) {
	t.Helper()
	events := map[string][]event{}
	by := map[place]event{} // the acknowledged commit that covers a record
	for _, m := range members {
		for _, line := range m.lines {
			e, err := parseEvent(line)
			if err != nil {
				t.Fatalf("%s says %q: %v", m.name, line, err)
			}
			events[m.name] = append(events[m.name], e)
			if e.kind != "committed" {
				continue
			}
			if e.to > committed[e.partition] {
				t.Errorf("%s was told that %d of partition %d is committed, but it is %d", m.name, e.to, e.partition, committed[e.partition])
			}
			for o := e.from; o < e.to; o++ {
				at := place{e.partition, o}
				if _, ok := by[at]; ok {
					t.Errorf("%s processed and committed %v, which was committed before", m.name, at)
				}
				by[at] = e
			}
		}
	}
	read := map[place]string{}
	again := 0
	for name, es := range events {
		again += judgeReads(t, name, es, by, read)
		t.Logf("%s: %d events", name, len(es))
	}
	missing := 0
	for at, value := range acked {
		if got, ok := read[at]; !ok {
			missing++
		} else if got != value {
			t.Errorf("%v holds %q, written was %q", at, got, value)
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d acknowledged records were never read", missing, len(acked))
	}
	t.Logf("%d records were committed with an acknowledgement, %d reads were repeated", len(by), again)
}

// judgeReads fails for a record that is read under an assignment younger than the acknowledged commit of it: who gets a partition
// starts at what is committed. It returns how many reads weren't the first.
func judgeReads(t *testing.T, name string, events []event, by map[place]event, read map[place]string) int {
	t.Helper()
	assigned, again := map[int32]int64{}, 0
	for _, e := range events {
		switch e.kind {
		case "assigned":
			assigned[e.partition] = e.at
		case "read":
			at := place{e.partition, e.from}
			if c, ok := by[at]; ok && c.at < assigned[e.partition] {
				t.Errorf("%s read %v, committed %v before it was assigned", name, at, time.Duration(assigned[e.partition]-c.at))
			}
			if _, ok := read[at]; ok {
				again++
			}
			read[at] = e.value
		}
	}
	return again
}
