package handlers

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestLargeRequestsTakeNoMoreThanTheirLength gives work of a few MB, which takes minutes where it grows with the square.
func TestLargeRequestsTakeNoMoreThanTheirLength(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 300_000 {
		names = append(names, "x"+strconv.Itoa(100_000+i))
	}
	list := strings.Join(names, ",")
	for name, work := range map[string]func(*testing.T){
		"states of transactions": func(t *testing.T) {
			t.Helper()
			q := kmsg.NewPtrListTransactionsRequest()
			q.StateFilters = slices.Concat(names, names)
			a := ask(newControl(t), q, kmsg.NewPtrListTransactionsResponse())
			if len(a.UnknownStateFilters) != len(names) {
				t.Errorf("%d unknown", len(a.UnknownStateFilters))
			}
		},
		"items that are added": func(t *testing.T) {
			t.Helper()
			o := configOp{op: kmsg.IncrementalAlterConfigOpAppend, value: &list}
			if got := o.change([]string{names[1], "b", ""}); len(got) != len(names)+1 || got[1] != "b" {
				t.Errorf("%d items", len(got))
			}
		},
		"items that are taken out": func(t *testing.T) {
			t.Helper()
			o := configOp{op: kmsg.IncrementalAlterConfigOpSubtract, value: &list}
			if got := o.change(append([]string{"b"}, names...)); len(got) != 1 || got[0] != "b" {
				t.Errorf("%d items", len(got))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			work(t)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}
