package storage

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"sort"

	"go.uber.org/zap"
)

// noEpoch stands for an unknown epoch or offset.
const noEpoch = -1

// epochStart says from which offset on the batches have a leader epoch.
type epochStart struct {
	epoch int32
	start int64
}

// epochs is the history of a log's leader epochs, ascending in both. The epoch of the present start is not in it before
// its first append; leaderEpochEnd knows it all the same.
type epochs struct {
	list  []epochStart
	dirty bool // the file lags behind
}

// last is the last epoch of the history, or noEpoch.
func (e *epochs) last() int32 {
	if len(e.list) == 0 {
		return noEpoch
	}
	return e.list[len(e.list)-1].epoch
}

// note takes the epoch of a batch at an offset into account and says whether it is new.
func (e *epochs) note(epoch int32, offset int64) bool {
	if epoch <= e.last() {
		return false
	}
	e.list = append(e.list, epochStart{epoch, offset})
	return true
}

// cut forgets epochs that start at or above an offset, which nobody wrote in.
func (e *epochs) cut(end int64) {
	n := sort.Search(len(e.list), func(i int) bool { return e.list[i].start >= end })
	e.dirty = e.dirty || n < len(e.list)
	e.list = e.list[:n:n]
}

// trim forgets epochs that ended below the log start. The one that holds the start is kept as it is: the batch that does may begin
// below.
func (e *epochs) trim(start int64) {
	n := sort.Search(len(e.list), func(i int) bool { return e.list[i].start > start })
	if n <= 1 {
		return
	}
	e.list = slices.Clone(e.list[n-1:])
	e.dirty = true
}

// at is the epoch of the batch that holds an offset, or noEpoch.
func (e *epochs) at(offset int64) int32 {
	n := sort.Search(len(e.list), func(i int) bool { return e.list[i].start > offset })
	if n == 0 {
		return noEpoch
	}
	return e.list[n-1].epoch
}

// EpochEnd is the largest epoch not above the one given that the log knows, and the offset where it ends. The current
// epoch counts as begun at the log end. An epoch below all is answered with itself and where the first one starts, which is not
// below the log start; one above all with -1, -1.
func (l *Log) EpochEnd(epoch int32) EpochEnd {
	l.mu.Lock()
	defer l.mu.Unlock()
	none := EpochEnd{Epoch: noEpoch, EndOffset: noEpoch}
	if l.mu.phase != ready {
		return none
	}
	current := l.leaderEpoch()
	switch {
	case epoch == noEpoch || epoch > current || epoch < 0 && len(l.mu.epochs.list) == 0:
		return none
	case epoch == current:
		return EpochEnd{Epoch: epoch, EndOffset: l.mu.offsets.End}
	}
	list := l.mu.epochs.list
	n := sort.Search(len(list), func(i int) bool { return list[i].epoch > epoch })
	end := EpochEnd{Epoch: epoch, EndOffset: l.mu.offsets.End}
	if n < len(list) {
		end.EndOffset = max(list[n].start, l.mu.offsets.Start)
	}
	if n > 0 {
		end.Epoch = list[n-1].epoch
	}
	return end
}

// EpochAt is the leader epoch of the record at an offset, or the current one for the log end; -1 if unknown.
func (l *Log) EpochAt(offset int64) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.phase != ready || offset < 0 || offset > l.mu.offsets.End {
		return noEpoch
	}
	if offset == l.mu.offsets.End {
		return l.leaderEpoch()
	}
	return l.mu.epochs.at(offset)
}

// The epochs file: side header with magic KBEP, then for each epoch, ascending: epoch (4), start offset (8).
const (
	epochsMagic    = "KBEP"
	epochEntrySize = 12
)

func encodeEpochs(list []epochStart) []byte {
	body := make([]byte, 0, len(list)*epochEntrySize)
	for _, e := range list {
		body = binary.BigEndian.AppendUint32(body, uint32(e.epoch))
		body = binary.BigEndian.AppendUint64(body, uint64(e.start))
	}
	return encodeSide(epochsMagic, body)
}

func decodeEpochs(b []byte) ([]epochStart, error) {
	body, err := decodeSide(epochsName, epochsMagic, b)
	if err != nil {
		return nil, err
	}
	if len(body)%epochEntrySize != 0 {
		return nil, fmt.Errorf("%s: %w: length", epochsName, errSideFile)
	}
	list := make([]epochStart, 0, len(body)/epochEntrySize)
	last := epochStart{noEpoch, -1}
	for ; len(body) > 0; body = body[epochEntrySize:] {
		e := epochStart{int32(binary.BigEndian.Uint32(body)), int64(binary.BigEndian.Uint64(body[4:]))}
		if e.epoch <= last.epoch || e.start <= last.start {
			return nil, fmt.Errorf("%s: %w: order", epochsName, errSideFile)
		}
		list = append(list, e)
		last = e
	}
	return list, nil
}

// saveEpochs writes the history to its file if that lags behind. What is on disk may lag: it is completed from the
// batches behind the checkpoint, and no checkpoint is written before the history.
func (l *Log) saveEpochs() error {
	l.saving.Lock()
	defer l.saving.Unlock()
	l.mu.Lock()
	dirty, content := l.mu.epochs.dirty && l.mu.phase != closed, []byte(nil)
	if dirty {
		content = encodeEpochs(l.mu.epochs.list)
	}
	l.mu.epochs.dirty = false
	l.mu.Unlock()
	if !dirty {
		return nil
	}
	err := replaceFile(l.set.fs, filepath.Join(l.dir, epochsName), content)
	if err != nil {
		l.mu.Lock()
		l.mu.epochs.dirty = true
		l.mu.Unlock()
		return fmt.Errorf("write epochs: %w", err)
	}
	return nil
}

// saveEpochsLater saves the history after the appends that changed it have been answered.
func (l *Log) saveEpochsLater() {
	if err := l.saveEpochs(); err != nil && l.Err() == nil {
		l.set.logger.Warn("history of leader epochs lags behind", zap.Stringer("partition", l.part), zap.Error(err))
	}
}
