package protocol

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAPIsAreSortedAndFound(t *testing.T) {
	t.Parallel()
	all := APIs()
	if len(all) != 79 {
		t.Fatalf("%d keys, want 79", len(all))
	}
	if !slices.IsSortedFunc(all, func(a, b API) int { return int(a.Key) - int(b.Key) }) {
		t.Fatal("not sorted by key")
	}
	for _, a := range all {
		if got, ok := Lookup(a.Key); !ok || got != a {
			t.Errorf("Lookup(%d) = %+v, %v", a.Key, got, ok)
		}
	}
	for _, key := range []int16{-1, -32768, 4, 52, 95, 127, 128, 1000, 32767} {
		if a, ok := Lookup(key); ok {
			t.Errorf("Lookup(%d) = %+v, want none", key, a)
		}
	}
	all[0].Name = "changed"
	if a, _ := Lookup(KeyProduce); a.Name != "Produce" {
		t.Error("APIs hands out the table itself")
	}
}

func TestAPIsAreWhatKmsgSupports(t *testing.T) {
	t.Parallel()
	for _, a := range APIs() {
		req := kmsg.RequestForKey(a.Key)
		if req == nil {
			t.Errorf("%s: not in kmsg", a.Name)
			continue
		}
		if a.Max > req.MaxVersion() || a.Min > a.Max || a.AcceptMin < a.Min || a.AcceptMin > a.Max {
			t.Errorf("%s: versions %d to %d, accepted from %d; kmsg has %d", a.Name, a.Min, a.Max, a.AcceptMin, req.MaxVersion())
		}
		for v := a.Min; v <= a.Max; v++ {
			req.SetVersion(v)
			if got := RequestHeaderFlexible(a.Key, v); got != req.IsFlexible() {
				t.Errorf("%s version %d: flexible %v, kmsg says %v", a.Name, v, got, req.IsFlexible())
			}
			resp := req.ResponseKind()
			if want := resp.IsFlexible() && a.Key != KeyApiVersions; ResponseHeaderFlexible(a.Key, v) != want {
				t.Errorf("%s version %d: flexible answer header %v, want %v", a.Name, v, !want, want)
			}
		}
	}
}

func TestVersionsThatDependOnClients(t *testing.T) {
	t.Parallel()
	tests := []struct {
		key                 int16
		minimum, max, first int16
	}{
		{KeyProduce, 0, 13, 3},
		{KeyFetch, 4, 18, 4},
		{KeyMetadata, 0, 13, 0},
		{KeyApiVersions, 0, 5, 0},
		{KeyInitProducerID, 0, 5, 0},
		{KeyShareFetch, 1, 2, 1},
	}
	for _, tt := range tests {
		a, ok := Lookup(tt.key)
		if !ok || a.Min != tt.minimum || a.Max != tt.max || a.AcceptMin != tt.first {
			t.Errorf("%+v, want %d to %d accepted from %d", a, tt.minimum, tt.max, tt.first)
		}
		if a.Accepts(tt.first-1) || !a.Accepts(tt.first) || !a.Accepts(tt.max) || a.Accepts(tt.max+1) {
			t.Errorf("%s accepts other versions than %d to %d", a.Name, tt.first, tt.max)
		}
	}
}

func TestErrorNames(t *testing.T) {
	t.Parallel()
	tests := map[ErrorCode]string{
		UnknownServerError:        "UNKNOWN_SERVER_ERROR",
		None:                      "NONE",
		UnknownTopicOrPartition:   "UNKNOWN_TOPIC_OR_PARTITION",
		UnsupportedSASLMechanism:  "UNSUPPORTED_SASL_MECHANISM",
		TransactionalIDAuthFailed: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
		MemberIDRequired:          "MEMBER_ID_REQUIRED",
		FetchSessionIDNotFound:    "FETCH_SESSION_ID_NOT_FOUND",
		RebootstrapRequired:       "REBOOTSTRAP_REQUIRED",
		ErrorCode(999):            "ERROR_999",
	}
	for code, want := range tests {
		if got := code.String(); got != want {
			t.Errorf("%d is called %s, want %s", int16(code), got, want)
		}
	}
	if got := OffsetOutOfRange.Error(); got != "OFFSET_OUT_OF_RANGE (1)" {
		t.Errorf("as an error: %q", got)
	}
	seen := map[string]ErrorCode{}
	for code, name := range errorNames {
		if other, ok := seen[name]; ok {
			t.Errorf("%d and %d are both called %s", code, other, name)
		}
		seen[name] = code
	}
}
