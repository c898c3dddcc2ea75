package storage

import (
	"fmt"
	"testing"

	"github.com/kbroker/kbroker/protocol/batch"
)

// abortedLog is a log of segments that each hold so many aborted transactions.
func abortedLog(tb testing.TB, segments, each int) *Log {
	tb.Helper()
	w := osWorld(tb)
	w.config.Sync = SyncNone
	l := w.open()
	add := func(b batch.Batch) {
		if _, err := l.Append(b, AppendOptions{TransactionVerified: true}); err != nil {
			tb.Fatal(err)
		}
	}
	sequence := int32(0)
	for range segments {
		for range each {
			b := batch.NewBuilder(batch.Meta{ProducerID: 1, BaseSequence: sequence, Transactional: true})
			b.Append(1000, nil, make([]byte, 1000))
			out, err := b.Build()
			if err != nil {
				tb.Fatal(err)
			}
			sequence++
			add(out)
			add(batch.ControlBatch(1, 0, batch.Marker{}, 1000))
		}
		l.writing.Lock()
		_, err := l.roll()
		l.writing.Unlock()
		if err != nil {
			tb.Fatal(err)
		}
	}
	return l
}

func BenchmarkReadCommittedOfAbortedTransactions(b *testing.B) {
	for _, segments := range []int{1, 30} {
		for _, each := range []int{10, 3000} {
			b.Run(fmt.Sprintf("%d segments of %d", segments, each), func(b *testing.B) {
				l := abortedLog(b, segments, each)
				listed := 0
				for b.Loop() {
					r, err := l.Read(0, ReadOptions{Isolation: ReadCommitted, MaxBytes: 64 << 10, WholeFirst: true})
					if err != nil {
						b.Fatal(err)
					}
					listed = len(r.Aborted)
					r.Records.Release()
				}
				b.ReportMetric(float64(listed), "listed")
			})
		}
	}
}
