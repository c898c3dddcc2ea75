package storage

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/kbroker/kbroker/protocol/batch"
)

// DumpItem is one thing that Dump shows. String is what a person reads, one line or a few without the last line's end; the
// fields are what a program reads, by their JSON names. The field type says which item it is.
type DumpItem interface{ fmt.Stringer }

// DumpPartition begins a partition's directory.
type DumpPartition struct {
	Type      string `json:"type"`
	Directory string `json:"directory"`
	TopicID   string `json:"topicId,omitempty"` // hexadecimal; "" if it can't be read
}

// String implements DumpItem.
func (i DumpPartition) String() string {
	return fmt.Sprintf("partition %s, topic id %s", i.Directory, orUnknown(i.TopicID))
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// DumpEpoch says from which offset on a leader epoch holds.
type DumpEpoch struct {
	Epoch       int32 `json:"epoch"`
	StartOffset int64 `json:"startOffset"`
}

// DumpEpochs is the history of leader epochs.
type DumpEpochs struct {
	Type   string      `json:"type"`
	Epochs []DumpEpoch `json:"epochs"`
}

// String implements DumpItem.
func (i DumpEpochs) String() string {
	parts := make([]string, len(i.Epochs))
	for n, e := range i.Epochs {
		parts[n] = fmt.Sprintf("%d from %d", e.Epoch, e.StartOffset)
	}
	return "  epochs: " + strings.Join(parts, ", ")
}

// DumpProducer is a producer in a snapshot.
type DumpProducer struct {
	ProducerID       int64 `json:"producerId"`
	Epoch            int16 `json:"epoch"`
	CoordinatorEpoch int32 `json:"coordinatorEpoch"`
	LastSequence     int32 `json:"lastSequence"`
	LastTimestamp    int64 `json:"lastTimestamp"`
	TxnStartOffset   int64 `json:"txnStartOffset"` // -1 if no transaction is open
}

// DumpSnapshot is a checkpoint.
type DumpSnapshot struct {
	Type         string         `json:"type"`
	TopicID      string         `json:"topicId"`
	LogStart     int64          `json:"logStartOffset"`
	LogEnd       int64          `json:"logEndOffset"`
	Segment      int64          `json:"segment"` // base offset of the last one
	SegmentBytes int64          `json:"segmentBytes"`
	IndexEntries uint32         `json:"indexEntries"`
	Generation   uint32         `json:"generation"`
	Aborted      map[int64]int  `json:"abortedTransactions,omitempty"` // by the segment's base offset
	Producers    []DumpProducer `json:"producers"`
}

// String implements DumpItem.
func (i DumpSnapshot) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  snapshot: log start %d, log end %d, segment %d of %d bytes with %d index entries, generation %d",
		i.LogStart, i.LogEnd, i.Segment, i.SegmentBytes, i.IndexEntries, i.Generation)
	for _, p := range i.Producers {
		fmt.Fprintf(&b, "\n    producer %d, epoch %d, last sequence %d, last timestamp %d, coordinator epoch %d, transaction from %d",
			p.ProducerID, p.Epoch, p.LastSequence, p.LastTimestamp, p.CoordinatorEpoch, p.TxnStartOffset)
	}
	return b.String()
}

// DumpSegment begins a data file.
type DumpSegment struct {
	Type       string `json:"type"`
	File       string `json:"file"`
	BaseOffset int64  `json:"baseOffset"`
	SizeBytes  int64  `json:"sizeBytes"`
}

// String implements DumpItem.
func (i DumpSegment) String() string { return fmt.Sprintf("  %s: %d bytes", i.File, i.SizeBytes) }

// DumpBatch is a record batch. Timestamps are in ms; producer fields are -1 where there is no producer.
type DumpBatch struct {
	Type          string `json:"type"`
	Position      int64  `json:"position"`
	SizeBytes     int    `json:"sizeBytes"`
	BaseOffset    int64  `json:"baseOffset"`
	LastOffset    int64  `json:"lastOffset"`
	Records       int32  `json:"records"`
	LeaderEpoch   int32  `json:"leaderEpoch"`
	Compression   string `json:"compression"`
	TimestampType string `json:"timestampType"`
	BaseTimestamp int64  `json:"baseTimestamp"`
	MaxTimestamp  int64  `json:"maxTimestamp"`
	ProducerID    int64  `json:"producerId"`
	ProducerEpoch int16  `json:"producerEpoch"`
	BaseSequence  int32  `json:"baseSequence"`
	Transactional bool   `json:"transactional"`
	Control       string `json:"control,omitempty"`       // commit, abort or other, for control batches
	DeleteHorizon *int64 `json:"deleteHorizon,omitempty"` // ms
	CRC           uint32 `json:"crc"`
}

// String implements DumpItem.
func (i DumpBatch) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "    %d-%d: byte %d, %d bytes, %d records, epoch %d, %s, %s %d to %d, crc %08x",
		i.BaseOffset, i.LastOffset, i.Position, i.SizeBytes, i.Records, i.LeaderEpoch, i.Compression,
		i.TimestampType, i.BaseTimestamp, i.MaxTimestamp, i.CRC)
	if i.ProducerID >= 0 {
		fmt.Fprintf(&b, ", producer %d epoch %d sequence %d", i.ProducerID, i.ProducerEpoch, i.BaseSequence)
	}
	if i.Transactional {
		b.WriteString(", transactional")
	}
	if i.Control != "" {
		b.WriteString(", marker: " + i.Control)
	}
	if i.DeleteHorizon != nil {
		fmt.Fprintf(&b, ", delete horizon %d", *i.DeleteHorizon)
	}
	return b.String()
}

// DumpBytes is a key or value: Text if it is UTF-8, else Base64; neither if it is null.
type DumpBytes struct {
	Text   *string `json:"text,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
}

func newDumpBytes(b []byte) DumpBytes {
	switch {
	case b == nil:
		return DumpBytes{}
	case utf8.Valid(b):
		text := string(b)
		return DumpBytes{Text: &text}
	default:
		return DumpBytes{Base64: append([]byte(nil), b...)}
	}
}

// String is the bytes as a Go string literal, or null.
func (d DumpBytes) String() string {
	switch {
	case d.Text != nil:
		return fmt.Sprintf("%q", *d.Text)
	case d.Base64 != nil:
		return fmt.Sprintf("%q", d.Base64)
	default:
		return "null"
	}
}

// DumpHeader is a header of a record. Its key is a string by the protocol; one that isn't UTF-8 is in KeyBase64, and Key is "".
type DumpHeader struct {
	Key       string    `json:"key"`
	KeyBase64 []byte    `json:"keyBase64,omitempty"`
	Value     DumpBytes `json:"value"`
}

func newDumpHeader(h batch.Header) DumpHeader {
	item := DumpHeader{Value: newDumpBytes(h.Value)}
	if utf8.Valid(h.Key) {
		item.Key = string(h.Key)
	} else {
		item.KeyBase64 = bytes.Clone(h.Key)
	}
	return item
}

// DumpRecord is a record.
type DumpRecord struct {
	Type      string       `json:"type"`
	Offset    int64        `json:"offset"`
	Timestamp int64        `json:"timestamp"` // ms
	Key       DumpBytes    `json:"key"`
	Value     DumpBytes    `json:"value"`
	Headers   []DumpHeader `json:"headers,omitempty"`
}

// String implements DumpItem.
func (i DumpRecord) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "      %d: timestamp %d, key %s, value %s", i.Offset, i.Timestamp, i.Key, i.Value)
	for _, h := range i.Headers {
		fmt.Fprintf(&b, ", header %q = %s", h.Key+string(h.KeyBase64), h.Value)
	}
	return b.String()
}

// DumpEntry is an index entry; without Sound it doesn't verify, and only the number is known.
type DumpEntry struct {
	Number       uint32 `json:"number"`
	Sound        bool   `json:"sound"`
	FirstOffset  int64  `json:"firstOffset"`
	LastOffset   int64  `json:"lastOffset"`
	Position     int64  `json:"position"`
	SizeBytes    int64  `json:"sizeBytes"`
	MaxTimestamp int64  `json:"maxTimestamp"` // of the segment up to here, ms
}

// DumpIndex is an index file. Entries are there only if they were asked for.
type DumpIndex struct {
	Type       string      `json:"type"`
	File       string      `json:"file"`
	Generation uint32      `json:"generation"`
	CreatedMs  int64       `json:"createdMs"`
	Count      int         `json:"count"`
	Bad        int         `json:"bad"`
	Entries    []DumpEntry `json:"entries,omitempty"`
}

// String implements DumpItem.
func (i DumpIndex) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s: %d entries, generation %d", i.File, i.Count, i.Generation)
	if i.Bad > 0 {
		fmt.Fprintf(&b, ", %d of them DON'T VERIFY", i.Bad)
	}
	for _, e := range i.Entries {
		if !e.Sound {
			fmt.Fprintf(&b, "\n    entry %d DOESN'T VERIFY", e.Number)
			continue
		}
		fmt.Fprintf(&b, "\n    entry %d: %d-%d, byte %d, %d bytes, timestamps up to %d",
			e.Number, e.FirstOffset, e.LastOffset, e.Position, e.SizeBytes, e.MaxTimestamp)
	}
	return b.String()
}

// DumpAborted is an aborted transaction, as markers in a data file or an index of aborted transactions say.
type DumpAborted struct {
	Type             string `json:"type"`
	File             string `json:"file"`
	ProducerID       int64  `json:"producerId"`
	FirstOffset      int64  `json:"firstOffset"`
	LastOffset       int64  `json:"lastOffset"` // of the marker
	LastStableOffset int64  `json:"lastStableOffset"`
}

// String implements DumpItem.
func (i DumpAborted) String() string {
	return fmt.Sprintf("  %s: aborted transaction of producer %d, %d-%d, last stable offset %d",
		i.File, i.ProducerID, i.FirstOffset, i.LastOffset, i.LastStableOffset)
}

// DumpSwap is the announcement of a compaction's new segments, which is there only until they are in place.
type DumpSwap struct {
	Type     string         `json:"type"`
	File     string         `json:"file"`
	TopicID  string         `json:"topicId"`
	Replaced []int64        `json:"replaced"` // base offsets
	Files    []DumpSwapFile `json:"files"`
}

// DumpSwapFile is a file that takes the place of those of the same name, if there are any.
type DumpSwapFile struct {
	File      string `json:"file"`
	SizeBytes int64  `json:"sizeBytes"`
	CRC       uint32 `json:"crc"`
}

// String implements DumpItem.
func (i DumpSwap) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s: segments %s are replaced", i.File, strings.Trim(fmt.Sprint(i.Replaced), "[]"))
	for _, f := range i.Files {
		fmt.Fprintf(&b, "\n    by %s: %d bytes, crc %08x", f.File, f.SizeBytes, f.CRC)
	}
	return b.String()
}

// DumpFile is a file that holds nothing of the log. Kind is "temporary" for what was being written, "torn" for what recovery
// has cut off, and "unknown".
type DumpFile struct {
	Type      string `json:"type"`
	File      string `json:"file"`
	SizeBytes int64  `json:"sizeBytes"`
	Kind      string `json:"kind"`
}

// String implements DumpItem.
func (i DumpFile) String() string {
	return fmt.Sprintf("  %s: %d bytes, %s", i.File, i.SizeBytes, i.Kind)
}

// DumpProblem is what doesn't verify, or can't be read.
type DumpProblem struct {
	Type      string `json:"type"`
	Directory string `json:"directory"`
	File      string `json:"file"`
	Position  int64  `json:"position"` // -1 for the file as a whole
	Kind      string `json:"kind"`
}

// String implements DumpItem.
func (i DumpProblem) String() string {
	where := filepath.Join(i.Directory, i.File)
	if i.Position >= 0 {
		where += fmt.Sprintf(": byte %d", i.Position)
	}
	return fmt.Sprintf("  PROBLEM: %s: %s", where, i.Kind)
}
