package load

import (
	"context"

	"example.com/tokpace/pkg/client"
)

type observerKey struct{}

// Observe is ctx for loads whose every exchange f shall see, when it has ended
// and before the load counts it or Done delivers it: those of a warm-up too, and
// those that Limits.Duration cut off, which nobody else sees. It takes the place of
// an f before.
//
// f is called by many goroutines at once. A closed loop sends its next request when
// f has returned.
func Observe(ctx context.Context, f func(*client.Exchange)) context.Context {
	return context.WithValue(ctx, observerKey{}, f)
}

// observer is the f of ctx, or one that does nothing.
func observer(ctx context.Context) func(*client.Exchange) {
	if f, ok := ctx.Value(observerKey{}).(func(*client.Exchange)); ok {
		return f
	}
	return func(*client.Exchange) {}
}
