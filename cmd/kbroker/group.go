package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// groupCommand is what concerns consumer groups.
func groupCommand() *cobra.Command {
	return subcommand("group", "List, describe, reset and delete consumer groups.",
		groupListCommand(), groupDescribeCommand(), groupResetCommand(), groupDeleteCommand())
}

// listedGroup is a group in a list.
type listedGroup struct {
	Group    string `json:"group"`
	Type     string `json:"type"`
	State    string `json:"state"`
	Protocol string `json:"protocolType"`
	Lag      *int64 `json:"lag"` // of all partitions; null if it isn't known
}

// groupLag is what a group has committed, and how far behind it is.
type groupLag struct {
	Group      string         `json:"group"`
	Type       string         `json:"type"`
	State      string         `json:"state"`
	Assignor   string         `json:"assignor"`
	Members    []groupMember  `json:"members"`
	Partitions []partitionLag `json:"partitions"`
	Lag        int64          `json:"lag"`
}

// groupMember is a member of a group.
type groupMember struct {
	ID         string   `json:"memberId"`
	InstanceID string   `json:"instanceId,omitempty"`
	ClientID   string   `json:"clientId"`
	Host       string   `json:"host"`
	Partitions []string `json:"partitions"` // topic-number
}

// partitionLag is where a group stands in a partition. Committed is -1 if it has committed nothing there; then Lag is all
// that is in the partition.
type partitionLag struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committedOffset"`
	LogStart  int64  `json:"logStartOffset"`
	LogEnd    int64  `json:"logEndOffset"`
	Lag       int64  `json:"lag"`
	Member    string `json:"memberId,omitempty"`
	Error     string `json:"error,omitempty"`
}

func groupListCommand() *cobra.Command {
	var k client
	asJSON := false
	c := &cobra.Command{
		Use: "list", Short: "List the groups and how far behind they are.", Args: arguments(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.admin(cmd.Context(), func(ctx context.Context, a *kadm.Client) error {
				return listGroups(ctx, a, cmd.OutOrStdout(), asJSON)
			})
		},
	}
	k.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return c
}

func listGroups(ctx context.Context, a *kadm.Client, w io.Writer, asJSON bool) error {
	all, err := a.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	list := []listedGroup{}
	for _, g := range all.Sorted() {
		listed := listedGroup{Group: g.Group, Type: g.GroupType, State: g.State, Protocol: g.ProtocolType}
		if d, err := describeGroup(ctx, a, g); err == nil {
			listed.Lag = &d.Lag
		}
		list = append(list, listed)
	}
	if asJSON {
		return printJSON(w, list)
	}
	rows := make([][]string, len(list))
	for i, g := range list {
		lag := "-"
		if g.Lag != nil {
			lag = strconv.FormatInt(*g.Lag, 10)
		}
		rows[i] = []string{g.Group, orDash(g.Type), orDash(g.State), orDash(g.Protocol), lag}
	}
	return printTable(w, []string{"GROUP", "TYPE", "STATE", "PROTOCOL", "LAG"}, rows)
}

func groupDescribeCommand() *cobra.Command {
	var k client
	asJSON := false
	c := &cobra.Command{
		Use: "describe GROUP", Short: "Show members, committed offsets and lag of a group.", Args: arguments(1, 1, "the group"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return k.admin(cmd.Context(), func(ctx context.Context, a *kadm.Client) error {
				g, err := findGroup(ctx, a, args[0])
				if err != nil {
					return err
				}
				d, err := describeGroup(ctx, a, g)
				if err != nil {
					return fmt.Errorf("describe group %q: %w", g.Group, err)
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), d)
				}
				return printGroup(cmd.OutOrStdout(), d)
			})
		},
	}
	k.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return c
}

// findGroup finds a group that there is.
func findGroup(ctx context.Context, a *kadm.Client, name string) (kadm.ListedGroup, error) {
	all, err := a.ListGroups(ctx)
	if err != nil {
		return kadm.ListedGroup{}, fmt.Errorf("list groups: %w", err)
	}
	g, ok := all[name]
	if !ok {
		return g, fmt.Errorf("there is no group %q; `kbroker group list` shows those there are", name)
	}
	return g, nil
}

// describeGroup collects everything about a group.
func describeGroup(ctx context.Context, a *kadm.Client, g kadm.ListedGroup) (*groupLag, error) {
	d := &groupLag{Group: g.Group, Type: g.GroupType, State: g.State, Members: []groupMember{}, Partitions: []partitionLag{}}
	var err error
	if strings.EqualFold(g.GroupType, "consumer") {
		err = d.consumerMembers(ctx, a)
	} else {
		err = d.classicMembers(ctx, a)
	}
	if err != nil {
		return nil, err
	}
	return d, d.lag(ctx, a)
}

func (d *groupLag) classicMembers(ctx context.Context, a *kadm.Client) error {
	all, err := a.DescribeGroups(ctx, d.Group)
	if err == nil {
		err = all[d.Group].Err
	}
	if err != nil {
		return err
	}
	g := all[d.Group]
	d.State, d.Assignor = g.State, g.Protocol
	for _, m := range g.Members {
		member := groupMember{ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Partitions: []string{}}
		if m.InstanceID != nil {
			member.InstanceID = *m.InstanceID
		}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				for _, p := range t.Partitions {
					member.add(d, t.Topic, p)
				}
			}
		}
		d.Members = append(d.Members, member)
	}
	return nil
}

func (d *groupLag) consumerMembers(ctx context.Context, a *kadm.Client) error {
	all, err := a.DescribeConsumerGroups(ctx, d.Group)
	if err == nil {
		err = all[d.Group].Err
	}
	if err != nil {
		return err
	}
	g := all[d.Group]
	d.State, d.Assignor = g.State, g.AssignorName
	for _, m := range g.Members {
		member := groupMember{ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Partitions: []string{}}
		if m.InstanceID != nil {
			member.InstanceID = *m.InstanceID
		}
		m.Assignment.Each(func(topic string, p int32) { member.add(d, topic, p) })
		d.Members = append(d.Members, member)
	}
	return nil
}

// add notes that a partition is a member's.
func (m *groupMember) add(d *groupLag, topic string, partition int32) {
	m.Partitions = append(m.Partitions, fmt.Sprintf("%s-%d", topic, partition))
	d.Partitions = append(d.Partitions, partitionLag{Topic: topic, Partition: partition, Committed: -1, Member: m.ID})
}

// lag compares what is committed with where the logs end.
func (d *groupLag) lag(ctx context.Context, a *kadm.Client) error {
	commits, err := a.FetchOffsets(ctx, d.Group)
	if err != nil {
		return err
	}
	for _, c := range commits.Sorted() {
		if c.Err != nil {
			return c.Err
		}
		d.commit(c.Offset)
	}
	var topics []string
	for _, p := range d.Partitions {
		topics = append(topics, p.Topic)
	}
	slices.Sort(topics)
	if topics = slices.Compact(topics); len(topics) == 0 {
		return nil
	}
	starts, err := a.ListStartOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	ends, err := a.ListEndOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	for i := range d.Partitions {
		d.measure(&d.Partitions[i], starts, ends)
	}
	slices.SortFunc(d.Partitions, func(a, b partitionLag) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return nil
}

func (d *groupLag) commit(o kadm.Offset) {
	i := slices.IndexFunc(d.Partitions, func(p partitionLag) bool { return p.Topic == o.Topic && p.Partition == o.Partition })
	if i < 0 {
		d.Partitions = append(d.Partitions, partitionLag{Topic: o.Topic, Partition: o.Partition})
		i = len(d.Partitions) - 1
	}
	d.Partitions[i].Committed = o.At
}

func (d *groupLag) measure(p *partitionLag, starts, ends kadm.ListedOffsets) {
	start, _ := starts.Lookup(p.Topic, p.Partition)
	end, found := ends.Lookup(p.Topic, p.Partition)
	switch err := errors.Join(start.Err, end.Err); {
	case !found:
		p.Error = "there is no such partition"
	case err != nil:
		p.Error = err.Error()
	default:
		p.LogStart, p.LogEnd = start.Offset, end.Offset
		p.Lag = max(end.Offset-max(p.Committed, start.Offset), 0)
		d.Lag += p.Lag
	}
}

func printGroup(w io.Writer, d *groupLag) error {
	_, err := fmt.Fprintf(w, "group %s: type %s, state %s, assignor %s, %d members, lag %d\n",
		d.Group, orDash(d.Type), orDash(d.State), orDash(d.Assignor), len(d.Members), d.Lag)
	if err != nil {
		return err
	}
	rows := make([][]string, len(d.Partitions))
	for i, p := range d.Partitions {
		rows[i] = []string{
			p.Topic, strconv.Itoa(int(p.Partition)), committed(p.Committed), strconv.FormatInt(p.LogEnd, 10),
			strconv.FormatInt(p.Lag, 10), orDash(p.Member),
		}
		if p.Error != "" {
			rows[i][3], rows[i][4] = "-", p.Error
		}
	}
	if err = printTable(w, []string{"TOPIC", "PARTITION", "COMMITTED", "LOG-END", "LAG", "MEMBER"}, rows); err != nil {
		return err
	}
	members := make([][]string, 0, len(d.Members))
	for _, m := range d.Members {
		members = append(members, []string{m.ID, orDash(m.InstanceID), m.ClientID, m.Host, orDash(strings.Join(m.Partitions, ","))})
	}
	if len(members) == 0 {
		return nil
	}
	if _, err = fmt.Fprintln(w); err != nil {
		return err
	}
	return printTable(w, []string{"MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"}, members)
}

func committed(offset int64) string {
	if offset < 0 {
		return "-"
	}
	return strconv.FormatInt(offset, 10)
}

func groupDeleteCommand() *cobra.Command {
	var k client
	c := &cobra.Command{
		Use: "delete GROUP...", Short: "Delete groups that have no members, with their offsets.",
		Args: arguments(1, 1<<20, "at least one group"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return k.admin(cmd.Context(), func(ctx context.Context, a *kadm.Client) error {
				return deleteGroups(ctx, a, cmd.OutOrStdout(), args)
			})
		},
	}
	k.flags(c)
	return c
}

func deleteGroups(ctx context.Context, a *kadm.Client, w io.Writer, groups []string) error {
	var errs []error
	for _, name := range groups {
		g, err := findGroup(ctx, a, name)
		if err == nil {
			err = mustBeEmpty(g, "deleted")
		}
		if err == nil {
			_, err = a.DeleteGroup(ctx, name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("delete group %q: %w", name, err))
			continue
		}
		if _, err = fmt.Fprintf(w, "group %s is deleted\n", name); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// mustBeEmpty refuses a group with members.
func mustBeEmpty(g kadm.ListedGroup, what string) error {
	switch g.State {
	case "", "Empty", "Dead":
		return nil
	}
	return fmt.Errorf("the group is not empty (%s): it can be %s once its members have stopped", g.State, what)
}
