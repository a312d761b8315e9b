package client_test

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/client"
)

// Thousands of streams that wait for their first byte, or with a header for their first
// event, hold little: goroutine, stack, request and connection (with both ends of it,
// and what the server's end is here), and no buffer of any size.
func TestMemoryOfWaitingStreams(t *testing.T) {
	noLeaks(t)
	if raceEnabled {
		t.Skip("the race detector's memory is not ours")
	}
	const streams, limit = 2000, 20 << 10
	for name, answer := range map[string]string{"first byte": "", "first event": streamHead} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			var (
				conns  []net.Conn
				served = make(chan struct{})
				asked  = make(chan struct{}, streams)
			)
			go func() { // answers what came with a header or not at all
				defer close(served)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					conns = append(conns, c)
					if answer != "" {
						_, _ = c.Write([]byte(answer))
					}
					asked <- struct{}{}
				}
			}()
			c := &client.Client{BaseURL: "http://" + l.Addr().String(), DiscardText: true}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			before := memory()
			var wg sync.WaitGroup
			for range streams {
				req := chatRequest(t)
				wg.Go(func() {
					if ex := c.Do(ctx, req); ex.Error == nil || ex.Error.Class != "canceled" {
						t.Error(ex.Error)
					}
				})
			}
			for range streams {
				<-asked
			}
			// They come to rest when the last of them waits.
			least := memory() - before
			require.Eventually(t, func() bool {
				now := memory() - before
				settled := now > least*99/100 && now < least*101/100
				least = now
				return settled
			}, 30*time.Second, 10*time.Millisecond)
			t.Logf("%d bytes a stream", least/streams)
			require.Less(t, least/streams, int64(limit))
			cancel()
			wg.Wait()
			l.Close()
			<-served
			for _, c := range conns {
				c.Close()
			}
			c.CloseIdleConnections()
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
