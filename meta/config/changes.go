package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// What a broker's settings may become while it runs: bounds that Apache Kafka sets for changes alone, be it since it resizes
// pools of threads or since settings depend on each other.

// bytesPerCleaner is the buffer that each cleaner thread needs more than.
const bytesPerCleaner = 1 << 20

// changed checks one setting that was parsed, for all or for one listener, as its name says; configs are all that are to be set
// with it.
func (b *Broker) changed(k *Key, name string, v value, configs map[string]string) error {
	ofConnections := k.Name == "max.connections" || k.Name == "max.connection.creation.rate"
	if name != k.Name && !ofConnections { // of a listener's settings those alone have other bounds than at the start
		return nil
	}
	reason := ""
	switch k.Name {
	case "max.connections", "max.connection.creation.rate":
		reason = belowOne(v.number)
	case "log.retention.ms":
		if v.number == 0 {
			return errNoRetention("0")
		}
	case "log.roll.ms":
		reason = belowOne(v.number)
	case "max.connections.per.ip":
		if v.number == 0 && b.afterwards("max.connections.per.ip.overrides", configs).text == "" {
			reason = "can be zero only with max.connections.per.ip.overrides"
		}
	case "max.connections.per.ip.overrides":
		reason = checkOverrides(v.text)
	case "log.cleaner.threads", "log.cleaner.dedupe.buffer.size":
		reason = b.cleanersChanged(configs)
	case "log.local.retention.ms", "log.local.retention.bytes":
		reason = b.localRetentionChanged(k.Name, v.number, configs)
	case "metric.reporters", "principal.builder.class":
		reason = checkClasses(k, v)
	case "cordoned.log.dirs":
		reason = b.checkDirectories(v.list)
	case "listener.security.protocol.map":
		if strings.TrimSpace(v.text) == "" {
			reason = "There must be a protocol for each listener"
			break
		}
		if _, err := ParseListeners(b.ownListeners(b.String("listeners")), b.ownListeners(b.String("advertised.listeners")), v.text); err != nil {
			return err
		}
	default:
	}
	if reason == "" {
		return nil
	}
	return &Error{Key: name, Value: k.shown(configs[name]), Reason: reason}
}

// threadKeys are the sizes of pools of threads.
func threadKeys() []string {
	return []string{
		"background.threads", "log.cleaner.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir",
		"num.replica.fetchers", "remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size",
		"remote.log.manager.follower.thread.pool.size", "remote.log.reader.threads",
	}
}

// threadsChanged bounds the change of a pool of threads to half and double its size; other settings may become what they like.
func (b *Broker) threadsChanged(name string, wanted int64) error {
	if !slices.Contains(threadKeys(), name) {
		return nil
	}
	now := b.Int64(name)
	if wanted == now || wanted >= now/2 && wanted <= 2*now {
		return nil
	}
	return &RuleError{Text: fmt.Sprintf("Dynamic thread count update validation failed for %s=%d, value should be at least half and "+
		"not greater than double the current value %d", name, wanted, now)}
}

func belowOne(n int64) string {
	if n < 1 {
		return "Value must be at least 1"
	}
	return ""
}

// afterwards is the value of a key once configs are set.
func (b *Broker) afterwards(name string, configs map[string]string) value {
	if raw, ok := configs[name]; ok {
		if v, err := b.table.lookup(name).parse(raw); err == nil {
			return v
		}
	}
	return b.now.Load().values[name]
}

// cleanersChanged checks that every cleaner thread has a buffer to work with.
func (b *Broker) cleanersChanged(configs map[string]string) string {
	threads := b.afterwards("log.cleaner.threads", configs).number
	if threads < 1 {
		return "There must be a cleaner thread"
	}
	if b.afterwards("log.cleaner.dedupe.buffer.size", configs).number/threads <= bytesPerCleaner {
		return "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread"
	}
	return ""
}

// localRetentionChanged checks that what is kept locally isn't more than what is kept at all; -2 stands for that.
func (b *Broker) localRetentionChanged(name string, local int64, configs map[string]string) string {
	total := b.afterwards("log.retention.bytes", configs).number
	if name == "log.local.retention.ms" {
		total = b.now.Load().firstTime("log.retention.ms", "log.retention.minutes", "log.retention.hours").number
		if v := b.afterwards("log.retention.ms", configs); !v.null {
			total = v.number
		}
	}
	if total >= 0 && local != -2 && (local == -1 || local > total) {
		return fmt.Sprintf("Value must not be more than %d, which is what is kept at all", total)
	}
	return ""
}

// checkOverrides checks a list of addresses with numbers.
func checkOverrides(list string) string {
	for _, item := range SplitList(list) {
		at := strings.LastIndexByte(item, ':')
		if at < 0 {
			return fmt.Sprintf("Unable to parse %q; write ADDRESS:NUMBER", item)
		}
		if _, err := strconv.ParseInt(strings.TrimSpace(item[at+1:]), 10, 32); err != nil {
			return fmt.Sprintf("Unable to parse %q; write ADDRESS:NUMBER", item)
		}
		if host := strings.TrimSpace(item[:at]); !isHost(host) {
			return fmt.Sprintf("%q is no address", host)
		}
	}
	return ""
}

// isHost says whether s could be the name or the address of a host.
func isHost(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789.-:[]") == ""
}

// checkClasses refuses all classes but those that are there without being told: nothing can be loaded.
func checkClasses(k *Key, v value) string {
	names := v.list
	if k.Type == Class {
		names = []string{v.text}
	}
	for _, name := range names {
		if !slices.Contains(SplitList(k.Default), name) {
			return fmt.Sprintf("Class %s could not be found.", name)
		}
	}
	return ""
}

// checkDirectories checks that only data directories are named, or all.
func (b *Broker) checkDirectories(dirs []string) string {
	for _, dir := range dirs {
		if dir != "*" && dir != b.DataDir() {
			return fmt.Sprintf("%s is no data directory", dir)
		}
	}
	return ""
}

// dynamicOnly are keys that can only be set while the broker runs; Kafka throttles replication by them.
func dynamicOnly() []Key {
	return []Key{
		{Name: "follower.replication.throttled.rate", Type: Long, Valid: atLeast(0)},
		{Name: "leader.replication.throttled.rate", Type: Long, Valid: atLeast(0)},
		{Name: "replica.alter.log.dirs.io.max.bytes.per.second", Type: Long, Valid: atLeast(0)},
	}
}

// checkForeign checks a key that isn't in the table.
func checkForeign(name, raw string) error {
	for _, k := range dynamicOnly() {
		if k.Name == name {
			_, err := k.parse(raw)
			return err
		}
	}
	return nil
}
