// Package protocol is the bottom room of the broker: what is true of the Kafka wire protocol whoever handles a request.
//
// It owns the table of API keys with the versions this broker serves ([APIs]), the request and response headers, the
// error codes, and the two values that cross between the server, which moves frames, and the handlers, which answer
// them: [Request] and [Response]. Bodies are encoded and decoded by kmsg; the one exception is Fetch's answer, which is
// framed here so that record bytes go from the file to the socket without passing through an encoder.
//
// Nothing in this package does I/O.
package protocol
