package meta

import "testing"

func TestReplayTellsWhatWasPutIntoTheBatch(t *testing.T) {
	t.Parallel()
	tp := TopicPartition{Topic: "a/b", Partition: 3}
	fill := func(b *Batch) {
		b.PutCursor("g/%\x00", tp, Cursor{Offset: 7, LeaderEpoch: -1, Metadata: "m", CommitMs: 1, ExpireMs: -1})
		b.DeleteCursor("", tp)
		b.PutGroup("g\x00\x01", []byte("record"))
		b.DeleteGroup("h")
		b.PutTransaction("t", nil)
		b.DeleteTransaction("u")
	}
	var from, to Batch
	fill(&from)
	if err := from.Replay(&to); err != nil {
		t.Fatal(err)
	}
	if string(from.data) != string(to.data) || from.Len() != to.Len() {
		t.Fatalf("replayed %q, want %q", to.data, from.data)
	}
	from.set([]byte(topicPrefix+"a"), nil)
	if from.Replay(&to) == nil {
		t.Fatal("a topic's record was replayed to a coordinator's reader")
	}
}
