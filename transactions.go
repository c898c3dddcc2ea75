package kbroker

import (
	"context"

	"github.com/kbroker/kbroker/handlers"
	"github.com/kbroker/kbroker/handlers/group"
	"github.com/kbroker/kbroker/handlers/txn"
	"github.com/kbroker/kbroker/meta/config"
)

// openTransactions makes the transaction coordinator, which goes on with the transactions that had been decided.
func (b *Broker) openTransactions(groups *group.Coordinator) (*txn.Coordinator, error) {
	c, err := txn.New(txn.Options{
		Store: b.meta, IDs: txn.NewProducerIDs(b.meta), Offsets: groups, Clock: b.clock, Logger: b.requestLog, Registerer: b.registerer(),
		Logs:   handlers.MarkerLogs{Topics: b.meta.Topics, Logs: logs{b.logs}, Clock: b.clock},
		Config: newSettings(b.config, transactionSettings).get, Version: b.transactionVersion,
	})
	if err != nil {
		return nil, err
	}
	b.stop.push(func(context.Context) error {
		c.Close()
		return nil
	})
	return c, nil
}

// transactionSettings is the configuration as the transaction coordinator knows it.
func transactionSettings(c *config.Broker) txn.Config {
	return txn.Config{
		MaxTimeout:     c.Duration("transaction.max.timeout.ms"),
		IDExpiration:   c.Duration("transactional.id.expiration.ms"),
		AbortInterval:  c.Duration("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
		ExpireInterval: c.Duration("transaction.remove.expired.transaction.cleanup.interval.ms"),
		CompletionWait: c.Duration("add.partitions.to.txn.retry.backoff.max.ms"),
	}
}
