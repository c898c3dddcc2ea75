package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/producer"
	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// Finding is something that Verify has to say about a file.
type Finding struct {
	Directory string `json:"directory"` // relative to the data directory
	File      string `json:"file"`
	Position  int64  `json:"position"` // byte in it, -1 if the file as a whole is meant
	// Damage says that acknowledged bytes don't verify, or that it can't be said whether they were acknowledged. Else it is
	// what a start mends by itself, or leaves alone.
	Damage bool   `json:"damage"`
	Kind   string `json:"kind"`
}

// String is one line.
func (f Finding) String() string {
	what := "note"
	if f.Damage {
		what = "DAMAGE"
	}
	where := filepath.Join(f.Directory, f.File)
	if f.Position >= 0 {
		where += fmt.Sprintf(": byte %d", f.Position)
	}
	return fmt.Sprintf("%s: %s: %s", what, where, f.Kind)
}

// Report is what Verify found in a data directory.
type Report struct {
	Partitions int       `json:"partitions"`
	Segments   int       `json:"segments"`
	Batches    int64     `json:"batches"`
	Bytes      int64     `json:"bytes"`
	Findings   []Finding `json:"findings"`
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

// VerifyOptions is what is known from outside of the partitions in a data directory.
type VerifyOptions struct {
	// Known tells the topic id of a partition; nil if that is not known of any.
	Known func(topic string, partition int32) (TopicID, bool)
	// LogStart is SetOptions.LogStart; nil if nothing is known.
	LogStart func(Partition) int64
}

// Verify reads everything below topics/ of a data directory and reports what doesn't verify. It changes nothing; no
// broker may be running on the directory. The error is of the disk; the report then is of what could be read, and says that
// there is damage.
func Verify(files vfs.FS, dir string) (*Report, error) {
	return VerifyWith(files, dir, VerifyOptions{})
}

// VerifyWith is Verify with what is known from outside.
func VerifyWith(files vfs.FS, dir string, o VerifyOptions) (*Report, error) {
	r := &Report{Findings: []Finding{}}
	files = vfs.Overlay(files) // interrupted compactions are finished there
	w := &walker{fs: files, dir: dir}
	w.visit = func(topic string, number int32) error {
		v := newVerifier(files, dir, topic, number, o)
		err := v.run()
		r.Partitions++
		r.Segments += v.segments
		r.Batches += v.batches
		r.Bytes += v.bytes
		r.Findings = append(r.Findings, v.findings...)
		if err != nil {
			return fmt.Errorf("verify %s: %w", v.name, err)
		}
		return nil
	}
	w.stray = func(dir, name string) {
		r.Findings = append(r.Findings, Finding{Directory: dir, File: name, Position: -1, Kind: "is none of the broker's files"})
	}
	w.failed = func(dir string, err error) {
		r.Findings = append(r.Findings, Finding{Directory: dir, Position: -1, Damage: true, Kind: "can't be examined: " + err.Error()})
	}
	return r, w.walk()
}

// walker goes over the directories of partitions, by name. What fails doesn't keep the others from their turn.
type walker struct {
	fs    vfs.FS
	dir   string
	visit func(topic string, number int32) error
	// stray, unless nil, is told of each file where there should be directories, and of the directory it is in.
	stray func(dir, name string)
	// failed, unless nil, is told what can't be listed, or why visit failed.
	failed func(dir string, err error)
	errs   []error
}

// walk returns the errors of the disk, and those of visit.
func (w *walker) walk() error {
	topics, err := w.list(topicsName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.fail(topicsName, err)
	}
	for _, topic := range topics {
		name := filepath.Join(topicsName, topic)
		partitions, err := w.list(name)
		if err != nil {
			w.fail(name, err)
		}
		for _, partition := range partitions {
			number, err := strconv.ParseInt(partition, 10, 32)
			if err != nil || strconv.Itoa(int(number)) != partition || number < 0 {
				continue
			}
			if err = w.visit(topic, int32(number)); err != nil {
				w.fail(filepath.Join(name, partition), err)
			}
		}
	}
	return errors.Join(w.errs...)
}

func (w *walker) fail(dir string, err error) {
	w.errs = append(w.errs, err)
	if w.failed != nil {
		w.failed(dir, err)
	}
}

// list lists the directories in one, and tells of the files.
func (w *walker) list(name string) ([]string, error) {
	names, err := w.fs.List(filepath.Join(w.dir, name))
	if err != nil {
		return nil, err
	}
	dirs, err := vfs.ListDirs(w.fs, filepath.Join(w.dir, name))
	for _, n := range names {
		if err == nil && w.stray != nil && !slices.Contains(dirs, n) {
			w.stray(name, n)
		}
	}
	return dirs, err
}

// examined is one segment as recovery would find it.
type examined struct {
	segment *segment.Segment
	outcome segment.Outcome
}

// verifier checks one partition's directory.
type verifier struct {
	fs      vfs.FS
	dir     string
	name    string // relative to the data directory
	part    Partition
	options VerifyOptions

	// keep is told of each segment, which it must close; nil closes it.
	keep func(examined)

	names    []string
	bases    []int64
	snapshot *snapshot
	refused  bool // a file stands in the way of all others
	start    int64
	end      int64 // of the log; -1 without segments
	findings []Finding
	segments int
	batches  int64
	bytes    int64
}

func newVerifier(files vfs.FS, dir, topic string, number int32, o VerifyOptions) *verifier {
	name := filepath.Join(topicsName, topic, strconv.Itoa(int(number)))
	return &verifier{
		fs: files, dir: filepath.Join(dir, name), name: name, part: Partition{Topic: topic, Number: number}, options: o, end: -1,
	}
}

func (v *verifier) add(file string, pos int64, damage bool, kind string) {
	v.findings = append(v.findings, Finding{Directory: v.name, File: file, Position: pos, Damage: damage, Kind: kind})
}

// run looks at everything there is.
func (v *verifier) run() error {
	for _, step := range []func() error{v.list, v.identify, v.swaps, v.missing} {
		if err := step(); err != nil {
			return err
		}
	}
	v.sides()
	v.begin()
	files := segment.NewFiles(v.fs, 4)
	for i, base := range v.bases {
		next := int64(-1)
		if i+1 < len(v.bases) {
			next = v.bases[i+1]
		}
		if err := v.segment(files, base, next); err != nil {
			return err
		}
	}
	v.bounds()
	return nil
}

func (v *verifier) list() error {
	var err error
	if v.names, err = v.fs.List(v.dir); err != nil {
		return err
	}
	v.bases = nil
	for _, name := range v.names {
		if base, suffix, ok := segment.ParseFileName(name); ok && suffix == segment.SuffixData {
			v.bases = append(v.bases, base)
		}
	}
	slices.Sort(v.bases)
	return nil
}

// identify finds out which topic the directory belongs to.
func (v *verifier) identify() error {
	id, err := readID(v.fs, v.dir)
	known, isKnown := TopicID{}, false
	if v.options.Known != nil {
		known, isKnown = v.options.Known(v.part.Topic, v.part.Number)
	}
	v.part.ID = id
	switch {
	case err == nil && v.options.Known != nil && (!isKnown || known != id):
		v.add("", -1, false, fmt.Sprintf("belongs to the topic with id %s, which the metadata store doesn't have: the next start removes it", id))
		return nil
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("is missing")
	case !errors.Is(err, errSideFile) && !isVersion(err):
		return err
	}
	v.part.ID = known
	v.add(idName, -1, len(v.bases) > 0 || isVersion(err), err.Error())
	return nil
}

func isVersion(err error) bool {
	var version *segment.VersionError
	return errors.As(err, &version)
}

// swaps finishes interrupted compactions, which the verifier's own filesystem keeps to itself.
func (v *verifier) swaps() error {
	l := bareLog(v.fs, v.dir, v.part)
	for _, name := range v.names {
		if _, suffix, ok := segment.ParseFileName(name); !ok || suffix != swapSuffix {
			continue
		}
		if err := l.finishSwap(name); err != nil {
			v.refuse(name, err)
			continue
		}
		v.add(name, -1, false, "an interrupted compaction, which the next start finishes")
	}
	return v.list()
}

// refuse reports a file that stands in the way of all others.
func (v *verifier) refuse(name string, err error) {
	v.refused = true
	kind := err.Error()
	var damaged *CorruptionError
	if errors.As(err, &damaged) {
		kind = damaged.Kind
	}
	v.add(name, -1, true, "keeps the partition from being opened: "+kind)
}

// bareLog is a log that does no more than finish compactions.
func bareLog(files vfs.FS, dir string, p Partition) *Log {
	return &Log{set: &Set{fs: files, logger: zap.NewNop()}, dir: dir, part: p}
}

// sides checks the files beside the segments.
func (v *verifier) sides() {
	for _, name := range v.names {
		base, suffix, ok := segment.ParseFileName(name)
		switch {
		case name == idName, ok && suffix == swapSuffix: // seen already
		case name == epochsName:
			_, err := v.readEpochs()
			v.side(name, err)
		case name == snapshotName:
			v.checkSnapshot()
		case strings.HasSuffix(name, segment.TempSuffix):
			v.add(name, -1, false, "left over from a crash: the next start removes it")
		case strings.Contains(name, tornInfix):
			v.add(name, -1, false, "a write that was never acknowledged, kept aside by an earlier start")
		case !ours(name):
			v.add(name, -1, false, "is none of the broker's files")
		case suffix != segment.SuffixData && !slices.Contains(v.bases, base):
			v.add(name, -1, false, "has no data file: the next start removes it")
		case suffix == segment.SuffixTxnIndex:
			_, err := v.readAborted(base)
			v.side(name, err)
		}
	}
	v.missingAborted()
}

// ours says whether a name is one that the broker gives to a segment's file.
func ours(name string) bool {
	_, suffix, ok := segment.ParseFileName(name)
	return ok && slices.Contains(append(swapKinds(), swapSuffix), suffix)
}

func (v *verifier) readEpochs() ([]epochStart, error) {
	b, err := readFile(v.fs, filepath.Join(v.dir, epochsName))
	if err != nil {
		return nil, err
	}
	return decodeEpochs(b)
}

func (v *verifier) readAborted(base int64) ([]abortedTxn, error) {
	b, err := readFile(v.fs, filepath.Join(v.dir, segment.FileName(base, segment.SuffixTxnIndex)))
	if err != nil {
		return nil, err
	}
	return decodeAborted(base, b)
}

// side reports a side file that a start makes anew, unless another version wrote it.
func (v *verifier) side(name string, err error) {
	switch {
	case err == nil:
	case isVersion(err), errors.Is(err, producer.ErrVersion):
		v.refuse(name, err)
	default:
		v.add(name, -1, false, err.Error()+": the next start makes it anew")
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
	v.side(snapshotName, err)
	if s != nil && (s.id == v.part.ID || v.part.ID == TopicID{}) {
		v.snapshot = s
	}
}

// missingAborted reports indexes of aborted transactions that the snapshot counts on.
func (v *verifier) missingAborted() {
	if v.snapshot == nil {
		return
	}
	for base, count := range v.snapshot.aborted {
		list, err := v.readAborted(base)
		if !slices.Contains(v.bases, base) || (err == nil && len(list) >= count) || errors.Is(err, errSideFile) {
			continue
		}
		v.add(segment.FileName(base, segment.SuffixTxnIndex), -1, false,
			fmt.Sprintf("has %d of %d entries: the next start makes it anew", len(list), count))
	}
}

// segment examines one segment as recovery would, without trust in the snapshot.
func (v *verifier) segment(files *segment.Files, base, next int64) error {
	ev := segment.Evidence{
		Sealed: next >= 0, Next: next, MaxEpoch: 1<<31 - 1, MayHaveGaps: true,
		Visit: func(batch.Batch, int64, int64) { v.batches++ },
	}
	switch s := v.snapshot; {
	case s == nil || base > s.base:
	case base == s.base:
		ev.ProvenSize, ev.ProvenNext = s.size, s.end
	case next < 0:
		ev.Sealed, ev.Next = true, s.base // the snapshot's segment followed, and is missing
	}
	s, out, err := segment.Load(v.segmentOptions(files), base, ev)
	var version *segment.VersionError
	if errors.As(err, &version) {
		v.refuse(version.File, version)
		v.end = max(v.end, next)
		return nil
	}
	if err != nil {
		return err
	}
	v.segments++
	v.bytes += out.Size
	v.end = out.Next
	v.judge(s, out)
	if v.keep != nil {
		v.keep(examined{segment: s, outcome: out.WithoutIndex()})
	} else {
		s.Close()
	}
	return nil
}

func (v *verifier) segmentOptions(files *segment.Files) segment.Options {
	return segment.Options{FS: v.fs, Dir: v.dir, Files: files, IndexInterval: DefaultConfig().IndexIntervalBytes}
}

// judge says what the outcome of an examination means.
func (v *verifier) judge(s *segment.Segment, out segment.Outcome) {
	for _, d := range out.Damage {
		if d.Next <= v.start { // nobody can read it any more, and the segment goes
			continue
		}
		v.add(s.DataName(), d.From, true, offsetRange(d.First, d.Next)+": "+reason(d))
	}
	switch {
	case out.Undecided != nil:
		v.add(s.DataName(), out.Undecided.From, true,
			"may have been acknowledged, so the partition takes no writes: "+reason(*out.Undecided))
	case out.Torn:
		v.add(s.DataName(), out.Size, false, "a write that was never acknowledged: the next start cuts it off and keeps it aside")
	}
	if s.Unmarked() && out.Undecided == nil {
		v.add(segment.FileName(s.Base, segment.SuffixIndex), -1, false, "entries are missing or wrong: the next start writes them")
	}
}

// offsetRange names the offsets from first up to, not including, next.
func offsetRange(first, next int64) string {
	if next-first == 1 {
		return fmt.Sprintf("offset %d", first)
	}
	return fmt.Sprintf("offsets %d to %d", first, next-1)
}

// reason is what is wrong with a range, without its position.
func reason(d segment.Damage) string {
	return strings.TrimPrefix(d.Kind, fmt.Sprintf("byte %d: ", d.From))
}

// begin finds out where the log starts.
func (v *verifier) begin() {
	if v.options.LogStart != nil {
		v.start = v.options.LogStart(v.part)
	}
	if v.snapshot != nil {
		v.start = max(v.start, v.snapshot.start)
	}
}

// missing reports data files that their index files speak of, and puts empty ones in their place, as recovery does. What a trim
// has left of its removals is told from that by the log start.
func (v *verifier) missing() error {
	start := int64(0)
	switch {
	case v.options.LogStart != nil:
		start = v.options.LogStart(v.part)
	case len(v.bases) > 0:
		start = v.bases[len(v.bases)-1]
	}
	gone, err := findMissing(v.fs, v.dir, start, v.bases, v.names)
	var version *segment.VersionError
	if errors.As(err, &version) {
		v.refuse(version.File, version)
		return nil
	}
	if err != nil || len(gone) == 0 {
		return err
	}
	for _, base := range gone {
		v.add(segment.FileName(base, segment.SuffixData), -1, true,
			"is missing, and its index speaks of batches: the next start passes over their offsets")
	}
	v.bases, err = standIn(v.fs, v.dir, v.bases, gone)
	return err
}

// bounds compares where the log begins and ends with where it should.
func (v *verifier) bounds() {
	if s := v.snapshot; s != nil && v.end < s.end && v.start < s.end && !v.refused {
		v.add(snapshotName, -1, true, fmt.Sprintf("the log ends at %d, though it went to %d", max(v.end, v.start), s.end))
	}
	// The snapshot alone may lag behind a trim.
	if v.options.LogStart != nil && len(v.bases) > 0 && v.start < v.bases[0] {
		v.add(segment.FileName(v.bases[0], segment.SuffixData), -1, true,
			offsetRange(v.start, v.bases[0])+" before the first segment: missing")
	}
}
