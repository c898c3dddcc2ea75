//go:build unix

package server

import "golang.org/x/sys/unix"

// rawReads says that readDescriptor works here.
const rawReads = true

// readDescriptor reads from a non-blocking descriptor. again means that there is nothing to read yet.
func readDescriptor(fd int, p []byte) (n int, again bool, err error) {
	for {
		n, err = unix.Read(fd, p)
		switch err { // an errno as it is: this comes before every wait
		case nil:
			return n, false, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, true, nil
		default:
			return 0, false, err
		}
	}
}
