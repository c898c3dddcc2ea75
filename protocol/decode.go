package protocol

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrBody is returned when a request's body can't be decoded.
var ErrBody = errors.New("malformed request body")

// DecodeBody decodes the body of a request whose version has been set. Strings are copied; bytes, such as records, alias
// the body. As for Kafka, bytes after the body are ignored and any bool but 0 is true. Errors wrap [ErrBody].
func DecodeBody(req kmsg.Request, body []byte) error {
	if err := req.ReadFrom(body); err != nil {
		return fmt.Errorf("%w: key %d version %d: %w", ErrBody, req.Key(), req.GetVersion(), err)
	}
	return nil
}
