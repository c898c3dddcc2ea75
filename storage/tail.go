package storage

import "github.com/kbroker/kbroker/storage/segment"

// tailBatches is how many of the last batches are remembered, so that consumers at the end find theirs without the index.
const tailBatches = 64

// tail is a ring of the positions of the last batches of the active segment.
type tail struct {
	first [tailBatches]int64
	pos   [tailBatches]uint32
	next  int // where the next one goes
	count int
}

func (t *tail) add(first, pos int64) {
	t.first[t.next], t.pos[t.next] = first, uint32(pos)
	t.next = (t.next + 1) % tailBatches
	t.count = min(t.count+1, tailBatches)
}

// find returns the batch that holds an offset, which must lie below the log end, given with its position. ok is false if
// the batch isn't among the last ones.
func (t *tail) find(offset, end, endPos int64) (loc segment.Location, ok bool) {
	for n := range t.count {
		i := (t.next - 1 - n + tailBatches) % tailBatches
		if t.first[i] <= offset {
			return segment.Location{
				Position: int64(t.pos[i]), Size: endPos - int64(t.pos[i]), First: t.first[i], Last: end - 1,
			}, true
		}
		end, endPos = t.first[i], int64(t.pos[i])
	}
	return segment.Location{}, false
}
