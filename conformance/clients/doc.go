// Package clients runs clients that others wrote against a broker, each with its own defaults. It is a module of its own so
// that the broker doesn't depend on them.
//
//	go test .                          against a broker started for the test
//	go test . -addr 127.0.0.1:9092     against any other
package clients
