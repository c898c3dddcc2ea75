package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kbroker/kbroker"
)

// groupBroker is a broker with topic orders of two partitions, ten records each, and the group billing that has consumed
// three of partition 0.
func groupBroker(t *testing.T) string {
	t.Helper()
	b := kbroker.StartTest(t)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a := kadm.NewClient(c)
	if _, err = a.CreateTopic(t.Context(), 2, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		r := &kgo.Record{Topic: "orders", Partition: int32(i % 2), Value: []byte("v"), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i))}
		if err = c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	offsets := kadm.Offsets{}
	offsets.AddOffset("orders", 0, 3, -1)
	if err = a.CommitAllOffsets(t.Context(), "billing", offsets); err != nil {
		t.Fatal(err)
	}
	return b.Addr()
}

// joined is a member of a group that stays until the test ends.
func joined(t *testing.T, address, group string) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumerGroup(group), kgo.ConsumeTopics("orders"), kgo.ClientID("shop"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if f := c.PollFetches(ctx); f.Err() != nil {
		t.Fatal(f.Err())
	}
}

// groupShell runs a command on a broker; addresses and ids that differ from run to run are replaced.
func groupShell(t *testing.T, address string, args ...string) string {
	t.Helper()
	text := shell(t, t.TempDir(), append([]string{"group"}, append(args, "--bootstrap", address)...)...)
	text = strings.ReplaceAll(text, address, "ADDRESS")
	text = regexp.MustCompile(`shop-?[0-9a-f]{8}-[0-9a-f-]{27}|shop-[0-9A-Za-z_-]{22}`).ReplaceAllString(text, "MEMBER")
	return regexp.MustCompile(` +\n`).ReplaceAllString(text, "\n")
}

func TestGroupsAreListedDescribedResetAndDeleted(t *testing.T) {
	t.Parallel()
	address := groupBroker(t)
	text := ""
	for _, line := range []string{
		"list", "list --json", "describe billing", "describe billing --json",
		"reset billing --topic orders --to-latest",
		"reset billing --topic orders:0 --to-offset 7 --apply",
		"reset billing --topic orders --to-timestamp 1700000000010 --apply --json",
		"reset billing --all-topics --shift-by -100 --dry-run",
		"reset billing --all-topics --shift-by 3 --apply",
		"reset billing --topic orders:1 --to-offset 99",
		"reset billing --topic orders --to-earliest --apply",
		"describe billing",
		"delete billing", "list",
	} {
		text += groupShell(t, address, strings.Fields(line)...)
	}
	golden(t, "group.txt", text)
}

func TestGroupCommandsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	address := groupBroker(t)
	joined(t, address, "busy")
	nobody := freeAddress(t)
	for _, c := range []struct {
		address, line string
		status        int
		says          string
	}{
		{nobody, "list", exitFailed, "no broker answers at " + nobody},
		{address, "describe nope", exitFailed, `there is no group "nope"`},
		{address, "reset nope --topic orders --to-latest", exitFailed, `there is no group "nope"`},
		{address, "delete nope", exitFailed, `there is no group "nope"`},
		{address, "delete busy", exitFailed, "not empty"},
		{address, "reset busy --topic orders --to-latest --apply", exitFailed, "not empty"},
		{address, "reset billing --topic none --to-latest", exitFailed, `there is no topic "none"`},
		{address, "reset billing --topic orders:7 --to-latest", exitFailed, "there is no partition orders-7"},
		{address, "reset billing --topic orders:1 --shift-by 1", exitFailed, "nothing is committed for orders-1"},
		{address, "reset billing --topic orders", exitMisused, "--to-earliest"},
		{address, "reset billing --to-latest", exitMisused, "--all-topics"},
		{address, "reset billing --topic orders:x --to-latest", exitMisused, "no partition"},
		{address, "reset billing --topic orders --to-timestamp soon", exitMisused, "--to-timestamp"},
		{address, "describe", exitMisused, "takes the group"},
	} {
		var out output
		args := append([]string{"group"}, append(strings.Fields(c.line), "--bootstrap", c.address)...)
		status := run(t.Context(), args, strings.NewReader(""), &out, &out)
		if status != c.status || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: status %d, %q; want %d and %q", c.line, status, &out, c.status, c.says)
		}
	}
}

func TestMembersOfAGroupAreShown(t *testing.T) {
	t.Parallel()
	address := groupBroker(t)
	joined(t, address, "busy")
	var out output
	if status := run(t.Context(), []string{"group", "describe", "busy", "--json", "--bootstrap", address}, strings.NewReader(""), &out, &out); status != exitOK {
		t.Fatalf("status %d: %s", status, &out)
	}
	var d groupLag
	if err := json.Unmarshal([]byte(out.String()), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Members) != 1 || d.Members[0].ClientID != "shop" || len(d.Partitions) != 2 || d.State != "Stable" {
		t.Fatalf("got %+v", d)
	}
	for i, p := range d.Partitions {
		if p.Partition != int32(i) || p.LogEnd != 10 || p.Member != d.Members[0].ID {
			t.Errorf("got %+v", p)
		}
	}
	if text := fmt.Sprint(d.Members[0].Partitions); text != "[orders-0 orders-1]" && text != "[orders-1 orders-0]" {
		t.Errorf("got %s", text)
	}
}

// freeAddress is one at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it served its purpose
	return l.Addr().String()
}
