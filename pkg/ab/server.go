package ab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// serverGrace is how long a server may take to end after it was asked to;
	// hurriedGrace, where somebody waits for the end of an interrupted Run.
	serverGrace  = 30 * time.Second
	hurriedGrace = 5 * time.Second

	// endSeen is how long it may take until we know that a server has ended, when
	// its client knows already.
	endSeen = 200 * time.Millisecond

	// askPause is the time between two questions to a server that starts, and
	// askTime what one may take.
	askPause = 50 * time.Millisecond
	askTime  = 5 * time.Second
)

// server is a running server of one side.
type server struct {
	r      *runner
	title  string
	cmd    *exec.Cmd
	out    *os.File      // what it prints
	ended  chan struct{} // closed when it has ended
	result error         // of its end
}

// startServer starts the server of s and waits until it answers.
func (r *runner) startServer(ctx context.Context, s side, title string) (*server, error) {
	title = "server of " + s.name + ", for " + title
	base, err := url.Parse(s.target)
	if err != nil {
		return nil, err
	}
	if conn, err := net.DialTimeout("tcp", hostPort(base), askTime); err == nil {
		conn.Close()
		return nil, inputError("%s: something answers at %s already: stop it, or give another -server-url", title, base.Host)
	}
	out, err := os.CreateTemp(r.tmp, "server-")
	if err != nil {
		return nil, err
	}
	srv := &server{r: r, title: title, out: out, ended: make(chan struct{})}
	srv.cmd = shellCommand(s.server)
	srv.cmd.Dir, srv.cmd.Env = r.cfg.Dir, r.env
	srv.cmd.Stdout, srv.cmd.Stderr = out, out
	if err := srv.cmd.Start(); err != nil {
		out.Close()
		return nil, fmt.Errorf("%s: %w", title, err)
	}
	go func() {
		srv.result = srv.cmd.Wait()
		close(srv.ended)
	}()
	waiting, cancel := context.WithTimeoutCause(ctx, r.cfg.ServerWait,
		fmt.Errorf("no answer of %s within %v", base.Host, r.cfg.ServerWait))
	defer cancel()
	if err := srv.await(waiting, base); err != nil {
		return nil, srv.stop(ctx, err)
	}
	return srv, nil
}

// hostPort is where a URL's server listens.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// await returns when the server is ready, has ended, or ctx is over.
func (s *server) await(ctx context.Context, base *url.URL) error {
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{
		Transport:     transport,
		Timeout:       askTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	root := *base
	root.Path = strings.TrimSuffix(strings.TrimSuffix(root.Path, "/"), "/v1")
	for {
		if ready(ctx, client, root) {
			return nil
		}
		select {
		case <-s.ended:
			return errEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(askPause):
		}
	}
}

// ready asks for the server's health, and where it has no such thing, for its
// models. That those are not for everybody is an answer too.
func ready(ctx context.Context, client *http.Client, root url.URL) bool {
	switch ask(ctx, client, root, "/health") {
	case http.StatusOK, http.StatusNoContent:
		return true
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotImplemented:
		switch ask(ctx, client, root, "/v1/models") {
		case http.StatusOK, http.StatusUnauthorized, http.StatusForbidden:
			return true
		}
	}
	return false
}

// ask returns the status of the answer, 0 for none.
func ask(ctx context.Context, client *http.Client, root url.URL, path string) int {
	root.Path += path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, root.String(), nil)
	if err != nil {
		return 0
	}
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	return res.StatusCode
}

// endsWithin reports whether the server has ended, or does so in some time.
func (s *server) endsWithin(d time.Duration) bool {
	if d > 0 {
		select {
		case <-s.ended:
		case <-time.After(d):
		}
	}
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

var errEnded = errors.New("it ended by itself")

// stop ends the server with all its processes and logs what it printed. The
// error is err, if any, with what the server said last; or that the server had
// ended before.
func (s *server) stop(ctx context.Context, err error) error {
	early := s.endsWithin(0)
	if !early && err != nil {
		early = s.endsWithin(endSeen)
	}
	grace := serverGrace
	if ctx.Err() != nil {
		grace = hurriedGrace
	}
	stopGroup(s.cmd, s.ended, grace)
	s.out.Close()
	said, readErr := s.r.read(s.out.Name())
	os.Remove(s.out.Name())
	fmt.Fprintf(s.r.res.log, "== %s\n%s", s.title, said)
	if said != "" && !strings.HasSuffix(said, "\n") {
		fmt.Fprintln(s.r.res.log)
	}
	switch {
	case early && (err == nil || err == errEnded):
		how := "exit status 0"
		if s.result != nil {
			how = s.result.Error()
		}
		return s.r.failure(s.title, fmt.Errorf("%w: %s", errEnded, how), said)
	case early:
		return fmt.Errorf("%w\nthe server ended by itself; its last lines:\n%s", err, lastLines([]byte(said), tailLines))
	case err != nil && lastLines([]byte(said), 1) != "":
		return fmt.Errorf("%w\n%s, last lines:\n%s", err, s.title, lastLines([]byte(said), tailLines))
	case err != nil:
		return err
	}
	return readErr
}
