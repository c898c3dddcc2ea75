package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/protocol"
)

// AddOffsetsToTxn, versions 0 to 4. The group isn't looked at, as by Kafka.

func (h *Handlers) addOffsetsToTxn(r *protocol.Request, req *kmsg.AddOffsetsToTxnRequest) protocol.Response {
	code := h.Transactions.AddPartitions(txn.AddRequest{
		TransactionalID: req.TransactionalID, Producer: txn.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
		Partitions: []txn.Partition{h.offsetsPartition(req.Group)}, Version: transactionsV1,
	})
	body := kmsg.NewPtrAddOffsetsToTxnResponse()
	body.Version = req.Version
	code = fencedCode(code, req.Version, producerFencedSinceAdd)
	body.ErrorCode = int16(code)
	return reply(r, body)
}
