package vfs

import (
	"errors"
	"syscall"
)

// IsSystem says whether an error comes from the operating system, as those of a disk that fails do.
func IsSystem(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number)
}

// IsNoSpace says whether an operation failed because the disk, or the user's share of it, is full.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// IsTooManyFiles says whether an operation failed because too many files are open, in this process or altogether.
func IsTooManyFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
