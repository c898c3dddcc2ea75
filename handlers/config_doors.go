package handlers

// ConfigStore keeps dynamic settings of the broker, the cluster, groups and client metrics subscriptions across
// restarts. Kinds are those of config.Kind. Concurrent calls are allowed. *meta.Store implements it; who starts the
// broker hands what is stored to config.Broker.LoadDynamic first.
type ConfigStore interface {
	// PutConfig replaces the settings of a kind and name; they are durable when it returns.
	PutConfig(kind, name string, settings map[string]string) error
	// DeleteConfig removes them; no error if there are none.
	DeleteConfig(kind, name string) error
}
