package config_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/storage"
)

func static(t *testing.T, properties map[string]string) *config.Broker {
	t.Helper()
	b, err := config.Static(properties)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWrongPropertiesAreRefusedWithWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ key, value, want string }{
		"not a number":         {"num.partitions", "x", "Invalid value x for configuration num.partitions: Not a number of type INT"},
		"too small":            {"num.partitions", "0", "Value must be at least 1"},
		"too large":            {"compression.zstd.level", "23", "no more than 22"},
		"overflow":             {"num.partitions", "2147483648", "Not a number of type INT"},
		"short overflow":       {"offsets.topic.replication.factor", "32768", "Not a number of type SHORT"},
		"between or":           {"compression.gzip.level", "0", "1 to 9, or -1"},
		"not a boolean":        {"auto.create.topics.enable", "yes", "either true or false"},
		"not one of":           {"log.sync", "always", "every-write, interval, none"},
		"list item":            {"log.cleanup.policy", "shred", "compact, delete"},
		"empty list item":      {"log.cleanup.policy", "delete,,compact", "must not be empty"},
		"ratio":                {"log.cleaner.min.cleanable.ratio", "1.5", "no more than 1"},
		"not a ratio":          {"log.cleaner.min.cleanable.ratio", "NaN", "at least 0"},
		"misspelled":           {"num.partition", "1", `did you mean "num.partitions"?`},
		"swapped":              {"lgo.dirs", "x", `did you mean "log.dirs"?`},
		"topic key":            {"retention.ms", "1", `did you mean "log.retention.ms"?`},
		"unknown":              {"zookeeper.connect", "x", `unknown configuration key "zookeeper.connect"`},
		"secret is not shown":  {"ssl.key.password", "", ""},
		"several directories":  {"log.dirs", "a,b", "one path"},
		"no retention":         {"log.retention.ms", "0", "at least 1"},
		"out of group bounds":  {"group.consumer.session.timeout.ms", "1000", "between"},
		"bounds crossed":       {"group.min.session.timeout.ms", "2000000", "must not be greater"},
		"listener":             {"listeners", "x", "NAME://HOST:PORT"},
		"negative node":        {"node.id", "-1", "at least 0"},
		"negative old node id": {"broker.id", "-2", "at least 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Static(map[string]string{c.key: c.value})
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.key) {
				t.Errorf("got %v, want ...%s...", err, c.want)
			}
		})
	}
}

func TestPropertiesComeBeforePresetsBeforeDefaults(t *testing.T) {
	t.Parallel()
	b := static(t, nil)
	if got := b.Int("group.initial.rebalance.delay.ms"); got != 0 {
		t.Errorf("preset: got %d", got)
	}
	if got := b.Int("offsets.topic.num.partitions"); got != 50 {
		t.Errorf("default: got %d", got)
	}
	b = static(t, map[string]string{"group.initial.rebalance.delay.ms": " +7 ", "log.cleanup.policy": " compact , delete "})
	if got := b.Duration("group.initial.rebalance.delay.ms"); got != 7*time.Millisecond {
		t.Errorf("property: got %v", got)
	}
	if got := strings.Join(b.List("log.cleanup.policy"), "|"); got != "compact|delete" {
		t.Errorf("list: got %q", got)
	}
}

func TestNodeIDAndItsOldNameAreOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given map[string]string
		want  int
	}{
		"preset": {nil, 1},
		"unset":  {map[string]string{"broker.id": "-1"}, 1},
		"new":    {map[string]string{"node.id": "4"}, 4},
		"old":    {map[string]string{"broker.id": "5"}, 5},
		"both":   {map[string]string{"broker.id": "6", "node.id": "6"}, 6},
	} {
		b := static(t, c.given)
		if b.Int("node.id") != c.want || b.Int("broker.id") != c.want {
			t.Errorf("%s: got %d and %d, want %d", name, b.Int("node.id"), b.Int("broker.id"), c.want)
		}
	}
	if _, err := config.Static(map[string]string{"broker.id": "6", "node.id": "7"}); err == nil {
		t.Error("two different ids are taken")
	}
}

func TestDurationsAreBoundedByWhatFits(t *testing.T) {
	t.Parallel()
	b := static(t, map[string]string{"log.retention.ms": "-1", "log.flush.interval.ms": "9223372036854775807", "log.roll.hours": "2147483647"})
	for key, want := range map[string]time.Duration{
		"log.retention.ms": -time.Millisecond, "log.flush.interval.ms": math.MaxInt64, "log.roll.hours": math.MaxInt64,
		"quota.window.size.seconds": time.Second, "offsets.retention.minutes": 10080 * time.Minute,
	} {
		if got := b.Duration(key); got != want {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
	}
}

func TestDynamicSettingsComeFirstAndGoAgain(t *testing.T) {
	t.Parallel()
	const key = "log.cleaner.backoff.ms"
	b := static(t, map[string]string{key: "1"})
	version := b.Version()
	steps := []struct {
		kind     config.Kind
		settings map[string]string
		want     int64
		sources  string
	}{
		{config.KindBroker, map[string]string{key: "3"}, 3, "2 4 5"},
		{config.KindClusterDefault, map[string]string{key: "2", "min.insync.replicas": "1"}, 3, "2 3 4 5"},
		{config.KindBroker, nil, 2, "3 4 5"},
		{config.KindClusterDefault, map[string]string{"min.insync.replicas": "1"}, 1, "4 5"},
	}
	for i, s := range steps {
		if err := b.SetDynamic(s.kind, "", s.settings); err != nil {
			t.Fatal(err)
		}
		if got := b.Int64(key); got != s.want {
			t.Errorf("step %d: got %d, want %d", i, got, s.want)
		}
		if got := sources(b.DescribeBroker(config.Wanted{key})[0]); got != s.sources {
			t.Errorf("step %d: sources %s, want %s", i, got, s.sources)
		}
		if b.Version() == version {
			t.Errorf("step %d: same version", i)
		}
		version = b.Version()
	}
	if err := b.SetDynamic(config.KindBroker, "", map[string]string{key: "x"}); err == nil || b.Int64(key) != 1 || b.Dynamic(config.KindBroker, "") != nil {
		t.Errorf("a bad setting changed something, or was no error: %v", err)
	}
}

func sources(e config.Entry) string {
	var all []string
	for _, s := range e.Synonyms {
		all = append(all, string(rune('0'+s.Source)))
	}
	return strings.Join(all, " ")
}

func TestStoredSettingsAreLoaded(t *testing.T) {
	t.Parallel()
	b := static(t, nil)
	err := b.LoadDynamic(func(yield func(kind, name string, settings map[string]string) error) error {
		return errors.Join(
			yield("broker", "1", map[string]string{"log.retention.ms": "7"}),
			yield("broker", "2", map[string]string{"log.retention.ms": "8"}),
			yield("cluster", "", map[string]string{"min.insync.replicas": "2"}),
			yield("group", "g", map[string]string{"consumer.session.timeout.ms": "50000"}),
			yield("client-metrics", "m", map[string]string{"interval.ms": "100"}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	if b.Int64("log.retention.ms") != 7 || b.Int("min.insync.replicas") != 2 || b.Group("g").Int("consumer.session.timeout.ms") != 50000 ||
		strings.Join(b.Named(config.KindClientMetrics), " ") != "m" {
		t.Error("not all is there")
	}
	for name, bad := range map[string][2]string{"kind": {"nosuch", "x"}, "value": {"broker", "1"}} {
		err := b.LoadDynamic(func(yield func(kind, name string, settings map[string]string) error) error {
			return yield(bad[0], bad[1], map[string]string{"log.retention.ms": "x"})
		})
		if err == nil || !strings.Contains(err.Error(), bad[0]) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOverrideReplacesWhatWasGivenAtStart(t *testing.T) {
	t.Parallel()
	b := static(t, nil)
	if err := b.Override("listeners", "PLAINTEXT://h:7"); err != nil || b.String("listeners") != "PLAINTEXT://h:7" {
		t.Errorf("got %q, %v", b.String("listeners"), err)
	}
	if b.Override("num.partitions", "x") == nil || b.Override("nosuch", "x") == nil {
		t.Error("a wrong setting is taken")
	}
}

func TestReadsAndChangesMayComeTogether(t *testing.T) {
	t.Parallel()
	b := static(t, nil)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 50 {
				if i%2 == 0 {
					_ = b.SetDynamic(config.KindGroup, "g", map[string]string{"consumer.session.timeout.ms": "50000"})
				} else if n := b.Group("g").Int("consumer.session.timeout.ms"); n != 45000 && n != 50000 {
					t.Errorf("got %d", n)
				}
				_ = b.Topic(map[string]string{"retention.ms": "1"})
			}
		})
	}
	wg.Wait()
}

func TestTopicsFollowTheBrokerUnlessTheySayOtherwise(t *testing.T) {
	t.Parallel()
	b := static(t, map[string]string{
		"log.retention.hours": "2", "log.roll.hours": "3", "log.roll.jitter.hours": "1", "log.flush.scheduler.interval.ms": "9",
		"message.max.bytes": "77", "log.cleanup.policy": "compact,delete",
	})
	c := b.Topic(map[string]string{"segment.bytes": "2000000", "min.cleanable.dirty.ratio": "0.25", "nosuch": "1", "index.interval.bytes": "x"})
	for name, ok := range map[string]bool{
		"retention in hours": c.RetentionMs == 2*3600_000, "roll in hours": c.SegmentMs == 3*3600_000, "jitter": c.SegmentJitterMs == 3600_000,
		"flush": c.FlushMs == 9, "renamed": c.MaxMessageBytes == 77, "list": c.Compact() && c.Delete(), "own": c.SegmentBytes == 2000000,
		"own ratio": c.MinCleanableRatio == 0.25, "invalid is left at the default": c.IndexIntervalBytes == 4096,
		"create time": !c.LogAppendTime(), "segment size": c.SegmentSize() == 2000000,
	} {
		if !ok {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if got := b.Topic(map[string]string{"internal.segment.bytes": "10"}); got.SegmentSize() != 10 {
		t.Errorf("internal segment size: %d", got.SegmentSize())
	}
	if got := static(t, map[string]string{"log.retention.ms": "-5"}).Topic(nil); got.RetentionMs != -1 {
		t.Errorf("no limit: %d", got.RetentionMs)
	}
	if got := static(t, map[string]string{"log.retention.minutes": "1"}).Topic(nil); got.RetentionMs != 60_000 {
		t.Errorf("minutes: %d", got.RetentionMs)
	}
}

func TestStorageGetsWhatTheTopicSays(t *testing.T) {
	t.Parallel()
	b := static(t, nil)
	got := b.Storage(b.Topic(nil))
	want := storage.Config{
		Sync: storage.SyncEveryWrite, SyncInterval: time.Second,
		SegmentBytes: 1 << 30, SegmentAge: 7 * 24 * time.Hour, IndexIntervalBytes: 4096, IndexBytes: 10 << 20,
		RetentionAge: 7 * 24 * time.Hour, RetentionBytes: -1, FileDeleteDelay: time.Minute, Delete: true, MinCleanableRatio: 0.5,
		MaxCompactionLag: math.MaxInt64, DeleteRetention: 24 * time.Hour, ProducerExpiration: 24 * time.Hour,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	b = static(t, map[string]string{"log.sync": "interval", "log.sync.interval.ms": "5", "log.recovery.cut.unproven": "true"})
	got = b.Storage(b.Topic(map[string]string{
		"flush.messages": "3", "flush.ms": "4", "retention.ms": "-1", "cleanup.policy": "compact", "min.compaction.lag.ms": "6", "segment.jitter.ms": "7",
	}))
	if got.Sync != storage.SyncInterval || got.SyncInterval != 5*time.Millisecond || !got.CutUnproven || got.FlushMessages != 3 ||
		got.FlushInterval != 4*time.Millisecond || got.RetentionAge >= 0 || !got.Compact || got.Delete ||
		got.MinCompactionLag != 6*time.Millisecond || got.SegmentJitter != 7*time.Millisecond {
		t.Errorf("got %+v", got)
	}
	if b = static(t, map[string]string{"log.sync": "none"}); b.Storage(b.Topic(nil)).Sync != storage.SyncNone {
		t.Error("log.sync=none is not passed on")
	}
}

func TestTopicSettingsAreCheckedAloneAndTogether(t *testing.T) {
	t.Parallel()
	b := static(t, nil)
	for name, c := range map[string]struct {
		settings map[string]string
		want     string // "" is taken
	}{
		"none":              {nil, ""},
		"fine":              {map[string]string{"cleanup.policy": "compact,delete", "local.retention.ms": "999999999999"}, ""},
		"empty policy":      {map[string]string{"cleanup.policy": ""}, ""},
		"internal":          {map[string]string{"internal.segment.bytes": "1024"}, ""},
		"replicas":          {map[string]string{"leader.replication.throttled.replicas": "0:1,1:1", "follower.replication.throttled.replicas": "*"}, ""},
		"unknown first":     {map[string]string{"a": "1", "retention.ms": "x"}, "Unknown topic config name: a"},
		"broker key":        {map[string]string{"num.partitions": "1"}, "Unknown topic config name: num.partitions"},
		"removed":           {map[string]string{"message.format.version": "2.0"}, "Unknown topic config name: message.format.version"},
		"not a number":      {map[string]string{"segment.bytes": "x"}, "Invalid value x for configuration segment.bytes: Not a number of type INT"},
		"too small":         {map[string]string{"segment.bytes": "1000"}, "Invalid value 1000 for configuration segment.bytes: Value must be at least 1048576"},
		"policy":            {map[string]string{"cleanup.policy": "shred"}, "Invalid value shred for configuration cleanup.policy: String must be one of: compact, delete"},
		"compression":       {map[string]string{"compression.type": "lzma"}, "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		"timestamp type":    {map[string]string{"message.timestamp.type": "NoSuch"}, "String must be one of: CreateTime, LogAppendTime"},
		"throttled":         {map[string]string{"leader.replication.throttled.replicas": "x"}, "[partitionId]:[brokerId]"},
		"remote storage":    {map[string]string{"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled in the broker"},
		"lags crossed":      {map[string]string{"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "99"}, "min.compaction.lag.ms (100) > max.compaction.lag.ms (99)"},
		"retention too low": {map[string]string{"retention.ms": "-2"}, "Value must be at least -1"},
	} {
		err := b.ValidateTopic(c.settings)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestBrokerSettingsAreCheckedBeforeTheyAreChanged(t *testing.T) {
	t.Parallel()
	b := static(t, nil)
	for name, c := range map[string]struct {
		key, value string
		cluster    bool
		want       string
	}{
		"dynamic":                  {"log.cleaner.threads", "2", false, ""},
		"more than double":         {"log.cleaner.threads", "3", false, "thread count"},
		"less than half":           {"num.io.threads", "3", true, "thread count"},
		"half":                     {"num.io.threads", "4", true, ""},
		"no cleaner":               {"log.cleaner.threads", "0", false, "cleaner thread"},
		"no buffer":                {"log.cleaner.dedupe.buffer.size", "1048576", false, "1MB per cleaner thread"},
		"no roll":                  {"log.roll.ms", "0", false, "at least 1"},
		"no connections":           {"max.connections", "0", false, "at least 1"},
		"no connection of an IP":   {"max.connections.per.ip", "0", false, "overrides"},
		"overrides":                {"max.connections.per.ip.overrides", "127.0.0.1:5,[::1]:6,host-a:7", false, ""},
		"no override":              {"max.connections.per.ip.overrides", "x", false, "ADDRESS:NUMBER"},
		"no address":               {"max.connections.per.ip.overrides", "PLAINTEXT://h:1", false, "no address"},
		"local above all":          {"log.local.retention.ms", "604800001", false, "not be more"},
		"local without end":        {"log.local.retention.ms", "-1", false, "not be more"},
		"local as all":             {"log.local.retention.ms", "604800000", false, ""},
		"local bytes":              {"log.local.retention.bytes", "5", false, ""},
		"no such class":            {"principal.builder.class", "x", false, "could not be found"},
		"no such reporter":         {"metric.reporters", "x", false, "could not be found"},
		"no reporter":              {"metric.reporters", "", false, ""},
		"no data directory":        {"cordoned.log.dirs", "/elsewhere", false, "no data directory"},
		"directories of all":       {"cordoned.log.dirs", "*", true, "broker id must be specified"},
		"all data directories":     {"cordoned.log.dirs", "*", false, ""},
		"protocols of nothing":     {"listener.security.protocol.map", "x", false, "listener.security.protocol.map"},
		"no protocols":             {"listener.security.protocol.map", "", false, "listener.security.protocol.map"},
		"no listener's connection": {"listener.name.a.max.connections", "0", false, "at least 1"},
		"no listener's rate":       {"listener.name.a.max.connection.creation.rate", "0", true, "at least 1"},
		"throttled":                {"leader.replication.throttled.rate", "5", false, ""},
		"throttled below 0":        {"follower.replication.throttled.rate", "-1", false, "at least 0"},
		"no key material":          {"ssl.cipher.suites", "x", false, ""},
		"dynamic for the cluster":  {"message.max.bytes", "5", true, ""},
		"negative retention":       {"log.retention.ms", "-5", false, ""},
		"our own":                  {"log.sync", "none", true, "[log.sync]"},
		"unknown":                  {"nosuch.key", "x", false, ""},
		"listener's":               {"listener.name.a.ssl.keystore.location", "/k", false, ""},
		"read-only":                {"num.partitions", "2", false, "Cannot update these configs dynamically: [num.partitions]"},
		"bad value":                {"log.cleaner.threads", "x", false, "Not a number of type INT"},
		"no retention":             {"log.retention.ms", "0", false, "at least 1"},
		"per broker":               {"sasl.jaas.config", "x", true, "broker id must be specified: [sasl.jaas.config]"},
		"per listener":             {"ssl.keystore.location", "/k", false, "only per-listener"},
		"secret value isn't shown": {"sasl.jaas.config", "geheim", false, ""},
	} {
		err := b.ValidateBroker(map[string]string{c.key: c.value}, c.cluster)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestAPoolsSizeThatStaysIsNotAChange(t *testing.T) {
	t.Parallel()
	b := static(t, nil)
	for _, x := range []struct {
		kind config.Kind
		name string
		size string
	}{{config.KindClusterDefault, "", "10"}, {config.KindBroker, "1", "16"}, {config.KindBroker, "1", "32"}} {
		configs := map[string]string{"num.io.threads": x.size}
		if err := b.ValidateBroker(configs, x.kind == config.KindClusterDefault); err != nil {
			t.Fatal(err)
		}
		if err := b.SetDynamic(x.kind, x.name, configs); err != nil {
			t.Fatal(err)
		}
	}
	// The cluster's 10 is less than half of this broker's 32, but nobody changes it.
	if err := b.ValidateBroker(map[string]string{"num.io.threads": "10", "message.max.bytes": "5"}, true); err != nil {
		t.Error(err)
	}
	if err := b.ValidateBroker(map[string]string{"num.io.threads": "5"}, true); err == nil {
		t.Error("a change is taken")
	}
}

func TestGroupSettingsAreCheckedAgainstTheBrokersBounds(t *testing.T) {
	t.Parallel()
	b := static(t, nil)
	for name, c := range map[string]struct{ key, value, want string }{
		"fine":           {"consumer.session.timeout.ms", "50000", ""},
		"duration":       {"share.auto.offset.reset", "by_duration:P1DT2H3M4.5S", ""},
		"days":           {"share.auto.offset.reset", "by_duration:p2d", ""},
		"hidden":         {"streams.num.warmup.replicas", "1", ""},
		"hidden, large":  {"streams.num.warmup.replicas", "21", "no more than 20"},
		"hidden, small":  {"streams.task.offset.interval.ms", "14999", "at least 15000"},
		"unknown":        {"nosuch", "1", "Unknown group config name: nosuch"},
		"too small":      {"consumer.session.timeout.ms", "1", "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		"too large":      {"share.delivery.count.limit", "11", "range 2 to 10"},
		"own bound":      {"share.delivery.count.limit", "1", "Value must be at least 2"},
		"upper only":     {"streams.num.standby.replicas", "9", "streams.num.standby.replicas must be less than or equal to 2"},
		"reset":          {"share.auto.offset.reset", "nosuch", "either 'earliest', 'latest'"},
		"empty duration": {"share.auto.offset.reset", "by_duration:PT", "by_duration"},
		"negative":       {"share.auto.offset.reset", "by_duration:-PT1H", "by_duration"},
		"order":          {"share.auto.offset.reset", "by_duration:PT1S2H", "by_duration"},
		"fraction":       {"share.auto.offset.reset", "by_duration:PT1.5H", "by_duration"},
		"isolation":      {"share.isolation.level", "x", "read_committed, read_uncommitted"},
		"assignor":       {"streams.assignor.name", "x", "Registered assignors are: [sticky]."},
	} {
		err := b.ValidateGroup(map[string]string{c.key: c.value})
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	b = static(t, map[string]string{"group.consumer.max.heartbeat.interval.ms": "60000"})
	if err := b.ValidateGroup(map[string]string{"consumer.heartbeat.interval.ms": "45000"}); err == nil {
		t.Error("a heartbeat interval as long as the session is taken")
	}
}

func TestGroupsFollowTheBrokerAndStayWithinItsBounds(t *testing.T) {
	t.Parallel()
	b := static(t, map[string]string{"group.consumer.session.timeout.ms": "46000"})
	if err := b.SetDynamic(config.KindGroup, "g", map[string]string{"consumer.session.timeout.ms": "99999", "share.auto.offset.reset": "earliest"}); err != nil {
		t.Fatal(err)
	}
	g, other := b.Group("g"), b.Group("other")
	if g.Int("consumer.session.timeout.ms") != 60000 || g.String("share.auto.offset.reset") != "earliest" {
		t.Error("the group's own settings")
	}
	if other.Int("consumer.session.timeout.ms") != 46000 || other.String("share.auto.offset.reset") != "latest" ||
		other.String("streams.assignor.name") != "sticky" || !other.Bool("share.renew.acknowledge.enable") ||
		len(other.List("streams.rack.aware.assignment.tags")) != 0 {
		t.Error("the broker's settings")
	}
	if err := b.SetDynamic(config.KindGroup, "g", nil); err != nil || len(b.Named(config.KindGroup)) != 0 {
		t.Errorf("settings that are gone are listed: %v", err)
	}
}

func TestClientMetricsSettingsAreBadRequestsOrBadConfigs(t *testing.T) {
	t.Parallel()
	b := static(t, nil)
	for name, c := range map[string]struct {
		key, value, want string
		request          bool
	}{
		"fine":          {"match", " client_id = x.* ,client_source_port=9092", "", false},
		"all":           {"metrics", "*", "", false},
		"interval":      {"interval.ms", "99", "interval must be between 100 and 3600000", true},
		"unknown":       {"nosuch", "1", "Unknown client metrics configuration: nosuch", true},
		"not a number":  {"interval.ms", "x", "Not a number of type INT", false},
		"name":          {"match", "nosuch=x", "Illegal client matching pattern: nosuch=x", false},
		"pattern":       {"match", "client_id=[x", "Illegal client matching pattern: client_id=[x", false},
		"no pattern":    {"match", "client_id", "Illegal", false},
		"empty metric":  {"metrics", "a,,b", "must not be empty", false},
		"two patterns":  {"match", "client_id=a=b", "Illegal", false},
		"empty pattern": {"match", ",", "Illegal", false},
	} {
		err := b.ValidateClientMetrics(map[string]string{c.key: c.value})
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if bad := (*config.ClientMetricsError)(nil); errors.As(err, &bad) != c.request {
			t.Errorf("%s: %T", name, err)
		}
	}
}
