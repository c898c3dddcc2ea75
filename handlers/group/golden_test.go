package group

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// The files in testdata/golden are dialogues with Apache Kafka 4.4.0 and what it answered. Each is held here with the
// coordinator in place of the broker; the little that handlers add is done by goldenBroker.

type goldenStep struct {
	API            string                     `json:"api"`
	Version        int16                      `json:"version"`
	Conn           string                     `json:"conn"`
	ClientID       *string                    `json:"client_id"`
	Body           json.RawMessage            `json:"body"`
	Send           bool                       `json:"send"`
	Receive        bool                       `json:"receive"`
	Skip           bool                       `json:"skip"`
	WaitMs         int                        `json:"wait_ms"`
	Capture        map[string]string          `json:"capture"`
	Until          map[string]json.RawMessage `json:"until"`
	Only           []string                   `json:"only"`
	Ignore, Filter []string
}

type goldenCase struct {
	Name   string
	Topics []struct {
		Name       string
		Partitions int32
	}
	Steps []goldenStep
}

type goldenAnswer struct {
	Step   int
	Answer any
}

func TestAnswersAsKafka(t *testing.T) {
	t.Parallel()
	for _, area := range []string{"groups-classic", "offsets", "groups-admin", "groups-848", "edges"} {
		goldenArea(t, area)
	}
}

func goldenArea(t *testing.T, area string) {
	t.Helper()
	var cases struct{ Cases []goldenCase }
	var answers struct{ Cases map[string][]goldenAnswer }
	readJSON(t, "testdata/golden/"+area+".cases.json", &cases)
	readJSON(t, "testdata/golden/"+area+".answers.json", &answers)
	if len(cases.Cases) == 0 {
		t.Fatalf("no cases in %s", area)
	}
	for _, c := range cases.Cases {
		t.Run(area+"/"+c.Name, func(t *testing.T) {
			t.Parallel()
			playGolden(t, &c, answers.Cases[c.Name])
		})
	}
}

func readJSON(t *testing.T, file string, to any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	if err = d.Decode(to); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func playGolden(t *testing.T, c *goldenCase, answers []goldenAnswer) {
	t.Helper()
	b := &goldenBroker{testBroker: newTestBroker(t), prefix: "g000000-" + c.Name, vars: map[string]string{}}
	b.names = &naming{vars: b.vars, prefix: b.prefix, by: map[string]string{}, seen: map[string]string{}, count: map[string]int{}}
	for _, topic := range c.Topics {
		name := b.expand(topic.Name)
		id := b.makeTopic(name, max(1, topic.Partitions))
		b.names.define("id:"+strings.TrimPrefix(topic.Name, "${p}-"), uuidText(id), "id")
	}
	for i := range c.Steps {
		step := &c.Steps[i]
		b.clock.Advance(time.Duration(step.WaitMs) * time.Millisecond)
		got := b.play(step)
		if got == nil || step.Skip {
			continue
		}
		if len(answers) == 0 || answers[0].Step != i {
			t.Fatalf("step %d: no recording", i)
		}
		want := answers[0].Answer
		answers = answers[1:]
		b.compare(t, fmt.Sprintf("step %d %s v%d", i, step.API, step.Version), want, got)
	}
}

// goldenBroker plays one case.
type goldenBroker struct {
	*testBroker
	prefix  string
	vars    map[string]string
	names   *naming
	waiting map[string][]func() kmsg.Response
	last    string // the API answered last
}

// play sends a request and returns the answer as a tree; nil if it isn't read yet.
func (b *goldenBroker) play(step *goldenStep) any {
	var tree any
	for end := b.clock.Now().Add(10 * time.Second); ; b.clock.Advance(20 * time.Millisecond) {
		answer := b.exchange(step)
		if answer == nil {
			return nil
		}
		b.last = strings.TrimSuffix(reflect.TypeOf(answer).Elem().Name(), "Response")
		tree = treeOf(reflect.ValueOf(onWire(b.t, answer)).Elem())
		if b.reached(step, tree) || !b.clock.Now().Before(end) {
			break
		}
	}
	for name, path := range step.Capture {
		if v, ok := follow(tree, path); ok && v != nil {
			kind := ""
			if strings.HasSuffix(path, "MemberEpoch") {
				kind = "epoch"
			}
			b.names.define(name, fmt.Sprint(v), kind)
		}
	}
	for _, spec := range step.Filter {
		b.filter(tree, spec)
	}
	for _, path := range step.Ignore {
		drop(tree, strings.Split(path, "."))
	}
	return tree
}

// exchange sends and receives.
func (b *goldenBroker) exchange(step *goldenStep) kmsg.Response {
	if b.waiting == nil {
		b.waiting = make(map[string][]func() kmsg.Response)
	}
	if !step.Receive {
		key := kmsg.NameForKey
		for k := range kmsg.MaxKey + 1 {
			if strings.EqualFold(key(int16(k)), step.API) {
				req := kmsg.RequestForKey(int16(k))
				b.fillRequest(req, step)
				client := Client{ID: "golden", Host: "/127.0.0.1"}
				if step.ClientID != nil {
					client.ID = b.expand(*step.ClientID)
				} else if strings.Contains(b.prefix, "join-client-id") && step.Version == 3 {
					client.ID = ""
				}
				b.waiting[step.Conn] = append(b.waiting[step.Conn], b.send(client, req))
			}
		}
	}
	if step.Send {
		return nil
	}
	queue := b.waiting[step.Conn]
	b.waiting[step.Conn] = queue[1:]
	answer := queue[0]()
	return answer
}

// send hands a request to the coordinator; the result waits for the answer.
func (b *goldenBroker) send(client Client, req kmsg.Request) func() kmsg.Response {
	version := req.GetVersion()
	now := func(answer kmsg.Response) func() kmsg.Response {
		answer.SetVersion(version)
		return func() kmsg.Response { return answer }
	}
	switch r := req.(type) {
	case *kmsg.JoinGroupRequest:
		w := newWaiter[*kmsg.JoinGroupResponse](version)
		b.join(&joinRequest{JoinGroupRequest: r, client: client, wait: w})
		return waitFor(b.t, version, w)
	case *kmsg.SyncGroupRequest:
		w := newWaiter[*kmsg.SyncGroupResponse](version)
		b.sync(r, w)
		return waitFor(b.t, version, w)
	case *kmsg.HeartbeatRequest:
		return now(b.Heartbeat(r))
	case *kmsg.LeaveGroupRequest:
		return now(b.LeaveGroup(version, r))
	case *kmsg.OffsetCommitRequest:
		return now(b.offsetCommit(r))
	case *kmsg.OffsetFetchRequest:
		return now(b.offsetFetch(r))
	case *kmsg.OffsetDeleteRequest:
		return now(b.OffsetDelete(r))
	case *kmsg.DescribeGroupsRequest:
		answer := b.DescribeGroups(r)
		for i := range answer.Groups {
			if r.IncludeAuthorizedOperations {
				answer.Groups[i].AuthorizedOperations = 3400
			}
		}
		return now(answer)
	case *kmsg.ListGroupsRequest:
		return now(b.ListGroups(r))
	case *kmsg.DeleteGroupsRequest:
		return now(b.DeleteGroups(r))
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return now(b.ConsumerGroupHeartbeat(client, r))
	case *kmsg.ConsumerGroupDescribeRequest:
		answer := b.ConsumerGroupDescribe(r)
		for i := range answer.Groups {
			if r.IncludeAuthorizedOperations && answer.Groups[i].ErrorCode == 0 {
				answer.Groups[i].AuthorizedOperations = 3400
			}
		}
		return now(answer)
	case *kmsg.DeleteTopicsRequest:
		for _, name := range r.TopicNames {
			b.deleteTopic(name)
		}
		return now(kmsg.NewPtrDeleteTopicsResponse())
	default:
		b.t.Fatalf("no handler for %T", req)
		return nil
	}
}

func waitFor[T kmsg.Response](tb testing.TB, version int16, w *waiter[T]) func() kmsg.Response {
	tb.Helper()
	return func() kmsg.Response {
		select {
		case answer := <-w.ch:
			answer.SetVersion(version)
			return answer
		case <-time.After(30 * time.Second):
			tb.Fatal("a call was not answered")
			return nil
		}
	}
}

// offsetCommit does the handler's part: names of topics, partitions that aren't there.
func (b *goldenBroker) offsetCommit(r *kmsg.OffsetCommitRequest) kmsg.Response {
	asked := *r
	asked.Topics = nil
	codes := map[string]protocol.ErrorCode{}
	place := func(topic *kmsg.OffsetCommitRequestTopic, p int32) string {
		return fmt.Sprint(topic.Topic, topic.TopicID, p)
	}
	for i := range r.Topics {
		topic := r.Topics[i]
		known := b.view.Load().Named(topic.Topic)
		missing := protocol.UnknownTopicOrPartition
		if r.Version >= 10 {
			known, missing = b.view.Load().WithID(topic.TopicID), protocol.UnknownTopicID
		}
		kept := topic
		kept.Partitions = nil
		for _, p := range topic.Partitions {
			switch {
			case known == nil:
				codes[place(&topic, p.Partition)] = missing
			case p.Partition < 0 || p.Partition >= known.Partitions:
				codes[place(&topic, p.Partition)] = protocol.UnknownTopicOrPartition
			default:
				kept.Topic = known.Name
				kept.Partitions = append(kept.Partitions, p)
			}
		}
		if len(kept.Partitions) > 0 {
			asked.Topics = append(asked.Topics, kept)
		}
	}
	var answer *kmsg.OffsetCommitResponse
	if len(asked.Topics) > 0 {
		answer = b.OffsetCommit(&asked)
	} else {
		answer = kmsg.NewPtrOffsetCommitResponse()
	}
	for i := range r.Topics {
		for _, p := range r.Topics[i].Partitions {
			code, bad := codes[place(&r.Topics[i], p.Partition)]
			if !bad {
				continue
			}
			topic := kmsg.OffsetCommitResponseTopic{Topic: r.Topics[i].Topic, TopicID: r.Topics[i].TopicID}
			topic.Partitions = []kmsg.OffsetCommitResponseTopicPartition{{Partition: p.Partition, ErrorCode: int16(code)}}
			answer.Topics = append(answer.Topics, topic)
		}
	}
	return mergeCommit(answer)
}

// mergeCommit brings the partitions of a topic together, in order.
func mergeCommit(answer *kmsg.OffsetCommitResponse) *kmsg.OffsetCommitResponse {
	merged := kmsg.NewPtrOffsetCommitResponse()
	for _, topic := range answer.Topics {
		last := len(merged.Topics) - 1
		if last >= 0 && merged.Topics[last].Topic == topic.Topic && merged.Topics[last].TopicID == topic.TopicID {
			merged.Topics[last].Partitions = append(merged.Topics[last].Partitions, topic.Partitions...)
			continue
		}
		merged.Topics = append(merged.Topics, topic)
	}
	return merged
}

// offsetFetch does the handler's part: names of topics.
func (b *goldenBroker) offsetFetch(r *kmsg.OffsetFetchRequest) kmsg.Response {
	if r.Version < 10 {
		return b.OffsetFetch(r)
	}
	for i := range r.Groups {
		for j := range r.Groups[i].Topics {
			topic := &r.Groups[i].Topics[j]
			topic.Topic = "?" + uuidText(topic.TopicID)
			if known := b.view.Load().WithID(topic.TopicID); known != nil {
				topic.Topic = known.Name
			}
		}
	}
	answer := b.OffsetFetch(r)
	for i := range answer.Groups {
		for j := range answer.Groups[i].Topics {
			topic := &answer.Groups[i].Topics[j]
			if known := b.view.Load().Named(topic.Topic); known != nil {
				topic.TopicID = known.ID
				continue
			}
			for k := range topic.Partitions {
				topic.Partitions[k].ErrorCode = int16(protocol.UnknownTopicID)
			}
		}
	}
	return answer
}

// fillRequest decodes the case's body and sends it through the encoding of its version.
func (b *goldenBroker) fillRequest(req kmsg.Request, step *goldenStep) {
	b.t.Helper()
	defaultsOf(reflect.ValueOf(req))
	var body any
	if len(step.Body) > 0 {
		d := json.NewDecoder(strings.NewReader(string(step.Body)))
		d.UseNumber()
		if err := d.Decode(&body); err != nil {
			b.t.Fatal(err)
		}
	}
	if body != nil {
		b.fill(reflect.ValueOf(req).Elem(), body)
	}
	req.SetVersion(step.Version)
	wire := req.AppendTo(nil)
	if err := req.ReadFrom(wire); err != nil {
		b.t.Fatalf("%s v%d: %v", step.API, step.Version, err)
	}
}

func (b *goldenBroker) fill(to reflect.Value, from any) {
	if s, ok := from.(string); ok {
		from = b.expand(s)
	}
	switch to.Kind() {
	case reflect.Pointer:
		if from != nil {
			to.Set(reflect.New(to.Type().Elem()))
			b.fill(to.Elem(), from)
		}
	case reflect.Struct:
		for name, v := range from.(map[string]any) {
			b.fill(to.FieldByName(name), v)
		}
	case reflect.Slice:
		if to.Type().Elem().Kind() == reflect.Uint8 {
			to.SetBytes(unescapeBytes(from.(string)))
			return
		}
		list, ok := from.([]any)
		if !ok {
			return
		}
		to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
		for i, v := range list {
			defaultsOf(to.Index(i).Addr())
			b.fill(to.Index(i), v)
		}
	case reflect.Array:
		id, err := base64.RawURLEncoding.DecodeString(from.(string))
		if err != nil {
			b.t.Fatal(err)
		}
		reflect.Copy(to, reflect.ValueOf(id))
	case reflect.String:
		to.SetString(from.(string))
	case reflect.Bool:
		to.SetBool(from.(bool))
	default:
		n, err := strconv.ParseInt(fmt.Sprint(from), 10, 64)
		if err != nil {
			b.t.Fatal(err)
		}
		to.SetInt(n)
	}
}

func defaultsOf(v reflect.Value) {
	if d, ok := v.Interface().(interface{ Default() }); ok {
		d.Default()
	}
}

var variable = regexp.MustCompile(`\$\{[^}]*\}`)

// expand puts in the case's variables.
func (b *goldenBroker) expand(s string) string {
	return variable.ReplaceAllStringFunc(s, func(v string) string {
		name := v[2 : len(v)-1]
		if name == "p" {
			return b.prefix
		}
		if value, ok := b.vars[name]; ok {
			return value
		}
		if strings.HasPrefix(name, "new:") {
			var id [16]byte
			for i := range id {
				id[i] = byte(b.random.Uint64())
			}
			id[0] &= 0x7f
			b.names.define(name, uuidText(id), "id")
			return uuidText(id)
		}
		if rest, ok := strings.CutPrefix(name, "repeat:"); ok {
			count, what, _ := strings.Cut(rest, ":")
			n, err := strconv.Atoi(count)
			if err != nil {
				b.t.Fatal(err)
			}
			return strings.Repeat(what, n)
		}
		base, plus, _ := strings.Cut(name, "+")
		value, err := strconv.Atoi(b.vars[base])
		more, moreErr := strconv.Atoi(plus)
		if err != nil || moreErr != nil {
			b.t.Fatalf("unknown variable %s", v)
		}
		return strconv.Itoa(value + more)
	})
}

// reached says whether the answer is what the step waits for.
func (b *goldenBroker) reached(step *goldenStep, tree any) bool {
	if code, ok := follow(tree, "ErrorCode"); ok && fmt.Sprint(code) != "0" && len(step.Until) > 0 {
		_, asked := step.Until["ErrorCode"]
		if !asked {
			return true
		}
	}
	for path, raw := range step.Until {
		var want any
		if err := json.Unmarshal(raw, &want); err != nil {
			b.t.Fatal(err)
		}
		got, ok := follow(tree, path)
		if !ok || fmt.Sprint(got) != b.expand(fmt.Sprint(want)) {
			return false
		}
	}
	return true
}

// filter keeps the entries of a list that belong to the case.
func (b *goldenBroker) filter(tree any, spec string) {
	spec, values, exact := strings.Cut(spec, "=")
	list, field, _ := strings.Cut(spec, ".")
	root := tree.(map[string]any)
	kept := []any{}
	for _, e := range root[list].([]any) {
		s := fmt.Sprint(e.(map[string]any)[field])
		if exact && s == values || !exact && strings.HasPrefix(s, b.prefix) {
			kept = append(kept, e)
		}
	}
	root[list] = kept
}

// compare holds what was recorded against the answer, whose fields are those on the wire or more.
func (b *goldenBroker) compare(t *testing.T, at string, want, got any) {
	t.Helper()
	named := b.names.of(b.last, "", got, want)
	if diff := differ(want, named); diff != "" {
		w, _ := json.Marshal(want)
		g, _ := json.Marshal(named)
		t.Errorf("%s: %s\nwant %s\ngot  %s", at, diff, w, g)
	}
}

// differ says where two trees differ. Lists may be in any order.
func differ(want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("want an object, got %v", got)
		}
		for name, v := range w {
			if name == "ErrorMessage" && v != nil && g[name] != nil {
				continue
			}
			if diff := differ(v, g[name]); diff != "" {
				return name + ": " + diff
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			return fmt.Sprintf("want %v, got %v", want, got)
		}
		left := append([]any(nil), g...)
	next:
		for _, v := range w {
			for i := range left {
				if differ(v, left[i]) == "" {
					left = append(left[:i], left[i+1:]...)
					continue next
				}
			}
			return fmt.Sprintf("missing %v in %v", v, left)
		}
		return ""
	default:
		if want == "${any}" || fmt.Sprint(want) == fmt.Sprint(got) {
			return ""
		}
		return fmt.Sprintf("want %v, got %v", want, got)
	}
}

// naming replaces what differs from run to run by placeholders, the same for the same value throughout a case.
type naming struct {
	vars   map[string]string
	prefix string
	by     map[string]string // value to variable
	seen   map[string]string // value to placeholder
	count  map[string]int
}

var uuid36 = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// define sets a variable, whose value is known again wherever it occurs.
func (n *naming) define(name, value, kind string) {
	n.vars[name] = value
	key := value
	if kind == "epoch" {
		key = "epoch " + value
	} else if u := uuid36.FindString(value); u != "" {
		key = u
	} else if len(value) < 16 {
		return
	}
	if _, known := n.by[key]; !known {
		n.by[key] = name
	}
}

func (n *naming) identity(kind, value string) string {
	for _, key := range []string{kind + " " + value, value} {
		if name, known := n.by[key]; known {
			return "${" + name + "}"
		}
	}
	key := kind + " " + value
	if n.seen[key] == "" {
		n.count[kind]++
		n.seen[key] = fmt.Sprintf("${%s#%d}", kind, n.count[kind])
	}
	return n.seen[key]
}

// of names the values of a tree. Only the fields that are wanted count.
func (n *naming) of(api, path string, v, want any) any {
	switch x := v.(type) {
	case map[string]any:
		w, _ := want.(map[string]any)
		out := map[string]any{}
		for _, name := range sortedKeys(x) {
			if field, wanted := w[name]; wanted {
				out[name] = n.of(api, join(path, name), x[name], field)
			}
		}
		return out
	case []any:
		w, _ := want.([]any)
		out := make([]any, len(x))
		for i := range x {
			var element any
			if len(w) > 0 {
				element = w[min(i, len(w)-1)]
			}
			out[i] = n.of(api, path, x[i], element)
		}
		return out
	case string:
		return n.text(path, x)
	case json.Number:
		if strings.HasPrefix(api, "ConsumerGroup") && strings.HasSuffix(path, "Epoch") && x != "0" && x[0] != '-' {
			return n.identity("epoch", string(x))
		}
	}
	return v
}

func (n *naming) text(path, s string) string {
	s = strings.ReplaceAll(s, n.prefix, "${p}")
	switch {
	case strings.HasSuffix(path, "TopicID") && s != uuidText([16]byte{}):
		return n.identity("id", s)
	case strings.HasSuffix(path, "MemberID") && len(s) == 22:
		return n.identity("member", s)
	}
	for value, name := range n.by {
		if len(value) >= 16 {
			s = strings.ReplaceAll(s, value, "${"+name+"}")
		}
	}
	return uuid36.ReplaceAllStringFunc(s, func(u string) string { return n.identity("uuid", u) })
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	// Epochs of a group come before those of its members.
	for i := range keys {
		for j := i + 1; j < len(keys); j++ {
			if keys[j] < keys[i] {
				keys[i], keys[j] = keys[j], keys[i]
			}
		}
	}
	return keys
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// onWire sends an answer through its encoding.
func onWire(tb testing.TB, answer kmsg.Response) kmsg.Response {
	tb.Helper()
	read := kmsg.ResponseForKey(answer.Key())
	read.SetVersion(answer.GetVersion())
	if err := read.ReadFrom(answer.AppendTo(nil)); err != nil {
		tb.Fatalf("%T v%d can't be read: %v", answer, answer.GetVersion(), err)
	}
	return read
}

// treeOf turns an answer into JSON's types.
func treeOf(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return treeOf(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			if _, tags := v.Field(i).Interface().(kmsg.Tags); !tags {
				out[v.Type().Field(i).Name] = treeOf(v.Field(i))
			}
		}
		return out
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return escapeBytes(v.Bytes())
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = treeOf(v.Index(i))
		}
		return list
	case reflect.Array:
		var id [16]byte
		reflect.Copy(reflect.ValueOf(&id).Elem(), v)
		return uuidText(id)
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	default:
		return json.Number(strconv.FormatInt(v.Int(), 10))
	}
}

func uuidText(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func escapeBytes(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		switch {
		case c == '\\':
			s.WriteString(`\\`)
		case c < 0x20 || c > 0x7e:
			fmt.Fprintf(&s, `\x%02x`, c)
		default:
			s.WriteByte(c)
		}
	}
	return s.String()
}

var escaped = regexp.MustCompile(`\\(\\|x[0-9a-f]{2})`)

func unescapeBytes(s string) []byte {
	return []byte(escaped.ReplaceAllStringFunc(s, func(e string) string {
		if e == `\\` {
			return `\`
		}
		c, err := strconv.ParseUint(e[2:], 16, 8)
		if err != nil {
			return e
		}
		return string([]byte{byte(c)})
	}))
}

// follow finds a value by a path such as Topics.0.ErrorCode.
func follow(tree any, path string) (any, bool) {
	for _, part := range strings.Split(path, ".") {
		switch t := tree.(type) {
		case map[string]any:
			tree = t[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(t) {
				return nil, false
			}
			tree = t[i]
		default:
			return nil, false
		}
	}
	return tree, true
}

// drop takes a field out of a tree, in all elements of the lists on the way.
func drop(tree any, path []string) {
	switch t := tree.(type) {
	case []any:
		for _, e := range t {
			drop(e, path)
		}
	case map[string]any:
		if len(path) == 1 {
			delete(t, path[0])
			return
		}
		drop(t[path[0]], path[1:])
	}
}
