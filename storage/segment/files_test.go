package segment

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// What is written behind the end of an empty file, which was another before, is behind a hole.
func TestAFileThatWasTakenAwayIsNotWrittenToAgain(t *testing.T) {
	t.Parallel()
	for name, missing := range map[string]func(s *Segment) string{
		"data":  func(s *Segment) string { return s.data.Name() },
		"index": func(s *Segment) string { return s.index.Load().Name() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := simdisk.New(1)
			o := Options{FS: d, Dir: ".", Files: NewFiles(d, 1), IndexInterval: 4096}
			s, err := Create(o, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			write := func() error {
				b := batch.NewBuilder(batch.NoProducer())
				b.Append(1, nil, []byte("value"))
				one, failed := b.Build()
				if failed != nil {
					return failed
				}
				one.SetBaseOffset(s.Next())
				if failed = s.Write(one); failed == nil {
					failed = s.SyncData()
				}
				if failed == nil {
					failed = s.Commit(s.Mark())
				}
				return failed
			}
			if err = write(); err != nil {
				t.Fatal(err)
			}
			o.Files.evict(0) // others are needed more
			if err = d.Remove(missing(s)); err != nil {
				t.Fatal(err)
			}
			if err = write(); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("write: %v", err)
			}
			if _, err = d.Stat(missing(s)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it is there again: %v", err)
			}
		})
	}
}
