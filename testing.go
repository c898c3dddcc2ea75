package kbroker

import "context"

// TB is what StartTest needs of a *testing.T or *testing.B. It is declared here so that programs which embed a broker don't
// link package testing.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(f func())
	TempDir() string
}

// StartTest starts a broker for a test, on a free port of 127.0.0.1 and in a temporary directory; it is gone when the test
// ends. Options may be given to say otherwise; of several the last counts. Writes aren't synced unless Options.Sync says so,
// since nothing outlives a power cut here.
func StartTest(t TB, opts ...Options) *Broker {
	t.Helper()
	var o Options
	if len(opts) > 0 {
		o = opts[len(opts)-1]
	}
	if o.DataDir == "" {
		o.DataDir = t.TempDir()
	}
	b, err := Start(context.Background(), o.with(map[string]string{"log.sync": "none"}))
	if err != nil {
		t.Fatalf("start a broker: %v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Fatalf("close the broker: %v", err)
		}
	})
	return b
}
