//go:build unix

package kbroker

import "syscall"

// openFileLimit is how many files the process may have open; 0 if that isn't known.
func openFileLimit() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return uint64(l.Cur) //nolint:unconvert // it is signed on some systems
}
