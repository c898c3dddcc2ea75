package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/meta/config"
)

func entry(t *testing.T, entries []config.Entry, name string) config.Entry {
	t.Helper()
	i := slices.IndexFunc(entries, func(e config.Entry) bool { return e.Name == name })
	if i < 0 {
		t.Fatalf("%s isn't described", name)
	}
	return entries[i]
}

func chain(e config.Entry) string {
	var all []string
	for _, s := range e.Synonyms {
		v := s.Value
		if s.Null {
			v = "null"
		}
		all = append(all, s.Name+"="+v+" "+string(rune('0'+s.Source)))
	}
	return strings.Join(all, ", ")
}

func TestAllOfKafkasKeysAreDescribedAndOthersWhenNamed(t *testing.T) {
	t.Parallel()
	b := static(t, nil)
	for what, c := range map[string]struct {
		entries []config.Entry
		want    int
	}{
		"broker":         {b.DescribeBroker(nil), 350},
		"topic":          {b.DescribeTopic(nil, nil), 37},
		"group":          {b.DescribeGroup("g", nil), 21},
		"client metrics": {b.DescribeClientMetrics("m", nil), 3},
		"cluster":        {b.DescribeClusterDefault(nil), 1},
		"own":            {b.DescribeBroker(config.Wanted{"log.sync", "nosuch"}), 1},
		"hidden":         {b.DescribeTopic(nil, config.Wanted{"internal.segment.bytes"}), 0},
		"hidden, set":    {b.DescribeTopic(map[string]string{"internal.segment.bytes": "2000000"}, nil), 38},
		"named twice":    {b.DescribeTopic(nil, config.Wanted{"retention.ms", "retention.ms"}), 1},
	} {
		if len(c.entries) != c.want {
			t.Errorf("%s: %d entries, want %d", what, len(c.entries), c.want)
		}
		if !slices.IsSortedFunc(c.entries, func(a, b config.Entry) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s: not sorted", what)
		}
	}
}

func TestPresetsAreDescribedAsStaticOverKafkasDefault(t *testing.T) {
	t.Parallel()
	const key = "group.initial.rebalance.delay.ms"
	e := entry(t, static(t, nil).DescribeBroker(nil), key)
	if e.Value != "0" || e.Source != config.FromStatic || chain(e) != key+"=0 4, "+key+"=3000 5" || !e.ReadOnly {
		t.Errorf("got %+v", e)
	}
}

func TestSynonymsBeginWithTheKeysOwnValue(t *testing.T) {
	t.Parallel()
	b := static(t, map[string]string{"log.retention.hours": "2"})
	topic := func(configs map[string]string) config.Entry {
		return entry(t, b.DescribeTopic(configs, nil), "retention.ms")
	}
	if e := topic(nil); e.Value != "7200000" || e.Source != config.FromDefault || chain(e) != "" {
		t.Errorf("hours alone: %+v", e)
	}
	if e := topic(map[string]string{"retention.ms": " +5 "}); e.Value != "5" || e.Source != config.FromTopic || chain(e) != "retention.ms=5 1" {
		t.Errorf("own: %+v", e)
	}
	if err := b.SetDynamic(config.KindBroker, "", map[string]string{"log.retention.ms": "700000"}); err != nil {
		t.Fatal(err)
	}
	want := "log.retention.ms=700000 2, log.retention.hours=2 4, log.retention.hours=168 5"
	if e := topic(nil); e.Value != "700000" || e.Source != config.FromBroker || chain(e) != want {
		t.Errorf("broker: %+v", e)
	}
	if e := entry(t, b.DescribeBroker(nil), "log.retention.hours"); e.Value != "2" || chain(e) != "log.retention.hours=2 4, log.retention.hours=168 5" {
		t.Errorf("hours: %+v", e)
	}
}

func TestMinInsyncReplicasIsADefaultOfTheCluster(t *testing.T) {
	t.Parallel()
	const key = "min.insync.replicas"
	b := static(t, nil)
	for what, e := range map[string]config.Entry{
		"topic": entry(t, b.DescribeTopic(nil, nil), key), "broker": entry(t, b.DescribeBroker(nil), key),
	} {
		if e.Source != config.FromClusterDefault || chain(e) != key+"=1 3, "+key+"=1 5" {
			t.Errorf("%s: %+v", what, e)
		}
	}
	if e := entry(t, b.DescribeClusterDefault(nil), key); chain(e) != key+"=1 3" {
		t.Errorf("cluster: %+v", e)
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	b := static(t, map[string]string{"ssl.key.password": "geheim", "listener.name.a.ssl.key.password": "geheim"})
	settings := map[string]string{"sasl.jaas.config": "geheim", "nosuch.key": "geheim"}
	for _, kind := range []config.Kind{config.KindBroker, config.KindClusterDefault} {
		if err := b.SetDynamic(kind, "", settings); err != nil {
			t.Fatal(err)
		}
	}
	all := append(b.DescribeBroker(nil), b.DescribeClusterDefault(nil)...)
	for _, e := range all {
		if strings.Contains(e.Value+chain(e), "geheim") {
			t.Errorf("%+v", e)
		}
	}
	if e := entry(t, all, "nosuch.key"); !e.Null || !e.Sensitive || !e.ReadOnly || e.Type != 0 || chain(e) != "nosuch.key=null 2, nosuch.key=null 3" {
		t.Errorf("unknown key: %+v", e)
	}
	if e := entry(t, all, "sasl.jaas.config"); !e.Null || e.Source != config.FromBroker {
		t.Errorf("secret: %+v", e)
	}
}

func TestGroupsAndClientMetricsAreDescribedWhetherThereOrNot(t *testing.T) {
	t.Parallel()
	b := static(t, nil)
	if e := entry(t, b.DescribeGroup("g", nil), "share.auto.offset.reset"); e.Value != "latest" || chain(e) != "share.auto.offset.reset=latest 5" {
		t.Errorf("no key of the broker's: %+v", e)
	}
	if e := entry(t, b.DescribeGroup("g", nil), "streams.assignor.name"); e.Value != "sticky" || chain(e) != "group.streams.assignors=sticky 5" {
		t.Errorf("first of a list: %+v", e)
	}
	if err := b.SetDynamic(config.KindGroup, "g", map[string]string{"consumer.session.timeout.ms": "50000"}); err != nil {
		t.Fatal(err)
	}
	want := "consumer.session.timeout.ms=50000 8, group.consumer.session.timeout.ms=45000 5"
	if e := entry(t, b.DescribeGroup("g", nil), "consumer.session.timeout.ms"); e.Value != "50000" || chain(e) != want {
		t.Errorf("own: %+v", e)
	}
	if err := b.SetDynamic(config.KindClientMetrics, "m", map[string]string{"interval.ms": "60000"}); err != nil {
		t.Fatal(err)
	}
	if e := entry(t, b.DescribeClientMetrics("m", nil), "interval.ms"); chain(e) != "interval.ms=60000 7" {
		t.Errorf("subscription: %+v", e)
	}
	if e := entry(t, b.DescribeClientMetrics("other", nil), "interval.ms"); e.Value != "300000" || e.Source != config.FromDefault || chain(e) != "" {
		t.Errorf("no subscription: %+v", e)
	}
}

func TestDoublesAreWrittenAsJavaDoes(t *testing.T) {
	t.Parallel()
	k := config.NewTable().Key(config.BrokerScope, "log.cleaner.io.max.bytes.per.second")
	for raw, want := range map[string]string{
		"1": "1.0", "0.50": "0.5", "0.0001": "1.0E-4", "0.001": "0.001", "12345678": "1.2345678E7", "9999999": "9999999.0",
		"1.7976931348623157E308": "1.7976931348623157E308", "0": "0.0", "-2.5": "-2.5", "Infinity": "Infinity", "-inf": "-Infinity",
	} {
		if got, err := k.Parse(raw); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", raw, got, err, want)
		}
	}
}
