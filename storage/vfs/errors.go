package vfs

import (
	"errors"
	"syscall"
)

// IsNoSpace says whether an operation failed because the disk, or the user's share of it, is full.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
