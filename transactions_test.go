package kbroker

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/handlers"
)

// txnClient is a client of a broker, closed with the test.
func txnClient(t *testing.T, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addr()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// begun is a producer whose transaction has a record in each topic.
func begun(t *testing.T, b *Broker, id string, topics ...string) *kgo.Client {
	t.Helper()
	c := txnClient(t, b, kgo.TransactionalID(id))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(id)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func txnBroker(t *testing.T, dir string) *Broker {
	t.Helper()
	b, err := Start(t.Context(), Options{DataDir: dir, Sync: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func makeTopics(t *testing.T, b *Broker, topics ...string) {
	t.Helper()
	if _, err := kadm.NewClient(txnClient(t, b)).CreateTopics(t.Context(), 1, 1, nil, topics...); err != nil {
		t.Fatal(err)
	}
}

// stable waits until the last stable offset of a topic's partition is as wanted.
func stable(t *testing.T, b *Broker, topic string, want int64) {
	t.Helper()
	a := kadm.NewClient(txnClient(t, b))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := int64(-1)
	for got != want {
		all, err := a.ListCommittedOffsets(ctx, topic)
		if ctx.Err() != nil {
			t.Fatalf("last stable offset of %s: %d, want %d (%v)", topic, got, want, err)
		}
		if o, ok := all.Lookup(topic, 0); err == nil && ok && o.Err == nil {
			got = o.Offset
		}
	}
}

func TestDeletedTopicsDoNotHoldTransactionsUp(t *testing.T) {
	t.Parallel()
	b := txnBroker(t, t.TempDir())
	makeTopics(t, b, "gone", "stays")
	c := begun(t, b, "t", "gone", "stays")
	stable(t, b, "stays", 0)
	if _, err := kadm.NewClient(txnClient(t, b)).DeleteTopics(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if err := c.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	stable(t, b, "stays", 2)
}

func TestOpenTransactionsGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := txnBroker(t, dir)
	makeTopics(t, b, "a")
	port := b.Addr()
	c := begun(t, b, "t", "a")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := Start(t.Context(), Options{DataDir: dir, Sync: "none", Listen: []string{port}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	stable(t, b, "a", 0)
	if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "a", Value: []byte("more")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := c.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	stable(t, b, "a", 3)
}

// features are the finalized levels as clients are told them, with their epoch.
func tellFeatures(t *testing.T, b *Broker) (levels map[string]int16, epoch int64) {
	t.Helper()
	q := kmsg.NewPtrApiVersionsRequest()
	q.ClientSoftwareName, q.ClientSoftwareVersion = "test", "1"
	a, ok := ask(t, b.Addr(), q).(*kmsg.ApiVersionsResponse)
	if !ok || a.ErrorCode != 0 {
		t.Fatalf("got %+v", a)
	}
	levels = map[string]int16{}
	for _, f := range a.FinalizedFeatures {
		levels[f.Name] = f.MaxVersionLevel
	}
	return levels, a.FinalizedFeaturesEpoch
}

func setFeature(t *testing.T, b *Broker, name string, level int16, kind int8) int16 {
	t.Helper()
	q := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = name, level, kind
	q.FeatureUpdates = append(q.FeatureUpdates, u)
	a, ok := ask(t, b.Addr(), q).(*kmsg.UpdateFeaturesResponse)
	if !ok {
		t.Fatalf("got %+v", a)
	}
	return a.ErrorCode
}

func TestLevelsOfFeaturesLast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := txnBroker(t, dir)
	levels, epoch := tellFeatures(t, b)
	if levels[handlers.FeatureTransactions] != 2 || b.transactionVersion() != 2 {
		t.Errorf("levels %v at first", levels)
	}
	for _, c := range []struct {
		level int16
		kind  int8
		code  int16
	}{{1, 1, 95}, {3, 1, 95}, {1, 0, 95}, {1, 2, 0}, {2, 2, 95}} {
		if code := setFeature(t, b, handlers.FeatureTransactions, c.level, c.kind); code != c.code {
			t.Errorf("level %d, kind %d: error %d, want %d", c.level, c.kind, code, c.code)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = txnBroker(t, dir)
	levels, after := tellFeatures(t, b)
	if levels[handlers.FeatureTransactions] != 1 || b.transactionVersion() != 1 || after != epoch+1 {
		t.Errorf("levels %v, epoch %d after %d", levels, after, epoch)
	}
	if code := setFeature(t, b, handlers.FeatureTransactions, 0, 3); code != 0 {
		t.Errorf("to 0: error %d", code)
	}
	if levels, _ = tellFeatures(t, b); len(levels) == 0 || levels[handlers.FeatureTransactions] != 0 {
		t.Errorf("levels %v", levels)
	}
	if code := setFeature(t, b, handlers.FeatureTransactions, 2, 1); code != 0 {
		t.Errorf("back to 2: error %d", code)
	}
}
