package client_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// The shortest time limit ends every exchange, and the longest none.
func TestTimeoutsAtTheirLimits(t *testing.T) {
	noLeaks(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"data":[{"embedding":[1,2,3]}],"usage":{"prompt_tokens":3}}`))
	}))
	defer srv.Close()
	req, err := api.NewEmbeddings("m", []string{"x"}, "", "")
	require.NoError(t, err)
	for _, limit := range []time.Duration{1, math.MaxInt64} {
		c := &client.Client{BaseURL: srv.URL, Timeout: limit}
		for range 2 {
			ex := c.Do(t.Context(), req)
			if limit == 1 {
				require.Equal(t, api.Timeout, ex.Error.Class)
				continue
			}
			require.True(t, ex.OK, ex.Error)
		}
		c.CloseIdleConnections()
	}
}
