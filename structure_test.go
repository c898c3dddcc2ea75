package kbroker_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

const module = "github.com/kbroker/kbroker"

// rooms lists the packages from the bottom up. Each may import those before it, or, where only is set, just those.
func rooms() []room {
	return []room{
		{dir: "protocol", never: []string{"net", "net/http", "os", "syscall", "golang.org/x/sys/unix"}},
		{dir: "protocol/clock"},
		{dir: "protocol/batch", only: []string{}, never: []string{"os"}},
		{dir: "storage/vfs", only: []string{}},
		{dir: "storage/vfs/simdisk", only: []string{"storage/vfs"}, testsOnly: true},
		{dir: "storage/segment", only: []string{"protocol/batch", "storage/vfs"}, never: disk()},
		{dir: "storage/producer", only: []string{"protocol/batch"}, never: disk()},
		{dir: "storage/cleaner", only: []string{"protocol/batch"}, never: disk()},
		{
			dir: "storage", never: disk(),
			only: []string{
				"protocol/batch", "protocol/clock", "storage/vfs", "storage/segment", "storage/producer", "storage/cleaner",
			},
		},
		{dir: "meta/config", only: []string{"storage"}, never: []string{"net/http"}},
		{dir: "meta", never: []string{"net", "net/http"}},
		{dir: "handlers/group", only: coordinators(), never: []string{"net", "os"}},
		{dir: "handlers/txn", only: coordinators(), never: []string{"net", "os"}},
		{dir: "handlers", never: []string{"net", "net/http", "os"}},
		{dir: "handlers/server", only: []string{"protocol", "protocol/clock"}},
		{dir: "handlers/admin", only: []string{}},
		{dir: "."},
		{dir: "cmd/kbroker", only: []string{"."}},
		{dir: "conformance", only: []string{"."}},
	}
}

// disk is how code gets to files past storage/vfs.
func disk() []string { return []string{"os", "syscall", "golang.org/x/sys/unix", "net"} }

// coordinators are state machines: they know records, times and codes.
func coordinators() []string { return []string{"meta", "protocol", "protocol/clock"} }

// room is a package and what its code, tests aside, may import.
type room struct {
	dir       string
	only      []string // of this module; nil is all rooms before
	never     []string // of others
	testsOnly bool     // imported by nothing but tests
}

// source is a parsed file.
type source struct {
	path, dir string
	text      []byte
	file      *ast.File
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// sources parses the module's files; modules within it are left out.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(name, "go.mod"))
			if name != "." && (nested == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{path: name, dir: filepath.ToSlash(filepath.Dir(name)), text: text, file: file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRoomsImportOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	all := rooms()
	for _, s := range sources(t) {
		at := slices.IndexFunc(all, func(r room) bool { return r.dir == s.dir })
		if at < 0 {
			t.Errorf("%s lies in no room: give its package a place in rooms", s.path)
			continue
		}
		if s.isTest() && s.dir != "conformance" {
			continue
		}
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if why := forbidden(all, at, imported); why != "" {
				t.Errorf("%s imports %s: %s", s.path, imported, why)
			}
		}
	}
}

// forbidden says why the room at a place may not import a package, or "".
func forbidden(all []room, at int, imported string) string {
	r := all[at]
	if slices.Contains(r.never, imported) {
		return r.dir + " must never"
	}
	dir, own := strings.CutPrefix(imported, module)
	if !own {
		return ""
	}
	dir = path.Join(".", strings.TrimPrefix(dir, "/"))
	below := slices.IndexFunc(all, func(r room) bool { return r.dir == dir })
	switch {
	case below < 0:
		return "that is no room"
	case below >= at:
		return "that isn't below " + r.dir
	case all[below].testsOnly:
		return "that is for tests"
	case r.only != nil && !slices.Contains(r.only, dir):
		return fmt.Sprintf("%s may import only %v", r.dir, r.only)
	}
	return ""
}

func TestRoomsThatBreakTheRulesAreFound(t *testing.T) {
	t.Parallel()
	all := rooms()
	for _, c := range []struct {
		room, imports string
		refused       bool
	}{
		{"storage", module + "/storage/segment", false},
		{"storage", module + "/protocol", true},
		{"storage/segment", module + "/storage", true},
		{"handlers", module + "/handlers/server", true},
		{"handlers", module + "/storage/vfs/simdisk", true},
		{"storage", "os", true},
		{"meta", "os", false},
		{"cmd/kbroker", module, false},
		{"cmd/kbroker", module + "/handlers", true},
		{"conformance", module + "/protocol", true},
		{".", module + "/unknown", true},
	} {
		at := slices.IndexFunc(all, func(r room) bool { return r.dir == c.room })
		if why := forbidden(all, at, c.imports); (why != "") != c.refused {
			t.Errorf("%s imports %s: %q", c.room, c.imports, why)
		}
	}
}

func TestPackagesSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		want := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			want = "Command "
		}
		has := s.file.Doc != nil && strings.HasPrefix(s.file.Doc.Text(), want)
		documented[s.dir] = documented[s.dir] || has
	}
	for dir, has := range documented {
		if !has {
			t.Errorf("%s: no file has the package's comment", dir)
		}
	}
}

// A file that no one can hold in their head is cut in two.
func TestFilesAreNotTooLong(t *testing.T) {
	t.Parallel()
	const most = 1000
	for _, s := range sources(t) {
		if n := strings.Count(string(s.text), "\n"); n > most {
			t.Errorf("%s has %d lines, more than %d", s.path, n, most)
		}
	}
}

// What ApiVersions advertises is tried over the wire: each key in a case of its own.
func TestEveryServedKeyHasAConformanceCase(t *testing.T) {
	t.Parallel()
	var cases strings.Builder
	for _, s := range sources(t) {
		if s.dir == "conformance" && s.isTest() {
			cases.Write(s.text)
		}
	}
	table, err := os.ReadFile(filepath.Join("docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	served, _, _ := strings.Cut(string(table), "## Not served")
	for _, api := range protocol.APIs() {
		if !strings.Contains(served, fmt.Sprintf("\n| %d | %s |", api.Key, api.Name)) {
			continue
		}
		name := reflect.TypeOf(kmsg.RequestForKey(api.Key)).Elem().Name()
		if !regexp.MustCompile(`kmsg\.(New(Ptr)?)?` + name + `\b`).MatchString(cases.String()) {
			t.Errorf("no case in conformance sends a kmsg.%s", name)
		}
	}
}
