package conformance

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadata asks for topics; none means all of them.
func metadata(t *testing.T, version int16, create bool, topics ...string) *kmsg.MetadataResponse {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = create
	for _, topic := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, rt)
	}
	return ask[*kmsg.MetadataResponse](dial(t), req, version)
}

// A client that resolves localhost or tries IPv6 first must not be sent where nobody listens.
func TestAdvertisedAddressIsReachable(t *testing.T) {
	t.Parallel()
	md := metadata(t, 12, false)
	if len(md.Brokers) != 1 {
		t.Fatalf("%d brokers", len(md.Brokers))
	}
	b := md.Brokers[0]
	c, err := net.Dial("tcp", net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	if err != nil {
		t.Fatalf("advertised address: %v", err)
	}
	_ = c.Close()
	if md.ControllerID != b.NodeID {
		t.Fatalf("controller %d isn't among the brokers", md.ControllerID)
	}
}

func TestMissingTopicIsNotMadeUnlessAllowed(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	for range 2 {
		got := metadata(t, 12, false, topic).Topics[0]
		if got.ErrorCode != 3 || got.Topic == nil || *got.Topic != topic || len(got.Partitions) != 0 {
			t.Fatalf("got %+v, want error 3 with the name", got)
		}
	}
}

// A topic made on the fly takes writes by the time it is shown.
func TestTopicMadeOnTheFlyIsUsableOnceShown(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	madeOnTheFly(t, topic)
	mustProduce(t, dial(t), topic, plain("first"))
}

// madeOnTheFly asks for a topic, which that makes, until it is shown, and returns its id.
func madeOnTheFly(t *testing.T, topic string) (id [16]byte) {
	t.Helper()
	eventually(t, "the topic", func() (bool, any) {
		mt := metadata(t, 10, true, topic).Topics[0]
		if mt.ErrorCode != 0 && mt.ErrorCode != 3 && mt.ErrorCode != 5 {
			t.Fatalf("error %d while the topic is made", mt.ErrorCode)
		}
		id = mt.TopicID
		return mt.ErrorCode == 0, mt.ErrorCode
	})
	return id
}

func TestEmptyAndNullTopicListsDiffer(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	createTopic(t, topic, 1)
	shown := func(md *kmsg.MetadataResponse) bool {
		for _, mt := range md.Topics {
			if mt.Topic != nil && *mt.Topic == topic {
				return true
			}
		}
		return false
	}
	for _, c := range []struct {
		name    string
		version int16
		topics  []kmsg.MetadataRequestTopic
		want    bool
	}{
		{"v0 empty is all", 0, []kmsg.MetadataRequestTopic{}, true},
		{"v1 null is all", 1, nil, true},
		{"v1 empty is none", 1, []kmsg.MetadataRequestTopic{}, false},
		{"v12 null is all", 12, nil, true},
		{"v12 empty is none", 12, []kmsg.MetadataRequestTopic{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = c.topics
			if got := shown(ask[*kmsg.MetadataResponse](dial(t), req, c.version)); got != c.want {
				t.Fatalf("shown: %v, want %v", got, c.want)
			}
		})
	}
}

func TestTopicsMadeOnTheFlyByManyAtOnceExistForAll(t *testing.T) {
	t.Parallel()
	topic := name(t, "t")
	var ids sync.Map
	t.Run("at once", func(t *testing.T) {
		for i := range 8 {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				ids.Store(madeOnTheFly(t, topic), i)
			})
		}
	})
	made := 0
	ids.Range(func(any, any) bool { made++; return true })
	if made != 1 {
		t.Errorf("%d topics were made of one name", made)
	}
}

func TestNamesThatAreNoTopicNamesAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", ".", "..", "a/b", "../../etc/passwd", "a b", "a\x00b", "é", strings.Repeat("x", 250), "\xff\xfe"} {
		t.Run(strconv.Quote(bad[:min(len(bad), 20)]), func(t *testing.T) {
			t.Parallel()
			if code := metadata(t, 4, true, bad).Topics[0].ErrorCode; code != 17 && (code != 3 || bad == "a/b") {
				t.Errorf("Metadata: error %d, want 17", code)
			}
			req := kmsg.NewPtrCreateTopicsRequest()
			rt := kmsg.NewCreateTopicsRequestTopic()
			rt.Topic, rt.NumPartitions, rt.ReplicationFactor = bad, 1, 1
			req.Topics = append(req.Topics, rt)
			if code := ask[*kmsg.CreateTopicsResponse](dial(t), req, 5).Topics[0].ErrorCode; code != 17 {
				t.Errorf("CreateTopics: error %d, want 17", code)
			}
			del := kmsg.NewPtrDeleteTopicsRequest()
			del.TopicNames = []string{bad}
			if code := ask[*kmsg.DeleteTopicsResponse](dial(t), del, 4).Topics[0].ErrorCode; code != 3 && code != 17 {
				t.Errorf("DeleteTopics: error %d, want 3", code)
			}
		})
	}
}

func TestInternalTopicsAreShownAsInternal(t *testing.T) {
	t.Parallel()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey = name(t, "g")
	ask[*kmsg.FindCoordinatorResponse](dial(t), req, 2)
	md := metadata(t, 9, false, "__consumer_offsets")
	if mt := md.Topics[0]; mt.ErrorCode != 0 || !mt.IsInternal || len(mt.Partitions) == 0 {
		t.Fatalf("got %+v", mt)
	}
	if p := produce(t, dial(t), "__consumer_offsets", plain("x")); p.ErrorCode != 17 {
		t.Fatalf("produce: error %d, want 17", p.ErrorCode)
	}
}

func TestClusterIsDescribedAsMetadataDoes(t *testing.T) {
	t.Parallel()
	md := metadata(t, 12, false)
	for version := range int16(2) {
		resp := ask[*kmsg.DescribeClusterResponse](dial(t), kmsg.NewPtrDescribeClusterRequest(), version)
		if resp.ErrorCode != 0 || md.ClusterID == nil || resp.ClusterID != *md.ClusterID || len(resp.Brokers) != 1 || resp.ControllerID != md.ControllerID {
			t.Fatalf("v%d: %+v", version, resp)
		}
		if b, want := resp.Brokers[0], md.Brokers[0]; b.NodeID != want.NodeID || b.Host != want.Host || b.Port != want.Port {
			t.Errorf("v%d: %+v, Metadata says %+v", version, b, want)
		}
	}
}
