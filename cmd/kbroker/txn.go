package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// txnCommand is what concerns transactions.
func txnCommand() *cobra.Command {
	return subcommand("txn", "List, describe and abort transactions.", txnListCommand(), txnDescribeCommand(), txnAbortCommand())
}

// ongoing is the state of a transaction that is open.
const ongoing = "Ongoing"

// transaction is what is known of a transactional id.
type transaction struct {
	ID         string   `json:"transactionalId"`
	State      string   `json:"state"`
	ProducerID int64    `json:"producerId"`
	Epoch      int16    `json:"producerEpoch"`
	TimeoutMs  int32    `json:"timeoutMs"`
	StartMs    int64    `json:"startMs"`    // -1 if there has been no transaction
	OpenMs     int64    `json:"openMs"`     // how long it has been open; 0 if it isn't
	Partitions []string `json:"partitions"` // topic-number
}

func txnListCommand() *cobra.Command {
	var k client
	asJSON := false
	var states []string
	c := &cobra.Command{
		Use: "list", Short: "List the transactional ids and how their transactions stand.", Args: arguments(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.admin(cmd.Context(), func(ctx context.Context, a *kadm.Client) error {
				return listTransactions(ctx, a, cmd.OutOrStdout(), states, asJSON)
			})
		},
	}
	k.flags(c)
	c.Flags().StringSliceVar(&states, "state", nil, "only those in a `STATE`, such as Ongoing")
	c.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return c
}

func listTransactions(ctx context.Context, a *kadm.Client, w io.Writer, states []string, asJSON bool) error {
	listed, err := a.ListTransactions(ctx, nil, states)
	if err != nil {
		return fmt.Errorf("list transactions: %w", err)
	}
	list := []transaction{}
	if len(listed) > 0 {
		described, err := a.DescribeTransactions(ctx, listed.TransactionalIDs()...)
		if err != nil {
			return fmt.Errorf("describe transactions: %w", err)
		}
		for _, d := range described.Sorted() {
			if d.Err == nil { // else it has expired meanwhile
				list = append(list, transactionOf(&d))
			}
		}
	}
	if asJSON {
		return printJSON(w, list)
	}
	rows := make([][]string, len(list))
	for i, t := range list {
		rows[i] = []string{
			t.ID, t.State, strconv.FormatInt(t.ProducerID, 10), strconv.Itoa(int(t.Epoch)), t.open(), strconv.Itoa(len(t.Partitions)),
		}
	}
	return printTable(w, []string{"TRANSACTIONAL-ID", "STATE", "PRODUCER-ID", "EPOCH", "OPEN", "PARTITIONS"}, rows)
}

// transactionOf is a description as this command shows it.
func transactionOf(d *kadm.DescribedTransaction) transaction {
	t := transaction{
		ID: d.TxnID, State: d.State, ProducerID: d.ProducerID, Epoch: d.ProducerEpoch, TimeoutMs: d.TimeoutMillis,
		StartMs: d.StartTimestamp, Partitions: []string{},
	}
	if d.State == ongoing {
		t.OpenMs = max(time.Now().UnixMilli()-d.StartTimestamp, 0)
	}
	for _, p := range d.Topics.Sorted() {
		for _, number := range p.Partitions {
			t.Partitions = append(t.Partitions, fmt.Sprintf("%s-%d", p.Topic, number))
		}
	}
	return t
}

// open is how long the transaction has been open.
func (t *transaction) open() string {
	if t.State != ongoing {
		return "-"
	}
	return (time.Duration(t.OpenMs) * time.Millisecond).Round(time.Second).String()
}

func txnDescribeCommand() *cobra.Command {
	var k client
	asJSON := false
	c := &cobra.Command{
		Use: "describe TRANSACTIONAL-ID", Short: "Show a transactional id's producer, and its transaction.",
		Args: arguments(1, 1, "the transactional id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return k.admin(cmd.Context(), func(ctx context.Context, a *kadm.Client) error {
				t, err := describeTransaction(ctx, a, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), t)
				}
				return t.print(cmd.OutOrStdout())
			})
		},
	}
	k.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return c
}

func describeTransaction(ctx context.Context, a *kadm.Client, id string) (transaction, error) {
	all, err := a.DescribeTransactions(ctx, id)
	if err != nil {
		return transaction{}, fmt.Errorf("describe transactions: %w", err)
	}
	d := all[id]
	if errors.Is(d.Err, kerr.TransactionalIDNotFound) {
		return transaction{}, fmt.Errorf("there is no transactional id %q; `kbroker txn list` shows those there are", id)
	}
	if d.Err != nil {
		return transaction{}, fmt.Errorf("describe %q: %w", id, d.Err)
	}
	return transactionOf(&d), nil
}

func (t *transaction) print(w io.Writer) error {
	started := "-"
	if t.StartMs >= 0 {
		started = time.UnixMilli(t.StartMs).UTC().Format(time.RFC3339)
	}
	return printTable(w, []string{"TRANSACTIONAL-ID", t.ID}, [][]string{
		{"STATE", t.State},
		{"PRODUCER-ID", strconv.FormatInt(t.ProducerID, 10)},
		{"EPOCH", strconv.Itoa(int(t.Epoch))},
		{"TIMEOUT", (time.Duration(t.TimeoutMs) * time.Millisecond).String()},
		{"STARTED", started},
		{"OPEN", t.open()},
		{"PARTITIONS", orDash(strings.Join(t.Partitions, ", "))},
	})
}

// hanging names a transaction by where it begins in a partition.
type hanging struct {
	topic     string
	partition int32
	offset    int64
}

func txnAbortCommand() *cobra.Command {
	var k client
	var at hanging
	c := &cobra.Command{
		Use: "abort [TRANSACTIONAL-ID]", Short: "Abort a transaction, and shut out its producer.",
		Long: `Abort the open transaction of a transactional id. Its producer is shut out: what it still sends is refused.

With --topic, --partition and --start-offset instead: abort a transaction that hangs in a partition though no coordinator
knows of it any more. "kbroker txn describe" and "kafka-transactions.sh find-hanging" help to find it.`,
		Args: arguments(0, 1, "the transactional id, or --topic, --partition and --start-offset"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (at.topic != "") {
				return misused("%s takes either a transactional id or --topic, --partition and --start-offset", cmd.CommandPath())
			}
			cl, err := k.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			if len(args) == 1 {
				return abortTransaction(cmd.Context(), cl, cmd.OutOrStdout(), args[0])
			}
			return abortHanging(cmd.Context(), kadm.NewClient(cl), cmd.OutOrStdout(), at)
		},
	}
	k.flags(c)
	c.Flags().StringVar(&at.topic, "topic", "", "the `TOPIC` of the partition that it hangs in")
	c.Flags().Int32Var(&at.partition, "partition", 0, "the partition's `NUMBER`")
	c.Flags().Int64Var(&at.offset, "start-offset", 0, "the first `OFFSET` of the transaction in it")
	return c
}

// abortTransaction lets the coordinator abort an open transaction: it does when a producer with the same id begins.
func abortTransaction(ctx context.Context, cl *kgo.Client, w io.Writer, id string) error {
	t, err := describeTransaction(ctx, kadm.NewClient(cl), id)
	if err != nil {
		return err
	}
	if t.State != ongoing {
		return fmt.Errorf("transactional id %q has no open transaction; its state is %s", id, t.State)
	}
	if err = fence(ctx, cl, &t); err != nil {
		return fmt.Errorf("abort the transaction of %q: %w", id, err)
	}
	_, err = fmt.Fprintf(w, "aborted the transaction of %s in %s\n", id, count(len(t.Partitions), "partition"))
	return err
}

// abortHanging writes abort markers past the coordinator.
func abortHanging(ctx context.Context, a *kadm.Client, w io.Writer, at hanging) error {
	var where kadm.TopicsSet
	where.Add(at.topic, at.partition)
	all, err := a.DescribeProducers(ctx, where)
	if err != nil {
		return fmt.Errorf("describe producers: %w", err)
	}
	p := all[at.topic].Partitions[at.partition]
	if p.Err != nil {
		return fmt.Errorf("%s-%d: %w", at.topic, at.partition, p.Err)
	}
	producers := p.ActiveProducers.Sorted()
	i := slices.IndexFunc(producers, func(d kadm.DescribedProducer) bool { return d.CurrentTxnStartOffset == at.offset })
	if i < 0 {
		return fmt.Errorf("no transaction begins at offset %d of %s-%d", at.offset, at.topic, at.partition)
	}
	found := producers[i]
	answers, err := a.WriteTxnMarkers(ctx, kadm.TxnMarkers{
		ProducerID: found.ProducerID, ProducerEpoch: found.ProducerEpoch,
		CoordinatorEpoch: max(found.CoordinatorEpoch, 0), Topics: where,
	})
	if err == nil {
		err = answers[found.ProducerID].Topics[at.topic].Partitions[at.partition].Err
	}
	if err != nil {
		return fmt.Errorf("write the marker: %w", err)
	}
	_, err = fmt.Fprintf(w, "aborted the transaction of producer %d in %s-%d\n", found.ProducerID, at.topic, at.partition)
	return err
}
