// Package conformance is a suite that knows a broker only by its address. It dials the Kafka protocol and asserts what a
// client would notice.
//
//	go test ./conformance                          against a broker started for the test
//	go test ./conformance -addr 127.0.0.1:9092     against any other, Apache Kafka included
//
// Cases have names of their own for topics and groups and remove nothing, so they run in parallel and against a broker that
// is in use. Clients written by others are exercised by the module in conformance/clients.
package conformance
