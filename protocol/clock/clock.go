// Package clock is the one way to ask for the time. The broker's real clock is made by the root package; tests use
// [Manual], which moves only when told to, or run under testing/synctest with the real one.
package clock

import "time"

// Clock tells the time and runs functions later. Concurrent calls are allowed.
type Clock interface {
	// Now is the wall clock, with a monotonic reading where the implementation has one.
	Now() time.Time
	// AfterFunc calls f on its own goroutine once d has passed, unless the timer is stopped before.
	AfterFunc(d time.Duration, f func()) Timer
	// NewTimer makes a timer that sends the time on its channel once d has passed.
	NewTimer(d time.Duration) Timer
}

// Timer is a pending call or send. Concurrent calls are allowed.
type Timer interface {
	// C is the channel of a timer made by NewTimer; nil for one made by AfterFunc.
	C() <-chan time.Time
	// Stop prevents the timer from firing and says whether it did so.
	Stop() bool
	// Reset makes the timer fire after d from now and says whether it was pending.
	Reset(d time.Duration) bool
}

// UnixMilli is the clock's time in milliseconds since the Unix epoch, the unit of the protocol.
func UnixMilli(c Clock) int64 { return c.Now().UnixMilli() }
