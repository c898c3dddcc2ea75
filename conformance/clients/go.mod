module github.com/kbroker/kbroker/conformance/clients

go 1.26.0

require (
	github.com/IBM/sarama v1.61.1
	github.com/confluentinc/confluent-kafka-go/v2 v2.11.1
	github.com/kbroker/kbroker v0.0.0
	github.com/segmentio/kafka-go v0.4.51
	github.com/twmb/franz-go v1.22.3
)

replace github.com/kbroker/kbroker => ../..
