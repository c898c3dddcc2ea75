package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kbroker/kbroker"
)

var update = flag.Bool("update", false, "write the expected outputs anew")

// golden compares a text with what is expected.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // of the test's own
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// shell runs a command and returns its output, with its status; what differs from run to run is replaced.
func shell(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	status := run(t.Context(), args, strings.NewReader(""), &out, &errs)
	shown := strings.Join(args, " ")
	text := fmt.Sprintf("$ kbroker %s\n%s%s[status %d]\n", shown, &out, &errs, status)
	return anonymous(strings.ReplaceAll(text, dir, "DIR"))
}

// anonymous replaces what differs from run to run.
func anonymous(text string) string {
	for _, r := range []struct{ pattern, with string }{
		{`\b[0-9a-f]{32}\b`, "TOPIC-ID"},
		{`\d+ metadata keys`, "N metadata keys"},
		{`"metadataKeys": \d+`, `"metadataKeys": N`},
		{`stored [0-9a-f]{8}`, "stored CRC"},
		{`computed [0-9a-f]{8}`, "computed CRC"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}

// recorded puts files that Apache Kafka wrote into a directory, under the names they had.
func recorded(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "kafka", name+".hex")) //nolint:gosec // of the test's own
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "00000000000000000000"+filepath.Ext(name))
	if err = os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDumpReadsSegmentsOfApacheKafka(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain.log", "append.log", "recompressed.log", "txn.log", "txn.txnindex"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := recorded(t, name)
			golden(t, filepath.Join("kafka", name+".txt"), shell(t, filepath.Dir(path), "storage", "dump", "--records", path))
		})
	}
}

// items runs a dump as JSON and decodes the items of a type.
func items(t *testing.T, path, kind string) (found []map[string]any) {
	t.Helper()
	var out, errs bytes.Buffer
	if status := run(t.Context(), []string{"storage", "dump", "--records", "--index", "--json", path}, strings.NewReader(""), &out, &errs); status != exitOK {
		t.Fatalf("status %d: %s", status, &errs)
	}
	for line := range strings.Lines(out.String()) {
		var item map[string]any
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if item["type"] == kind {
			found = append(found, item)
		}
	}
	return found
}

func TestTheMarkersOfASegmentGiveItsIndexOfAbortedTransactions(t *testing.T) {
	t.Parallel()
	fromLog := items(t, recorded(t, "txn.log"), "abortedTransaction")
	fromIndex := items(t, recorded(t, "txn.txnindex"), "abortedTransaction")
	if len(fromIndex) != 1 || len(fromLog) != 1 {
		t.Fatalf("%v and %v", fromLog, fromIndex)
	}
	for _, field := range []string{"producerId", "firstOffset", "lastOffset", "lastStableOffset"} {
		if fromLog[0][field] != fromIndex[0][field] {
			t.Errorf("%s: %v by the markers, %v by the index", field, fromLog[0][field], fromIndex[0][field])
		}
	}
}

func TestDumpGoesOnBehindWhatIsBad(t *testing.T) {
	t.Parallel()
	path := recorded(t, "plain.log")
	damage(t, path, 97+70)
	golden(t, filepath.Join("kafka", "damaged.txt"), shell(t, filepath.Dir(path), "storage", "dump", path))
}

// damage inverts a bit of a byte; from the end if at is negative.
func damage(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path) //nolint:gosec // of the test's own
	if err != nil {
		t.Fatal(err)
	}
	b[(at+len(b))%len(b)] ^= 1
	if err = os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// data makes a data directory with one topic and five batches of one record, "value 0" to "value 4".
func data(t *testing.T) (dir, partition string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	b, err := kbroker.Start(t.Context(), kbroker.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.AllowAutoTopicCreation(), kgo.DisableIdempotentWrite())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 5 {
		r := &kgo.Record{Topic: "orders", Value: fmt.Appendf(nil, "value %d", i), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i))}
		if err = c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err = b.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, "topics", "orders", "0")
}

// served starts a broker and returns the values that are left, one a line, and where a record produced after them goes.
func served(t *testing.T, dir string) string {
	t.Helper()
	b, err := kbroker.Start(t.Context(), kbroker.Options{DataDir: dir})
	if err != nil {
		return "the broker doesn't start\n"
	}
	defer b.Close() //nolint:errcheck // the test is over
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	last := &kgo.Record{Topic: "orders", Value: []byte("after")}
	if err = c.ProduceSync(t.Context(), last).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text := ""
	for seen := int64(-1); seen < last.Offset; {
		f := c.PollFetches(ctx)
		if err = f.Err(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) {
			text += fmt.Sprintf("%d: %s\n", r.Offset, r.Value)
			seen = r.Offset
		})
	}
	return text
}

func TestVerifyNamesDamageAndRepairEndsIt(t *testing.T) {
	t.Parallel()
	const log, index = "00000000000000000000.log", "00000000000000000000.index"
	for name, c := range map[string]func(t *testing.T, partition string){
		"sound": func(*testing.T, string) {},
		"byte":  func(t *testing.T, p string) { t.Helper(); damage(t, filepath.Join(p, log), 2*75+70) },
		"undecided": func(t *testing.T, p string) {
			t.Helper()
			damage(t, filepath.Join(p, log), -1)
			damage(t, filepath.Join(p, index), -1)
			remove(t, filepath.Join(p, "snapshot"))
		},
		"cut":     func(t *testing.T, p string) { t.Helper(); cut(t, filepath.Join(p, log), 100) },
		"missing": func(t *testing.T, p string) { t.Helper(); remove(t, filepath.Join(p, log)) },
		"id": func(t *testing.T, p string) {
			t.Helper()
			damage(t, filepath.Join(p, "id"), 9)
			remove(t, filepath.Join(p, "snapshot"))
		},
		"snapshot": func(t *testing.T, p string) { t.Helper(); damage(t, filepath.Join(p, "snapshot"), 9) },
		"index":    func(t *testing.T, p string) { t.Helper(); remove(t, filepath.Join(p, index)) },
		"leftover": func(t *testing.T, p string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(p, "notes.txt"), []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, partition := data(t)
			c(t, partition)
			before := tree(t, dir)
			text := shell(t, dir, "storage", "verify", dir) + shell(t, dir, "storage", "repair", dir)
			if after := tree(t, dir); !slices.Equal(before, after) {
				t.Errorf("changed without --apply: %v, was %v", after, before)
			}
			text += shell(t, dir, "storage", "repair", "--apply", dir) + shell(t, dir, "storage", "verify", "--json", dir)
			for _, f := range tree(t, filepath.Join(dir, "removed")) {
				text += "removed/" + f + "\n"
			}
			golden(t, filepath.Join("repair", name+".txt"), text+served(t, dir))
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func cut(t *testing.T, path string, n int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-n)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tree lists the files below a directory with their lengths and times of change.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		names = append(names, fmt.Sprintf("%s %d", filepath.ToSlash(rel), info.Size()))
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return names
}

// Every byte of the metadata that matters is watched over: what a start would refuse, verify names.
func TestVerifyNamesDamagedMetadata(t *testing.T) {
	t.Parallel()
	dir, _ := data(t)
	var names []string
	for _, f := range tree(t, filepath.Join(dir, "meta")) {
		if name, _, _ := strings.Cut(f, " "); strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "MANIFEST") {
			names = append(names, filepath.Join(dir, "meta", name))
		}
	}
	if len(names) < 2 {
		t.Fatalf("nothing to damage: %v", names)
	}
	for _, name := range names {
		damage(t, name, 20)
		text := shell(t, dir, "storage", "verify", dir)
		if !strings.Contains(text, "[status 1]") || !strings.Contains(text, filepath.Base(name)) {
			t.Errorf("%s isn't named: %s", name, text)
		}
		damage(t, name, 20)
	}
	if text := shell(t, dir, "storage", "verify", dir); !strings.Contains(text, "[status 0]") {
		t.Errorf("not sound: %s", text)
	}
	if err := os.RemoveAll(filepath.Join(dir, "meta")); err != nil {
		t.Fatal(err)
	}
	if text := shell(t, dir, "storage", "verify", dir); !strings.Contains(text, "metadata store is missing") || !strings.Contains(text, "[status 1]") {
		t.Errorf("missing metadata: %s", text)
	}
}

func TestStorageCommandsSayWhyTheyCannot(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	r := start(t, "--listen", "127.0.0.1:0", "--data", dir, "--admin", "off")
	r.address(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"storage", "verify", dir}, "a broker is running"},
		{[]string{"storage", "repair", "--apply", dir}, "a broker is running"},
		{[]string{"storage", "verify", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"storage", "verify", t.TempDir()}, "no data directory"},
		{[]string{"storage", "dump", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"storage", "verify"}, "takes the data directory"},
		{[]string{"storage", "mend"}, "mend"},
	} {
		if text := shell(t, dir, c.args...); !strings.Contains(text, "[status 2]") || !strings.Contains(text, c.says) {
			t.Errorf("want %q and status 2: %s", c.says, text)
		}
	}
	r.stop(t)
}

func TestDumpShowsADataDirectory(t *testing.T) {
	t.Parallel()
	dir, partition := data(t)
	created := regexp.MustCompile(`"createdMs":\d+`)
	text := shell(t, dir, "storage", "dump", "--records", "--index", dir) +
		shell(t, dir, "storage", "dump", "--topic", "orders", "--json", dir) + shell(t, dir, "storage", "dump", partition)
	golden(t, "dump.txt", created.ReplaceAllString(text, `"createdMs":N`))
}

func TestStorageCommandsTellByTheirStatusHowItIs(t *testing.T) {
	t.Parallel()
	const log, index = "00000000000000000000.log", "00000000000000000000.index"
	for name, c := range map[string]struct {
		change                        func(t *testing.T, dir, partition string)
		verify, dump, repair, applied int
		says                          string // verify
	}{
		"sound":              {func(*testing.T, string, string) {}, 0, 0, 0, 0, "sound"},
		"what a start mends": {func(t *testing.T, _, p string) { t.Helper(); damage(t, filepath.Join(p, index), -1) }, 0, 0, 0, 0, "note: "},
		"torn write kept aside": {func(t *testing.T, _, p string) {
			t.Helper()
			write(t, filepath.Join(p, "00000000000000000000.torn-375"), "torn")
		}, 0, 0, 0, 0, "note: "},
		"damage": {func(t *testing.T, _, p string) { t.Helper(); damage(t, filepath.Join(p, log), 70) }, 1, 1, 1, 0, "storage repair DIR"},
		"announcement that has rotted": {func(t *testing.T, _, p string) {
			t.Helper()
			write(t, filepath.Join(p, "00000000000000000000.swap"), "KBSW")
		}, 1, 1, 1, 0, "keeps the partition from being opened: file doesn't verify; `kbroker storage repair` decides"},
		"data file missing": {func(t *testing.T, _, p string) {
			t.Helper()
			remove(t, filepath.Join(p, log))
			remove(t, filepath.Join(p, "snapshot"))
		}, 1, 0, 1, 0, "is missing, and its index speaks of batches"},
		"metadata damaged": {func(t *testing.T, dir, _ string) {
			t.Helper()
			damage(t, metadataFile(t, dir), 30)
		}, 1, 0, 1, 1, "restore this directory from a copy; or, to start without, move it and the directory topics beside it away"},
		"metadata missing": {func(t *testing.T, dir, _ string) {
			t.Helper()
			if err := os.RemoveAll(filepath.Join(dir, "meta")); err != nil {
				t.Fatal(err)
			}
		}, 1, 0, 1, 1, "put it back; or, to start without, move the directory topics away"},
		"file that can't be read": {func(t *testing.T, _, p string) {
			t.Helper()
			remove(t, filepath.Join(p, "id"))
			if err := os.Mkdir(filepath.Join(p, "id"), 0o750); err != nil {
				t.Fatal(err)
			}
		}, 2, 2, 2, 2, "DAMAGE: topics/orders/0: can't be examined: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, partition := data(t)
			c.change(t, dir, partition)
			for _, step := range []struct {
				args   []string
				status int
			}{
				{[]string{"storage", "verify", dir}, c.verify},
				{[]string{"storage", "dump", dir}, c.dump},
				{[]string{"storage", "repair", dir}, c.repair},
				{[]string{"storage", "repair", "--apply", dir}, c.applied},
			} {
				text := shell(t, dir, step.args...)
				if !strings.Contains(text, fmt.Sprintf("[status %d]", step.status)) {
					t.Errorf("want status %d: %s", step.status, text)
				}
				if step.args[1] == "verify" && !strings.Contains(text, c.says) {
					t.Errorf("want %q: %s", c.says, text)
				}
				if strings.Contains(text, "left as it is") && !strings.Contains(text, "0 things ") {
					t.Errorf("what is left alone counts as done: %s", text)
				}
			}
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// metadataFile is the log of the metadata store.
func metadataFile(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "meta", "*.log"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return names[0]
}

func TestDumpOfWhatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	dir, _ := data(t)
	for says, args := range map[string][]string{
		`topic "none" has no files`:                  {"--topic", "none"},
		`partition 7 of topic "orders" has no files`: {"--topic", "orders", "--partition", "7"},
		`no topic has files of partition 9`:          {"--partition", "9"},
	} {
		text := shell(t, dir, append([]string{"storage", "dump", dir}, args...)...)
		if !strings.Contains(text, "[status 2]") || !strings.Contains(text, says) {
			t.Errorf("want %q: %s", says, text)
		}
	}
}

func TestEveryLineOfADumpIsJSONWhateverIsInTheRecords(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	b, err := kbroker.Start(t.Context(), kbroker.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.AllowAutoTopicCreation(), kgo.TransactionalID("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	wild := []string{"", "plain", "\xff\xfe", "line\nbreak\r\u2028", `"quoted" \ <&>`, "\x00\x01"}
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err = c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, w := range wild {
			r := &kgo.Record{Topic: "wild", Key: []byte(w), Value: []byte(w), Headers: []kgo.RecordHeader{{Key: w, Value: []byte(w)}}}
			if err = c.ProduceSync(t.Context(), r, &kgo.Record{Topic: "wild"}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err = c.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	if err = b.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range items(t, dir, "record") {
		headers, ok := item["headers"].([]any)
		if !ok {
			continue // null, or a marker
		}
		header, _ := headers[0].(map[string]any)
		value := plain(t, item["value"])
		if key := plain(t, item["key"]); key != value || plain(t, header["value"]) != value || headerKey(t, header) != value {
			t.Errorf("%v", item)
		}
		got = append(got, value)
	}
	if want := append(slices.Clone(wild), wild...); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// plain is what a program makes of a key or a value.
func plain(t *testing.T, v any) string {
	t.Helper()
	object, _ := v.(map[string]any)
	if text, ok := object["text"].(string); ok {
		return text
	}
	encoded, _ := object["base64"].(string)
	return decoded(t, encoded)
}

func headerKey(t *testing.T, header map[string]any) string {
	t.Helper()
	if encoded, ok := header["keyBase64"].(string); ok {
		return decoded(t, encoded)
	}
	key, _ := header["key"].(string)
	return key
}

func decoded(t *testing.T, encoded string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
