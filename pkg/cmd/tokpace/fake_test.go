package main

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/h1"
	"example.com/tokpace/pkg/memnet"

	"github.com/stretchr/testify/require"
)

// ended is what became of a stream in flight when the fake got its signals.
type ended struct {
	exchange *client.Exchange
	after    time.Duration // from start to the return of serve
}

// signalled serves cfg in virtual time, sends one request, and signals the
// server at the given times.
func signalled(t *testing.T, cfg fakeserver.Config, at ...time.Duration) (e ended) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := fakeserver.New(cfg)
		require.NoError(t, err)
		l := memnet.Listen()
		c := &client.Client{BaseURL: "http://fake.invalid", Transport: &h1.Transport{Dial: l.DialContext}}
		defer c.CloseIdleConnections()
		signals := make(chan os.Signal, 2)
		start := time.Now()
		done := make(chan *client.Exchange)
		go func() {
			req, err := api.NewCompletion("", "Hello", api.Generation{MaxTokens: 2, Stream: true})
			if err != nil {
				panic(err)
			}
			done <- c.Do(t.Context(), req)
		}()
		for _, d := range at {
			time.AfterFunc(d, func() { signals <- syscall.SIGTERM })
		}
		require.NoError(t, serve(srv, l, signals))
		e.after = time.Since(start)
		e.exchange = <-done

		_, err = l.DialContext(t.Context(), "tcp", "fake.invalid:80")
		require.Error(t, err, "nothing listens any more")
	})
	return e
}

func TestSignalLetsStreamsEnd(t *testing.T) {
	e := signalled(t, fakeserver.Config{TTFT: time.Second, ITL: 100 * time.Millisecond}, 300*time.Millisecond)
	require.True(t, e.exchange.OK, "%v", e.exchange.Error)
	require.Equal(t, 1100*time.Millisecond, e.exchange.BodyComplete.V)
	require.Less(t, e.after, 300*time.Millisecond+grace)
}

func TestSignalCutsStreamsAfterTheGrace(t *testing.T) {
	e := signalled(t, fakeserver.Config{TTFT: time.Hour}, 300*time.Millisecond)
	require.Equal(t, api.Truncated, e.exchange.Error.Class)
	require.Equal(t, 300*time.Millisecond+grace, e.after)
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	e := signalled(t, fakeserver.Config{TTFT: time.Hour}, 300*time.Millisecond, 700*time.Millisecond)
	require.Equal(t, api.Truncated, e.exchange.Error.Class)
	require.Equal(t, 700*time.Millisecond, e.after)
}

func TestServeReportsADeadListener(t *testing.T) {
	srv, err := fakeserver.New(fakeserver.Config{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.Error(t, serve(srv, l, nil))
}

func TestListenBelievesAddressesNotNames(t *testing.T) {
	_, err := listen("0.0.0.0:0", false)
	require.ErrorContains(t, err, "which other machines can reach")
	l, err := listen("0.0.0.0:0", true)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

func TestAddrFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "addr")
	require.NoError(t, os.WriteFile(name, []byte("of an earlier run, and longer than the new one\n"), 0o600))
	remove, err := writeAddrFile(name, "127.0.0.1:8000")
	require.NoError(t, err)
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8000\n", string(content))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	remove()
	require.NoFileExists(t, name)
	remove() // does no harm

	// A file that another server has written since is not ours to remove.
	remove, err = writeAddrFile(name, "127.0.0.1:8000")
	require.NoError(t, err)
	_, err = writeAddrFile(name, "127.0.0.1:9000")
	require.NoError(t, err)
	remove()
	require.FileExists(t, name)

	// A failure leaves nothing.
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	_, err = writeAddrFile(filepath.Join(dir, "folder"), "127.0.0.1:8000")
	require.Error(t, err)
	entries, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}
