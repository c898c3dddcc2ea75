package kbroker

import (
	"time"

	"github.com/kbroker/kbroker/protocol/clock"
)

// systemClock asks the operating system. It is the one place in the product that does.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return systemTimer{time.AfterFunc(d, f)}
}

func (systemClock) NewTimer(d time.Duration) clock.Timer { return systemTimer{time.NewTimer(d)} }

// systemTimer is a timer of the runtime.
type systemTimer struct{ *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.Timer.C }
