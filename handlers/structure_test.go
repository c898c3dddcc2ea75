package handlers

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

var update = flag.Bool("update", false, "write docs/protocol.md anew")

// header is what the comment at the top of a key's file must begin with: the name of the API and the versions that are
// answered, then a full stop or a semicolon.
func header(e entry) string {
	if e.AcceptMin == e.Max {
		return fmt.Sprintf("%s, version %d", e.Name, e.Max)
	}
	return fmt.Sprintf("%s, versions %d to %d", e.Name, e.AcceptMin, e.Max)
}

func servedTable(t *testing.T) table {
	t.Helper()
	served, err := newTable(rows())
	if err != nil {
		t.Fatal(err)
	}
	return served
}

func TestRowsAreSortedAndAnsweredInTheirOwnFiles(t *testing.T) {
	t.Parallel()
	last := int16(-1)
	for _, r := range rows() {
		if r.key <= last {
			t.Errorf("key %d stands after %d", r.key, last)
		}
		last = r.key
	}
	for _, e := range servedTable(t).served() {
		if text := fileComment(t, e.Key); !regexp.MustCompile("^" + regexp.QuoteMeta(header(e)) + "[.;]").MatchString(text) {
			t.Errorf("the comment of key %d begins with %.60q, want %q", e.Key, text, header(e))
		}
		if newest := kmsg.RequestForKey(e.Key).MaxVersion(); newest < e.Max {
			t.Errorf("%s is served up to version %d, but can be decoded only up to %d", e.Name, e.Max, newest)
		}
	}
}

// fileComment finds the file of a key and returns its comment about the API, in one line.
func fileComment(t *testing.T, key int16) string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("%02d_*.go", key))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range parsed.Comments {
			if text := strings.Join(strings.Fields(group.Text()), " "); regexp.MustCompile(`^[A-Za-z]+, versions? \d`).MatchString(text) {
				return text
			}
		}
		t.Errorf("%s has no comment that names its API and versions", name)
	}
	if len(files) == 0 {
		t.Errorf("key %d has no file", key)
	}
	return ""
}

func TestEveryNumberedFileHasARow(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("[0-9][0-9]_*.go")
	if err != nil {
		t.Fatal(err)
	}
	served := servedTable(t)
	for _, name := range files {
		var key int16
		if _, err := fmt.Sscanf(name, "%02d_", &key); err != nil {
			t.Fatal(err)
		}
		if _, ok := served[key]; !ok {
			t.Errorf("%s answers a key that isn't in the table", name)
		}
	}
}

func TestProtocolPageIsWhatTheTableSays(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "docs", "protocol.md")
	want := protocolPage(t)
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
		t.Error("docs/protocol.md is out of date: go test ./handlers -run ProtocolPage -update")
	}
}

// protocolPage is the generated page about the protocol.
func protocolPage(t *testing.T) string {
	t.Helper()
	served := servedTable(t)
	var b strings.Builder
	b.WriteString(`# The Kafka protocol: what is served

Generated from the dispatch table (` + "`handlers/table.go`" + `) and the comments of its handlers; don't edit. Versions are those
that ApiVersions advertises, which are all that Apache Kafka 4.4 has. A request of another key or version closes the
connection, but for ApiVersions, which is answered with UNSUPPORTED_VERSION.

| key | API | versions | flexible from | remarks |
|---|---|---|---|---|
`)
	for _, e := range served.served() {
		remarks := strings.TrimPrefix(fileComment(t, e.Key), header(e))
		remarks = strings.ReplaceAll(strings.TrimLeft(remarks, ".; "), "|", `\|`)
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", e.Key, e.Name, span(e.Min, e.Max), flexible(e.API), remarks)
	}
	b.WriteString("\n## Features\n\nFinalized features, as ApiVersions tells them:\n\n| feature | supported | finalized |\n|---|---|---|\n")
	for _, f := range features() {
		fmt.Fprintf(&b, "| %s | %s | %d |\n", f.name, span(f.min, f.max), f.max)
	}
	b.WriteString("\n## Not served\n\n| key | API | versions of Apache Kafka 4.4 |\n|---|---|---|\n")
	for _, a := range protocol.APIs() {
		if _, ok := served[a.Key]; !ok {
			fmt.Fprintf(&b, "| %d | %s | %s |\n", a.Key, a.Name, span(a.Min, a.Max))
		}
	}
	return b.String()
}

func span(low, high int16) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d-%d", low, high)
}

func flexible(a protocol.API) string {
	if a.FlexibleFrom == protocol.NeverFlexible {
		return "never"
	}
	return fmt.Sprint(a.FlexibleFrom)
}
