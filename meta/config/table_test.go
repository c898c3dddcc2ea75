package config_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/meta/config"
)

// recorded is what Apache Kafka 4.4.0 describes of itself: testdata/described.json.
type recorded struct {
	Type      int8
	ReadOnly  bool
	Sensitive bool
	Default   *string
}

func recordedKeys(t *testing.T) map[string]map[string]recorded {
	t.Helper()
	b, err := os.ReadFile("testdata/described.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]recorded
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTableDescribesTheKeysThatKafkaDescribes(t *testing.T) {
	t.Parallel()
	table := config.NewTable()
	for scope, keys := range map[config.Scope]map[string]recorded{
		config.BrokerScope:        recordedKeys(t)["broker"],
		config.TopicScope:         recordedKeys(t)["topic"],
		config.GroupScope:         recordedKeys(t)["group"],
		config.ClientMetricsScope: recordedKeys(t)["client-metrics"],
	} {
		if len(keys) == 0 {
			t.Fatalf("no recording of %v keys", scope)
		}
		for _, k := range table.Keys(scope) {
			if _, ok := keys[k.Name]; !ok && !k.Own && !k.Hidden {
				t.Errorf("%v key %s isn't Kafka's", scope, k.Name)
			}
		}
		for name, want := range keys {
			k := table.Key(scope, name)
			if k == nil || k.Own || k.Hidden {
				t.Errorf("%v key %s isn't described", scope, name)
				continue
			}
			checkKey(t, scope, k, want)
		}
	}
}

func checkKey(t *testing.T, scope config.Scope, k *config.Key, want recorded) {
	t.Helper()
	if int8(k.Type) != want.Type {
		t.Errorf("%s is a %v, want type %d", k.Name, k.Type, want.Type)
	}
	if scope == config.BrokerScope && (k.Mode == config.ReadOnly) != want.ReadOnly {
		t.Errorf("%s: read-only is %t", k.Name, !want.ReadOnly)
	}
	if k.Sensitive() != want.Sensitive {
		t.Errorf("%s: sensitive is %t", k.Name, !want.Sensitive)
	}
	if want.Default != nil && (k.Default != *want.Default || k.Null) {
		t.Errorf("%s: default is %q (null %t), want %q", k.Name, k.Default, k.Null, *want.Default)
	}
	if want.Default == nil && !k.Null {
		t.Errorf("%s: default is %q, want none", k.Name, k.Default)
	}
}

func TestEveryKeyHasATextAndAValidDefaultAndPreset(t *testing.T) {
	t.Parallel()
	table := config.NewTable()
	for _, scope := range []config.Scope{config.BrokerScope, config.TopicScope, config.GroupScope, config.ClientMetricsScope} {
		for _, k := range table.Keys(scope) {
			if !strings.HasSuffix(k.Doc, ".") || strings.ContainsAny(k.Doc, "|\n<") {
				t.Errorf("%s: text %q", k.Name, k.Doc)
			}
			if got, err := k.Parse(k.Default); !k.Null && (err != nil || got != k.Default) {
				t.Errorf("%s: default %q is written %q: %v", k.Name, k.Default, got, err)
			}
			if _, err := k.Parse(k.Preset); k.Preset != "" && err != nil {
				t.Errorf("%s: preset: %v", k.Name, err)
			}
			if scope != config.BrokerScope && k.Follows != "" && k.Follows != k.Name && table.Key(config.BrokerScope, k.Follows) == nil {
				t.Errorf("%s follows %s, which isn't a key", k.Name, k.Follows)
			}
		}
	}
}

// The getters panic on a key that isn't in the table; this finds such a mistake without running the line.
func TestSourceAsksForKeysOfTheTableByTheirType(t *testing.T) {
	t.Parallel()
	table := config.NewTable()
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil //nolint:nilerr // the compiler says it better
		}
		ast.Inspect(file, func(n ast.Node) bool {
			getter, name := asksFor(n)
			if name == "" {
				return true
			}
			found++
			if !answers(table, getter, name) {
				t.Errorf("%s: %s(%q) isn't a key of that type", path, getter, name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no key is asked for")
	}
}

// asksFor recognizes x.Int("some.key") and the like.
func asksFor(n ast.Node) (getter, name string) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", ""
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	lit, ok := call.Args[0].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", ""
	}
	name, err := strconv.Unquote(lit.Value)
	if err != nil || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.") != "" || !strings.Contains(name, ".") {
		return "", ""
	}
	switch method.Sel.Name {
	case "Int", "Int64", "Bool", "Float", "Duration":
		return method.Sel.Name, name
	default:
		return "", ""
	}
}

func answers(table *config.Table, getter, name string) bool {
	k := table.Key(config.BrokerScope, name)
	if k == nil {
		k = table.Key(config.GroupScope, name)
	}
	if k == nil {
		return false
	}
	switch getter {
	case "Bool":
		return k.Type == config.Boolean
	case "Float":
		return k.Type == config.Double
	case "Int":
		return k.Type == config.Int || k.Type == config.Short
	default:
		return k.Type == config.Int || k.Type == config.Short || k.Type == config.Long
	}
}
