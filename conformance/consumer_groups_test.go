package conformance

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestConsumerGroupOfTheNewProtocolGetsItsPartitions(t *testing.T) {
	t.Parallel()
	topic, group := name(t, "t"), name(t, "g")
	createTopic(t, topic, 2)
	c := dial(t)
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis = group, "AAAAAAAAAAAAAAAAAAAAAA", 60000
	req.SubscribedTopicNames, req.Topics = []string{topic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	a := ask[*kmsg.ConsumerGroupHeartbeatResponse](c, req, 1)
	eventually(t, "an assignment", func() (bool, any) {
		if a.ErrorCode != 0 || a.Assignment != nil {
			return true, nil
		}
		again := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		again.Group, again.MemberID, again.MemberEpoch, again.RebalanceTimeoutMillis = group, req.MemberID, a.MemberEpoch, -1
		a = ask[*kmsg.ConsumerGroupHeartbeatResponse](c, again, 1)
		return false, a
	})
	if a.ErrorCode != 0 || a.Assignment == nil || len(a.Assignment.Topics) != 1 || len(a.Assignment.Topics[0].Partitions) != 2 {
		t.Fatalf("got %+v", a)
	}
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups = []string{group, name(t, "none")}
	got := ask[*kmsg.ConsumerGroupDescribeResponse](c, describe, 1).Groups
	if len(got) != 2 || got[0].ErrorCode != 0 || len(got[0].Members) != 1 || got[0].Members[0].MemberID != req.MemberID || got[1].ErrorCode != 69 {
		t.Errorf("described as %+v", got)
	}
	leave := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	leave.Group, leave.MemberID, leave.MemberEpoch, leave.RebalanceTimeoutMillis = group, req.MemberID, -1, -1
	if left := ask[*kmsg.ConsumerGroupHeartbeatResponse](c, leave, 1); left.ErrorCode != 0 || left.MemberEpoch != -1 {
		t.Errorf("leave: %+v", left)
	}
}
