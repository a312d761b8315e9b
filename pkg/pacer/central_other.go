//go:build !linux

package pacer

import (
	"context"
	"time"
)

// A waiter is for systems with a timerfd.
type waiter struct{}

func (*waiter) possible() bool                                      { return false }
func (*waiter) wait(context.Context, time.Time, time.Duration) bool { return false }

func giveWay() {}
