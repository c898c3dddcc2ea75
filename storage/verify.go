package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/producer"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// Finding is something that Verify has to say about a file.
type Finding struct {
	Directory string // of the partition, relative to the data directory
	File      string
	Position  int64 // byte in it, -1 if the file as a whole is meant
	// Damage says that acknowledged bytes don't verify, or that it can't be said whether they were acknowledged. Else it is
	// what recovery mends by itself.
	Damage bool
	Kind   string
}

// String is one line.
func (f Finding) String() string {
	what := "will be mended"
	if f.Damage {
		what = "damaged"
	}
	if f.Position < 0 {
		return fmt.Sprintf("%s/%s: %s: %s", f.Directory, f.File, what, f.Kind)
	}
	return fmt.Sprintf("%s/%s: byte %d: %s: %s", f.Directory, f.File, f.Position, what, f.Kind)
}

// Report is what Verify found in a data directory.
type Report struct {
	Partitions, Segments int
	Batches, Bytes       int64
	Findings             []Finding
}

// Sound says that nothing acknowledged is damaged.
func (r *Report) Sound() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Damage })
}

// String lists the findings, one a line, after a line with the counts.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d partitions, %d segments, %d batches, %d bytes\n", r.Partitions, r.Segments, r.Batches, r.Bytes)
	for _, f := range r.Findings {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

// Verify reads everything below topics/ of a data directory and reports what doesn't verify. It changes nothing; no
// broker may be running on the directory. The error is of the disk.
func Verify(files vfs.FS, dir string) (*Report, error) {
	r := &Report{}
	topics, err := files.List(filepath.Join(dir, topicsName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	for _, topic := range topics {
		partitions, err := files.List(filepath.Join(dir, topicsName, topic))
		if err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
		for _, name := range partitions {
			if _, err := strconv.ParseUint(name, 10, 31); err != nil {
				continue
			}
			v := &verifier{report: r, fs: files, dir: filepath.Join(dir, topicsName, topic, name), name: filepath.Join(topic, name)}
			if err := v.partition(); err != nil {
				return nil, fmt.Errorf("verify %s: %w", v.name, err)
			}
		}
	}
	return r, nil
}

// verifier checks one partition's directory.
type verifier struct {
	report   *Report
	fs       vfs.FS
	dir      string
	name     string
	bases    []int64
	snapshot *snapshot
}

func (v *verifier) add(file string, pos int64, damage bool, kind string) {
	v.report.Findings = append(v.report.Findings,
		Finding{Directory: v.name, File: file, Position: pos, Damage: damage, Kind: kind})
}

func (v *verifier) partition() error {
	names, err := v.fs.List(v.dir)
	if err != nil {
		return err
	}
	v.report.Partitions++
	for _, name := range names {
		if base, suffix, ok := segment.ParseFileName(name); ok && suffix == segment.SuffixData {
			v.bases = append(v.bases, base)
		}
	}
	slices.Sort(v.bases)
	v.sides(names)
	files := segment.NewFiles(v.fs, 4)
	end := int64(-1)
	for i, base := range v.bases {
		next := int64(-1)
		if i+1 < len(v.bases) {
			next = v.bases[i+1]
		}
		if end, err = v.segment(files, base, next); err != nil {
			return err
		}
	}
	if v.snapshot != nil && end < v.snapshot.end {
		v.add(snapshotName, -1, true, fmt.Sprintf("the log ends at %d, though it went to %d", end, v.snapshot.end))
	}
	return nil
}

// sides checks the files beside the segments.
func (v *verifier) sides(names []string) {
	for _, name := range names {
		base, suffix, ok := segment.ParseFileName(name)
		switch {
		case name == idName:
			_, err := readID(v.fs, v.dir)
			v.side(name, err, len(v.bases) > 0)
		case name == epochsName:
			b, err := readFile(v.fs, filepath.Join(v.dir, name))
			if err == nil {
				_, err = decodeEpochs(b)
			}
			v.side(name, err, false)
		case name == snapshotName:
			v.checkSnapshot()
		case strings.HasSuffix(name, segment.TempSuffix):
			v.add(name, -1, false, "left over from a crash")
		case ok && suffix != segment.SuffixData && !slices.Contains(v.bases, base):
			v.add(name, -1, false, "has no data file")
		case ok && suffix == segment.SuffixTxnIndex:
			b, err := readFile(v.fs, filepath.Join(v.dir, name))
			if err == nil {
				_, err = decodeAborted(base, b)
			}
			v.side(name, err, false)
		}
	}
	if len(v.bases) > 0 && !slices.Contains(names, idName) {
		v.add(idName, -1, true, "is missing")
	}
}

func (v *verifier) side(name string, err error, damage bool) {
	var version *segment.VersionError
	if err != nil {
		v.add(name, -1, damage || errors.As(err, &version), err.Error())
	}
}

func (v *verifier) checkSnapshot() {
	b, err := readFile(v.fs, filepath.Join(v.dir, snapshotName))
	var s *snapshot
	if err == nil {
		s, err = decodeSnapshot(b)
	}
	if err == nil && len(s.producers) > 0 {
		_, err = producer.Decode(s.producers, -1)
	}
	v.side(snapshotName, err, false)
	if err == nil {
		v.snapshot = s
	}
}

// segment examines one segment as recovery would, without trust in the snapshot, and returns where its offsets end.
func (v *verifier) segment(files *segment.Files, base, next int64) (end int64, err error) {
	ev := segment.Evidence{
		Sealed: next >= 0, Next: next, MaxEpoch: 1<<31 - 1, MayHaveGaps: true,
		Visit: func(batch.Batch, int64, int64) { v.report.Batches++ },
	}
	if s := v.snapshot; s != nil && base == s.base {
		ev.ProvenSize, ev.ProvenNext = s.size, s.end
	}
	s, out, err := segment.Load(segment.Options{FS: v.fs, Dir: v.dir, Files: files, IndexInterval: 4096}, base, ev)
	var version *segment.VersionError
	if errors.As(err, &version) {
		v.add(version.File, -1, true, err.Error())
		return next, nil
	}
	if err != nil {
		return 0, err
	}
	defer s.Close()
	v.report.Segments++
	v.report.Bytes += out.Size
	for _, d := range out.Damage {
		v.add(s.DataName(), d.From, true, fmt.Sprintf("offsets %d to %d: %s", d.First, d.Next-1, d.Kind))
	}
	switch {
	case out.Undecided != nil:
		v.add(s.DataName(), out.Undecided.From, true, "may have been acknowledged: "+out.Undecided.Kind)
	case out.Torn:
		v.add(s.DataName(), out.Size, false, "a write that was never acknowledged")
	}
	if s.Unmarked() {
		v.add(segment.FileName(base, segment.SuffixIndex), -1, false, "entries are missing or wrong")
	}
	return out.Next, nil
}
