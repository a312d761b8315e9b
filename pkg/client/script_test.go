package client_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/h1"
	"example.com/tokpace/pkg/pacer"
	"example.com/tokpace/pkg/virtual"
)

// A step is bytes that the script server writes at a time after it has read the
// whole request.
type step struct {
	at   time.Duration
	data string
}

// at makes a step at so many milliseconds.
func at(ms int, data ...string) step {
	return step{time.Duration(ms) * time.Millisecond, strings.Join(data, "")}
}

// An ending is what happens to the connection after the last step.
type ending int

const (
	keep  ending = iota // kept open for the next request
	fin                 // closed
	reset               // reset
)

// A script is one raw answer, byte by byte.
type script struct {
	steps []step
	end   ending
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// stream is a chunked event stream: the header at once, one HTTP chunk a step,
// ended properly with the last.
func stream(steps ...step) script {
	s := script{steps: []step{{0, streamHead}}}
	for _, st := range steps {
		s.steps = append(s.steps, step{st.at, httpChunk(st.data)})
	}
	last := &s.steps[len(s.steps)-1]
	last.data += "0\r\n\r\n"
	return s
}

// cut is a stream without its proper end.
func cut(end ending, steps ...step) script {
	s := stream(steps...)
	last := &s.steps[len(s.steps)-1]
	last.data = strings.TrimSuffix(last.data, "0\r\n\r\n")
	s.end = end
	return s
}

// plain is an answer with a length.
func plain(ms, status int, header, body string) script {
	return script{steps: []step{at(ms, fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: %d\r\n%s\r\n%s",
		status, http.StatusText(status), len(body), header, body))}}
}

const jsonType = "Content-Type: application/json\r\n"

func httpChunk(data string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(data), data) }

// The shorthand of the cases.
func chat(delta string) string {
	return `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n"
}
func tok(s string) string { return chat(fmt.Sprintf(`{"content":%q}`, s)) }
func ctok(s string) string {
	return fmt.Sprintf(`data: {"id":"p1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":%q,"finish_reason":null}]}`, s) + "\n\n"
}
func usage(in, out int) string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, in, out, in+out)
}
func use(in, out int) string {
	return `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":` + usage(in, out) + "}\n\n"
}
func finish(reason string) string {
	return `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\n"
}

var (
	role = chat(`{"role":"assistant","content":""}`)
	fins = finish("stop")
	done = "data: [DONE]\n\n"
)

// A scriptServer plays scripts: the k-th request gets the k-th script, the last
// one for ever. It notes when it wrote each step.
type scriptServer struct {
	scripts []script
	hold    func() // called before each answer's first step

	mu       sync.Mutex
	requests []string // bodies
	conns    int
	busy     int                         // requests that are being answered
	peak     int                         // the most that were at once
	sent     map[time.Duration]time.Time // planned -> actual, of the last answer
	open     map[net.Conn]bool
}

func (s *scriptServer) serve(l net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.closeAll()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		s.mu.Lock()
		if s.open == nil {
			s.open = map[net.Conn]bool{}
		}
		s.open[conn] = true
		s.conns++
		s.mu.Unlock()
		wg.Go(func() {
			defer conn.Close()
			s.answer(conn)
		})
	}
}

func (s *scriptServer) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
}

func (s *scriptServer) answer(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		start := time.Now()
		s.mu.Lock()
		s.requests = append(s.requests, string(body))
		sc := s.scripts[min(len(s.requests), len(s.scripts))-1]
		s.sent = map[time.Duration]time.Time{}
		s.busy++
		s.peak = max(s.peak, s.busy)
		s.mu.Unlock()
		if s.hold != nil {
			s.hold()
		}
		var p pacer.Pacer
		for i, st := range sc.steps {
			_ = p.Until(req.Context(), start.Add(st.at))
			if i == len(sc.steps)-1 {
				// Not later: with its last bytes the client may ask again.
				s.mu.Lock()
				s.busy--
				s.mu.Unlock()
			}
			// What takes long to send is sent when its last bytes are.
			tail := max(0, len(st.data)-1024)
			if _, err := io.WriteString(conn, st.data[:tail]); err != nil {
				return
			}
			s.mu.Lock()
			if _, ok := s.sent[st.at]; !ok {
				s.sent[st.at] = time.Now()
			}
			s.mu.Unlock()
			if _, err := io.WriteString(conn, st.data[tail:]); err != nil {
				return
			}
		}
		switch sc.end {
		case fin:
			return
		case reset:
			switch c := conn.(type) {
			case *net.TCPConn:
				_ = c.SetLinger(0)
			case interface{ Reset() }:
				c.Reset()
			}
			return
		}
	}
}

func (s *scriptServer) counts() (conns, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns, len(s.requests)
}

// sentAt is when the step planned for so many milliseconds was written.
func (s *scriptServer) sentAt(ms int) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.sent[time.Duration(ms)*time.Millisecond]
	return t, ok
}

// A want is what must come of an answer. Times are milliseconds.
type want struct {
	class  api.Class // "" for a success
	status int
	// events are the times of each choice's output events. E2E of an answer
	// that is no stream is e2e.
	events [][]int
	e2e    int
	took   int    // how long Do lasts, where the case says so
	in     string // "4 server", "" for unknown
	out    string
	text   string
	// bulk says that megabytes come before a step's last byte: they wait in
	// the socket's buffers, and no stamp of the script tells when that byte
	// really left, so TCP bounds no lateness.
	bulk  bool
	check func(t *testing.T, ex *client.Exchange, s *scriptServer)
}

// play sends req to a server of the scripts, through each transport, and
// compares: over memnet in virtual time, where the milliseconds must be equal, and
// over TCP, where each stamp must lie at most 25 ms behind the server's own.
func play(t *testing.T, req *api.Request, w want, scripts ...script) {
	t.Helper()
	for _, transport := range client.TransportNames() {
		t.Run(transport, func(t *testing.T) { playOn(t, transport, req, w, scripts...) })
	}
}

// playOn is play through one transport.
func playOn(t *testing.T, transport string, req *api.Request, w want, scripts ...script) {
	t.Helper()
	t.Run("virtual", func(t *testing.T) {
		s := &scriptServer{scripts: scripts}
		virtual.Serve(t, s.serve, func(t *testing.T, c *client.Client) {
			useTransport(t, c, transport)
			c.CountTokens = nil
			start := time.Now()
			ex := c.Do(t.Context(), req)
			if w.took > 0 {
				require.Equal(t, time.Duration(w.took)*time.Millisecond, time.Since(start), "time until the end")
			}
			w.compare(t, ex)
			w.equalTimes(t, ex)
			if w.check != nil {
				w.check(t, ex, s)
			}
		})
	})
	t.Run("tcp", func(t *testing.T) {
		t.Parallel()
		for try := 1; ; try++ {
			late := playTCP(t, transport, req, w, scripts)
			if late == "" {
				return
			}
			if try == 3 {
				t.Fatal(late)
			}
			t.Log(late, "- trying again")
		}
	})
}

// useTransport makes a client in virtual time use a transport.
func useTransport(t *testing.T, c *client.Client, transport string) {
	t.Helper()
	tr, err := client.NamedTransport(transport, c.Transport.(*h1.Transport).Dial)
	require.NoError(t, err)
	c.Transport = tr
}

func playTCP(t *testing.T, transport string, req *api.Request, w want, scripts []script) (late string) {
	t.Helper()
	s := &scriptServer{scripts: scripts}
	overTCP(t, transport, s, func(c *client.Client) {
		ex := c.Do(t.Context(), req)
		w.compare(t, ex)
		if w.check != nil {
			w.check(t, ex, s)
		}
		late = w.boundTimes(ex, s)
	})
	return late
}

// overTCP calls f with a client of s through a transport, over a real socket.
func overTCP(t *testing.T, transport string, s *scriptServer, f func(c *client.Client)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.serve(l)
	}()
	tr, err := client.NamedTransport(transport, nil)
	require.NoError(t, err)
	c := &client.Client{BaseURL: "http://" + l.Addr().String(), Transport: tr}
	defer func() {
		c.CloseIdleConnections()
		l.Close()
		<-served
	}()
	f(c)
}

// compare checks all but times.
func (w *want) compare(t *testing.T, ex *client.Exchange) {
	t.Helper()
	require.Equal(t, w.class == "", ex.OK, "%v", ex.Error)
	if w.class != "" {
		require.Equal(t, w.class, ex.Error.Class, "%v", ex.Error)
		require.Equal(t, w.status, ex.Error.Status)
		require.NotEmpty(t, ex.Error.Message)
		for _, d := range []client.Dur{ex.Connect, ex.Headers, ex.TTFT, ex.FirstAnswer, ex.E2E, ex.BodyComplete, ex.TPOT} {
			require.False(t, d.Known)
		}
		require.Empty(t, ex.ITL)
	}
	count := func(n api.Opt[int64], source string) string {
		if !n.Known {
			require.Empty(t, source)
			return ""
		}
		return fmt.Sprint(n.V, " ", source)
	}
	require.Equal(t, w.in, count(ex.InputTokens, ex.InputSource), "input tokens")
	require.Equal(t, w.out, count(ex.OutputTokens, ex.OutputSource), "output tokens")
	require.Equal(t, w.text, ex.Text)
	if w.class == "" && ex.Stream {
		gaps := 0
		for _, c := range w.events {
			gaps += len(c) - 1
		}
		require.Len(t, ex.ITL, gaps)
	}
}

// equalTimes demands the stated milliseconds exactly.
func (w *want) equalTimes(t *testing.T, ex *client.Exchange) {
	t.Helper()
	if !ex.OK {
		return
	}
	ms := func(n int) client.Dur { return api.Some(time.Duration(n) * time.Millisecond) }
	if !ex.Stream {
		require.Equal(t, ms(w.e2e), ex.E2E)
		require.Equal(t, ms(w.e2e), ex.BodyComplete)
		return
	}
	if len(w.events) == 0 {
		require.False(t, ex.TTFT.Known || ex.E2E.Known || ex.TPOT.Known)
		return
	}
	first, last := w.span()
	require.Equal(t, ms(first), ex.TTFT)
	require.Equal(t, ms(last), ex.E2E)
	var gaps []time.Duration
	for _, c := range w.events {
		for i := 1; i < len(c); i++ {
			gaps = append(gaps, time.Duration(c[i]-c[i-1])*time.Millisecond)
		}
	}
	require.Equal(t, gaps, ex.ITL)
}

func (w *want) span() (first, last int) {
	first = w.events[0][0]
	for _, c := range w.events {
		first, last = min(first, c[0]), max(last, c[len(c)-1])
	}
	return first, last
}

// tolerance is how far a stamp on a real socket may lie behind the server's.
const tolerance = 25 * time.Millisecond

// boundTimes compares with the server's own send stamps; it returns what was
// too late, and panics on what was too early, which no busy machine excuses.
func (w *want) boundTimes(ex *client.Exchange, s *scriptServer) (late string) {
	if !ex.OK {
		return ""
	}
	bound := func(name string, ms int, got time.Time) {
		sent, ok := s.sentAt(ms)
		if !ok {
			panic(fmt.Sprintf("%s: the script has no step at %d ms", name, ms))
		}
		if got.Before(sent) {
			panic(fmt.Sprintf("%s: stamped %v before it was sent", name, sent.Sub(got)))
		}
		if lag := got.Sub(sent); lag > tolerance && !w.bulk {
			late = fmt.Sprintf("%s came %v after it was sent", name, lag)
		}
	}
	if !ex.Stream {
		bound("E2E", w.e2e, ex.Sent.Add(ex.E2E.V))
		return late
	}
	if len(w.events) == 0 {
		return ""
	}
	first, last := w.span()
	bound("TTFT", first, ex.Sent.Add(ex.TTFT.V))
	bound("E2E", last, ex.Sent.Add(ex.E2E.V))
	if len(w.events) == 1 {
		now := ex.Sent.Add(ex.TTFT.V)
		for i, gap := range ex.ITL {
			now = now.Add(gap)
			bound(fmt.Sprint("event ", i+2), w.events[0][i+1], now)
		}
	}
	return late
}

func chatRequest(t *testing.T) *api.Request {
	t.Helper()
	req, err := api.NewChat("m", []api.Message{{Role: "user", Content: "hi"}}, api.Generation{Stream: true})
	require.NoError(t, err)
	return req
}

func completionRequest(t *testing.T) *api.Request {
	t.Helper()
	req, err := api.NewCompletion("m", "hi", api.Generation{Stream: true, MaxTokens: 100})
	require.NoError(t, err)
	return req
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func noLeaks(t *testing.T) {
	t.Helper()
	client.NoLeaks(t)
}
