package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// reset says which offsets of a group go where.
type reset struct {
	topics            []string // TOPIC or TOPIC:0,1
	allTopics         bool
	earliest, latest  bool
	offset, shift     int64
	timestamp         string
	apply, dryRun     bool
	asJSON            bool
	hasOffset, hasShf bool
}

// movedOffset is an offset before and after a reset.
type movedOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // -1 if nothing was committed
	To        int64  `json:"to"`
}

func groupResetCommand() *cobra.Command {
	var k client
	var r reset
	c := &cobra.Command{
		Use: "reset GROUP", Short: "Say where a group's offsets would go, and with --apply commit them.",
		Long: "Moves the committed offsets of a group without members. Without --apply it only says what it would do. An offset that\n" +
			"lies outside of a partition is moved to its nearest end.",
		Example: `  kbroker group reset billing --topic orders --to-earliest
  kbroker group reset billing --topic orders:0,2 --to-offset 1200 --apply
  kbroker group reset billing --all-topics --to-timestamp 2026-01-31T08:00:00Z --apply
  kbroker group reset billing --all-topics --shift-by -100 --apply`,
		Args: arguments(1, 1, "the group"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.hasOffset, r.hasShf = cmd.Flags().Changed("to-offset"), cmd.Flags().Changed("shift-by")
			if err := r.check(); err != nil {
				return err
			}
			return k.admin(cmd.Context(), func(ctx context.Context, a *kadm.Client) error {
				return r.run(ctx, a, cmd.OutOrStdout(), args[0])
			})
		},
	}
	f := c.Flags()
	f.StringArrayVar(&r.topics, "topic", nil, "a `TOPIC`, or TOPIC:0,1 for some of its partitions; may be repeated")
	f.BoolVar(&r.allTopics, "all-topics", false, "all partitions for which the group has committed an offset")
	f.BoolVar(&r.earliest, "to-earliest", false, "to where the partitions begin")
	f.BoolVar(&r.latest, "to-latest", false, "to where the partitions end")
	f.Int64Var(&r.offset, "to-offset", 0, "to an `OFFSET`")
	f.StringVar(&r.timestamp, "to-timestamp", "", "to the first record of a `TIME` or later: ms since 1970, or as 2026-01-31T08:00:00Z")
	f.Int64Var(&r.shift, "shift-by", 0, "by `N` records, back if negative")
	f.BoolVar(&r.apply, "apply", false, "do it")
	f.BoolVar(&r.dryRun, "dry-run", false, "only say what would be done (the default)")
	f.BoolVar(&r.asJSON, "json", false, "for programs")
	k.flags(c)
	return c
}

// check demands one target and a choice of partitions.
func (r *reset) check() error {
	targets := 0
	for _, given := range []bool{r.earliest, r.latest, r.hasOffset, r.timestamp != "", r.hasShf} {
		if given {
			targets++
		}
	}
	switch {
	case targets != 1:
		return misused("say where to with one of --to-earliest, --to-latest, --to-offset, --to-timestamp, --shift-by")
	case r.allTopics == (len(r.topics) > 0):
		return misused("say which partitions with --topic TOPIC[:0,1] or --all-topics")
	case r.apply && r.dryRun:
		return misused("--apply and --dry-run exclude each other")
	case r.hasOffset && r.offset < 0:
		return misused("--to-offset %d is below 0", r.offset)
	}
	if r.timestamp != "" {
		if _, err := r.millis(); err != nil {
			return misuseError{err}
		}
	}
	return nil
}

// millis is the time to reset to.
func (r *reset) millis() (int64, error) {
	if ms, err := strconv.ParseInt(r.timestamp, 10, 64); err == nil {
		return ms, nil
	}
	t, err := time.Parse(time.RFC3339, r.timestamp)
	if err != nil {
		return 0, fmt.Errorf("--to-timestamp %q is neither ms since 1970 nor a time such as 2026-01-31T08:00:00Z", r.timestamp)
	}
	return t.UnixMilli(), nil
}

func (r *reset) run(ctx context.Context, a *kadm.Client, w io.Writer, group string) error {
	g, err := findGroup(ctx, a, group)
	if err == nil {
		err = mustBeEmpty(g, "reset")
	}
	if err != nil {
		return fmt.Errorf("reset group %q: %w", group, err)
	}
	moves, err := r.plan(ctx, a, group)
	if err == nil && r.apply {
		offsets := kadm.Offsets{}
		for _, m := range moves {
			offsets.AddOffset(m.Topic, m.Partition, m.To, -1)
		}
		err = a.CommitAllOffsets(ctx, group, offsets)
	}
	if err != nil {
		return fmt.Errorf("reset group %q: %w", group, err)
	}
	return r.print(w, moves)
}

// plan finds out what is to be committed.
func (r *reset) plan(ctx context.Context, a *kadm.Client, group string) ([]movedOffset, error) {
	now, err := a.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	chosen, err := r.chosen(now)
	if err != nil {
		return nil, err
	}
	topics := chosen.Topics()
	if len(topics) == 0 {
		return nil, errors.New("it has no committed offsets: choose partitions with --topic")
	}
	starts, err := a.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := a.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	if err = missing(chosen, ends); err != nil {
		return nil, err
	}
	targets, err := r.targets(ctx, a, topics, starts, ends)
	if err != nil {
		return nil, err
	}
	moves := []movedOffset{}
	for _, end := range ends.Offsets().Sorted() {
		if ps := chosen[end.Topic]; len(ps) > 0 && !chosen.Lookup(end.Topic, end.Partition) {
			continue
		}
		start, _ := starts.Lookup(end.Topic, end.Partition)
		m := movedOffset{Topic: end.Topic, Partition: end.Partition, From: -1}
		if c, ok := now.Lookup(end.Topic, end.Partition); ok && c.Err == nil {
			m.From = c.At
		}
		if m.To, err = r.target(m, targets); err != nil {
			return nil, err
		}
		m.To = min(max(m.To, start.Offset), end.At)
		moves = append(moves, m)
	}
	return moves, nil
}

// chosen is the partitions that were chosen; a topic without any stands for all it has.
func (r *reset) chosen(now kadm.OffsetResponses) (kadm.TopicsSet, error) {
	set := kadm.TopicsSet{}
	if r.allTopics {
		now.Each(func(o kadm.OffsetResponse) { set.Add(o.Topic, o.Partition) })
		return set, nil
	}
	for _, t := range r.topics {
		topic, list, some := strings.Cut(t, ":")
		set.Add(topic)
		if !some {
			continue
		}
		for _, s := range strings.Split(list, ",") {
			p, err := strconv.ParseInt(s, 10, 32)
			if err != nil || p < 0 {
				return nil, misused("--topic %s: %q is no partition", t, s)
			}
			set.Add(topic, int32(p))
		}
	}
	return set, nil
}

// targets are the offsets to go to, where that depends on the partition alone.
func (r *reset) targets(ctx context.Context, a *kadm.Client, topics []string, starts, ends kadm.ListedOffsets) (kadm.ListedOffsets, error) {
	if err := errors.Join(starts.Error(), ends.Error()); err != nil {
		return nil, err
	}
	switch {
	case r.earliest:
		return starts, nil
	case r.timestamp != "":
		ms, err := r.millis()
		if err != nil {
			return nil, err
		}
		found, err := a.ListOffsetsAfterMilli(ctx, ms, topics...)
		if err == nil {
			err = found.Error()
		}
		return found, err
	default:
		return ends, nil
	}
}

// target is where one offset goes.
func (r *reset) target(m movedOffset, targets kadm.ListedOffsets) (int64, error) {
	switch {
	case r.hasOffset:
		return r.offset, nil
	case r.hasShf && m.From < 0:
		return 0, fmt.Errorf("nothing is committed for %s-%d that could be shifted", m.Topic, m.Partition)
	case r.hasShf:
		return m.From + r.shift, nil
	}
	t, _ := targets.Lookup(m.Topic, m.Partition)
	return t.Offset, nil
}

// missing is an error if a partition that was chosen isn't there.
func missing(chosen kadm.TopicsSet, ends kadm.ListedOffsets) error {
	var errs []error
	for _, t := range chosen.Sorted() {
		if unknown, found := ends.Lookup(t.Topic, -1); len(ends[t.Topic]) == 0 || (found && errors.Is(unknown.Err, kerr.UnknownTopicOrPartition)) {
			errs = append(errs, fmt.Errorf("there is no topic %q", t.Topic))
			continue
		}
		for _, p := range t.Partitions {
			if _, ok := ends.Lookup(t.Topic, p); !ok {
				errs = append(errs, fmt.Errorf("there is no partition %s-%d", t.Topic, p))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *reset) print(w io.Writer, moves []movedOffset) error {
	if r.asJSON {
		return printJSON(w, struct {
			Applied bool          `json:"applied"`
			Offsets []movedOffset `json:"offsets"`
		}{r.apply, moves})
	}
	rows := make([][]string, len(moves))
	for i, m := range moves {
		rows[i] = []string{m.Topic, strconv.Itoa(int(m.Partition)), committed(m.From), strconv.FormatInt(m.To, 10)}
	}
	if err := printTable(w, []string{"TOPIC", "PARTITION", "FROM", "TO"}, rows); err != nil {
		return err
	}
	text := "nothing was changed, --apply does it"
	if r.apply {
		text = "committed"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
