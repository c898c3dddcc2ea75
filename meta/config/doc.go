// Package config is the one table of configuration keys and what is made of it: flags, server.properties, KAFKA_*
// variables, DescribeConfigs, and docs/configuration.md.
//
// A [Key] has Kafka's name, type, default, valid values, whether it may change while the broker runs, a text, and the
// broker keys it follows. Values come in layers; the first that has the key wins:
//
//	a topic's, a group's or a client metrics subscription's own settings
//	the broker's dynamic settings       (DYNAMIC_BROKER)
//	the cluster's dynamic defaults      (DYNAMIC_DEFAULT_BROKER)
//	properties given at start, then our presets (STATIC_BROKER)
//	the table's default                 (DEFAULT)
//
// [Static] makes a [Broker] of what was given at start. It is read without locks; each change makes a new snapshot. A
// topic's settings are resolved against it into a [TopicConfig], from which [Broker.Storage] fills a storage.Config.
package config
