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

// subscribes says whether the generation that is, or was last, subscribes to the topic. Where that can't be known, in a
// group of consumers, it may.
func (k *classic) subscribes(topic string) bool {
	if k.topics == nil {
		return k.protocolType == consumerProtocolType
	}
	_, subscribed := k.topics[topic]
	return subscribed
}

// noteTopics looks what the members of a new generation subscribe to.
func (k *classic) noteTopics() {
	k.topics = nil
	if k.protocolType != consumerProtocolType {
		return
	}
	topics := make(map[string]struct{})
	for _, m := range k.order {
		s, ok := subscription(m.metadata(k.protocol))
		if !ok {
			return
		}
		for _, name := range s.Topics {
			topics[name] = struct{}{}
		}
	}
	k.topics = topics
}
