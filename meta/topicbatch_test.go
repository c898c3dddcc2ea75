package meta

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

func TestTopicsMadeTogetherAreAllThereOrNone(t *testing.T) {
	t.Parallel()
	disk := simdisk.New(1)
	s := open(t, disk, testOptions())
	mustCreate(t, s, "b")
	made, err := s.CreateTopics([]Topic{{Name: "c", Partitions: 2}, {Name: "a", Partitions: 1, Configs: map[string]string{"x": "y"}}})
	if err != nil || len(made) != 2 || made[0].Name != "c" || made[1].Configs["x"] != "y" || made[0].ID == made[1].ID {
		t.Fatalf("made %+v, %v", made, err)
	}
	for _, all := range [][]Topic{{{Name: "d"}, {Name: "b"}}, {{Name: "e"}, {Name: "e"}}} {
		if _, err = s.CreateTopics(all); !errors.Is(err, ErrTopicExists) {
			t.Errorf("%v: %v", all, err)
		}
	}
	if none, err := s.CreateTopics(nil); err != nil || len(none) != 0 {
		t.Errorf("none: %v %v", none, err)
	}
	names := func(s *Store) string {
		var all []string
		for _, topic := range s.Topics().All() {
			if s.Topics().Named(topic.Name) != topic || s.Topics().WithID(topic.ID) != topic {
				t.Errorf("%s isn't found", topic.Name)
			}
			all = append(all, fmt.Sprint(topic.Name, topic.Partitions))
		}
		return strings.Join(all, " ")
	}
	const want = "a1 b3 c2"
	if got := names(s); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := names(open(t, disk.Kill(), testOptions())); got != want {
		t.Errorf("after a crash: got %s, want %s", got, want)
	}
}
