package kbroker

import (
	"fmt"

	"github.com/kbroker/kbroker/handlers"
)

// loadSettings takes over what clients have changed: the dynamic configuration and the levels of the cluster's features.
func (b *Broker) loadSettings() error {
	var levels map[string]string
	err := b.config.LoadDynamic(func(yield func(kind, name string, settings map[string]string) error) error {
		return b.meta.Configs(func(kind, name string, settings map[string]string) error {
			if kind == handlers.FeaturesKind {
				levels = settings
				return nil
			}
			return yield(kind, name, settings)
		})
	})
	if err != nil {
		return err
	}
	if b.features, err = handlers.NewFeatures(levels, b.meta); err != nil {
		return fmt.Errorf("load features: %w", err)
	}
	return nil
}

// transactionVersion is the level by which the coordinator itself ends transactions.
func (b *Broker) transactionVersion() int16 { return b.features.Level(handlers.FeatureTransactions) }
