package virtual_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/virtual"
)

const (
	ttft = 137 * time.Millisecond
	itl  = 7 * time.Millisecond
)

var config = fakeserver.Config{TTFT: ttft, ITL: itl, Headers: 3 * time.Millisecond, PromptTokensDetails: true}

// request builds the first request of a dataset for the fake server.
func request(t *testing.T, d dataset.Dataset) *api.Request {
	t.Helper()
	src, err := d.Source(dataset.Env{Model: "tokpace-fake", IgnoreEOS: true})
	require.NoError(t, err)
	req, err := src.Request(0)
	require.NoError(t, err)
	return req
}

func known[T any](v T) api.Opt[T] { return api.Some(v) }

func TestStreams(t *testing.T) {
	for name, c := range map[string]struct {
		data  dataset.Dataset
		input int64
		image api.Opt[int64]
	}{
		"chat":        {dataset.Chat{Input: 512, Output: 50, Stream: true}, 512 + 19, api.Opt[int64]{}},
		"chat image":  {dataset.Chat{Input: 512, Output: 50, Stream: true, Images: 1, Width: 1024, Height: 800}, 1606, known[int64](1073)},
		"completions": {dataset.Completion{Input: 512, Output: 50, Stream: true}, 512, api.Opt[int64]{}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual.Run(t, config, func(t *testing.T, c2 *client.Client) {
				ex := c2.Do(t.Context(), request(t, c.data))
				require.True(t, ex.OK, "%v", ex.Error)
				require.Equal(t, known(3*time.Millisecond), ex.Headers)
				require.Equal(t, known(ttft), ex.TTFT)
				require.Equal(t, known(ttft), ex.FirstAnswer)
				require.Len(t, ex.ITL, 49)
				for _, gap := range ex.ITL {
					require.Equal(t, itl, gap)
				}
				require.Equal(t, known(ttft+49*itl), ex.E2E)
				require.Equal(t, known(ttft+49*itl), ex.BodyComplete)
				require.Equal(t, known(itl), ex.TPOT)
				require.Equal(t, known(c.input), ex.InputTokens)
				require.Equal(t, client.FromServer, ex.InputSource)
				require.Equal(t, known[int64](50), ex.OutputTokens)
				require.Equal(t, c.image, ex.ImageTokens)
				require.Equal(t, known(50), ex.Events)
				require.Equal(t, "length", ex.FinishReason)
				require.Empty(t, ex.Warnings)
			})
		})
	}
}

func TestPlainAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		data    dataset.Dataset
		e2e     time.Duration
		in      int64
		out     api.Opt[int64]
		results api.Opt[int]
		vectors api.Opt[int]
		source  string
	}{
		"chat":             {data: dataset.Chat{Input: 64, Output: 10}, e2e: ttft + 9*itl, in: 64 + 19, out: known[int64](10)},
		"completions":      {data: dataset.Completion{Input: 64, Output: 10}, e2e: ttft + 9*itl, in: 64, out: known[int64](10)},
		"embeddings":       {data: dataset.Embeddings{Input: 64, Batch: 3}, e2e: ttft, in: 192, vectors: known(3)},
		"embeddings bytes": {data: dataset.Embeddings{Input: 64, Batch: 3, Encoding: api.Bytes, DType: "float16"}, e2e: ttft, in: 192, vectors: known(3)},
		"embeddings bytes_only": {data: dataset.Embeddings{Input: 64, Batch: 3, Encoding: api.BytesOnly}, e2e: ttft, in: 192,
			source: client.FromClient},
		"pooling":        {data: dataset.Pooling{Input: 64}, e2e: ttft, in: 64, vectors: known(1)},
		"pooling base64": {data: dataset.Pooling{Input: 64, Encoding: api.Base64, DType: "bfloat16"}, e2e: ttft, in: 64, vectors: known(1)},
		"rerank":         {data: dataset.Rerank{Query: 8, Documents: 5, Document: 20}, e2e: ttft, in: 140, results: known(5)},
	} {
		t.Run(name, func(t *testing.T) {
			virtual.Run(t, config, func(t *testing.T, cl *client.Client) {
				ex := cl.Do(t.Context(), request(t, c.data))
				require.True(t, ex.OK, "%v", ex.Error)
				require.Equal(t, known(c.e2e), ex.Headers)
				require.Equal(t, known(c.e2e), ex.E2E)
				require.Equal(t, known(c.e2e), ex.BodyComplete)
				require.False(t, ex.TTFT.Known || ex.TPOT.Known || ex.Events.Known)
				require.Equal(t, known(c.in), ex.InputTokens)
				if c.source == "" {
					c.source = client.FromServer
				}
				require.Equal(t, c.source, ex.InputSource)
				require.Equal(t, c.out, ex.OutputTokens)
				require.Equal(t, c.results, ex.Results)
				require.Equal(t, c.vectors, ex.Vectors)
				if c.vectors.Known {
					require.Equal(t, known(64), ex.Dim)
				}
				require.Empty(t, ex.Warnings)
			})
		})
	}
}

// Every format of both APIs, 128 requests, the body in pieces behind the
// headers: the clock stops with the last piece.
func TestSlowBodies(t *testing.T) {
	cfg := fakeserver.Config{Headers: 2 * time.Millisecond, Pieces: 5, PieceDelay: 50 * time.Millisecond}
	for _, format := range []string{api.Float, api.Base64, api.Bytes, api.BytesOnly} {
		for _, d := range []dataset.Dataset{dataset.Embeddings{Input: 16, Encoding: format}, dataset.Pooling{Input: 16, Encoding: format}} {
			t.Run(fmt.Sprintf("%s %s", d.API().Name, format), func(t *testing.T) {
				virtual.Run(t, cfg, func(t *testing.T, c *client.Client) {
					src, err := d.Source(dataset.Env{Model: "tokpace-fake"})
					require.NoError(t, err)
					run := load.Closed{N: 16}.Start(t.Context(), c.Do, src, 128)
					exchanges, elapsed, err := run.Wait()
					require.NoError(t, err)
					require.Len(t, exchanges, 128)
					require.Equal(t, 8*252*time.Millisecond, elapsed)
					for _, ex := range exchanges {
						require.True(t, ex.OK, "%v", ex.Error)
						require.Equal(t, known(2*time.Millisecond), ex.Headers)
						require.Equal(t, known(252*time.Millisecond), ex.BodyComplete)
						require.Equal(t, known[int64](16), ex.InputTokens)
						require.Equal(t, format == api.BytesOnly, ex.InputSource == client.FromClient)
					}
				})
			})
		}
	}
}

// The client's account agrees with the server's own journal.
func TestJournalAgrees(t *testing.T) {
	virtual.RunServer(t, config, func(t *testing.T, c *client.Client, srv *fakeserver.Server) {
		ex := c.Do(t.Context(), request(t, dataset.Chat{Input: 8, Output: 5, Stream: true}))
		synctest.Wait() // the handler's end
		records := srv.Journal()
		require.Len(t, records, 1)
		r := records[0]
		require.Equal(t, http.StatusOK, r.Status)
		require.Equal(t, ex.Local.String(), r.Remote)
		require.Equal(t, fakeserver.Complete, r.End)
		require.Equal(t, ex.Headers.V, r.Headers.Actual)
		require.Equal(t, ex.BodyBytes.V, r.BodyBytes)
		require.EqualValues(t, ex.InputTokens.V, r.InputTokens)
		require.EqualValues(t, ex.OutputTokens.V, r.OutputTokens)
		for _, e := range r.Events {
			require.Equal(t, e.Planned, e.Actual)
		}
		require.Equal(t, ex.BodyComplete.V, r.Events[len(r.Events)-1].Actual)
	})
}

func TestManyStreams(t *testing.T) {
	n := 1000
	if raceEnabled {
		n = 16
	}
	virtual.Run(t, config, func(t *testing.T, c *client.Client) {
		src, err := dataset.Chat{Input: 8, Output: 50, Stream: true}.Source(dataset.Env{Model: "tokpace-fake", IgnoreEOS: true})
		require.NoError(t, err)
		exchanges, elapsed, err := load.Closed{N: n}.Start(t.Context(), c.Do, src, n).Wait()
		require.NoError(t, err)
		require.Equal(t, ttft+49*itl, elapsed)
		for _, ex := range exchanges {
			require.True(t, ex.OK, "%v", ex.Error)
			require.Equal(t, known(ttft), ex.TTFT)
			for _, gap := range ex.ITL {
				require.Equal(t, itl, gap)
			}
		}
	})
}
