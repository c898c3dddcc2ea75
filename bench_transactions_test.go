package kbroker

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/protocol/batch"
)

// benchTime is that of records; old ones would have their segments rolled by the markers, which are of now.
var benchTime = time.Now()

// benchTeller is a transactional producer on a connection of its own, with transactions v2: a transaction is a Produce and
// an EndTxn.
type benchTeller struct {
	*wire
	id       string
	producer int64
	epoch    int16
}

func newBenchTeller(b *testing.B, broker *Broker, id string) *benchTeller {
	b.Helper()
	p := &benchTeller{wire: benchDial(b, broker), id: id}
	q := kmsg.NewPtrInitProducerIDRequest()
	q.Version, q.TransactionalID, q.TransactionTimeoutMillis = 2, &p.id, 60_000
	a := kmsg.NewPtrInitProducerIDResponse()
	a.Version = 2
	if err := a.ReadFrom(p.call(b, benchFrame(q))[1:]); err != nil || a.ErrorCode != 0 {
		b.Fatal(err, a.ErrorCode)
	}
	p.producer, p.epoch = a.ProducerID, a.ProducerEpoch
	return p
}

// transaction writes records and commits or aborts them.
func (p *benchTeller) transaction(b *testing.B, records int, commit bool) {
	b.Helper()
	builder := batch.NewBuilder(batch.Meta{ProducerID: p.producer, ProducerEpoch: p.epoch, Transactional: true})
	for range records {
		builder.Append(benchTime.UnixMilli(), nil, make([]byte, 100))
	}
	built, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.TransactionID, q.Acks, q.TimeoutMillis = 12, &p.id, -1, 30_000
	t := kmsg.NewProduceRequestTopicPartition()
	t.Records = built
	q.Topics = append(q.Topics, kmsg.ProduceRequestTopic{Topic: benchTopic, Partitions: []kmsg.ProduceRequestTopicPartition{t}})
	a := kmsg.NewPtrProduceResponse()
	a.Version = 12
	if err = a.ReadFrom(p.call(b, benchFrame(q))[1:]); err != nil || a.Topics[0].Partitions[0].ErrorCode != 0 {
		b.Fatal(err, a)
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.Version, end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = 5, p.id, p.producer, p.epoch, commit
	ended := kmsg.NewPtrEndTxnResponse()
	ended.Version = 5
	if err = ended.ReadFrom(p.call(b, benchFrame(end))[1:]); err != nil || ended.ErrorCode != 0 {
		b.Fatal(err, protocol.ErrorCode(ended.ErrorCode))
	}
	p.producer, p.epoch = ended.ProducerID, ended.ProducerEpoch
}

// BenchmarkTransactionsOverTheWire is committed transactions, one after another on each connection, client and broker in
// one process.
func BenchmarkTransactionsOverTheWire(b *testing.B) {
	for _, mode := range []string{"every-write", "none"} {
		for _, producers := range []int{1, 16} {
			for _, records := range []int{1, 100} {
				b.Run(fmt.Sprintf("%s/%drecords/%dx", mode, records, producers), func(b *testing.B) {
					broker := benchBroker(b, mode)
					work := make(chan struct{}, producers)
					var wg sync.WaitGroup
					for i := range producers {
						p := newBenchTeller(b, broker, "t"+strconv.Itoa(i))
						wg.Go(func() {
							defer p.close()
							for range work {
								p.transaction(b, records, true)
							}
						})
					}
					b.ReportAllocs()
					b.ResetTimer()
					for range b.N {
						work <- struct{}{}
					}
					close(work)
					wg.Wait()
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "txn/s")
				})
			}
		}
	}
}

// BenchmarkReadCommittedOverTheWire reads a MiB of transactions, a tenth of them aborted, in both isolations.
func BenchmarkReadCommittedOverTheWire(b *testing.B) {
	broker := benchBroker(b, "none")
	p := newBenchTeller(b, broker, "t")
	for i := range 800 {
		p.transaction(b, 20, i%10 > 0)
	}
	p.close()
	for isolation, name := range []string{"uncommitted", "committed"} {
		b.Run(name, func(b *testing.B) {
			q := kmsg.NewPtrFetchRequest()
			q.Version, q.ReplicaID, q.MaxBytes, q.SessionEpoch, q.IsolationLevel = 11, -1, 1<<20, -1, int8(isolation)
			t := kmsg.NewFetchRequestTopicPartition()
			t.PartitionMaxBytes = 1 << 20
			q.Topics = append(q.Topics, kmsg.FetchRequestTopic{Topic: benchTopic, Partitions: []kmsg.FetchRequestTopicPartition{t}})
			b.SetBytes(1 << 20)
			inTurn(b, broker, 1, benchFrame(q), func(answer []byte) error {
				if len(answer) < 1<<19 {
					return fmt.Errorf("%d bytes", len(answer))
				}
				return nil
			})
		})
	}
}
