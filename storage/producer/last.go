package producer

// Last is what a producer wrote last.
type Last struct {
	LastOffset int64 // of its last batch with data; None if only markers are known
	Epoch      int16
}

// Last returns what each producer wrote last, by producer id.
func (s *State) Last() map[int64]Last {
	all := make(map[int64]Last, len(s.producers))
	for id, e := range s.producers {
		l := Last{LastOffset: None, Epoch: e.Epoch}
		if e.used > 0 {
			l.LastOffset = e.window[e.used-1].LastOffset
		}
		all[id] = l
	}
	return all
}
