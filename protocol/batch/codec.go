package batch

// Codec is a compression of a batch's records, as in the attributes.
type Codec uint8

// The codecs of the record format.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)
