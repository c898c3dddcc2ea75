package protocol

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func frame(parts ...string) []byte { return []byte(strings.Join(parts, "")) }

func TestParseRequestHeader(t *testing.T) {
	t.Parallel()
	const metadata0, metadata9 = "\x00\x03\x00\x00\x00\x00\x00\x07", "\x00\x03\x00\x09\x00\x00\x00\x07"
	head := func(key, version int16, id string, null bool) RequestHeader {
		return RequestHeader{Key: key, Version: version, CorrelationID: 7, ClientID: id, ClientIDNull: null}
	}
	tests := map[string]struct {
		frame []byte
		want  RequestHeader
		body  string
	}{
		"plain":                       {frame(metadata0, "\x00\x02ab", "rest"), head(3, 0, "ab", false), "rest"},
		"empty client id":             {frame(metadata0, "\x00\x00", "rest"), head(3, 0, "", false), "rest"},
		"null client id":              {frame(metadata0, "\xff\xff", "rest"), head(3, 0, "", true), "rest"},
		"client id length below -1":   {frame(metadata0, "\xff\xfe", "rest"), head(3, 0, "", true), "rest"},
		"client id not UTF-8":         {frame(metadata0, "\x00\x02\xff\xfe", ""), head(3, 0, "\uFFFD", false), ""},
		"client id of 30000 bytes":    {frame(metadata0, "\x75\x30", strings.Repeat("c", 30000)), head(3, 0, strings.Repeat("c", 30000), false), ""},
		"flexible, no tags":           {frame(metadata9, "\x00\x01a", "\x00", "rest"), head(3, 9, "a", false), "rest"},
		"flexible, null client id":    {frame(metadata9, "\xff\xff", "\x00", "rest"), head(3, 9, "", true), "rest"},
		"unknown tags":                {frame(metadata9, "\x00\x01a", "\x02", "\x00\x01x", "\x4d\x03yyy", "rest"), head(3, 9, "a", false), "rest"},
		"the same tag twice":          {frame(metadata9, "\x00\x01a", "\x02", "\x05\x01a", "\x05\x01b", "rest"), head(3, 9, "a", false), "rest"},
		"long varints":                {frame(metadata9, "\x00\x01a", "\x81\x00", "\x85\x80\x80\x80\x00\x81\x00a", "rest"), head(3, 9, "a", false), "rest"},
		"unknown key":                 {frame("\x03\xe8\x00\x00\x00\x00\x00\x07", "\x00\x06ab"), head(1000, 0, "", true), "\x00\x06ab"},
		"negative key":                {frame("\xff\xff\x00\x00\x00\x00\x00\x07"), head(-1, 0, "", true), ""},
		"key of controllers":          {frame("\x00\x34\x00\x00\x00\x00\x00\x07", "\x7f"), head(52, 0, "", true), "\x7f"},
		"version too high":            {frame("\x00\x03\x00\x63\x00\x00\x00\x07", "\x00"), head(3, 99, "", true), "\x00"},
		"negative version":            {frame("\x00\x03\xff\xff\x00\x00\x00\x07", "\x00"), head(3, -1, "", true), "\x00"},
		"ApiVersions of the future":   {frame("\x00\x12\x7f\xff\x00\x00\x00\x07", "\x00"), head(18, 32767, "", true), "\x00"},
		"Produce that is only listed": {frame("\x00\x00\x00\x02\x00\x00\x00\x07", "\x00"), head(0, 2, "", true), "\x00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, body, err := ParseRequestHeader(tt.frame)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want || string(body) != tt.body {
				t.Errorf("got %+v, body %q; want %+v, %q", got, body, tt.want, tt.body)
			}
		})
	}
}

func TestParseRequestHeaderRefusesWhatIsCut(t *testing.T) {
	t.Parallel()
	whole := frame("\x00\x03\x00\x09\x00\x00\x00\x07", "\x00\x01a", "\x02", "\x05\x01a", "\x05\x02bc")
	for n := range whole {
		if _, _, err := ParseRequestHeader(whole[:n]); !errors.Is(err, ErrHeader) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	for name, tags := range map[string]string{
		"count without tags": "\xff\xff\xff\xff\x0f",
		"varint of 6 bytes":  "\x80\x80\x80\x80\x80\x00",
		"tag beyond the end": "\x01\x05\xff\xff\xff\xff\x0f",
	} {
		if _, _, err := ParseRequestHeader(frame("\x00\x03\x00\x09\x00\x00\x00\x07", "\x00\x01a", tags)); !errors.Is(err, ErrHeader) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseRequestHeaderCopiesTheClientID(t *testing.T) {
	t.Parallel()
	f := frame("\x00\x03\x00\x00\x00\x00\x00\x07", "\x00\x02ab", "rest")
	h, body, err := ParseRequestHeader(f)
	if err != nil {
		t.Fatal(err)
	}
	clear(f)
	if h.ClientID != "ab" {
		t.Errorf("client id %q changed with the frame", h.ClientID)
	}
	if !bytes.Equal(body, make([]byte, 4)) {
		t.Error("body doesn't share the frame's memory")
	}
}

// The header of any frame is read without a panic, and what follows it is the frame's end.
func FuzzParseRequestHeader(f *testing.F) {
	f.Add([]byte("\x00\x03\x00\x09\x00\x00\x00\x07\x00\x01a\x02\x05\x01a\x05\x01b"))
	f.Add([]byte("\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff\x00\x08kbroker\x021\x00"))
	f.Add([]byte("\x00\x00\x00\x09\x00\x00\x00\x07\x00\x06golden\x00\x0b0U"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, body, err := ParseRequestHeader(frame)
		if err != nil {
			if !errors.Is(err, ErrHeader) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if !bytes.HasSuffix(frame, body) || len(frame)-len(body) < minHeaderSize {
			t.Fatalf("body of %d bytes of a frame of %d", len(body), len(frame))
		}
		if h.ClientIDNull && h.ClientID != "" {
			t.Fatalf("null client id %q", h.ClientID)
		}
	})
}
