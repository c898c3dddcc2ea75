package config_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/meta/config"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

const pageHead = `# Configuration

Generated from the table in ` + "`meta/config`" + `: ` + "`go test ./meta/config -run Page -update`" + `.

A setting is given, in the order in which it counts:

1. by a client while the broker runs (IncrementalAlterConfigs), if its column *change* allows it: for this broker, then as
   the cluster's default;
2. by a flag: ` + "`--set log.retention.hours=24`" + `;
3. by a variable of the environment: ` + "`KAFKA_LOG_RETENTION_HOURS=24`" + ` (a dot is written _, an underscore __, a dash ___);
4. by a properties file: ` + "`log.retention.hours=24`" + `, in the syntax of Java, so that a server.properties of Apache Kafka works;
5. by this broker's presets, which stand below as *preset*;
6. by the default, which is Apache Kafka's.

A topic's own settings come before all of these, and so do a group's. A key that isn't in the table is refused at the start,
with the key that was perhaps meant; a variable that names no key is ignored. DescribeConfigs tells every value with
where it comes from.

Durations are milliseconds and sizes bytes, unless the name says otherwise.
`

// section is a table of the page.
type section struct {
	title, text string
	scope       config.Scope
	has         func(k *config.Key) bool
}

func sections() []section {
	return []section{
		{
			"Keys of this broker's own", "Apache Kafka doesn't have these; DescribeConfigs tells them when they are named.",
			config.BrokerScope, func(k *config.Key) bool { return k.Own },
		},
		{
			"Topics", "Each has its default from the broker key in the column *follows*. They may be changed at any time.",
			config.TopicScope, func(k *config.Key) bool { return !k.NoEffect },
		},
		{"Broker", "", config.BrokerScope, func(k *config.Key) bool { return !k.Own && !k.NoEffect }},
		{
			"Groups", "Each has its default, and its bounds, from the broker keys. They may be changed at any time.",
			config.GroupScope, func(k *config.Key) bool { return !k.NoEffect },
		},
		{
			"Topic keys without effect", "Taken, checked, kept and described, so that tools and scripts work; nothing here goes by them.",
			config.TopicScope, func(k *config.Key) bool { return k.NoEffect },
		},
		{"Group keys without effect", "", config.GroupScope, func(k *config.Key) bool { return k.NoEffect }},
		{"Client metrics keys without effect", "", config.ClientMetricsScope, func(k *config.Key) bool { return k.NoEffect }},
		{
			"Broker keys without effect", "", config.BrokerScope, func(k *config.Key) bool { return !k.Own && k.NoEffect },
		},
	}
}

func page() string {
	var b strings.Builder
	b.WriteString(pageHead)
	table := config.NewTable()
	for _, s := range sections() {
		fmt.Fprintf(&b, "\n## %s\n", s.title)
		if s.text != "" {
			fmt.Fprintf(&b, "%s\n", s.text)
		}
		last := "change"
		if s.scope != config.BrokerScope {
			last = "follows"
		}
		fmt.Fprintf(&b, "\n| key | type | default | valid | %s | |\n|---|---|---|---|---|---|\n", last)
		for _, k := range table.Keys(s.scope) {
			if s.has(k) {
				writeRow(&b, k)
			}
		}
	}
	return b.String()
}

func writeRow(b *strings.Builder, k *config.Key) {
	last := k.Follows
	if k.Scope == config.BrokerScope {
		last = [...]string{config.ReadOnly: "at the start", config.PerBroker: "broker", config.ClusterWide: "broker, cluster"}[k.Mode]
	}
	if last == k.Name {
		last = ""
	}
	fmt.Fprintf(b, "| `%s` | %v | %s | %s | %s | %s |\n", k.Name, k.Type, defaults(k), valid(k), last, k.Doc)
}

func defaults(k *config.Key) string {
	text := "`" + k.Default + "`"
	switch {
	case k.Null:
		text = "none"
	case k.Default == "":
		text = "empty"
	}
	if k.Preset != "" {
		text += ", preset `" + k.Preset + "`"
	}
	return text
}

func valid(k *config.Key) string {
	if k.Valid == nil {
		return ""
	}
	return strings.ReplaceAll(k.Valid.String(), "|", `\|`)
}

func TestPageIsWhatTheTableSays(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "configuration.md")
	want := page()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/configuration.md is out of date: go test ./meta/config -run Page -update")
	}
}
