package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"example.com/tokpace/pkg/pacer"
)

// pacedServer streams tokens at set times, one event a write. The text of each token is the time of its send on
// CLOCK_MONOTONIC, taken just before the write: the truth that a client's stamps are compared with.
type pacedServer struct {
	TTFT, ITL time.Duration
	Tokens    int
	TLS       bool
	Hold      bool // never answer
	// Spread is the largest random addition to each stream's TTFT, so that streams that began together do not stay
	// together.
	Spread time.Duration
}

func (s *pacedServer) role() string { return "serve-paced" }

func (s *pacedServer) run() error {
	head := chunk([]byte(streamHead), []byte(roleEvent))
	tail := append(chunk(chunk(nil, []byte(usageEvent(32, s.Tokens))), []byte(doneEvent)), lastChunk...)
	var active atomic.Int64
	url, err := serveWires(s.TLS, func(c *wire) error {
		var (
			p   pacer.Pacer
			own int64 // of active
		)
		defer func() { active.Add(-own) }()
		running := newStampedEvent(eventClose)
		last := newStampedEvent(eventLength)
		for {
			r, err := c.request()
			if err != nil {
				return err
			}
			due := time.Now().Add(s.TTFT)
			if r.isGet() {
				text := modelsAnswer
				if bytes.HasPrefix(r.head, []byte("GET /active ")) {
					n := strconv.FormatInt(active.Load(), 10)
					text = fmt.Sprintf("HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s", len(n), n)
				}
				if _, err := c.Write([]byte(text)); err != nil {
					return err
				}
				continue
			}
			own++
			active.Add(1)
			if s.Hold {
				continue
			}
			if s.Spread > 0 {
				due = due.Add(rand.N(s.Spread))
			}
			if _, err := c.Write(head); err != nil {
				return err
			}
			for i := range s.Tokens {
				if err := p.Until(context.Background(), due.Add(time.Duration(i)*s.ITL)); err != nil {
					return err
				}
				e := running
				if i == s.Tokens-1 {
					e = last
				}
				putStamp(e.stamp, clock())
				if _, err := c.Write(e.bytes); err != nil {
					return err
				}
			}
			if _, err := c.Write(tail); err != nil {
				return err
			}
			own--
			active.Add(-1)
		}
	})
	if err != nil {
		return err
	}
	return serving(url, nil)
}

// A stampedEvent is one chunk with room for a stamp.
type stampedEvent struct{ bytes, stamp []byte }

func newStampedEvent(end string) stampedEvent {
	zeros := "00000000000000000000"
	data := []byte(eventOpen + zeros + end)
	b := chunk(nil, data)
	at := len(b) - len("\r\n") - len(data) + len(eventOpen)
	return stampedEvent{b, b[at : at+stampDigits]}
}
