package storage

// Producers lists what is known of the producers that wrote here, by id.
func (l *Log) Producers() []ProducerState {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.phase != ready || l.mu.producers == nil {
		return nil
	}
	known := l.mu.producers.Producers()
	list := make([]ProducerState, len(known))
	for i, p := range known {
		list[i] = ProducerState{
			ProducerID: p.ProducerID, Epoch: p.Epoch, LastSequence: p.LastSequence, LastTimestamp: p.LastTimestamp,
			CoordinatorEpoch: p.CoordinatorEpoch, TxnStartOffset: p.TxnStartOffset,
		}
	}
	return list
}

// ExpireProducers forgets producers that have been silent for longer than Config.ProducerExpiration, and says how many.
func (l *Log) ExpireProducers(nowMs int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.phase != ready || l.mu.producers == nil {
		return 0
	}
	return l.mu.producers.Expire(nowMs)
}
