package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	defaultBootstrap = "127.0.0.1:9092"
	dialTimeout      = 3 * time.Second
	requestTimeout   = 10 * time.Second
)

// statusError ends the command with a status of its own.
type statusError struct {
	status int
	error
}

func (e statusError) Unwrap() error { return e.error }

// errReported ends the command with a status when everything has been said already.
var errReported = errors.New("reported")

// misused is an error about how the command was called.
func misused(format string, args ...any) error { return misuseError{fmt.Errorf(format, args...)} }

// printJSON writes a value as indented JSON.
func printJSON(w io.Writer, v any) error {
	e := newEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// newEncoder writes one value a line.
func newEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// printTable writes rows under a header, in columns.
func printTable(w io.Writer, header []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		if _, err := fmt.Fprintln(t, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// subcommand completes a command that has others below it: it does nothing by itself.
func subcommand(use, short string, below ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misused("%s: there is no %q", c.CommandPath(), args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(below...)
	return c
}

// arguments demands a number of arguments.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return misused("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}

// client is how commands reach a broker.
type client struct {
	bootstrap []string
}

// flags adds --bootstrap.
func (c *client) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&c.bootstrap, "bootstrap", []string{defaultBootstrap}, "the broker, `HOST:PORT`")
}

// connect makes a client once a broker has answered. Close it.
func (c *client) connect(ctx context.Context, more ...kgo.Opt) (*kgo.Client, error) {
	common := []kgo.Opt{kgo.SeedBrokers(c.bootstrap...), kgo.ClientID("kbroker-cli"), kgo.DialTimeout(dialTimeout)}
	probe, err := kgo.NewClient(append(common, kgo.RequestRetries(0))...)
	if err != nil {
		return nil, misuseError{err}
	}
	err = probe.Ping(ctx)
	probe.Close()
	if err != nil {
		return nil, fmt.Errorf("no broker answers at %s: start one, or say where it is with --bootstrap HOST:PORT (%w)",
			strings.Join(c.bootstrap, ", "), err)
	}
	return kgo.NewClient(append(append(common, kgo.RetryTimeout(requestTimeout)), more...)...)
}

// admin runs a function with an admin client.
func (c *client) admin(ctx context.Context, do func(context.Context, *kadm.Client) error) error {
	k, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer k.Close()
	return do(ctx, kadm.NewClient(k))
}

// count is a number with its noun.
func count[N int | int64](n N, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"):
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// orDash is what a table shows for what isn't there.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
