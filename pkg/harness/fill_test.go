package harness

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/fakeserver"
)

// The requests that fill the pools are those of the target, answered soon.
func TestHurried(t *testing.T) {
	const now = "headers=0s;ttft=0s;itl=0s;piece-delay=0s"
	for plan, want := range map[string]string{
		"":                             now,
		"usage=off":                    "usage=off;" + now,
		"ttft=250ms; usage=off;itl=1s": " usage=off;" + now,
	} {
		header := http.Header{"X-Tenant": {"a"}}
		if plan != "" {
			header.Set(fakeserver.PlanHeader, plan)
		}
		got := hurried(header, "0s")
		require.Equal(t, want, got.Get(fakeserver.PlanHeader))
		require.Equal(t, "a", got.Get("X-Tenant"))
		require.Equal(t, plan, header.Get(fakeserver.PlanHeader), "the target's own header is as it was")
	}
	require.Equal(t, now, hurried(nil, "0s").Get(fakeserver.PlanHeader))
}
