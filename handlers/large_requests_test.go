package handlers

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestLargeRequestsTakeNoMoreThanTheirLength has requests of a few MB, which take minutes where the work grows with their square.
func TestLargeRequestsTakeNoMoreThanTheirLength(t *testing.T) {
	t.Parallel()
	names := make([]string, 300_000)
	for i := range names {
		names[i] = "x" + strconv.Itoa(100_000+i)
	}
	list := strings.Join(names, ",")
	for name, work := range map[string]func(*testing.T){
		"states of transactions": func(t *testing.T) {
			q := kmsg.NewPtrListTransactionsRequest()
			q.StateFilters = append(names, names...)
			a := ask(newControl(t), q, kmsg.NewPtrListTransactionsResponse())
			if len(a.UnknownStateFilters) != len(names) {
				t.Errorf("%d unknown", len(a.UnknownStateFilters))
			}
		},
		"items that are added": func(t *testing.T) {
			o := configOp{op: kmsg.IncrementalAlterConfigOpAppend, value: &list}
			if got := o.change([]string{names[1], "b", ""}); len(got) != len(names)+1 || got[1] != "b" {
				t.Errorf("%d items", len(got))
			}
		},
		"items that are taken out": func(t *testing.T) {
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
