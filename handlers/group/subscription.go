package group

import "github.com/twmb/franz-go/pkg/kmsg"

// consumerProtocolType is the protocol type whose metadata the coordinator can read: the subscriptions of consumers. What
// Connect, Schema Registry and others say to each other stays opaque.
const consumerProtocolType = "consumer"

// subscription reads the metadata of a consumer; false if it is something else.
func subscription(metadata []byte) (kmsg.ConsumerMemberMetadata, bool) {
	s := kmsg.NewConsumerMemberMetadata()
	err := s.ReadFrom(metadata)
	return s, err == nil
}

// subscribes says whether a member subscribes to the topic. Where that can't be known, in a group of consumers, it may.
func (k *classic) subscribes(topic string) bool {
	if k.protocolType != consumerProtocolType || len(k.order) == 0 {
		return false
	}
	if k.protocol == "" {
		return true
	}
	subscribed := false
	for _, m := range k.order {
		s, ok := subscription(m.metadata(k.protocol))
		if !ok {
			return true
		}
		for _, name := range s.Topics {
			subscribed = subscribed || name == topic
		}
	}
	return subscribed
}
