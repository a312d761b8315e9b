package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

func TestCaseH36RerankTotalTokens(t *testing.T) {
	noLeaks(t)
	req, err := api.NewRerank("m", "q", []string{"a", "b", "c"})
	require.NoError(t, err)
	for name, usage := range map[string]string{
		"total only":       `{"total_tokens":57}`,
		"prompt of 0":      `{"prompt_tokens":0,"total_tokens":57}`,
		"no completion":    `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":57}`,
		"prompt and total": `{"prompt_tokens":57,"total_tokens":57}`,
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"id":"r","model":"m","usage":` + usage + `,"results":[{"index":2,"document":{"text":"c"},"relevance_score":0.9},{"index":0,"relevance_score":0.2},{"index":1,"relevance_score":0.1}]}`
			play(t, req, want{e2e: 40, in: "57 server", check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
				require.Equal(t, api.Some(3), ex.Results)
			}}, plain(40, 200, jsonType, body))
		})
	}
}

const octets = "Content-Type: application/octet-stream\r\n"

func metadata(end int) string {
	return fmt.Sprintf(`metadata: {"id":"e","created":1,"model":"m","data":[{"index":0,"embed_dtype":"float32","endianness":"little","start":0,"end":8,"shape":[2]},{"index":1,"embed_dtype":"float32","endianness":"little","start":8,"end":%d,"shape":[2]}],"usage":{"prompt_tokens":6,"total_tokens":6}}`, end) + "\r\n"
}

func TestCaseH38BinaryVectors(t *testing.T) {
	noLeaks(t)
	body := strings.Repeat("\x00", 16)
	request := func(encoding string) *api.Request {
		req, err := api.NewEmbeddings("m", []string{"a", "b"}, encoding, "float32")
		require.NoError(t, err)
		return req
	}
	t.Run("bytes", func(t *testing.T) {
		play(t, request(api.Bytes), want{e2e: 40, in: "6 server", check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
			require.Equal(t, api.Some(2), ex.Vectors)
			require.Equal(t, api.Some(2), ex.Dim)
			require.Equal(t, api.Some[int64](16), ex.BodyBytes)
		}}, plain(40, 200, octets+metadata(16), body))
	})
	t.Run("bytes_only", func(t *testing.T) {
		play(t, request(api.BytesOnly), want{e2e: 40}, plain(40, 200, octets, body))
	})
	t.Run("bytes_only with a client's count", func(t *testing.T) {
		req := request(api.BytesOnly)
		req.InputTokens = api.Some[int64](2)
		play(t, req, want{e2e: 40, in: "2 client"}, plain(40, 200, octets, body))
	})
	t.Run("metadata beyond the body", func(t *testing.T) {
		play(t, request(api.Bytes), want{class: api.Malformed}, plain(40, 200, octets+metadata(24), body))
	})
	t.Run("slow body", func(t *testing.T) {
		sc := script{steps: []step{at(0, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", octets, "\r\n")}}
		for k := 1; k <= 4; k++ {
			sc.steps = append(sc.steps, at(50*k, httpChunk("1234")))
		}
		sc.steps = append(sc.steps, at(250, "0\r\n\r\n"))
		play(t, request(api.BytesOnly), want{e2e: 250, check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
			require.Less(t, ex.Headers.V, 50*time.Millisecond)
		}}, sc)
	})
	t.Run("JSON where bytes were asked for", func(t *testing.T) {
		play(t, request(api.Bytes), want{e2e: 40, in: "6 server", check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
			require.Len(t, ex.Warnings, 1)
		}}, plain(40, 200, jsonType, `{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[3,4]}],"usage":{"prompt_tokens":6}}`))
	})
}

func TestCaseH40VectorsOfNull(t *testing.T) {
	noLeaks(t)
	req, err := api.NewEmbeddings("m", []string{"a"}, "", "")
	require.NoError(t, err)
	for elements, words := range map[string]string{"null,null,null": "non-numeric vector element", "1,NaN,2": "not valid JSON"} {
		t.Run(elements, func(t *testing.T) {
			play(t, req, want{class: api.Malformed, check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
				require.Contains(t, ex.Error.Message, words)
			}}, plain(40, 200, jsonType, `{"data":[{"index":0,"embedding":[`+elements+`]}],"usage":{"prompt_tokens":2}}`))
		})
	}
}
