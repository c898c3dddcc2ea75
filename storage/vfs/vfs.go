// Package vfs is the one seam between the broker and a filesystem. The log and the metadata store see files only
// through [FS]; [OS] is the real one, and package simdisk a disk in memory that loses unsynced data, tears writes, fails,
// rots and fills up, so that a crash of log and metadata together can be played through thousands of times.
//
// What is assumed of a disk, and nothing more: bytes covered by a returned Sync or SyncData survive a power cut; names
// are durable once the directory that holds them has been synced; a rename within one directory is atomic; an unsynced
// write may survive in any part and in any order, also as zeros at full length. A failed sync says that the bytes are
// gone for good: it is never retried.
package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// ErrLocked is returned by FS.Lock when another process, or another broker in this one, holds the lock.
var ErrLocked = errors.New("locked by another process")

// FS is a filesystem. Names use the separator of [path/filepath]. Concurrent calls are allowed. Errors satisfy
// errors.Is with fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and the syscall.Errno behind them (ENOSPC, EIO, EROFS).
type FS interface {
	// Create makes an empty file for reading and writing, truncating one that exists.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenReadWrite opens a file for reading and writing, and makes it if it doesn't exist. It never truncates.
	OpenReadWrite(name string) (File, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(name string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes a file or a directory with everything in it; no error if it isn't there.
	RemoveAll(name string) error
	// Rename moves a file or directory, replacing a file that has the new name.
	Rename(oldName, newName string) error
	// Link makes newName a second name of the file oldName.
	Link(oldName, newName string) error
	// MkdirAll makes a directory and its parents.
	MkdirAll(name string, perm fs.FileMode) error
	// Lock takes an exclusive lock on a file, making it if need be. It fails at once with ErrLocked if it is held.
	Lock(name string) (io.Closer, error)
	// List returns the names in a directory, sorted, without "." and "..".
	List(name string) ([]string, error)
	// Stat describes a file or directory.
	Stat(name string) (fs.FileInfo, error)
	// DiskUsage tells the total and the available bytes of the filesystem that holds name.
	DiskUsage(name string) (Usage, error)
}

// Usage is the size of a filesystem in bytes.
type Usage struct{ TotalBytes, AvailableBytes uint64 }

// File is an open file. ReadAt, WriteAt, SendTo, Sync and SyncData may be called concurrently; Read and Write share one
// position and may not.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	// WriteAt writes at a position, extending the file if need be. On an error some of the bytes may have landed whatever
	// the count says.
	io.WriterAt
	io.Closer

	// Name is the name the file was opened with.
	Name() string
	// Size is the present length in bytes.
	Size() (int64, error)
	Stat() (fs.FileInfo, error)
	// Truncate sets the length.
	Truncate(size int64) error
	// Sync makes data and all metadata of the file durable, SyncData the data and what is needed to read it.
	Sync() error
	SyncData() error
	// SendTo writes n bytes from position off to w, by sendfile if both are file descriptors of the kernel, else through a
	// bounded buffer. It returns the bytes written, less than n only with an error (io.ErrUnexpectedEOF when the file ends
	// before).
	SendTo(w io.Writer, off, n int64) (int64, error)
	// Fd is the descriptor, or ^uintptr(0) if there is none.
	Fd() uintptr
}
