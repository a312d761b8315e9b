package benchtests

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/h1"
)

// The measurements of the client in this file compare it, interleaved in one run, with
// what a careful author would write with the standard library: net/http, a line scanner
// and encoding/json into a struct with all fields. Each prints a line "perf: …" with its
// ratio: the median of perfRounds rounds, the lowest and the highest.

const perfRounds = 5

// perfOnly skips what takes seconds and an idle machine.
func perfOnly(t *testing.T) {
	t.Helper()
	if os.Getenv("PERF") != "1" {
		t.Skip("a measurement, which needs an idle machine: PERF=1 runs it")
	}
}

// A spread is what rounds gave: median, lowest and highest.
type spread struct{ median, low, high float64 }

func spreadOf(rounds []float64) spread {
	rounds = slices.Sorted(slices.Values(rounds))
	return spread{rounds[len(rounds)/2], rounds[0], rounds[len(rounds)-1]}
}

func (s spread) String() string { return fmt.Sprintf("%.4g [%.4g..%.4g]", s.median, s.low, s.high) }

// printRatio prints a row: the ratios of ours to theirs, of the same rounds.
func printRatio(row, unit string, ours, theirs, ratio []float64) {
	fmt.Printf("perf: %s: ratio %v, ours %v %s, theirs %v %s\n", row, spreadOf(ratio), spreadOf(ours), unit, spreadOf(theirs), unit)
}

// rawServer answers each request of a connection by write, which costs as little as a
// server can. It returns the base URL.
func rawServer(t *testing.T, config *tls.Config, write func(w io.Writer)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	scheme := "http"
	if config != nil {
		l, scheme = tls.NewListener(l, config), "https"
	}
	var conns sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, req.Body); err != nil {
						return
					}
					write(c)
				}
			})
		}
	})
	return scheme + "://" + l.Addr().String()
}

const (
	perfTokens = 128 // of a stream
	perfBatch  = 64  // events a write

	streamHeader = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// tokenChunk is an event of 258 bytes, as vLLM sends it, in an HTTP chunk of its own.
// Its text is a number of 20 digits.
func tokenChunk(n int64) string {
	event := fmt.Sprintf(`data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk","created":1790000000,"model":"meta-llama/Llama-3.1-8B","choices":[{"index":0,"delta":{"content":"%020d"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`+"\n\n", n)
	return fmt.Sprintf("%x\r\n%s\r\n", len(event), event)
}

// stampedChunk writes digits of n into a token's chunk, and returns it. It is what a
// server does between looking at the clock and writing, and takes no time to speak of.
func stampedChunk(chunk []byte, digits int, n int64) []byte {
	for i := 19; i >= 0; i-- {
		chunk[digits+i] = '0' + byte(n%10)
		n /= 10
	}
	return chunk
}

// lastChunks end a stream: finish reason, usage, mark and end of body.
func lastChunks(tokens int) string {
	var b strings.Builder
	for _, data := range []string{
		`{"id":"c","choices":[{"index":0,"delta":{"content":""},"finish_reason":"length"}]}`,
		fmt.Sprintf(`{"id":"c","choices":[],"usage":{"prompt_tokens":7,"total_tokens":%d,"completion_tokens":%d}}`, 7+tokens, tokens),
		"[DONE]",
	} {
		fmt.Fprintf(&b, "%x\r\ndata: %s\n\n\r\n", len(data)+8, data)
	}
	return b.String() + "0\r\n\r\n"
}

// A streamer reads one stream, checks that it was whole, and returns the times of its
// tokens and what they said.
type streamer func(t testing.TB, tokens int) (at []time.Time, text string)

// selfKnowledge sums up what exchanges say of how they were read.
type selfKnowledge struct{ reads, stamped, merged atomic.Int64 }

func (k *selfKnowledge) String() string {
	share := func(n *atomic.Int64) float64 { return 100 * float64(n.Load()) / float64(max(1, k.reads.Load())) }
	return fmt.Sprintf("%.2f %% of the reads with the kernel's stamp, %.2f %% with more than one event", share(&k.stamped), share(&k.merged))
}

func ours(c *client.Client, k *selfKnowledge) streamer {
	req, err := api.NewChat("m", []api.Message{{Role: "user", Content: "hi"}}, api.Generation{MaxTokens: perfTokens, Stream: true})
	if err != nil {
		panic(err)
	}
	return func(t testing.TB, tokens int) ([]time.Time, string) {
		ex := c.Do(t.Context(), req)
		if !ex.OK || ex.Events.V != tokens || ex.OutputTokens.V != int64(tokens) || len(ex.ITL) != tokens-1 {
			t.Errorf("%+v", ex)
			return nil, ""
		}
		k.reads.Add(int64(ex.Reads))
		k.stamped.Add(int64(ex.KernelStamps))
		k.merged.Add(int64(ex.MergedReads))
		if c.DiscardText {
			return nil, ""
		}
		at := []time.Time{ex.Sent.Add(ex.TTFT.V)}
		for _, gap := range ex.ITL {
			at = append(at, at[len(at)-1].Add(gap))
		}
		return at, ex.Text
	}
}

// aChunk has all fields of an event.
type aChunk struct {
	ID                string `json:"id"`
	Object            string `json:"object"`
	Created           int64  `json:"created"`
	Model             string `json:"model"`
	SystemFingerprint string `json:"system_fingerprint"`
	Choices           []struct {
		Index int `json:"index"`
		Delta struct {
			Role             string `json:"role"`
			Content          string `json:"content"`
			ReasoningContent string `json:"reasoning_content"`
		} `json:"delta"`
		Logprobs     *struct{} `json:"logprobs"`
		FinishReason *string   `json:"finish_reason"`
		StopReason   any       `json:"stop_reason"`
		TokenIDs     []int     `json:"token_ids"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		TotalTokens      int64 `json:"total_tokens"`
	} `json:"usage"`
}

func theirs(c *http.Client, url string, keep bool) streamer {
	return func(t testing.TB, tokens int) (at []time.Time, text string) {
		resp, err := c.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`))
		if err != nil {
			t.Error(err)
			return nil, ""
		}
		defer resp.Body.Close()
		var (
			whole, done bool
			b           strings.Builder
		)
		at = make([]time.Time, 0, tokens)
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			now := time.Now()
			data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if !ok {
				continue
			}
			if string(data) == "[DONE]" {
				done = true
				continue
			}
			var c aChunk
			if err := json.Unmarshal(data, &c); err != nil {
				t.Error(err)
				return nil, ""
			}
			if c.Usage != nil {
				whole = c.Usage.CompletionTokens == int64(tokens)
			}
			if len(c.Choices) > 0 && c.Choices[0].Delta.Content != "" {
				at = append(at, now)
				if keep {
					b.WriteString(c.Choices[0].Delta.Content)
				}
			}
		}
		if !whole || !done || len(at) != tokens {
			t.Error("the stream was not whole:", lines.Err(), whole, done, len(at))
			return nil, ""
		}
		return at, b.String()
	}
}

func stdlib(conns int, config *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: conns, TLSClientConfig: config}}
}

// saturate lets workers do something as often as they can for a while, and returns how
// often they did it in a second.
func saturate(workers int, d time.Duration, do func()) float64 {
	var wg sync.WaitGroup
	counts := make([]int, workers)
	start := time.Now()
	for i := range workers {
		wg.Go(func() {
			for time.Since(start) < d {
				do()
				counts[i]++
			}
		})
	}
	wg.Wait()
	n := 0
	for _, c := range counts {
		n += c
	}
	return float64(n) / time.Since(start).Seconds()
}

// compare interleaves two contestants, each for a while, after a round that does not
// count, and prints the ratio of their rates.
func compare(row, unit string, workers int, factor float64, ours, theirs func()) {
	const d = 400 * time.Millisecond
	var a, b, ratio []float64
	for round := range perfRounds + 1 {
		x := saturate(workers, d, ours) * factor
		y := saturate(workers, d, theirs) * factor
		if round > 0 {
			a, b, ratio = append(a, x), append(b, y), append(ratio, x/y)
		}
	}
	printRatio(row, unit, a, b, ratio)
}

// Events a second of one client that has nothing to wait for, beside net/http and
// encoding/json. The server is in this process, and its writes cost both the same.
func TestPerfStreamEvents(t *testing.T) {
	perfOnly(t)
	const workers = 64
	for _, secure := range []bool{false, true} {
		var batches [][]byte
		for i := 0; i < perfTokens; i += perfBatch {
			var b strings.Builder
			if i == 0 {
				b.WriteString(streamHeader)
			}
			for k := range perfBatch {
				b.WriteString(tokenChunk(int64(i + k)))
			}
			if i+perfBatch == perfTokens {
				b.WriteString(lastChunks(perfTokens))
			}
			batches = append(batches, []byte(b.String()))
		}
		serverTLS, clientTLS, row := (*tls.Config)(nil), (*tls.Config)(nil), "events/s, 64 a write, to net/http + encoding/json"
		if secure {
			serverTLS, clientTLS = certificates(t)
			row += ", TLS"
		}
		url := rawServer(t, serverTLS, func(w io.Writer) {
			for _, b := range batches {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		})
		c := &client.Client{BaseURL: url, DiscardText: true, Transport: &h1.Transport{TLS: clientTLS}}
		plain := stdlib(workers, clientTLS)
		a, b := ours(c, &selfKnowledge{}), theirs(plain, url, false)
		compare(row, "events/s", workers, perfTokens, func() { a(t, perfTokens) }, func() { b(t, perfTokens) })
		c.CloseIdleConnections()
		plain.CloseIdleConnections()
	}
}

// certificates are the settings of a TLS server and of a client that trusts it.
func certificates(t *testing.T) (server, trusting *tls.Config) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	server = srv.TLS.Clone()
	server.NextProtos = nil
	return server, srv.Client().Transport.(*http.Transport).TLSClientConfig
}

// How far the times of tokens are from the server's own stamps, which the tokens are,
// beside net/http and encoding/json: 20 ms to the first, 5 ms between others.
func TestPerfStreamLag(t *testing.T) {
	perfOnly(t)
	const tokens = 64
	base := time.Now()
	url := rawServer(t, nil, func(w io.Writer) {
		start := time.Now()
		chunk := []byte(tokenChunk(0))
		digits := bytes.Index(chunk, []byte(`"content":"`)) + len(`"content":"`)
		_, _ = io.WriteString(w, streamHeader)
		for i := range tokens {
			time.Sleep(time.Until(start.Add(20*time.Millisecond + time.Duration(i)*5*time.Millisecond)))
			if _, err := w.Write(stampedChunk(chunk, digits, int64(time.Since(base)))); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, lastChunks(tokens))
	})
	for _, streams := range []int{64, 512} {
		c := &client.Client{BaseURL: url}
		plain := stdlib(streams, nil)
		var known selfKnowledge
		measure := func(s streamer) (lag, itl []float64) {
			var (
				mu sync.Mutex
				wg sync.WaitGroup
			)
			for range streams {
				wg.Go(func() {
					at, text := s(t, tokens)
					if at == nil {
						return
					}
					late := make([]float64, len(at))
					for i := range at {
						sent, _ := strconv.ParseInt(text[20*i:20*i+20], 10, 64)
						late[i] = float64(at[i].Sub(base.Add(time.Duration(sent))).Nanoseconds()) / 1e3
					}
					mu.Lock()
					defer mu.Unlock()
					lag = append(lag, late...)
					for i := 1; i < len(late); i++ {
						itl = append(itl, max(late[i]-late[i-1], late[i-1]-late[i]))
					}
				})
			}
			wg.Wait()
			slices.Sort(lag)
			slices.Sort(itl)
			return lag, itl
		}
		var lag50, lag99, itl50, itl99, theirs50, theirs99, ratio []float64
		for round := range perfRounds + 1 {
			lag, itl := measure(ours(c, &known))
			other, _ := measure(theirs(plain, url, true))
			if round == 0 || t.Failed() {
				continue // connections are made
			}
			lag50, lag99 = append(lag50, quantile(lag, 50)), append(lag99, quantile(lag, 99))
			itl50, itl99 = append(itl50, quantile(itl, 50)), append(itl99, quantile(itl, 99))
			theirs50, theirs99 = append(theirs50, quantile(other, 50)), append(theirs99, quantile(other, 99))
			ratio = append(ratio, quantile(other, 99)/quantile(lag, 99))
			require.GreaterOrEqual(t, lag[0], -20.0, "nothing arrives before it was sent")
		}
		c.CloseIdleConnections()
		plain.CloseIdleConnections()
		if t.Failed() {
			return
		}
		row := fmt.Sprintf("%d streams x 200 tok/s, ", streams)
		fmt.Printf("perf: %sp99 lag, net/http + encoding/json to ours: ratio %v, ours %v us, theirs %v us\n", row, spreadOf(ratio), spreadOf(lag99), spreadOf(theirs99))
		fmt.Printf("perf: %slag p50: ours %v us, theirs %v us\n", row, spreadOf(lag50), spreadOf(theirs50))
		fmt.Printf("perf: %sours: %v\n", row, &known)
		fmt.Printf("perf: %sITL error: p50 %v us, p99 %v us\n", row, spreadOf(itl50), spreadOf(itl99))
	}
}

func quantile(sorted []float64, percent int) float64 {
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

// Requests a second for answers that are no streams: vectors in JSON and raw bytes.
func TestPerfPlainAnswers(t *testing.T) {
	perfOnly(t)
	const workers = 64
	numbers := make([]string, 1024)
	for i := range numbers {
		numbers[i] = fmt.Sprintf("%.5f", float64(i*7919%1024)/1024-0.5)
	}
	vectors := `{"id":"embd-1","object":"list","created":1790000000,"model":"m","data":[{"index":0,"object":"embedding","embedding":[` +
		strings.Join(numbers, ",") + `]}],"usage":{"prompt_tokens":7,"total_tokens":7,"completion_tokens":0,"prompt_tokens_details":null}}`
	floats := []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(vectors), vectors))
	raw := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
		strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", 4096, strings.Repeat("x", 4096)), 16) + "0\r\n\r\n")

	for _, c := range []struct {
		row, encoding string
		answer        []byte
		read          func(body io.Reader) bool
	}{
		{"embeddings of 8.9 KB, requests/s, to net/http + encoding/json", "", floats, func(body io.Reader) bool {
			var answer struct {
				Data []struct {
					Embedding []float32 `json:"embedding"`
				} `json:"data"`
				Usage struct {
					PromptTokens int64 `json:"prompt_tokens"`
				} `json:"usage"`
			}
			return json.NewDecoder(body).Decode(&answer) == nil && answer.Usage.PromptTokens == 7
		}},
		{"embeddings of 8.9 KB, requests/s, to net/http that only reads", "", floats, func(body io.Reader) bool {
			n, err := io.Copy(io.Discard, body)
			return err == nil && n == int64(len(vectors))
		}},
		{"bytes_only of 64 KB, requests/s, to net/http that only reads", api.BytesOnly, raw, func(body io.Reader) bool {
			n, err := io.Copy(io.Discard, body)
			return err == nil && n == 64<<10
		}},
	} {
		url := rawServer(t, nil, func(w io.Writer) { _, _ = w.Write(c.answer) })
		req, err := api.NewEmbeddings("m", []string{"hi"}, c.encoding, "")
		require.NoError(t, err)
		mine := &client.Client{BaseURL: url}
		plain := stdlib(workers, nil)
		compare(c.row, "req/s", workers, 1, func() {
			if ex := mine.Do(t.Context(), req); !ex.OK || c.encoding == "" && ex.Dim.V != len(numbers) {
				t.Errorf("%+v", ex)
			}
		}, func() {
			resp, err := plain.Post(url+"/v1/embeddings", "application/json", bytes.NewReader(req.Body))
			if err != nil {
				t.Error(err)
				return
			}
			if !c.read(resp.Body) {
				t.Error("a wrong answer")
			}
			resp.Body.Close()
		})
		mine.CloseIdleConnections()
		plain.CloseIdleConnections()
	}
}
