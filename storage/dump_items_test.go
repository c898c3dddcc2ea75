package storage

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
)

// Programs rely on these names, and docs/operations.md lists them.
func TestTheJSONOfADumpHasItsNames(t *testing.T) {
	t.Parallel()
	horizon, text := int64(7), "a"
	doc, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for want, item := range map[string]DumpItem{
		`{"type":"partition","directory":"topics/t/0","topicId":"00"}`: DumpPartition{Type: "partition", Directory: "topics/t/0", TopicID: "00"},
		`{"type":"epochs","epochs":[{"epoch":1,"startOffset":2}]}`:     DumpEpochs{Type: "epochs", Epochs: []DumpEpoch{{1, 2}}},
		`{"type":"snapshot","topicId":"00","logStartOffset":1,"logEndOffset":2,"segment":3,"segmentBytes":4,"indexEntries":5,` +
			`"generation":6,"abortedTransactions":{"7":8},"producers":[{"producerId":1,"epoch":2,"coordinatorEpoch":3,"lastSequence":4,` +
			`"lastTimestamp":5,"txnStartOffset":6}]}`: DumpSnapshot{
			Type: "snapshot", TopicID: "00", LogStart: 1, LogEnd: 2, Segment: 3, SegmentBytes: 4, IndexEntries: 5, Generation: 6,
			Aborted: map[int64]int{7: 8}, Producers: []DumpProducer{{1, 2, 3, 4, 5, 6}},
		},
		`{"type":"segment","file":"x.log","baseOffset":1,"sizeBytes":2}`: DumpSegment{"segment", "x.log", 1, 2},
		`{"type":"batch","position":1,"sizeBytes":2,"baseOffset":3,"lastOffset":4,"records":5,"leaderEpoch":6,"compression":"zstd",` +
			`"timestampType":"CreateTime","baseTimestamp":7,"maxTimestamp":8,"producerId":9,"producerEpoch":10,"baseSequence":11,` +
			`"transactional":true,"control":"abort","deleteHorizon":7,"crc":12}`: DumpBatch{
			"batch", 1, 2, 3, 4, 5, 6, "zstd", "CreateTime", 7, 8, 9, 10, 11, true, "abort", &horizon, 12,
		},
		`{"type":"record","offset":1,"timestamp":2,"key":{"text":"a"},"value":{"base64":"/w=="},` +
			`"headers":[{"key":"","keyBase64":"/w==","value":{}}]}`: DumpRecord{
			"record", 1, 2, DumpBytes{Text: &text}, DumpBytes{Base64: []byte{255}}, []DumpHeader{{KeyBase64: []byte{255}}},
		},
		`{"type":"index","file":"x.index","generation":1,"createdMs":2,"count":3,"bad":4,"entries":[{"number":1,"sound":true,` +
			`"firstOffset":2,"lastOffset":3,"position":4,"sizeBytes":5,"maxTimestamp":6}]}`: DumpIndex{
			"index", "x.index", 1, 2, 3, 4, []DumpEntry{{1, true, 2, 3, 4, 5, 6}},
		},
		`{"type":"abortedTransaction","file":"x.log","producerId":1,"firstOffset":2,"lastOffset":3,"lastStableOffset":4}`: DumpAborted{
			"abortedTransaction", "x.log", 1, 2, 3, 4,
		},
		`{"type":"swap","file":"x.swap","topicId":"00","replaced":[1],"files":[{"file":"x.log","sizeBytes":2,"crc":3}]}`: DumpSwap{
			"swap", "x.swap", "00", []int64{1}, []DumpSwapFile{{"x.log", 2, 3}},
		},
		`{"type":"file","file":"x","sizeBytes":1,"kind":"torn"}`:                     DumpFile{"file", "x", 1, "torn"},
		`{"type":"problem","directory":"d","file":"x","position":-1,"kind":"wrong"}`: DumpProblem{"problem", "d", "x", -1, "wrong"},
	} {
		got, err := json.Marshal(item)
		if err != nil || string(got) != want {
			t.Errorf("got  %s\nwant %s, %v", got, want, err)
		}
		if item.String() == "" {
			t.Errorf("%s says nothing to people", want)
		}
		for name := range namesIn(t, got) {
			if !strings.Contains(string(doc), "`"+name+"`") {
				t.Errorf("docs/operations.md doesn't name %q of %s", name, want)
			}
		}
	}
}

// namesIn is all names of fields in a JSON object, but those of maps by offset.
func namesIn(t *testing.T, text []byte) map[string]bool {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	var collect func(v any)
	collect = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, field := range v {
				names[name] = true
				collect(field)
			}
		case []any:
			for _, field := range v {
				collect(field)
			}
		}
	}
	collect(value)
	delete(names, "7")
	return names
}

func TestDumpedBytesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{nil, {}, []byte("text"), {0}, {0xff, 0xfe}, []byte("\u2028<&>\x00\"\\"), {0xed, 0xa0, 0x80}} {
		line, err := json.Marshal(DumpRecord{
			Key: newDumpBytes(b), Value: newDumpBytes(b), Headers: []DumpHeader{newDumpHeader(batch.Header{Key: b, Value: b})},
		})
		if err != nil {
			t.Fatal(err)
		}
		var back DumpRecord
		if err = json.Unmarshal(line, &back); err != nil {
			t.Fatal(err)
		}
		for _, d := range []DumpBytes{back.Key, back.Value, back.Headers[0].Value} {
			got := d.Base64
			if d.Text != nil {
				got = []byte(*d.Text)
			}
			if string(got) != string(b) || (got == nil) != (b == nil) {
				t.Errorf("%q came back as %q: %s", b, got, line)
			}
		}
		if got := back.Headers[0].Key + string(back.Headers[0].KeyBase64); got != string(b) {
			t.Errorf("header key %q came back as %q", b, got)
		}
	}
}
