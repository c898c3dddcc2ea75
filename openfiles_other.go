//go:build !unix

package kbroker

// openFileLimit is how many files the process may have open; 0 if that isn't known.
func openFileLimit() uint64 { return 0 }
