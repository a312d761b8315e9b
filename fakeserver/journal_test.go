package fakeserver

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/tokpace/pkg/memnet"
	"github.com/stretchr/testify/require"
)

func TestJournal(t *testing.T) {
	noLeaks(t)
	virtual(t, Config{TTFT: 10 * ms, ITL: 10 * ms}, func(t *testing.T, s *Server, c *http.Client) {
		image := `{"model":"tokpace-fake","max_tokens":3,"stream":true,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + pngURL(t, 512, 512) + `"}}]}]}`
		start := time.Now()
		res := post(t, c, s.URL+chat, image, "Authorization", "Bearer secret")
		time.Sleep(25 * ms)
		synctest.Wait()
		running := s.Journal()[0]
		require.Equal(t, Running, running.End)
		require.Len(t, running.Events, 3, "role and two tokens")
		_, err := io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		res.Body.Close()
		post(t, c, s.URL+"/v1/completions", `{"model":"m","prompt":"a"}`).Body.Close()
		synctest.Wait()

		records := s.Journal()
		require.Len(t, records, 2)
		r := records[0]
		require.Equal(t, 0, r.Index)
		require.Equal(t, "POST", r.Method)
		require.Equal(t, chat, r.Endpoint)
		require.Equal(t, "tokpace-fake", r.Model)
		require.Equal(t, []string{"Accept-Encoding", "Authorization", "Content-Length", "User-Agent"}, r.Header)
		require.Equal(t, start, r.Arrived)
		require.Equal(t, 200, r.Status)
		require.Equal(t, 19+324+2, r.InputTokens)
		require.Equal(t, 324, r.ImageTokens)
		require.Equal(t, 3, r.OutputTokens)
		require.Equal(t, Complete, r.End)
		require.Equal(t, 30*ms, r.Ended)
		require.Len(t, r.Events, 5)
		require.Equal(t, 5, r.Planned)
		require.Equal(t, 1, records[1].Index)
		require.Equal(t, 404, records[1].Status)
		require.Equal(t, "m", records[1].Model)

		s.Reset()
		require.Empty(t, s.Journal())
		post(t, c, s.URL+"/v1/completions", `{"prompt":"a"}`).Body.Close()
		require.Equal(t, 0, s.Journal()[0].Index)
	})
}

func TestJournalIsBounded(t *testing.T) {
	noLeaks(t)
	var j journal
	for range journalRecords + 10 {
		j.begin(Record{}, 1).end(Complete, 0)
	}
	records := j.snapshot()
	require.Len(t, records, journalRecords)
	require.Equal(t, 10, records[0].Index)

	j.begin(Record{}, journalStamps-5)
	require.Len(t, j.snapshot(), 6, "the large one and the last five")
	j.begin(Record{}, journalStamps+5)
	require.Len(t, j.snapshot(), 1)
}

// A client that goes away while it still sends is in the journal too.
func TestUnfinishedRequest(t *testing.T) {
	noLeaks(t)
	virtual(t, Config{}, func(t *testing.T, s *Server, c *http.Client) {
		body, feed := io.Pipe()
		go func() {
			io.WriteString(feed, `{"prompt":`)
			feed.CloseWithError(io.ErrUnexpectedEOF)
		}()
		_, err := c.Post(s.URL+"/v1/completions", "application/json", body)
		require.Error(t, err)
		synctest.Wait()
		r := s.Journal()[0]
		require.Equal(t, Disconnected, r.End)
		require.Zero(t, r.Status)
	})
}

func TestCloseEndsEverything(t *testing.T) {
	noLeaks(t)
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s, err := New(Config{TTFT: time.Minute})
		require.NoError(t, err)
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		tr := &http.Transport{DialContext: l.DialContext}
		c := &http.Client{Transport: tr}
		s.URL = "http://fake"
		fetch(t, c, s.URL+"/tokenize", `{"prompt":"a"}`) // leaves an idle connection

		res := post(t, c, s.URL+chat, userMessage("a", `,"stream":true`))
		plain := make(chan error, 1)
		go func() {
			_, err := c.Post(s.URL+"/v1/embeddings", "application/json", strings.NewReader(`{"input":"a"}`))
			plain <- err
		}()
		synctest.Wait()
		start := time.Now()
		require.NoError(t, s.Close())
		require.Zero(t, time.Since(start))
		require.NoError(t, <-served)
		require.Error(t, <-plain)
		_, err = io.ReadAll(res.Body)
		require.Error(t, err)
		records := s.Journal()
		require.Equal(t, Complete, records[0].End)
		require.Equal(t, Canceled, records[1].End)
		require.Equal(t, Canceled, records[2].End)
		require.Equal(t, time.Duration(-1), records[2].Headers.Actual)
		require.NoError(t, s.Close(), "twice")
		tr.CloseIdleConnections()
	})
}

func TestShutdownLetsRequestsEnd(t *testing.T) {
	noLeaks(t)
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s, err := New(Config{TTFT: time.Minute, OutputTokens: 1})
		require.NoError(t, err)
		defer s.Close()
		go s.Serve(l)
		tr := &http.Transport{DialContext: l.DialContext}
		defer tr.CloseIdleConnections()
		c := &http.Client{Transport: tr}
		done := make(chan string, 1)
		go func() {
			_, body := fetch(t, c, "http://fake"+chat, userMessage("a", `,"stream":true`))
			done <- body
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
		require.NoError(t, s.Shutdown(t.Context()))
		require.Len(t, chunks(t, <-done), 2)
		require.Equal(t, Complete, s.Journal()[0].End)
	})
}

// Plans can be edited: cut in the middle, hanging, with another status.
func TestEdit(t *testing.T) {
	noLeaks(t)
	edit := func(r Request, p *Plan) {
		switch r.Path {
		case "/v1/completions":
			p.Events, p.End = p.Events[:2], EndCut
		case "/v1/embeddings":
			p.Events[0].Data = p.Events[0].Data[:10]
			p.End = EndHang
		case chat:
			*p = Plan{Status: 429, Header: http.Header{"Retry-After": {"3"}}, ContentLength: -1, Events: []Event{{At: 5 * ms, Data: []byte("busy")}}}
		}
	}
	virtual(t, Config{Edit: edit}, func(t *testing.T, s *Server, c *http.Client) {
		res := post(t, c, s.URL+"/v1/completions", `{"prompt":"a","stream":true}`)
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, 2, strings.Count(string(body), "data: "))

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/embeddings", strings.NewReader(`{"input":"a"}`))
		require.NoError(t, err)
		start := time.Now()
		res, err = c.Do(req)
		require.NoError(t, err)
		body, err = io.ReadAll(res.Body)
		res.Body.Close()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, body, 10)
		require.Equal(t, time.Hour, time.Since(start))

		res, text := fetch(t, c, s.URL+chat, userMessage("a", ""))
		require.Equal(t, 429, res.StatusCode)
		require.Equal(t, "3", res.Header.Get("Retry-After"))
		require.Equal(t, "busy", text)
		synctest.Wait()
		records := s.Journal()
		require.Equal(t, []string{Cut, Disconnected, Complete}, []string{records[0].End, records[1].End, records[2].End})
	})
}

// Start serves real TCP and ends with its test.
func TestStart(t *testing.T) {
	noLeaks(t)
	var s *Server
	t.Run("use", func(t *testing.T) {
		s = Start(t, Config{Model: "m"})
		res, err := s.Client().Get(s.URL + "/v1/models")
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		res.Body.Close()
		model := dig(obj(t, string(body)), "data", 0)
		require.Equal(t, "m", dig(model, "id"))
		require.Equal(t, "m", dig(model, "root"))
		require.Equal(t, Owner, dig(model, "owned_by"))
		require.EqualValues(t, 32768, dig(model, "max_model_len"))
		res, err = s.Client().Head(s.URL + "/health")
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, 200, res.StatusCode)
	})
	_, err := s.Client().Get(s.URL + "/health")
	require.Error(t, err)
}

// The handler serves inside another server as well, and Close does not wait for that one's requests.
func TestHandlerInAnotherServer(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{TTFT: time.Hour})
	other := httptest.NewServer(s.Handler())
	defer other.Close()
	res := post(t, other.Client(), other.URL+chat, userMessage("a", `,"stream":true`))
	require.NoError(t, s.Close())
	require.Equal(t, Running, s.Journal()[0].End)
	res.Body.Close()
	other.CloseClientConnections()
}
