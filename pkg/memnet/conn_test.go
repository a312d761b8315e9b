package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"example.com/tokpace/pkg/memnet"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns the two ends of a connection that are closed with the test.
func pair(t *testing.T) (client, server *memnet.Conn) {
	t.Helper()
	l := memnet.Listen()
	type accepted struct {
		c   net.Conn
		err error
	}
	ch := make(chan accepted, 1)
	go func() {
		c, err := l.Accept()
		ch <- accepted{c, err}
	}()
	c, err := l.DialContext(t.Context(), "tcp", "anything:1")
	require.NoError(t, err)
	a := <-ch
	require.NoError(t, a.err)
	require.NoError(t, l.Close())
	client, server = c.(*memnet.Conn), a.c.(*memnet.Conn)
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

func TestBytesArriveUnchangedInBothDirections(t *testing.T) {
	size := 8 << 20
	if testing.Short() || raceEnabled {
		size = 1 << 20
	}
	client, server := pair(t)
	var wg sync.WaitGroup
	transfer := func(from, to *memnet.Conn, seed uint64) {
		sent := make([]byte, size)
		rng := rand.NewChaCha8([32]byte{byte(seed)})
		rng.Read(sent)
		wg.Go(func() {
			chunks := rand.New(rand.NewPCG(seed, 0))
			for rest := sent; len(rest) > 0; {
				n := min(len(rest), 1+chunks.IntN(200_000))
				m, err := from.Write(rest[:n])
				if err != nil || m != n {
					t.Errorf("wrote %d of %d: %v", m, n, err)
					break
				}
				rest = rest[n:]
			}
			if err := from.CloseWrite(); err != nil {
				t.Errorf("half close: %v", err)
			}
		})
		wg.Go(func() {
			chunks := rand.New(rand.NewPCG(seed, 1))
			var got bytes.Buffer
			p := make([]byte, 100_000)
			for {
				n, err := to.Read(p[:1+chunks.IntN(len(p))])
				got.Write(p[:n])
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Errorf("read: %v", err)
					break
				}
			}
			if !bytes.Equal(sent, got.Bytes()) {
				t.Errorf("%d bytes sent, %d other bytes received", len(sent), got.Len())
			}
		})
	}
	transfer(client, server, 1)
	transfer(server, client, 2)
	wg.Wait()
}

// Every Write stays in one piece, also when it is larger than the buffer and
// another one waits all the while for the same room.
func TestConcurrentWritesDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = memnet.BufferSize + 4321
		client, server := pair(t)
		var want []byte
		for _, b := range []byte("abc") {
			p := bytes.Repeat([]byte{b}, size)
			want = append(want, p...)
			go func() {
				if n, err := client.Write(p); n != size || err != nil {
					t.Errorf("wrote %d: %v", n, err)
				}
			}()
			synctest.Wait() // now it is blocked
		}
		var got []byte
		for p := make([]byte, 1000); len(got) < len(want); {
			n, err := server.Read(p)
			require.NoError(t, err)
			got = append(got, p[:n]...)
			synctest.Wait() // the room is taken
		}
		require.Equal(t, byte('a'), got[0])
		// Which of the waiting writes comes next is not fixed.
		for i := 0; i < len(got); i += size {
			require.Equal(t, size, bytes.Count(got[i:i+size], got[i:i+1]), "bytes of two writes are mixed")
		}
	})
}

// Many readers on one connection: every byte goes to exactly one of them.
func TestConcurrentReadsShareTheBytes(t *testing.T) {
	const total = 300_000
	client, server := pair(t)
	counts := make(chan int, 4)
	for range cap(counts) {
		go func() {
			n, err := io.Copy(io.Discard, server)
			if err != nil {
				t.Errorf("read: %v", err)
			}
			counts <- int(n)
		}()
	}
	for rest := total; rest > 0; rest -= 300 {
		_, err := client.Write(make([]byte, 300))
		require.NoError(t, err)
	}
	require.NoError(t, client.CloseWrite())
	sum := 0
	for range cap(counts) {
		sum += <-counts
	}
	require.Equal(t, total, sum)
}

func TestWriteBlocksAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t)
		n, err := client.Write(make([]byte, memnet.BufferSize))
		require.NoError(t, err)
		require.Equal(t, memnet.BufferSize, n)

		start := time.Now()
		wrote := make(chan time.Duration, 1)
		go func() {
			if n, err := client.Write([]byte("xy")); n != 2 || err != nil {
				t.Errorf("wrote %d: %v", n, err)
			}
			wrote <- time.Since(start)
		}()
		time.Sleep(time.Second)
		_, err = server.Read(make([]byte, 1))
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, wrote, "room for one byte let two go")

		time.Sleep(time.Second)
		_, err = server.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, <-wrote)
	})
}

func TestReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t)
		start := time.Now()
		require.NoError(t, client.SetReadDeadline(start.Add(3*time.Second)))
		_, err := client.Read(make([]byte, 1))
		requireTimeout(t, err, "read")
		require.Equal(t, 3*time.Second, time.Since(start))

		// It stays expired, also for bytes that are there, until it is moved.
		_, err = server.Write([]byte("ab"))
		require.NoError(t, err)
		_, err = client.Read(make([]byte, 1))
		requireTimeout(t, err, "read")
		require.NoError(t, client.SetReadDeadline(time.Time{}))
		p := make([]byte, 4)
		n, err := client.Read(p)
		require.NoError(t, err)
		require.Equal(t, "ab", string(p[:n]))

		// Only reads are concerned.
		require.NoError(t, client.SetReadDeadline(time.Now().Add(-1)))
		_, err = client.Write([]byte("c"))
		require.NoError(t, err)
	})
}

func TestWriteDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t)
		start := time.Now()
		require.NoError(t, client.SetWriteDeadline(start.Add(3*time.Second)))
		n, err := client.Write(make([]byte, memnet.BufferSize+1))
		requireTimeout(t, err, "write")
		require.Equal(t, memnet.BufferSize, n)
		require.Equal(t, 3*time.Second, time.Since(start))

		n, err = io.ReadFull(server, make([]byte, memnet.BufferSize))
		require.NoError(t, err)
		require.Equal(t, memnet.BufferSize, n)
		_, err = client.Write([]byte("x"))
		requireTimeout(t, err, "write")
		require.NoError(t, client.SetWriteDeadline(time.Now().Add(time.Second)))
		_, err = client.Write([]byte("x"))
		require.NoError(t, err)
	})
}

func TestDeadlineMovesForBlockedCalls(t *testing.T) {
	read := func(c *memnet.Conn) (time.Duration, error) {
		start := time.Now()
		_, err := c.Read(make([]byte, 1))
		return time.Since(start), err
	}
	for _, tc := range []struct {
		name        string
		first       time.Duration // 0: none
		second      time.Duration // from the move on; 0: none
		closeAfter  time.Duration
		want        time.Duration
		wantTimeout bool
	}{
		{"later", 2 * time.Second, 5 * time.Second, 0, 6 * time.Second, true},
		{"earlier", time.Hour, 5 * time.Second, 0, 6 * time.Second, true},
		{"set", 0, 5 * time.Second, 0, 6 * time.Second, true},
		{"past", time.Hour, -time.Second, 0, time.Second, true},
		{"long past", 0, -100_000 * time.Hour, 0, time.Second, true},
		{"removed", 2 * time.Second, 0, 9 * time.Second, 10 * time.Second, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := func(d time.Duration) time.Time {
					if d == 0 {
						return time.Time{}
					}
					return time.Now().Add(d)
				}
				client, server := pair(t)
				require.NoError(t, client.SetDeadline(at(tc.first)))
				go func() {
					time.Sleep(time.Second)
					if err := client.SetDeadline(at(tc.second)); err != nil {
						t.Errorf("set: %v", err)
					}
					if tc.closeAfter > 0 {
						time.Sleep(tc.closeAfter)
						server.Close()
					}
				}()
				took, err := read(client)
				if tc.wantTimeout {
					requireTimeout(t, err, "read")
				} else {
					require.Equal(t, io.EOF, err)
				}
				require.Equal(t, tc.want, took)
			})
		})
	}
}

func TestHalfClose(t *testing.T) {
	client, server := pair(t)
	_, err := client.Write([]byte("question"))
	require.NoError(t, err)
	require.NoError(t, client.CloseWrite())
	require.NoError(t, client.CloseWrite(), "a second half close changes nothing")
	_, err = client.Write([]byte("more"))
	requireOpError(t, err, "write", syscall.EPIPE)

	got, err := io.ReadAll(server)
	require.NoError(t, err)
	require.Equal(t, "question", string(got))
	_, err = server.Write([]byte("answer"))
	require.NoError(t, err)
	require.NoError(t, server.Close())
	got, err = io.ReadAll(client)
	require.NoError(t, err)
	require.Equal(t, "answer", string(got))
}

func TestCloseDrainsThenEnds(t *testing.T) {
	client, server := pair(t)
	_, err := server.Write([]byte("last words"))
	require.NoError(t, err)
	_, err = client.Write([]byte("never read"))
	require.NoError(t, err)
	require.NoError(t, server.Close())

	_, err = client.Write([]byte("x"))
	requireOpError(t, err, "write", syscall.EPIPE)
	got, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Equal(t, "last words", string(got))
	_, err = client.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
}

func TestReset(t *testing.T) {
	client, server := pair(t)
	_, err := server.Write([]byte("lost"))
	require.NoError(t, err)
	_, err = client.Write([]byte("lost too"))
	require.NoError(t, err)
	server.Reset()

	for range 2 {
		n, err := client.Read(make([]byte, 10))
		requireOpError(t, err, "read", syscall.ECONNRESET)
		require.Zero(t, n, "buffered bytes survived the reset")
		_, err = client.Write([]byte("x"))
		requireOpError(t, err, "write", syscall.ECONNRESET)
	}
	_, err = server.Read(make([]byte, 10))
	requireOpError(t, err, "read", net.ErrClosed)
	require.ErrorIs(t, server.Close(), net.ErrClosed)
	require.NoError(t, client.Close())

	client, server = pair(t)
	_, err = server.Write([]byte("kept"))
	require.NoError(t, err)
	require.NoError(t, server.Close())
	server.Reset()
	got, err := io.ReadAll(client)
	require.NoError(t, err, "a reset after the close must not undo it")
	require.Equal(t, "kept", string(got))
}

// Whatever ends a connection ends calls that are blocked on it, with the error
// of that end.
func TestBlockedCallsAreReleased(t *testing.T) {
	for _, tc := range []struct {
		name                string
		end                 func(own, peer *memnet.Conn)
		wantRead, wantWrite error
	}{
		{name: "own close", end: func(own, _ *memnet.Conn) { own.Close() }, wantRead: net.ErrClosed, wantWrite: net.ErrClosed},
		{name: "peer close", end: func(_, peer *memnet.Conn) { peer.Close() }, wantRead: io.EOF, wantWrite: syscall.EPIPE},
		{name: "own reset", end: func(own, _ *memnet.Conn) { own.Reset() }, wantRead: net.ErrClosed, wantWrite: net.ErrClosed},
		{name: "peer reset", end: func(_, peer *memnet.Conn) { peer.Reset() }, wantRead: syscall.ECONNRESET, wantWrite: syscall.ECONNRESET},
		{name: "past deadline", end: func(own, _ *memnet.Conn) { own.SetDeadline(time.Unix(1, 0)) }, wantRead: os.ErrDeadlineExceeded, wantWrite: os.ErrDeadlineExceeded},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				own, peer := pair(t)
				start := time.Now()
				readErr, writeErr := make(chan error, 1), make(chan error, 2)
				go func() {
					_, err := own.Read(make([]byte, 1))
					readErr <- err
				}()
				for range 2 { // one inside its write, one waiting for its turn
					go func() {
						_, err := own.Write(make([]byte, 2*memnet.BufferSize))
						writeErr <- err
					}()
				}
				time.Sleep(time.Second)
				synctest.Wait()
				require.Empty(t, readErr)
				require.Empty(t, writeErr)
				tc.end(own, peer)
				require.ErrorIs(t, <-readErr, tc.wantRead)
				require.ErrorIs(t, <-writeErr, tc.wantWrite)
				require.ErrorIs(t, <-writeErr, tc.wantWrite)
				require.Equal(t, time.Second, time.Since(start))
			})
		})
	}
}

// All methods at once, for the race detector and for calls that never return.
func TestConcurrentMethods(t *testing.T) {
	rounds := 200
	if testing.Short() || raceEnabled {
		rounds = 50
	}
	for range rounds {
		client, server := pair(t)
		var wg sync.WaitGroup
		for _, c := range []*memnet.Conn{client, server} {
			wg.Go(func() { io.Copy(io.Discard, c) })
			wg.Go(func() { c.Read(make([]byte, 10)) })
			wg.Go(func() { c.Write(make([]byte, 3*memnet.BufferSize)) })
			wg.Go(func() { c.Write(make([]byte, 10)) })
			wg.Go(func() {
				c.SetDeadline(time.Now().Add(time.Hour))
				c.SetReadDeadline(time.Now().Add(10 * time.Microsecond))
				c.SetReadDeadline(time.Time{})
				c.SetWriteDeadline(time.Unix(1, 0))
				c.SetWriteDeadline(time.Time{})
			})
			wg.Go(func() {
				_ = c.LocalAddr().String() + c.RemoteAddr().Network()
				c.CloseWrite()
			})
		}
		wg.Go(func() { client.Reset() })
		wg.Go(func() { server.Close() })
		wg.Wait()
	}
}

// Reads and writes under deadlines that pass all the time lose no byte: what a
// write reports is what arrives.
func TestRacyDeadlinesLoseNothing(t *testing.T) {
	client, server := pair(t)
	rounds := 2000
	if testing.Short() || raceEnabled {
		rounds = 300
	}
	var wg sync.WaitGroup
	var written, read int
	wg.Go(func() {
		p := make([]byte, 3000)
		for i := range rounds {
			client.SetWriteDeadline(time.Now().Add(time.Duration(i%5) * 10 * time.Microsecond))
			n, err := client.Write(p)
			written += n
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("write: %v", err)
			}
		}
		if err := client.CloseWrite(); err != nil {
			t.Errorf("half close: %v", err)
		}
	})
	wg.Go(func() {
		p := make([]byte, 2500)
		for i := 0; ; i++ {
			server.SetReadDeadline(time.Now().Add(time.Duration(i%7) * 10 * time.Microsecond))
			n, err := server.Read(p)
			read += n
			if err == io.EOF {
				return
			}
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read: %v", err)
				return
			}
		}
	})
	wg.Wait()
	require.Equal(t, written, read)
	require.Positive(t, read)
}

func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		require.Equal(t, "mem", l.Addr().Network())
		host, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		require.Equal(t, []string{"memnet.invalid", "80"}, []string{host, port})

		// Nobody accepts: the dial waits for its context.
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = l.DialContext(ctx, "tcp", l.Addr().String())
		requireOpError(t, err, "dial", context.DeadlineExceeded)
		require.True(t, err.(net.Error).Timeout())
		require.Equal(t, 2*time.Second, time.Since(start))
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		_, err = l.DialContext(ctx, "tcp", l.Addr().String())
		requireOpError(t, err, "dial", context.Canceled)

		// Close releases both kinds of waiting.
		for _, wait := range []func() error{
			func() error { _, err := l.DialContext(t.Context(), "tcp", ""); return err },
			func() error { _, err := l.Accept(); return err },
		} {
			l = memnet.Listen()
			done := make(chan error, 1)
			go func() { done <- wait() }()
			synctest.Wait()
			require.Empty(t, done)
			require.NoError(t, l.Close())
			require.Error(t, <-done)
		}

		for range 20 { // a choice by chance would not pass this often
			_, err = l.DialContext(t.Context(), "tcp", "")
			requireOpError(t, err, "dial", syscall.ECONNREFUSED)
			_, err = l.Accept()
			requireOpError(t, err, "accept", net.ErrClosed)
		}
		require.ErrorIs(t, l.Close(), net.ErrClosed)
	})
}

func TestAddressesOfTheTwoEndsMirror(t *testing.T) {
	client, server := pair(t)
	require.Equal(t, client.LocalAddr(), server.RemoteAddr())
	require.Equal(t, client.RemoteAddr(), server.LocalAddr())
	require.NotEqual(t, client.LocalAddr().String(), client.RemoteAddr().String())
}

func requireOpError(t *testing.T, err error, op string, cause error) {
	t.Helper()
	var opErr *net.OpError
	require.ErrorAs(t, err, &opErr)
	require.Equal(t, op, opErr.Op)
	require.Equal(t, "mem", opErr.Net)
	require.ErrorIs(t, err, cause)
}

func requireTimeout(t *testing.T, err error, op string) {
	t.Helper()
	requireOpError(t, err, op, os.ErrDeadlineExceeded)
	require.True(t, err.(net.Error).Timeout())
}
