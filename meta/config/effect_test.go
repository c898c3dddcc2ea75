package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// The table says of each key whether anything goes by it. These tests hold it to the source: what is said to have an effect
// must be read somewhere.

// source is what the product's code reads: names of fields and methods outside this package, and keys of getters anywhere.
type source struct{ selected, asked map[string]bool }

func readSource(t *testing.T) source {
	t.Helper()
	s := source{map[string]bool{}, map[string]bool{}}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil //nolint:nilerr // the compiler says it better
		}
		own := filepath.Dir(path) == filepath.Join("..", "..", "meta", "config")
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				s.selected[n.Sel.Name] = s.selected[n.Sel.Name] || !own
			case *ast.CallExpr:
				s.addAsked(n)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// addAsked notes the key of x.Int("some.key") and the like.
func (s source) addAsked(call *ast.CallExpr) {
	method, isMethod := call.Fun.(*ast.SelectorExpr)
	if !isMethod || len(call.Args) != 1 {
		return
	}
	lit, isLit := call.Args[0].(*ast.BasicLit)
	if !isLit || lit.Kind != token.STRING || !ast.IsExported(method.Sel.Name) {
		return
	}
	if name, err := strconv.Unquote(lit.Value); err == nil {
		s.asked[name] = true
	}
}

// readsTopic says whether code outside this package reads the field of a topic key, or what is made of it for storage.
func (s source) readsTopic(b *Broker, k *Key) bool {
	var c TopicConfig
	at := reflect.ValueOf(k.field(&c))
	v, f := reflect.ValueOf(&c).Elem(), ""
	for i := range v.NumField() {
		if v.Field(i).Addr().Pointer() == at.Pointer() {
			f = v.Type().Field(i).Name
		}
	}
	for _, name := range append(methodsOf(f), f) {
		if s.selected[name] {
			return true
		}
	}
	before := reflect.ValueOf(b.Storage(c))
	change(at.Elem())
	after := reflect.ValueOf(b.Storage(c))
	for i := range before.NumField() {
		if !before.Field(i).Equal(after.Field(i)) && s.selected[before.Type().Field(i).Name] {
			return true
		}
	}
	return false
}

// methodsOf are the methods of TopicConfig that read a field.
func methodsOf(field string) []string {
	switch field {
	case "CleanupPolicy":
		return []string{"Compact", "Delete"}
	case "TimestampType":
		return []string{"LogAppendTime"}
	case "SegmentBytes", "InternalSegmentBytes":
		return []string{"SegmentSize"}
	default:
		return nil
	}
}

// change gives a field another value.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	default:
		v.Set(reflect.ValueOf([]string{"compact"}))
	}
}

func TestTopicKeysAreSaidToHaveAnEffectIfTheyAreRead(t *testing.T) {
	t.Parallel()
	s := readSource(t)
	b, err := Static(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range b.table.Keys(TopicScope) {
		switch read := s.readsTopic(b, k); {
		case read && k.NoEffect:
			t.Errorf("%s is read now: take NoEffect off its row, and off those of the broker keys behind it", k.Name)
		case !read && !k.NoEffect:
			t.Errorf("nothing reads %s: mark it NoEffect", k.Name)
		}
	}
}

func TestBrokerAndGroupKeysSaidToHaveAnEffectAreRead(t *testing.T) {
	t.Parallel()
	s := readSource(t)
	b, err := Static(nil)
	if err != nil {
		t.Fatal(err)
	}
	behind := map[string]bool{
		"broker.id": true, // is node.id
	}
	for _, k := range b.table.Keys(TopicScope) {
		if !k.NoEffect {
			for _, name := range alternatives(k.Follows) {
				behind[name] = true
			}
		}
	}
	for _, k := range b.table.Keys(GroupScope) {
		low, high := b.bounds(k.Name)
		behind[low], behind[high] = true, true
	}
	for _, k := range b.table.Keys(BrokerScope) {
		if !k.NoEffect && !s.asked[k.Name] && !behind[k.Name] {
			t.Errorf("nothing reads %s: mark it NoEffect", k.Name)
		}
	}
	for _, k := range b.table.Keys(GroupScope) {
		if !k.NoEffect && !s.asked[k.Name] {
			t.Errorf("nothing reads %s: mark it NoEffect", k.Name)
		}
	}
}
