package handlers

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/protocol"
	"github.com/kbroker/kbroker/storage"
)

// configured is handlers over a store that keeps settings and logs that note theirs.
type configured struct {
	*control
	stored map[string]map[string]string // by kind/name
	logs   map[string]storage.Config    // the last one that a log of the topic was given
	fail   error                        // what the store answers to changes
}

// configuredMeta keeps topics' settings.
type configuredMeta struct {
	*controlStore
	c *configured
}

func (m configuredMeta) SetTopicConfigs(id storage.TopicID, configs map[string]string) (*meta.Topic, error) {
	if m.c.fail != nil {
		return nil, m.c.fail
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.topics.WithID(id)
	if found == nil {
		return nil, meta.ErrNoTopic
	}
	changed := *found
	changed.Configs = maps.Clone(configs)
	all := slices.DeleteFunc(slices.Clone(m.topics.All()), func(t *meta.Topic) bool { return t == found })
	m.topics = meta.NewTopics(append(all, &changed))
	return &changed, nil
}

// configuredLog notes the settings it is given.
type configuredLog struct {
	Log
	topic string
	c     *configured
}

func (l configuredLog) SetConfig(s storage.Config) { l.c.logs[l.topic] = s }

// configuredLogs hands such logs out.
type configuredLogs struct {
	*controlStore
	c *configured
}

func (l configuredLogs) Get(id storage.TopicID, partition int32) (Log, error) {
	found, err := l.controlStore.Get(id, partition)
	if err != nil {
		return nil, err
	}
	return configuredLog{found, l.Topics().WithID(id).Name, l.c}, nil
}

func (c *configured) PutConfig(kind, name string, settings map[string]string) error {
	if c.fail == nil {
		c.stored[kind+"/"+name] = settings
	}
	return c.fail
}

func (c *configured) DeleteConfig(kind, name string) error {
	if c.fail == nil {
		delete(c.stored, kind+"/"+name)
	}
	return c.fail
}

func newConfigured(t *testing.T, settings ...string) *configured {
	t.Helper()
	c := &configured{control: newControl(t, settings...), stored: map[string]map[string]string{}, logs: map[string]storage.Config{}}
	c.Meta, c.Logs, c.ConfigStore = configuredMeta{c.store, c}, configuredLogs{c.store, c}, c
	return c
}

// describe asks for one resource, with synonyms.
func (c *configured) describe(kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
	c.t.Helper()
	q := kmsg.NewPtrDescribeConfigsRequest()
	q.Version, q.IncludeSynonyms = 4, true
	q.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: keys}}
	a := ask(c.control, q, kmsg.NewPtrDescribeConfigsResponse())
	if len(a.Resources) != 1 {
		c.t.Fatalf("%d resources", len(a.Resources))
	}
	return a.Resources[0]
}

// value is the value of a key and where it comes from, such as "5 4".
func (c *configured) value(kind kmsg.ConfigResourceType, name, key string) string {
	c.t.Helper()
	r := c.describe(kind, name, key)
	if len(r.Configs) != 1 {
		c.t.Fatalf("%s of %s: %d entries, code %d", key, name, len(r.Configs), r.ErrorCode)
	}
	v := "null"
	if r.Configs[0].Value != nil {
		v = *r.Configs[0].Value
	}
	return v + " " + string(rune('0'+r.Configs[0].Source))
}

type op = kmsg.IncrementalAlterConfigsRequestResourceConfig

func set(name, value string) op { return op{Name: name, Value: &value} }

func unset(name string) op { return op{Name: name, Op: kmsg.IncrementalAlterConfigOpDelete} }

func add(name, value string) op {
	return op{Name: name, Op: kmsg.IncrementalAlterConfigOpAppend, Value: &value}
}

func subtract(name, value string) op {
	return op{Name: name, Op: kmsg.IncrementalAlterConfigOpSubtract, Value: &value}
}

// incremental changes one resource; it returns the code and the text.
func (c *configured) incremental(kind kmsg.ConfigResourceType, name string, validateOnly bool, ops ...op) (protocol.ErrorCode, string) {
	c.t.Helper()
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Version, q.ValidateOnly = 1, validateOnly
	q.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kind, ResourceName: name, Configs: ops}}
	a := ask(c.control, q, kmsg.NewPtrIncrementalAlterConfigsResponse()).Resources[0]
	return protocol.ErrorCode(a.ErrorCode), deref(a.ErrorMessage)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// replace changes one resource by AlterConfigs.
func (c *configured) replace(kind kmsg.ConfigResourceType, name string, settings ...string) protocol.ErrorCode {
	c.t.Helper()
	q := kmsg.NewPtrAlterConfigsRequest()
	q.Version = 2
	r := kmsg.AlterConfigsRequestResource{ResourceType: kind, ResourceName: name}
	for i := 0; i < len(settings); i += 2 {
		r.Configs = append(r.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: settings[i], Value: &settings[i+1]})
	}
	q.Resources = []kmsg.AlterConfigsRequestResource{r}
	return protocol.ErrorCode(ask(c.control, q, kmsg.NewPtrAlterConfigsResponse()).Resources[0].ErrorCode)
}

const (
	topicResource   = kmsg.ConfigResourceTypeTopic
	brokerResource  = kmsg.ConfigResourceTypeBroker
	loggerResource  = kmsg.ConfigResourceTypeBrokerLogger
	metricsResource = kmsg.ConfigResourceTypeClientMetrics
	groupResource   = kmsg.ConfigResourceTypeGroupConfig
)

func TestDescribeConfigsAnswersEachKindOfResource(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.create("a")
	for name, r := range map[string]struct {
		kind kmsg.ConfigResourceType
		name string
		keys []string
		code protocol.ErrorCode
		want int // entries
	}{
		"topic":                     {topicResource, "a", nil, 0, 37},
		"topic, some keys":          {topicResource, "a", []string{"retention.ms", "nosuch", "retention.ms"}, 0, 1},
		"internal topic":            {topicResource, offsetsTopic, nil, 0, 37},
		"missing topic":             {topicResource, "b", nil, protocol.UnknownTopicOrPartition, 0},
		"bad topic":                 {topicResource, "a/b", nil, protocol.InvalidTopicException, 0},
		"no topic":                  {topicResource, "", nil, protocol.InvalidTopicException, 0},
		"broker":                    {brokerResource, "1", nil, 0, 350},
		"cluster":                   {brokerResource, "", nil, 0, 1},
		"other broker":              {brokerResource, "99", nil, protocol.InvalidRequest, 0},
		"negative broker":           {brokerResource, "-1", nil, protocol.InvalidRequest, 0},
		"broker, no number":         {brokerResource, "abc", nil, protocol.InvalidRequest, 0},
		"loggers":                   {loggerResource, "1", nil, 0, 1},
		"logger that isn't there":   {loggerResource, "1", []string{"nosuch"}, 0, 0},
		"loggers of another broker": {loggerResource, "99", nil, protocol.InvalidRequest, 0},
		"loggers, no number":        {loggerResource, "abc", nil, protocol.InvalidRequest, 0},
		"loggers of no broker":      {loggerResource, "", nil, protocol.InvalidRequest, 0},
		"client metrics":            {metricsResource, "m", nil, 0, 3},
		"no client metrics":         {metricsResource, "", nil, protocol.InvalidRequest, 0},
		"group":                     {groupResource, "g", nil, 0, 21},
		"no group":                  {groupResource, "", nil, protocol.InvalidRequest, 0},
		"unknown":                   {99, "x", nil, protocol.InvalidRequest, 0},
	} {
		got := c.describe(r.kind, r.name, r.keys...)
		if protocol.ErrorCode(got.ErrorCode) != r.code || len(got.Configs) != r.want || got.ResourceType != r.kind || got.ResourceName != r.name {
			t.Errorf("%s: code %d, %d entries", name, got.ErrorCode, len(got.Configs))
		}
		if got.ErrorMessage == nil || r.code == 0 && *got.ErrorMessage != "" {
			t.Errorf("%s: text %v", name, got.ErrorMessage)
		}
	}
}

func TestDescribeConfigsSendsSynonymsAndTextsOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	for _, asked := range []bool{true, false} {
		q := kmsg.NewPtrDescribeConfigsRequest()
		q.Version, q.IncludeSynonyms, q.IncludeDocumentation = 4, asked, asked
		q.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: brokerResource, ResourceName: "1", ConfigNames: []string{"group.initial.rebalance.delay.ms", "ssl.key.password"}}}
		configs := ask(c.control, q, kmsg.NewPtrDescribeConfigsResponse()).Resources[0].Configs
		delay, secret := configs[0], configs[1]
		if deref(delay.Value) != "0" || delay.Source != 4 || !delay.ReadOnly || delay.ConfigType != 3 {
			t.Errorf("preset: %+v", delay)
		}
		if len(delay.ConfigSynonyms) == 2 != asked || (delay.Documentation != nil) != asked {
			t.Errorf("asked %t: %+v", asked, delay)
		}
		if secret.Value != nil || !secret.IsSensitive || secret.ConfigType != 9 {
			t.Errorf("secret: %+v", secret)
		}
	}
}

func TestTopicSettingsAreStoredAndGivenToTheLogs(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.create("a")
	steps := []struct {
		ops  []op
		key  string
		want string
	}{
		{[]op{set("retention.ms", "5000"), set("cleanup.policy", "compact")}, "retention.ms", "5000 1"},
		{nil, "cleanup.policy", "compact 1"},
		{[]op{unset("cleanup.policy")}, "cleanup.policy", "delete 5"},
		{[]op{add("cleanup.policy", "compact")}, "cleanup.policy", "delete,compact 1"},
		{[]op{add("cleanup.policy", "compact")}, "cleanup.policy", "delete,compact 1"},
		{[]op{subtract("cleanup.policy", "delete")}, "cleanup.policy", "compact 1"},
		{[]op{subtract("cleanup.policy", "compact")}, "cleanup.policy", " 1"},
		{[]op{unset("nosuch")}, "retention.ms", "5000 1"},
	}
	for i, s := range steps {
		if code, text := c.incremental(topicResource, "a", false, s.ops...); code != 0 {
			t.Fatalf("step %d: %d %s", i, code, text)
		}
		if got := c.value(topicResource, "a", s.key); got != s.want {
			t.Errorf("step %d: %s is %q, want %q", i, s.key, got, s.want)
		}
	}
	if got := c.logs["a"]; got.RetentionAge.Milliseconds() != 5000 || got.Compact || got.Delete {
		t.Errorf("the log has %+v", got)
	}
	if code := c.replace(topicResource, "a", "segment.ms", "7"); code != 0 {
		t.Fatal(code)
	}
	if c.value(topicResource, "a", "retention.ms") != "604800000 5" || c.value(topicResource, "a", "segment.ms") != "7 1" {
		t.Error("AlterConfigs doesn't replace everything")
	}
	if got := c.logs["a"]; got.SegmentAge.Milliseconds() != 7 || !got.Delete {
		t.Errorf("the log has %+v", got)
	}
}

func TestRefusedAlterationsHaveKafkasCodes(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.create("a")
	null := op{Name: "retention.ms"}
	for name, r := range map[string]struct {
		kind kmsg.ConfigResourceType
		name string
		ops  []op
		code protocol.ErrorCode
		text string
	}{
		"unknown key":              {topicResource, "a", []op{set("nosuch", "1")}, protocol.InvalidConfig, "Unknown topic config name: nosuch"},
		"bad value":                {topicResource, "a", []op{set("retention.ms", "x")}, protocol.InvalidConfig, "Not a number of type LONG"},
		"null":                     {topicResource, "a", []op{null}, protocol.InvalidRequest, "Null value not supported for : retention.ms"},
		"append to a number":       {topicResource, "a", []op{add("retention.ms", "5")}, protocol.InvalidConfig, "Can't APPEND to key retention.ms"},
		"subtract from nothing":    {topicResource, "a", []op{subtract("nosuch", "5")}, protocol.InvalidConfig, "Can't SUBTRACT to key nosuch"},
		"unknown operation":        {topicResource, "a", []op{{Name: "retention.ms", Op: 9, Value: &null.Name}}, protocol.UnknownServerError, ""},
		"key twice":                {topicResource, "a", []op{set("retention.ms", "5"), unset("retention.ms")}, protocol.InvalidRequest, "duplicate config keys"},
		"missing topic":            {topicResource, "b", []op{set("retention.ms", "5")}, protocol.UnknownTopicOrPartition, "The topic 'b' does not exist."},
		"bad topic":                {topicResource, "a/b", nil, protocol.InvalidTopicException, "Topic name is invalid"},
		"no topic":                 {topicResource, "", nil, protocol.InvalidRequest, "Default topic resources are not allowed."},
		"internal topic":           {topicResource, offsetsTopic, []op{set("retention.ms", "5")}, protocol.InvalidRequest, "only in name"},
		"internal topic, checked":  {topicResource, offsetsTopic, []op{set("retention.ms", "6")}, protocol.InvalidRequest, "only in name"},
		"unknown resource":         {99, "x", nil, protocol.InvalidRequest, "Unknown resource type 99"},
		"read-only key":            {brokerResource, "1", []op{set("num.partitions", "7")}, protocol.InvalidRequest, "Cannot update these configs dynamically: [num.partitions]"},
		"bad value of the broker":  {brokerResource, "1", []op{set("log.cleaner.threads", "x")}, protocol.InvalidRequest, "Not a number of type INT"},
		"append at the broker":     {brokerResource, "1", []op{add("log.retention.ms", "5")}, protocol.InvalidConfig, "append is not allowed"},
		"operation at the broker":  {brokerResource, "1", []op{{Name: "log.retention.ms", Op: 9, Value: &null.Name}}, protocol.InvalidRequest, "Unknown operations type 9"},
		"other broker":             {brokerResource, "99", nil, protocol.InvalidRequest, "Unexpected broker id, expected 1, but received 99"},
		"broker, no number":        {brokerResource, "abc", nil, protocol.InvalidRequest, "Node id must be an integer, but it is: abc"},
		"replicas of one broker":   {brokerResource, "1", []op{set(isrKey, "2")}, protocol.InvalidConfig, "Broker-level"},
		"bad replicas":             {brokerResource, "", []op{set(isrKey, "x")}, protocol.InvalidRequest, "Not a number"},
		"replicas of one, unset":   {brokerResource, "1", []op{unset(isrKey)}, protocol.InvalidConfig, "Broker-level"},
		"no replicas":              {brokerResource, "", []op{unset(isrKey)}, protocol.InvalidConfig, "Cluster-level"},
		"group out of bounds":      {groupResource, "g", []op{set("consumer.session.timeout.ms", "1")}, protocol.InvalidConfig, "range 45000 to 60000"},
		"group, no name":           {groupResource, "", nil, protocol.InvalidRequest, "Default group resources are not allowed."},
		"group, append":            {groupResource, "g", []op{add("streams.rack.aware.assignment.tags", "x")}, protocol.InvalidConfig, "APPEND"},
		"client metrics, interval": {metricsResource, "m", []op{set("interval.ms", "99")}, protocol.InvalidRequest, "interval must be"},
		"client metrics, pattern":  {metricsResource, "m", []op{set("match", "nosuch=x")}, protocol.InvalidConfig, "Illegal client matching pattern"},
		"client metrics, no name":  {metricsResource, "", nil, protocol.InvalidRequest, "Subscription name can't be empty"},
		"logger":                   {loggerResource, "1", []op{set("nosuch", "INFO")}, protocol.InvalidConfig, "Logger nosuch does not exist!"},
		"level that isn't one":     {loggerResource, "1", []op{set("root", "loud")}, protocol.InvalidConfig, "not a supported log level"},
		"root logger":              {loggerResource, "1", []op{unset("root")}, protocol.InvalidRequest, "can't be changed"},
		"loggers of another":       {loggerResource, "99", nil, protocol.InvalidRequest, "Unexpected node id. Expected 1, but received 99"},
	} {
		code, text := c.incremental(r.kind, r.name, strings.HasSuffix(name, ", checked"), r.ops...)
		if code != r.code || !strings.Contains(text, r.text) || (r.text == "") != (text == "") {
			t.Errorf("%s: got %d %q", name, code, text)
		}
	}
	if len(c.stored) > 0 || len(c.logs) > 0 {
		t.Errorf("refused, yet stored: %v %v", c.stored, c.logs)
	}
	if code := c.replace(loggerResource, "1", "root", "INFO"); code != protocol.InvalidRequest {
		t.Errorf("AlterConfigs takes loggers: %d", code)
	}
}

func TestListsAreChangedByKafkasParts(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		items []string
		op    op
		want  string
	}{
		"new ones":            {[]string{"a"}, add("k", "b,a,c"), "a,b,c"},
		"nothing":             {[]string{"a"}, add("k", ""), "a,"},
		"commas":              {[]string{"a"}, add("k", ",,"), "a"},
		"a comma behind":      {[]string{"a"}, add("k", "b,"), "a,b"},
		"an empty item there": {[]string{"a", ""}, add("k", "b"), "a,b"},
		"taken out":           {[]string{"a", "b"}, subtract("k", "b, c"), "a"},
	} {
		o := configOp{op: x.op.Op, name: x.op.Name, value: x.op.Value}
		if got := strings.Join(o.change(x.items), ","); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

func TestAListGrowsNoLongerThanKafkas(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.create("a")
	key := "follower.replication.throttled.replicas"
	long := "1:1"
	for i := 10_000; len(long)+8 < 32_767; i++ {
		long += "," + strconv.Itoa(i) + ":1"
	}
	if code, text := c.incremental(topicResource, "a", false, set(key, long)); code != protocol.None {
		t.Fatalf("code %d %s", code, text)
	}
	code, text := c.incremental(topicResource, "a", false, add(key, "7:7,8:8,9:9"))
	if code != protocol.InvalidConfig || !strings.Contains(text, "maximum value size") {
		t.Errorf("code %d %q", code, text)
	}
	if got := c.topicByName("a").Configs[key]; got != long {
		t.Errorf("%d characters are kept", len(got))
	}
}

func TestAResourceThatIsThereTwiceIsNotChanged(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.create("a", "b")
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Version = 1
	for _, name := range []string{"a", "b", "a"} {
		q.Resources = append(q.Resources, kmsg.IncrementalAlterConfigsRequestResource{
			ResourceType: topicResource, ResourceName: name, Configs: []op{set("retention.ms", "5")},
		})
	}
	var codes []int16
	for _, r := range ask(c.control, q, kmsg.NewPtrIncrementalAlterConfigsResponse()).Resources {
		codes = append(codes, r.ErrorCode)
	}
	if !slices.Equal(codes, []int16{42, 0, 42}) || c.value(topicResource, "a", "retention.ms") != "604800000 5" {
		t.Errorf("codes %v", codes)
	}
}

func TestValidatingChangesNothing(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.create("a")
	for _, r := range []struct {
		kind kmsg.ConfigResourceType
		name string
		op   op
	}{
		{topicResource, "a", set("retention.ms", "5")},
		{topicResource, offsetsTopic, unset("nosuch")},
		{brokerResource, "1", set("log.retention.ms", "5")},
		{groupResource, "g", set("consumer.session.timeout.ms", "50000")},
		{metricsResource, "m", set("interval.ms", "500")},
	} {
		if code, text := c.incremental(r.kind, r.name, true, r.op); code != 0 {
			t.Errorf("%s: %d %s", r.op.Name, code, text)
		}
	}
	if len(c.stored) > 0 || len(c.logs) > 0 || c.value(topicResource, "a", "retention.ms") != "604800000 5" {
		t.Error("something changed")
	}
}

func TestBrokerSettingsAreStoredAndReachTheTopicsThatFollow(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.create("a")
	steps := []struct {
		name string
		op   op
		want string
		logs int64
	}{
		{"1", set("log.retention.ms", "600000"), "600000 2", 600000},
		{"", set("log.retention.ms", "700000"), "600000 2", 600000},
		{"1", unset("log.retention.ms"), "700000 3", 700000},
		{"", unset("log.retention.ms"), "604800000 5", 604800000},
	}
	for i, s := range steps {
		if code, text := c.incremental(brokerResource, s.name, false, s.op); code != 0 {
			t.Fatalf("step %d: %d %s", i, code, text)
		}
		if got := c.value(topicResource, "a", "retention.ms"); got != s.want {
			t.Errorf("step %d: %q, want %q", i, got, s.want)
		}
		if got := c.logs["a"].RetentionAge.Milliseconds(); got != s.logs {
			t.Errorf("step %d: the log has %d", i, got)
		}
	}
	want := map[string]string{isrKey: "1"}
	if len(c.stored) != 1 || !maps.Equal(c.stored["cluster/"], want) {
		t.Errorf("stored %v", c.stored)
	}
	if code, _ := c.incremental(brokerResource, "1", false, set("nosuch.key", "geheim"), set("log.cleanup.policy", "compact")); code != 0 {
		t.Error(code)
	}
	if code, _ := c.incremental(brokerResource, "1", false, add("log.cleanup.policy", "delete")); code != 0 {
		t.Error(code)
	}
	if got := c.value(brokerResource, "1", "log.cleanup.policy"); got != "compact,delete 2" {
		t.Error(got)
	}
	if got := c.value(brokerResource, "1", "nosuch.key"); got != "null 2" {
		t.Error(got)
	}
	if code := c.replace(brokerResource, "1"); code != 0 || len(c.stored) != 1 {
		t.Errorf("code %d, stored %v", code, c.stored)
	}
}

func TestGroupsAndClientMetricsAreListedWhileTheyHaveSettings(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	for _, r := range []struct {
		kind        kmsg.ConfigResourceType
		name, key   string
		value, want string
		record      string
	}{
		{groupResource, "g", "consumer.session.timeout.ms", "50000", "50000 8", "group/g"},
		{metricsResource, "m", "interval.ms", "500", "500 7", "client-metrics/m"},
	} {
		if code, text := c.incremental(r.kind, r.name, false, set(r.key, r.value)); code != 0 {
			t.Fatal(code, text)
		}
		if got := c.value(r.kind, r.name, r.key); got != r.want || c.stored[r.record][r.key] != r.value {
			t.Errorf("%s: %s, stored %v", r.key, got, c.stored)
		}
		if got := c.list(int8(r.kind)); got != r.name {
			t.Errorf("listed: %q", got)
		}
		if code, text := c.incremental(r.kind, r.name, false, unset(r.key)); code != 0 {
			t.Fatal(code, text)
		}
		if got := c.list(int8(r.kind)); got != "" || len(c.stored) > 0 {
			t.Errorf("listed: %q, stored %v", got, c.stored)
		}
	}
}

// list lists the names of the resources of some types.
func (c *configured) list(kinds ...int8) string {
	c.t.Helper()
	q := kmsg.NewPtrListConfigResourcesRequest()
	q.Version, q.ResourceTypes = 1, kinds
	a := ask(c.control, q, kmsg.NewPtrListConfigResourcesResponse())
	var names []string
	if a.ErrorCode != 0 {
		names = append(names, protocol.ErrorCode(a.ErrorCode).Error())
	}
	for _, r := range a.ConfigResources {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

func TestListConfigResourcesKnowsItsTypes(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.create("a")
	for want, kinds := range map[string][]int8{
		offsetsTopic + " " + transactionsTopic + " a": {2, 2},
		"1 1": {4, 8},
		offsetsTopic + " " + transactionsTopic + " a 1 1": {},
		protocol.UnsupportedVersion.Error():               {2, 99},
	} {
		if got := c.list(kinds...); got != want {
			t.Errorf("%v: got %q, want %q", kinds, got, want)
		}
	}
	if code, _ := c.incremental(metricsResource, "m", false, set("interval.ms", "500")); code != 0 {
		t.Fatal(code)
	}
	q := kmsg.NewPtrListConfigResourcesRequest()
	a := ask(c.control, q, kmsg.NewPtrListConfigResourcesResponse())
	if len(a.ConfigResources) != 1 || a.ConfigResources[0].Name != "m" {
		t.Errorf("version 0: %+v", a.ConfigResources)
	}
}

func TestWhatTheStoreRefusesDoesNotHold(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.create("a")
	c.fail = errors.New("disk on /secret/path")
	for _, r := range []struct {
		kind kmsg.ConfigResourceType
		name string
		op   op
	}{
		{topicResource, "a", set("retention.ms", "5")},
		{brokerResource, "1", set("log.retention.ms", "5")},
		{groupResource, "g", set("consumer.session.timeout.ms", "50000")},
	} {
		code, text := c.incremental(r.kind, r.name, false, r.op)
		if code != protocol.UnknownServerError || strings.Contains(text, "secret") {
			t.Errorf("%s: %d %s", r.op.Name, code, text)
		}
	}
	if len(c.logs) > 0 || c.value(topicResource, "a", "retention.ms") != "604800000 5" || len(c.Config.Named(config.KindGroup)) > 0 {
		t.Error("a change that wasn't stored holds")
	}
}

func TestDescribeClusterAnswersTheListenersAddress(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	for version := range int16(3) {
		q := kmsg.NewPtrDescribeClusterRequest()
		q.Version, q.IncludeClusterAuthorizedOperations = version, true
		r := encoded(q)
		r.Conn = &protocol.Conn{Listener: "DOCKER"}
		a := askAs(c.control, r, kmsg.NewPtrDescribeClusterResponse())
		if a.ErrorCode != 0 || a.ClusterID != c.Meta.ClusterID() || a.ControllerID != 1 || a.ClusterAuthorizedOperations != clusterOperations || len(a.Brokers) != 1 {
			t.Fatalf("version %d: %+v", version, a)
		}
		if b := a.Brokers[0]; b.NodeID != 1 || b.Host != "kbroker.internal" || b.Port != 9093 {
			t.Errorf("version %d: %+v", version, b)
		}
	}
	for kind, want := range map[int8]protocol.ErrorCode{
		0: protocol.UnsupportedEndpointType, 2: protocol.MismatchedEndpointType, 3: protocol.UnsupportedEndpointType,
	} {
		q := kmsg.NewPtrDescribeClusterRequest()
		q.Version, q.EndpointType = 1, kind
		a := ask(c.control, q, kmsg.NewPtrDescribeClusterResponse())
		if protocol.ErrorCode(a.ErrorCode) != want || a.ControllerID != -1 || a.ClusterID != "" || len(a.Brokers) != 0 || a.ClusterAuthorizedOperations != noOperations {
			t.Errorf("endpoint type %d: %+v", kind, a)
		}
	}
}
