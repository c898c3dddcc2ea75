package kbroker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/kbroker/kbroker/handlers/group"
	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage"
	"github.com/kbroker/kbroker/storage/vfs"
)

// Names in a data directory.
const (
	metaName   = "meta"
	topicsName = "topics"
)

// ErrDataInUse is returned by what works on a data directory alone while a broker runs on it.
var ErrDataInUse = errors.New("a broker is running on the data directory: stop it first")

// errNoData is returned for a directory in which no broker has ever kept anything.
var errNoData = errors.New("is no data directory of a broker: there is neither " + topicsName + "/ nor " + metaName + "/ in it")

// DataReport is what VerifyData found.
type DataReport struct {
	storage.Report
	Keys int `json:"metadataKeys"`
}

// Repairable says that there is damage in logs, which RepairData is for.
func (r *DataReport) Repairable() bool {
	return slices.ContainsFunc(r.Findings, func(f storage.Finding) bool { return f.Damage && f.Directory != metaName })
}

// RepairReport is what RepairData did, or would do.
type RepairReport struct {
	Applied bool             `json:"applied"`
	Actions []storage.Action `json:"actions"`
	// After is what is there afterwards; nil unless Applied.
	After *DataReport `json:"after,omitempty"`
}

// VerifyData reads a whole data directory, logs and metadata, and says what doesn't verify. It changes nothing. The error is
// ErrDataInUse, or of the disk; with one, the report, if there is any, is of what could be read.
func VerifyData(dir string) (*DataReport, error) {
	o, err := openOffline(dir, false)
	if err != nil {
		return nil, err
	}
	defer o.close()
	return o.verify()
}

// RepairData decides what a start leaves open about damaged logs, and with apply does it; see storage.Repair. The metadata
// store is not repaired. The error is ErrDataInUse, or of the disk; with one, the report, if there is any, is of what was done.
func RepairData(dir string, apply bool) (*RepairReport, error) {
	o, err := openOffline(dir, apply)
	if err != nil {
		return nil, err
	}
	defer o.close()
	return o.repair(apply)
}

// DumpOptions says what DumpData shows.
type DumpOptions = storage.DumpOptions

// DumpData shows what is in a data directory, a partition's directory or a single file. Each item is a line or a few for a
// person by its String, and an object for a program as JSON. A broker may be running; what it is writing at the moment may
// then look cut off. It returns how many of the items say that something doesn't verify.
func DumpData(path string, o DumpOptions, emit func(item fmt.Stringer) error) (problems int, err error) {
	err = storage.Dump(vfs.OS(), path, o, func(i storage.DumpItem) error {
		if _, ok := i.(storage.DumpProblem); ok {
			problems++
		}
		return emit(i)
	})
	return problems, err
}

// DataInUse says whether a broker is running on the data directory that a path is, or lies in.
func DataInUse(path string) bool {
	for dir := absolute(path); ; dir = filepath.Dir(dir) {
		lock, err := lockIfThere(vfs.OS(), dir)
		if errors.Is(err, ErrDataInUse) {
			return true
		}
		if lock != nil {
			_ = lock.Close() // taken only to see whether it could be
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// offline is a data directory without a broker.
type offline struct {
	fs    vfs.FS
	dir   string
	lock  io.Closer
	clock clock.Clock
	store *meta.Store // opened when something has to be written to it
}

// openOffline takes a directory. Only what is going to be changed must be locked; the rest may be read-only.
func openOffline(dir string, change bool) (*offline, error) {
	o := &offline{fs: vfs.OS(), dir: dir, clock: systemClock{}}
	if !o.has(topicsName) && !o.has(metaName) {
		if _, err := o.fs.List(dir); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s %w", dir, errNoData)
	}
	var err error
	if change {
		o.lock, err = o.fs.Lock(filepath.Join(dir, lockName))
	} else {
		o.lock, err = lockIfThere(o.fs, dir)
	}
	if errors.Is(err, vfs.ErrLocked) {
		err = fmt.Errorf("%s: %w", dir, ErrDataInUse)
	}
	return o, err
}

func (o *offline) has(name string) bool {
	_, err := o.fs.Stat(filepath.Join(o.dir, name))
	return err == nil
}

// lockIfThere takes the lock of a directory that has one. What can't be locked for another reason than a broker isn't
// locked: nothing is going to be changed.
func lockIfThere(files vfs.FS, dir string) (io.Closer, error) {
	name := filepath.Join(dir, lockName)
	if info, err := files.Stat(name); err != nil || info.IsDir() {
		return nil, nil //nolint:nilerr // there is no lock
	}
	lock, err := files.Lock(name)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return nil, fmt.Errorf("%s: %w", dir, ErrDataInUse)
	case err != nil:
		return nil, nil //nolint:nilerr // a read-only filesystem, most likely
	}
	return lock, nil
}

// close gives the directory up.
func (o *offline) close() {
	if o.store != nil {
		_ = o.store.Close() // what was written to it is durable
	}
	if o.lock != nil {
		_ = o.lock.Close() // the process' end does it otherwise
	}
}

// check reads the metadata store.
func (o *offline) check() (*meta.Checked, error) {
	return meta.Check(o.fs, filepath.Join(o.dir, metaName), meta.Options{Clock: o.clock},
		meta.CheckRecords{Group: group.CheckRecord, Transaction: txn.CheckRecord})
}

// knowledge is what a sound metadata store says of partitions; nothing if it isn't.
func knowledge(c *meta.Checked) storage.VerifyOptions {
	if !c.Sound() {
		return storage.VerifyOptions{}
	}
	return storage.VerifyOptions{
		Known: func(topic string, partition int32) (storage.TopicID, bool) {
			t := c.Topics.Named(topic)
			if t == nil || partition >= t.Partitions {
				return storage.TopicID{}, false
			}
			return t.ID, true
		},
		LogStart: func(p storage.Partition) int64 { return c.LogStart(p.ID, p.Number) },
	}
}

func (o *offline) verify() (*DataReport, error) {
	c, err := o.check()
	if err != nil {
		return nil, err
	}
	logs, err := storage.VerifyWith(o.fs, o.dir, knowledge(c))
	r := &DataReport{Report: *logs, Keys: c.Keys}
	r.Findings = append(findings(c, logs.Partitions > 0), r.Findings...)
	return r, err
}

// findings are those about the metadata store.
func findings(c *meta.Checked, logs bool) []storage.Finding {
	out := []storage.Finding{}
	if c.Missing && logs {
		out = append(out, storage.Finding{
			Directory: metaName, Position: -1, Damage: true,
			Kind: "the metadata store is missing, so the broker doesn't start: put it back; or, to start without, move the directory topics away " +
				"(`kbroker storage dump --records` shows what is in the logs)",
		})
	}
	for _, f := range c.Findings {
		kind := f.Kind
		if f.Name != "" {
			kind = fmt.Sprintf("key %q: %s", f.Name, kind)
		}
		out = append(out, storage.Finding{Directory: metaName, Position: -1, Damage: f.Damage, Kind: kind})
	}
	return out
}

func (o *offline) repair(apply bool) (*RepairReport, error) {
	c, err := o.check()
	if err != nil {
		return nil, err
	}
	r := &RepairReport{Applied: apply, Actions: []storage.Action{}}
	for _, f := range findings(c, true) {
		if f.Damage {
			r.Actions = append(r.Actions, storage.Action{Directory: f.Directory, Wrong: f.Kind})
		}
	}
	options := storage.RepairOptions{VerifyOptions: knowledge(c), NowMs: clock.UnixMilli(o.clock), Apply: apply}
	if c.Sound() {
		options.SetLogStart = func(p storage.Partition, start int64) error { return o.setLogStart(c.NodeID, p, start) }
	}
	done, err := storage.Repair(o.fs, o.dir, options)
	r.Actions = append(r.Actions, done...)
	if err != nil || !apply {
		return r, err
	}
	if o.store != nil {
		err = o.store.Close()
		o.store = nil
	}
	if err == nil {
		r.After, err = o.verify()
	}
	return r, err
}

// setLogStart moves a log start in the metadata store, which is opened for the first of them.
func (o *offline) setLogStart(nodeID int32, p storage.Partition, start int64) error {
	if o.store == nil {
		s, err := meta.Open(o.fs, filepath.Join(o.dir, metaName), meta.Options{
			Clock: o.clock, NodeID: nodeID, Durability: meta.SyncAlways(),
		})
		if err != nil {
			return err
		}
		o.store = s
	}
	return o.store.SetLogStart(p.ID, p.Number, start)
}

// IsNotFound says whether a file or directory that was named isn't there.
func IsNotFound(err error) bool { return errors.Is(err, fs.ErrNotExist) }
