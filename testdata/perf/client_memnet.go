package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"example.com/tokpace/pkg/h1"
	"example.com/tokpace/pkg/memnet"
)

// memnetClient has a server of net/http and a client of pkg/h1 in one process, over memory or over loopback TCP.
type memnetClient struct {
	TCP bool
	For time.Duration // of each part
}

type memnetResult struct {
	RoundTrip float64 // nanoseconds of a small request
	EventCPU  float64 // nanoseconds of both ends, for an event of a stream
}

func (s *memnetClient) role() string { return "memnet" }

const memnetEvents = 256

func (s *memnetClient) run() error {
	event := []byte(plainEventHead + " word" + plainEventTail)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if r.URL.Path != "/stream" {
			_, _ = w.Write(event)
			return
		}
		for range memnetEvents {
			_, _ = w.Write(event)
			w.(http.Flusher).Flush()
		}
	})
	transport := &h1.Transport{}
	var l net.Listener
	url := "http://fake.invalid"
	if s.TCP {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		url = "http://" + l.Addr().String()
	} else {
		m := memnet.Listen()
		transport.Dial = m.DialContext
		l = m
	}
	srv := &http.Server{Handler: handler}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	body := bytes.Repeat([]byte("x"), 226)
	buf := make([]byte, 16<<10)
	once := func(path string) error {
		resp, err := transport.RoundTrip(must(http.NewRequest(http.MethodPost, url+path, bytes.NewReader(body))))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		n := 0
		for err == nil {
			var m int
			m, err = resp.Body.Read(buf)
			n += m
		}
		if err != io.EOF || path == "/stream" && n != memnetEvents*len(event) {
			return fmt.Errorf("%d bytes, %w", n, err)
		}
		return nil
	}
	repeat := func(path string, d time.Duration) (n int, err error) {
		for start := time.Now(); err == nil && time.Since(start) < d; n++ {
			err = once(path)
		}
		return n, err
	}
	if _, err := repeat("/", s.For/8); err != nil {
		return err
	}
	start := time.Now()
	n, err := repeat("/", s.For)
	if err != nil {
		return err
	}
	trip := float64(time.Since(start)) / float64(n)
	before, err := processorTime()
	if err != nil {
		return err
	}
	if n, err = repeat("/stream", s.For); err != nil {
		return err
	}
	after, err := processorTime()
	if err != nil {
		return err
	}
	return result(memnetResult{trip, float64(after-before) / float64(n*memnetEvents)})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
