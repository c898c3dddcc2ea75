package storage

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kbroker/kbroker/storage/segment"
)

var dumpLog = flag.String("dumplog", "", "program that runs Apache Kafka's DumpLogSegments, called with dump-log --files ...")

// TestKafkaReadsCompactedSegments has Apache Kafka's own tool read what compaction has written. The tool ends with success
// whatever it finds, so its words count.
func TestKafkaReadsCompactedSegments(t *testing.T) {
	t.Parallel()
	if *dumpLog == "" {
		t.Skip("Apache Kafka's DumpLogSegments is missing: run with -dumplog PROGRAM, where PROGRAM dump-log --files FILE... runs it")
	}
	var files []string
	batches, compacted := 0, 0
	for seed := range uint64(6) {
		k := newKeeper(t, 9000+seed)
		for range 4 {
			for range 60 {
				k.write()
			}
			k.world.clock.Advance(20 * time.Second)
			if err := k.compact(); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range k.log.mu.segments {
			if s.Generation() > 0 {
				compacted++
			}
			name := filepath.Join("data/topics/orders/0", s.DataName())
			content, err := readFile(k.disk, name)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			files = append(files, filepath.Join(dir, s.DataName()))
			if err = os.WriteFile(files[len(files)-1], content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		batches += len(readEverything(t, k.log, 0))
	}
	out, err := exec.CommandContext(t.Context(), *dumpLog, "dump-log", "--print-data-log", "--deep-iteration", //nolint:gosec // as asked for
		"--files", strings.Join(files, ",")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := regexp.MustCompile(`(?m)^baseOffset: .* isvalid: true$`).FindAll(out, -1)
	if len(lines) != batches || compacted < 6 {
		t.Errorf("%d valid batches of %d, in %d compacted segments", len(lines), batches, compacted)
	}
	for _, bad := range []string{"isvalid: false", "invalid bytes", "Exception", segment.SuffixIndex} {
		if strings.Contains(string(out), bad) {
			t.Errorf("the tool says %q", bad)
		}
	}
	for _, good := range []string{"deleteHorizonMs: OptionalLong[", "endTxnMarker: ABORT", "endTxnMarker: COMMIT", "count: 0", "compresscodec: zstd"} {
		if !strings.Contains(string(out), good) {
			t.Errorf("the tool says nothing of %q", good)
		}
	}
}
