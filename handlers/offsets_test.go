package handlers

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// listOne asks ListOffsets for one timestamp of partition 0.
func (p *plane) listOne(version int16, topic string, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	p.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = version
	q := kmsg.NewListOffsetsRequestTopicPartition()
	q.Timestamp = timestamp
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{q}}}
	body := kmsg.NewPtrListOffsetsResponse()
	body.Version = version
	answer(p.t, p.listOffsets(request(protocol.KeyListOffsets, version), req), body)
	return body.Topics[0].Partitions[0]
}

// epochOne asks OffsetForLeaderEpoch for one epoch of partition 0.
func (p *plane) epochOne(topic string, epoch int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	p.t.Helper()
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version = 4
	q := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	q.LeaderEpoch = epoch
	req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{
		{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{q}},
	}
	body := kmsg.NewPtrOffsetForLeaderEpochResponse()
	body.Version = 4
	answer(p.t, p.offsetForLeaderEpoch(request(protocol.KeyOffsetForLeaderEpoch, 4), req), body)
	return body.Topics[0].Partitions[0]
}

// deleteOne asks DeleteRecords for partition 0.
func (p *plane) deleteOne(topic string, offset int64) kmsg.DeleteRecordsResponseTopicPartition {
	p.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version = 2
	req.Topics = []kmsg.DeleteRecordsRequestTopic{
		{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}},
	}
	body := kmsg.NewPtrDeleteRecordsResponse()
	body.Version = 2
	answer(p.t, p.deleteRecords(request(protocol.KeyDeleteRecords, 2), req).Later(p.t.Context()), body)
	return body.Topics[0].Partitions[0]
}

func TestListOffsetsSpecialTimestamps(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 1)
	logs[0].epoch = 1
	fill(t, logs[0], 3, 10)
	logs[0].epoch, logs[0].start = 2, 1
	for name, c := range map[string]struct {
		version   int16
		timestamp int64
		code      protocol.ErrorCode
		offset    int64
		epoch     int32
	}{
		"latest":                            {7, -1, 0, 3, 2},
		"earliest":                          {7, -2, 0, 1, 1},
		"earliest local":                    {8, -4, 0, 1, 1},
		"earliest local, an old version":    {7, -4, protocol.UnsupportedVersion, -1, -1},
		"tiered":                            {9, -5, 0, -1, -1},
		"pending upload":                    {11, -6, 0, -1, -1},
		"pending upload, an old version":    {10, -6, protocol.UnsupportedVersion, -1, -1},
		"largest timestamp, an old version": {6, -3, protocol.UnsupportedVersion, -1, -1},
		"nothing found":                     {7, 1, 0, -1, -1},
		"unknown":                           {11, -7, protocol.UnsupportedVersion, -1, -1},
	} {
		got := p.listOne(c.version, "a", c.timestamp)
		if got.ErrorCode != int16(c.code) || got.Offset != c.offset || got.LeaderEpoch != c.epoch || got.Timestamp != -1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestListOffsetsLooksAtTheVersionBeforeThePartition(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	for version, code := range map[int16]protocol.ErrorCode{6: protocol.UnsupportedVersion, 7: protocol.UnknownTopicOrPartition} {
		if got := p.listOne(version, "no", -3); got.ErrorCode != int16(code) {
			t.Errorf("version %d: %+v", version, got)
		}
	}
}

func TestLeaderEpochsBelowNoneAreOld(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.topic("a", 1)
	for epoch, code := range map[int32]protocol.ErrorCode{-1: 0, -2: protocol.FencedLeaderEpoch, 0: 0, 1: protocol.UnknownLeaderEpoch} {
		list := kmsg.NewPtrListOffsetsRequest()
		list.Version = 7
		list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "a", Partitions: []kmsg.ListOffsetsRequestTopicPartition{
			{Timestamp: -1, CurrentLeaderEpoch: epoch},
		}}}
		listed := kmsg.NewPtrListOffsetsResponse()
		listed.Version = 7
		answer(t, p.listOffsets(request(protocol.KeyListOffsets, 7), list), listed)
		if got := listed.Topics[0].Partitions[0].ErrorCode; got != int16(code) {
			t.Errorf("ListOffsets, epoch %d: %d", epoch, got)
		}
		fetch := fetchRequest(12, "a", 0)
		fetch.MaxWaitMillis, fetch.Topics[0].Partitions[0].CurrentLeaderEpoch = 0, epoch
		if got := p.fetchNow(fetch).Topics[0].Partitions[0].ErrorCode; got != int16(code) && epoch != -2 || epoch == -2 && got != 0 {
			t.Errorf("Fetch, epoch %d: %d", epoch, got)
		}
	}
}

func TestTopicsThatComeTwiceAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.topic("a", 2)
	p.topic("b", 1)
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 7
	deleted := kmsg.NewPtrDeleteRecordsRequest()
	deleted.Version = 2
	for i, name := range []string{"a", "b", "a"} {
		q := kmsg.NewListOffsetsRequestTopicPartition()
		q.Partition, q.Timestamp = int32(i/2), -1
		list.Topics = append(list.Topics, kmsg.ListOffsetsRequestTopic{Topic: name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{q}})
		deleted.Topics = append(deleted.Topics, kmsg.DeleteRecordsRequestTopic{
			Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: int32(i / 2)}},
		})
	}
	listed := kmsg.NewPtrListOffsetsResponse()
	listed.Version = 7
	answer(t, p.listOffsets(request(protocol.KeyListOffsets, 7), list), listed)
	if len(listed.Topics) != 2 || len(listed.Topics[0].Partitions) != 2 || listed.Topics[0].Partitions[1].Partition != 1 {
		t.Errorf("ListOffsets: %+v", listed)
	}
	gone := kmsg.NewPtrDeleteRecordsResponse()
	gone.Version = 2
	answer(t, complete(t, p.deleteRecords(request(protocol.KeyDeleteRecords, 2), deleted)), gone)
	if len(gone.Topics) != 2 || len(gone.Topics[0].Partitions) != 2 || gone.Topics[0].Partitions[1].Partition != 1 {
		t.Errorf("DeleteRecords: %+v", gone)
	}
}

func TestDeleteRecords(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 1)
	p.topic("compacted", 1, "cleanup.policy", "compact")
	p.topic("both", 1, "cleanup.policy", "compact,delete")
	fill(t, logs[0], 5, 10)
	for _, c := range []struct {
		topic  string
		offset int64
		code   protocol.ErrorCode
		low    int64
	}{
		{"a", 6, protocol.OffsetOutOfRange, -1},
		{"a", -2, protocol.OffsetOutOfRange, -1},
		{"a", 2, 0, 2},
		{"a", 1, 0, 2},
		{"a", -1, 0, 5},
		{"no", 0, protocol.UnknownTopicOrPartition, -1},
		{"compacted", 0, protocol.PolicyViolation, -1},
		{"both", 0, 0, 0},
		{"__consumer_offsets", 0, protocol.InvalidTopicException, -1},
	} {
		if got := p.deleteOne(c.topic, c.offset); got.ErrorCode != int16(c.code) || got.LowWatermark != c.low {
			t.Errorf("%s to %d: %+v", c.topic, c.offset, got)
		}
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 1)
	fill(t, logs[0], 2, 10)
	logs[0].epoch = 3
	fill(t, logs[0], 2, 10)
	for epoch, want := range map[int32]storage.EpochEnd{
		-1: {Epoch: -1, EndOffset: -1}, 0: {Epoch: 0, EndOffset: 2}, 2: {Epoch: 0, EndOffset: 2}, 3: {Epoch: 3, EndOffset: 4},
		4: {Epoch: -1, EndOffset: -1},
	} {
		if got := p.epochOne("a", epoch); got.ErrorCode != 0 || got.LeaderEpoch != want.Epoch || got.EndOffset != want.EndOffset {
			t.Errorf("epoch %d: %+v, want %+v", epoch, got, want)
		}
	}
}

func TestNothingIsToldOfALogThatIsBeingRecovered(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, logs := p.topic("a", 1)
	logs[0].readErr = storage.ErrNotReady
	for _, timestamp := range []int64{-1, -2, -3, 5} {
		if got := p.listOne(7, "a", timestamp); got.ErrorCode != int16(protocol.NotLeaderOrFollower) || got.Offset != -1 {
			t.Errorf("timestamp %d: %+v", timestamp, got)
		}
	}
	if got := p.epochOne("a", 0); got.ErrorCode != int16(protocol.NotLeaderOrFollower) || got.EndOffset != -1 {
		t.Errorf("end of epoch: %+v", got)
	}
	if got := p.deleteOne("a", -1); got.ErrorCode != int16(protocol.NotLeaderOrFollower) || got.LowWatermark != -1 {
		t.Errorf("delete records: %+v", got)
	}
	req := fetchRequest(12, "a", 0)
	req.Topics[0].Partitions[0].LastFetchedEpoch = 0
	if got := p.fetchNow(req).Topics[0].Partitions[0]; got.ErrorCode != int16(protocol.NotLeaderOrFollower) {
		t.Errorf("fetch: %+v", got)
	}
}

func TestErrorsOfADiskAreNotTakenForOffsets(t *testing.T) {
	t.Parallel()
	log := newMemoryLog()
	log.readErr = errors.New("input/output error")
	if _, err := standing(log); err == nil {
		t.Error("no error")
	}
}
