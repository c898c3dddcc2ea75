package protocol

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrBody is returned when a request's body can't be decoded.
var ErrBody = errors.New("malformed request body")

// DecodeBody decodes the body of a request whose version has been set and is one that its API accepts. Strings are copied;
// bytes, such as records, alias the body. It takes and refuses what Kafka does: bytes after the body are ignored, any bool
// but 0 is true, null is a fault where the schema has no null. Decoding takes at most about 24 times the body's size in
// memory, plus a few hundred KiB: see maxUnknownTags. Errors wrap [ErrBody].
func DecodeBody(req kmsg.Request, body []byte) error {
	key, version := req.Key(), req.GetVersion()
	if a, ok := Lookup(key); !ok || !a.Accepts(version) {
		return fmt.Errorf("%w: key %d has no version %d", ErrBody, key, version)
	}
	if err := checkBody(key, version, body); err != nil {
		return err
	}
	if err := req.ReadFrom(body); err != nil {
		return fmt.Errorf("%w: key %d version %d: %w", ErrBody, key, version, err)
	}
	return nil
}
