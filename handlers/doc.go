// Package handlers answers requests: one numbered file per API key, the dispatch table, and the only map from internal
// errors to wire codes.
//
// A request comes in through [Handlers.Dispatch]: the table finds the key and checks the version, kmsg decodes the body,
// and the key's handler answers. A handler that must wait (a Produce for its sync, a Fetch for data, a JoinGroup for the
// other members) returns a response with Later set; everything else is answered at once.
//
// Storage, metadata and the coordinators are reached through the interfaces in doors.go, which this package owns, so that
// another store can stand behind the same handlers.
package handlers
