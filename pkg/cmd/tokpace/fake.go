package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/harness"
	"example.com/tokpace/pkg/tokens"

	"github.com/spf13/cobra"
)

// grace is how long answers in flight may go on after the first signal.
const grace = 2 * time.Second

// fakeFlags is what `tokpace fake` was asked for.
type fakeFlags struct {
	listen      string
	addrFile    string
	allowRemote bool
	usage       string
	vision      string
	config      fakeserver.Config
}

// newFakeCmd is `tokpace fake`: the built-in fake server in a process of its own.
func newFakeCmd() *cobra.Command {
	o := fakeFlags{config: harness.FakeConfig()}
	cmd := &cobra.Command{
		Use:   "fake [flags]",
		Short: "Run the fake inference server",
		Long: `fake serves made-up answers in vLLM's dialect of the OpenAI API, with exact token
counts and at planned times, until Ctrl-C or SIGTERM. Answers in flight then get
2 s to end; a second signal ends them at once.

A request can override the times and counts by a header such as
X-Fake-Plan: ttft=50ms; itl=2ms.

Exit codes: 0 ended by a signal, 2 wrong use or no server (port in use).`,
		Example: `  tokpace fake
  tokpace fake -listen 127.0.0.1:0 -addr-file fake.addr -ttft 200ms -itl 10ms`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("addr-file") && o.addrFile == "" {
				return errors.New("-addr-file is empty: give the name of a file")
			}
			return runFake(cmd, &o)
		},
	}
	f, c := cmd.Flags(), &o.config
	f.SortFlags = false
	f.StringVar(&o.listen, "listen", "127.0.0.1:8000", "`host:port` to listen on; port 0 takes a free one")
	f.BoolVar(&o.allowRemote, "allow-remote", false, "allow -listen to be reached from other machines")
	f.StringVar(&o.addrFile, "addr-file", "", "`file` that holds host:port while the server listens")
	f.StringVar(&c.Model, "model", c.Model, "`name` of the one model (empty: tokpace-fake)")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "`number` that chooses words, vectors and scores")
	f.DurationVar(&c.Headers, "headers", c.Headers, "`time` from a request to the answer's headers")
	f.DurationVar(&c.TTFT, "ttft", c.TTFT, "`time` from a request to its first token, or to a plain answer")
	f.DurationVar(&c.ITL, "itl", c.ITL, "`time` between tokens")
	f.IntVar(&c.Pieces, "pieces", c.Pieces, "`number` of pieces of a plain body that -piece-delay spreads out (0: 5)")
	f.DurationVar(&c.PieceDelay, "piece-delay", c.PieceDelay, "`time` before each piece of a plain body (0: whole, at once)")
	f.StringVar(&o.usage, "usage", c.Usage.String(), "`where` token usage goes: own-chunk, with-choices or off")
	f.BoolVar(&c.PromptTokensDetails, "details", c.PromptTokensDetails, "add usage.prompt_tokens_details")
	f.IntVar(&c.CachedTokens, "cached-tokens", c.CachedTokens, "`number` of prompt tokens reported as cached")
	f.StringVar(&o.vision, "vision", c.Vision.String(), "model `family` by which images are counted, as in qwen3-vl or fixed:576")
	f.IntVar(&c.Dim, "dim", c.Dim, "`length` of vectors (0: 64)")
	f.IntVar(&c.OutputTokens, "output-tokens", c.OutputTokens, "`number` of tokens after which the model stops (0: it says max_tokens)")
	f.IntVar(&c.MaxModelLen, "max-model-len", c.MaxModelLen, "context length, a `number` of tokens (0: 32768)")
	return cmd
}

func runFake(cmd *cobra.Command, o *fakeFlags) error {
	srv, err := o.server()
	if err != nil {
		return err
	}
	// From here on a signal must not leave the file behind.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	l, err := listen(o.listen, o.allowRemote)
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	if o.addrFile != "" {
		remove, err := writeAddrFile(o.addrFile, addr)
		if err != nil {
			l.Close()
			return err
		}
		defer remove()
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "serving http://%s/v1, Ctrl-C ends it\n", addr)
	return serve(srv, l, signals)
}

// server checks all settings and makes the server, which listens nowhere yet.
func (o *fakeFlags) server() (*fakeserver.Server, error) {
	var err error
	if o.config.Usage, err = fakeserver.ParseUsageMode(o.usage); err != nil {
		return nil, fmt.Errorf("-usage: %w", err)
	}
	if o.config.Vision, err = tokens.ParseVision(o.vision); err != nil {
		return nil, fmt.Errorf("-vision: %s", strings.TrimPrefix(err.Error(), "tokens: "))
	}
	if err := checkListen(o.listen, o.allowRemote); err != nil {
		return nil, err
	}
	srv, err := fakeserver.New(o.config)
	if err != nil {
		return nil, configError(err)
	}
	return srv, nil
}

// configError names the flag where the error of a Config names its field.
func configError(err error) error {
	flags := map[string]string{
		"MaxModelLen": "max-model-len", "Dim": "dim", "OutputTokens": "output-tokens", "Headers": "headers",
		"TTFT": "ttft", "ITL": "itl", "Pieces": "pieces", "PieceDelay": "piece-delay", "CachedTokens": "cached-tokens",
	}
	text := strings.TrimPrefix(err.Error(), "fakeserver: ")
	field, what, ok := strings.Cut(strings.TrimPrefix(text, "Config."), ": ")
	if name := flags[field]; ok && name != "" {
		return fmt.Errorf("-%s: %s", name, what)
	}
	return errors.New(text)
}

// checkListen refuses addresses that are none, and those that other machines can
// reach unless that is wanted.
func checkListen(addr string, allowRemote bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return fmt.Errorf("-listen %q is not host:port, as in 127.0.0.1:8000", addr)
	}
	if !allowRemote && !isLoopback(host) {
		return fmt.Errorf("-listen %s can be reached from other machines: give -allow-remote if you mean that, else 127.0.0.1:%s", addr, port)
	}
	return nil
}

// listen opens the port. That a name stands for this machine is believed only
// when its address says so as well.
func listen(addr string, allowRemote bool) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err
		}
		return nil, fmt.Errorf("cannot listen on %s (%w): choose another -listen, port 0 takes a free one", addr, err)
	}
	if t, ok := l.Addr().(*net.TCPAddr); ok && !allowRemote && !t.IP.IsLoopback() {
		l.Close()
		return nil, fmt.Errorf("-listen %s is %s here, which other machines can reach: give -allow-remote if you mean that", addr, t)
	}
	return l, nil
}

// isLoopback reports whether a host is this machine, as far as can be told
// without asking a name server.
func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// serve serves l until a signal, and then until the answers in flight are
// complete, the grace is over or a second signal comes.
func serve(srv *fakeserver.Server, l net.Listener, signals <-chan os.Signal) error {
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return errors.Join(err, srv.Close())
	case <-signals:
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	_ = srv.Shutdown(ctx) // Close ends what it had to leave
	return srv.Close()
}
