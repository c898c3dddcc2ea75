package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/kbroker/kbroker/storage/segment"
	"github.com/kbroker/kbroker/storage/vfs"
)

// removedName is where Repair keeps what it takes away, below the data directory: removed/<topic>/<partition>/<file>.
const removedName = "removed"

// RepairOptions says what Repair knows and may do.
type RepairOptions struct {
	VerifyOptions
	// SetLogStart makes a log start offset durable; nil: it can't be moved.
	SetLogStart func(Partition, int64) error
	// NowMs is the creation time of files that are made.
	NowMs int64
	// Apply changes the directory; otherwise nothing is changed, and only said what would be.
	Apply bool
}

// Action is one thing that Repair does, or would do.
type Action struct {
	Directory string `json:"directory"` // relative to the data directory
	File      string `json:"file"`
	Wrong     string `json:"wrong"` // what is the matter
	Does      string `json:"does"`  // what is done about it; "" if nothing can be
	// Kept is where what is taken away is kept, relative to the data directory; "" if nothing is.
	Kept string `json:"kept,omitempty"`
	// Lost is how many offsets are given up.
	Lost int64 `json:"lostOffsets,omitempty"`
}

// String is one line.
func (a Action) String() string {
	text := fmt.Sprintf("%s: %s: ", filepath.Join(a.Directory, a.File), a.Wrong)
	if a.Does == "" {
		return text + "left as it is"
	}
	text += a.Does
	if a.Lost > 0 {
		text += fmt.Sprintf(", offsets given up: %d", a.Lost)
	}
	if a.Kept != "" {
		text += "; what was there is kept as " + a.Kept
	}
	return text
}

// Repair decides what recovery leaves open, and makes the partitions below a data directory sound again:
//
//   - Damaged ranges, and bytes of which it isn't known whether they were acknowledged, are taken out of their segment. Sound
//     batches in them stay. Offsets that are lost become a gap, as compaction leaves them, and are never given out again.
//   - Segments that are missing become such a gap too, or, at the beginning, move the log start.
//   - An id file that can't be read is written again if the topic is known.
//   - A replacement of segments whose .swap file can't be read is finished, if its new segments verify.
//   - Files that are none of the broker's and the directories of topics that nobody knows are moved away.
//
// Whatever is taken away is kept below removed/. What a start mends by itself is left to it. No broker may be running on the
// directory. The error is of the disk: partitions that it isn't about are repaired all the same.
func Repair(files vfs.FS, dir string, o RepairOptions) ([]Action, error) {
	if !o.Apply {
		files = vfs.Overlay(files)
	}
	actions := []Action{}
	w := &walker{fs: files, dir: dir}
	w.visit = func(topic string, number int32) error {
		r := &repairer{fs: files, root: dir, options: o}
		r.verifier = newVerifier(files, dir, topic, number, o.VerifyOptions)
		r.verifier.keep = func(p examined) { r.parts = append(r.parts, p) }
		err := r.run()
		actions = append(actions, r.actions...)
		if err != nil {
			return fmt.Errorf("repair %s: %w", r.name, err)
		}
		return nil
	}
	w.failed = func(dir string, err error) {
		actions = append(actions, Action{Directory: dir, Wrong: "can't be examined: " + err.Error()})
	}
	err := w.walk()
	return actions, err
}

// repairer repairs one partition. Its verifier looks at the very files that are changed.
type repairer struct {
	*verifier
	fs      vfs.FS
	root    string
	options RepairOptions
	parts   []examined
	actions []Action
}

func (r *repairer) run() error {
	defer func() {
		for _, p := range r.parts {
			p.segment.Close()
		}
	}()
	if stray, err := r.stray(); err != nil || stray {
		return err
	}
	if err := r.tidy(); err != nil {
		return err
	}
	if err := r.verifier.run(); err != nil {
		return err
	}
	if r.refused {
		r.report()
		return nil
	}
	for _, step := range []func() error{r.repairID, r.repairSegments, r.repairStart} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// act notes what is done.
func (r *repairer) act(a Action) {
	a.Directory = r.name
	r.actions = append(r.actions, a)
}

// report notes the damage that nothing is done about.
func (r *repairer) report() {
	for _, f := range r.findings {
		if f.Damage {
			r.act(Action{File: f.File, Wrong: f.Kind})
		}
	}
}

// stray moves a directory away that belongs to no topic, which a start would remove.
func (r *repairer) stray() (bool, error) {
	if r.options.Known == nil {
		return false, nil
	}
	id, err := readID(r.fs, r.dir)
	if err != nil {
		return false, nil //nolint:nilerr // judged later
	}
	if known, ok := r.options.Known(r.part.Topic, r.part.Number); ok && known == id {
		return false, nil
	}
	kept, err := r.free("")
	if err != nil {
		return false, err
	}
	if err = r.move(r.dir, kept); err != nil {
		return false, err
	}
	r.act(Action{
		Wrong: fmt.Sprintf("belongs to the topic with id %s, which the metadata store doesn't have", id), Does: "is moved away", Kept: kept,
	})
	return true, nil
}

// tidy moves away files that are none of the broker's, and decides about .swap files that can't be read.
func (r *repairer) tidy() error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, suffix, ok := segment.ParseFileName(name); ok && suffix == swapSuffix {
			if err = r.checkSwap(name); err != nil {
				return err
			}
		}
		if fileKind(name) != "unknown" {
			continue
		}
		kept, err := r.takeAway(name)
		if err != nil {
			return err
		}
		r.act(Action{File: name, Wrong: "is none of the broker's files", Does: "is moved away", Kept: kept})
	}
	return nil
}

// repairID writes the id of the topic that the metadata store knows.
func (r *repairer) repairID() error {
	_, err := readID(r.fs, r.dir)
	if err == nil || len(r.bases) == 0 { // without segments a start makes it anew
		return nil
	}
	a := Action{File: idName, Wrong: err.Error()}
	if errors.Is(err, fs.ErrNotExist) {
		a.Wrong = "is missing"
	}
	if (r.part.ID == TopicID{}) {
		r.act(a)
		return nil
	}
	if a.Kept, err = r.copyAway(idName); err != nil {
		return err
	}
	a.Does = "is written again, for the topic with id " + r.part.ID.String()
	r.act(a)
	return replaceFile(r.fs, filepath.Join(r.dir, idName), encodeID(r.part.ID))
}
