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
	"example.com/tokpace/fakeserver/profile"
	"example.com/tokpace/pkg/harness"
	"example.com/tokpace/pkg/tokens"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// grace is how long answers in flight may go on after the first signal.
const grace = 2 * time.Second

// fakeFlags is what `tokpace fake` was asked for.
type fakeFlags struct {
	listen      string
	addrFile    string
	allowRemote bool
	admin       string
	profile     string
	fakeConfig
	flags *pflag.FlagSet // those that were given override the profile
}

// fakeConfig is a configuration as flags set it.
type fakeConfig struct {
	usage, vision string
	config        fakeserver.Config
}

// newFakeCmd is `tokpace fake`: the built-in fake server in a process of its own.
func newFakeCmd() *cobra.Command {
	o := fakeFlags{fakeConfig: fakeConfig{config: harness.FakeConfig()}}
	cmd := &cobra.Command{
		Use:   "fake [flags]",
		Short: "Run the fake inference server",
		Long: `fake serves made-up answers in vLLM's dialect of the OpenAI API, with exact token
counts and at planned times, until Ctrl-C or SIGTERM. Answers in flight then get
2 s to end; a second signal ends them at once.

A request can override the times and counts by a header such as
X-Fake-Plan: ttft=50ms; itl=2ms, and ask for a fault by one such as
X-Fake-Fault: stall=3; stall-for=2s. A profile is a YAML file that says the same
for all requests: the flags without their dash, and rules that say which requests
meet which fault. Flags override it. testdata/profiles of this module has
examples and a JSON Schema; go doc example.com/tokpace/fakeserver lists the faults.

With -admin a second port has, for programs of this machine only:
  GET  /fake/journal   what was planned and done, one JSON object for each request
                       (?endpoint=/v1/completions&status=200&limit=10: the last)
  POST /fake/reset     empty the journal, count from the beginning
  GET  /fake/profile   the profile in force
  POST /fake/profile   replace it; a bad one is answered 400 and changes nothing

Exit codes: 0 ended by a signal, 2 wrong use or no server (port in use).`,
		Example: `  tokpace fake
  tokpace fake -listen 127.0.0.1:0 -addr-file fake.addr -ttft 200ms -itl 10ms
  tokpace fake -profile testdata/profiles/flaky-gateway.yaml -admin 127.0.0.1:8001`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("addr-file") && o.addrFile == "" {
				return errors.New("-addr-file is empty: give the name of a file")
			}
			if cmd.Flags().Changed("profile") && o.profile == "" {
				return errors.New("-profile is empty: give the name of a file")
			}
			return runFake(cmd, &o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.listen, "listen", "127.0.0.1:8000", "`host:port` to listen on; port 0 takes a free one")
	f.BoolVar(&o.allowRemote, "allow-remote", false, "allow -listen to be reached from other machines")
	f.StringVar(&o.addrFile, "addr-file", "", "`file` that holds host:port while the server listens")
	f.StringVar(&o.profile, "profile", "", "YAML `file` with the settings below and rules for faults; flags override it")
	f.StringVar(&o.admin, "admin", "", "`host:port` of this machine for journal, reset and profile (empty: none)")
	o.register(f)
	o.flags = f
	return cmd
}

// register binds the flags that a profile can hold as well.
func (o *fakeConfig) register(f *pflag.FlagSet) {
	c := &o.config
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
}

func runFake(cmd *cobra.Command, o *fakeFlags) error {
	srv, a, err := o.server()
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
	if o.admin != "" {
		al, err := listenAdmin(o.admin)
		if err != nil {
			l.Close()
			return err
		}
		defer a.serve(al)()
		fmt.Fprintf(cmd.ErrOrStderr(), "admin http://%s/fake/\n", al.Addr())
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

// server checks all settings and makes the server, which listens nowhere yet,
// and its administration.
func (o *fakeFlags) server() (*fakeserver.Server, *admin, error) {
	a := &admin{configure: o.fromProfile}
	cfg, err := o.settings()
	if err != nil {
		return nil, nil, err
	}
	if o.profile != "" {
		if a.profile, err = os.ReadFile(o.profile); err != nil {
			return nil, nil, fmt.Errorf("cannot read the -profile: %w", err)
		}
		if cfg, err = o.fromProfile(a.profile); err != nil {
			return nil, nil, fmt.Errorf("-profile %s: %s", o.profile, strings.TrimPrefix(err.Error(), "profile: "))
		}
	}
	if err := checkListen(o.listen, o.allowRemote); err != nil {
		return nil, nil, err
	}
	if a.srv, err = fakeserver.New(cfg); err != nil {
		return nil, nil, configError(err)
	}
	return a.srv, a, nil
}

// settings returns the configuration that the flags have set.
func (o *fakeConfig) settings() (cfg fakeserver.Config, err error) {
	cfg = o.config
	if cfg.Usage, err = fakeserver.ParseUsageMode(o.usage); err != nil {
		return cfg, fmt.Errorf("-usage: %w", err)
	}
	if cfg.Vision, err = tokens.ParseVision(o.vision); err != nil {
		return cfg, fmt.Errorf("-vision: %s", strings.TrimPrefix(err.Error(), "tokens: "))
	}
	return cfg, nil
}

// fromProfile returns the configuration of a profile, as far as no flag was given.
func (o *fakeFlags) fromProfile(text []byte) (fakeserver.Config, error) {
	cfg, err := profile.Parse(text)
	if err != nil {
		return cfg, err
	}
	own := fakeConfig{config: cfg}
	f := pflag.NewFlagSet("profile", pflag.ContinueOnError)
	own.register(f) // its defaults are the profile's values
	o.flags.Visit(func(given *pflag.Flag) {
		if f.Lookup(given.Name) != nil && err == nil {
			err = f.Set(given.Name, given.Value.String())
		}
	})
	if err != nil {
		return cfg, err
	}
	return own.settings()
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
