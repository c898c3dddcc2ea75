package storage

// Readable is nil when the log answers reads; else it says why not: ErrNotReady while it is being recovered, ErrClosed, or
// what recovery refused it for. Offsets, LeaderEpoch, EpochEnd, EpochAt and Size, which return no error, mean nothing then.
func (l *Log) Readable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.usable()
}
