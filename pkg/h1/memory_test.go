package h1

import (
	"context"
	"net"
	"net/http/httptrace"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/memnet"
)

// Requests that wait for the first byte of their answer hold little: goroutine,
// stack and connection, on sockets with both ends of it, and no read buffer.
func TestMemoryOfWaitingStreams(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's memory is not ours")
	}
	const streams, limit = 2000, 20 << 10
	for _, network := range []string{"tcp", "memnet"} {
		t.Run(network, func(t *testing.T) {
			var l net.Listener
			tr := &Transport{}
			url := memURL
			if network == "tcp" {
				l, url = listen(t, network)
			} else {
				m := memnet.Listen()
				l, tr.Dial = m, m.DialContext
			}
			before := memory()
			var (
				conns []net.Conn
				ended = make(chan struct{})
				wrote atomic.Int64
				wg    sync.WaitGroup
			)
			go func() { // accepts, and does nothing else
				defer close(ended)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					conns = append(conns, c)
				}
			}()
			ctx, cancel := context.WithCancel(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				WroteRequest: func(httptrace.WroteRequestInfo) { wrote.Add(1) },
			}))
			defer cancel()
			for range streams {
				wg.Go(func() {
					req := newRequest(t, "POST", url, `{"stream":true}`).WithContext(ctx)
					if _, err := tr.RoundTrip(req); err != context.Canceled {
						t.Error(err)
					}
				})
			}
			require.Eventually(t, func() bool { return wrote.Load() == streams }, 30*time.Second, time.Millisecond)
			each := (memory() - before) / streams
			t.Logf("%d bytes a stream", each)
			require.Less(t, each, int64(limit))
			cancel()
			wg.Wait()
			l.Close()
			<-ended
			for _, c := range conns {
				c.Close()
			}
		})
	}
}

// memory is what the heap and the stacks hold, in bytes.
func memory() int64 {
	runtime.GC()
	runtime.GC() // empties the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
