package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kbroker/kbroker"
)

// txnBroker is a broker with topic orders, a transaction of payer that is open in it, and one of payee that is committed.
func txnBroker(t *testing.T) string {
	t.Helper()
	b := kbroker.StartTest(t)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err = kadm.NewClient(c).CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"payer", "payee"} {
		p, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.TransactionalID(id), kgo.DefaultProduceTopic("orders"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.CloseAllowingRebalance)
		if err = p.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err = p.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if id == "payee" {
			if err = p.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
			for state := ""; state != "CompleteCommit"; { // its markers may follow the answer
				d, err := describeTransaction(t.Context(), kadm.NewClient(c), id)
				if err != nil {
					t.Fatal(err)
				}
				state = d.State
			}
		}
	}
	return b.Addr()
}

// txnShell runs a command on a broker; what differs from run to run is replaced.
func txnShell(t *testing.T, address string, args ...string) string {
	t.Helper()
	text := shell(t, t.TempDir(), append([]string{"txn"}, append(args, "--bootstrap", address)...)...)
	text = strings.ReplaceAll(text, address, "ADDRESS")
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:]+Z`).ReplaceAllString(text, "TIME")
	text = regexp.MustCompile(`\b\d{1,2}s\b`).ReplaceAllString(text, "SECS")
	return regexp.MustCompile(` +\n`).ReplaceAllString(text, "\n")
}

func TestTransactionsAreListedDescribedAndAborted(t *testing.T) {
	t.Parallel()
	address := txnBroker(t)
	text := ""
	for _, line := range []string{
		"list", "list --state Ongoing", "describe payer", "describe payee", "abort payee", "abort payer", "abort payer", "list",
	} {
		text += txnShell(t, address, strings.Fields(line)...)
	}
	golden(t, "txn.txt", text)
}

func TestTransactionsAreListedForPrograms(t *testing.T) {
	t.Parallel()
	address := txnBroker(t)
	var out output
	if status := run(t.Context(), []string{"txn", "list", "--json", "--bootstrap", address}, strings.NewReader(""), &out, &out); status != exitOK {
		t.Fatal(out.String())
	}
	var list []transaction
	if err := json.Unmarshal([]byte(out.String()), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[1].ID != "payer" || list[1].State != "Ongoing" || fmt.Sprint(list[1].Partitions) != "[orders-0]" ||
		list[1].StartMs < 1_600_000_000_000 || list[0].OpenMs != 0 {
		t.Errorf("%+v", list)
	}
	var one output
	if status := run(t.Context(), []string{"txn", "describe", "payer", "--json", "--bootstrap", address}, strings.NewReader(""), &one, &one); status != exitOK {
		t.Fatal(one.String())
	}
	var d transaction
	if err := json.Unmarshal([]byte(one.String()), &d); err != nil || d.ProducerID != list[1].ProducerID {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestHangingTransactionIsAborted(t *testing.T) {
	t.Parallel()
	address := txnBroker(t)
	text := ""
	for _, line := range []string{
		"abort --topic orders --start-offset 5", "abort --topic orders --partition 3", "abort --topic orders --partition 0 --start-offset 0",
		"abort --topic orders --partition 0 --start-offset 0",
	} {
		text += txnShell(t, address, strings.Fields(line)...)
	}
	golden(t, "txn-hanging.txt", regexp.MustCompile(`producer \d+`).ReplaceAllString(text, "producer ID"))
}

func TestTransactionCommandsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	address := txnBroker(t)
	for _, c := range []struct {
		line   string
		status int
		says   string
	}{
		{"describe nope", exitFailed, `there is no transactional id "nope"`},
		{"abort nope", exitFailed, `there is no transactional id "nope"`},
		{"abort", exitMisused, "either a transactional id or --topic"},
		{"abort payer --topic orders", exitMisused, "either a transactional id or --topic"},
		{"describe", exitMisused, "takes the transactional id"},
		{"list x", exitMisused, "takes no argument"},
	} {
		var out output
		args := append([]string{"txn"}, append(strings.Fields(c.line), "--bootstrap", address)...)
		status := run(t.Context(), args, strings.NewReader(""), &out, &out)
		if status != c.status || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: status %d, %q; want %d and %q", c.line, status, &out, c.status, c.says)
		}
	}
}
