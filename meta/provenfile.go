package meta

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs"
)

// provenFile is a file written from its beginning to its end, of which each sync leaves a proof. One goroutine writes;
// others may sync.
type provenFile struct {
	pebbleFile

	mu      sync.Mutex
	length  int64
	sum     uint32
	unknown bool // what it holds isn't known any more
}

func (p *pebbleFS) proven(f vfs.File) *provenFile {
	return &provenFile{pebbleFile: pebbleFile{File: f, fs: p}}
}

func (f *provenFile) Write(b []byte) (int, error) {
	n, err := f.pebbleFile.Write(b)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.length += int64(n)
	f.sum = batch.UpdateChecksum(f.sum, b[:n])
	f.unknown = f.unknown || err != nil
	return n, err
}

// WriteAt isn't how these files are written.
func (f *provenFile) WriteAt([]byte, int64) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: f.Name(), Err: fs.ErrInvalid}
}

// Sync makes durable what was written and notes it.
func (f *provenFile) Sync() error {
	f.mu.Lock()
	length, sum, unknown := f.length, f.sum, f.unknown
	f.mu.Unlock()
	if err := f.pebbleFile.SyncData(); err != nil {
		return err
	}
	if !unknown {
		f.fs.proofs.prove(f.Name(), length, sum)
	}
	return nil
}

// SyncData is Sync.
func (f *provenFile) SyncData() error { return f.Sync() }

// missingFile stands for a file that couldn't be made.
type missingFile struct {
	vfs.File // nil: Pebble only writes, syncs and closes a log
	name     string
}

var errMissing = errors.New("file couldn't be made")

func (f *missingFile) Name() string { return f.name }

func (f *missingFile) Write([]byte) (int, error) { return 0, errMissing }

func (f *missingFile) SyncData() error { return errMissing }

func (f *missingFile) Sync() error { return errMissing }

func (f *missingFile) Close() error { return nil }
