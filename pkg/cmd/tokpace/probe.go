package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"

	"github.com/spf13/cobra"
)

// probeFlags is what `tokpace probe` was asked for.
type probeFlags struct {
	api          string
	baseURL      string
	endpoint     string
	body         string
	model        string
	header       []string
	timeout      time.Duration
	transport    string
	json         bool
	checkVectors bool

	given func(flag string) bool
}

// newProbeCmd is `tokpace probe`: one exchange, shown.
func newProbeCmd() *cobra.Command {
	var o probeFlags
	cmd := &cobra.Command{
		Use:   "probe -api NAME [-base-url URL] [flags]",
		Short: "Send one request and show what came back, and when",
		Long: `probe sends one request and prints when what arrived and how many tokens it was:
as a timeline, or with -json as one record (schema ` + client.Schema + `).

-api fixes path, reader and token rules: ` + strings.Join(api.Names(), ", ") + `.
Without -body a small body is made up; it asks for a stream and for token usage
where the API has them, and for the first model that the server lists unless
-model or TOKPACE_MODEL names one.

-transport (or TOKPACE_TRANSPORT) says what moves the bytes. h1 is strict, and gives
each piece of an answer the time of its own arrival; net/http is for servers that h1
refuses.

Without -base-url the server is that of TOKPACE_BASE_URL, else OPENAI_BASE_URL;
those two may name another machine only with TOKPACE_ALLOW_REMOTE=1. The key
comes from TOKPACE_API_KEY, else OPENAI_API_KEY, and is never shown.

Exit codes: 0 success; 1 the exchange failed, and its record says why; 2 wrong
use, or the record could not be written.`,
		Example: `  tokpace probe -api openai-chat -base-url http://127.0.0.1:8000/v1
  tokpace probe -api vllm-pooling -base-url http://127.0.0.1:8000 -body request.json -json
  echo '{"prompt":"Hello","stream":true}' | tokpace probe -api openai -base-url http://127.0.0.1:8000/v1 -body -`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.given = cmd.Flags().Changed
			return runProbe(cmd, &o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.api, "api", "", "`name` of the API (required)")
	f.StringVar(&o.baseURL, "base-url", "", "`URL` of the server, as in http://127.0.0.1:8000/v1")
	f.StringVar(&o.endpoint, "endpoint", "", "`path` that replaces the API's own")
	f.StringVar(&o.body, "body", "", "`file` that is sent byte for byte; - is standard input")
	f.StringVar(&o.model, "model", "", "`name` of the model for the body that is made up")
	f.StringArrayVar(&o.header, "header", nil, "`K=V` added to the request's header; can be repeated")
	f.DurationVar(&o.timeout, "timeout", client.DefaultTimeout, "`time` that the exchange may take")
	f.Lookup("timeout").DefValue = "10m" // as people write it
	f.StringVar(&o.transport, "transport", client.H1, "`name` of what moves the bytes: "+strings.Join(client.TransportNames(), " or "))
	f.BoolVar(&o.checkVectors, "check-vectors", false, "look at every vector: count, order, dimension, type, byte order, finite")
	f.BoolVar(&o.json, "json", false, "print one JSON record instead of a timeline")
	_ = cmd.RegisterFlagCompletionFunc("transport", cobra.FixedCompletions(client.TransportNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("api", cobra.FixedCompletions(api.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// An exchangeError is the failure of the exchange itself.
type exchangeError struct{ f *api.Failure }

func (e *exchangeError) ExitCode() int { return exitFailed }

func (e *exchangeError) Error() string {
	hint := ""
	switch e.f.Class {
	case api.Connect:
		hint = "; is the server up, and -base-url right?"
	case api.Timeout:
		hint = "; -timeout gives it more time"
	case api.HTTPStatus:
		switch e.f.Status {
		case http.StatusUnauthorized, http.StatusForbidden:
			hint = "; set OPENAI_API_KEY (or TOKPACE_API_KEY) to a key that the server accepts"
		case http.StatusNotFound, http.StatusMethodNotAllowed:
			hint = "; are -base-url, -endpoint and the model right?"
		}
	}
	return strings.TrimSuffix(e.f.Error(), ".") + hint
}

func runProbe(cmd *cobra.Command, o *probeFlags) error {
	t, err := findTarget(o)
	if err != nil {
		return err
	}
	p := &probe{flags: o, target: t}
	if err := p.run(cmd); err != nil {
		var failed *exchangeError
		if errors.As(err, &failed) {
			return err // the record is clean already
		}
		return errors.New(t.secrets.Redact(err.Error()))
	}
	return nil
}

// A probe is one run of the command after its flags were checked.
type probe struct {
	flags  *probeFlags
	target *target
	client *client.Client
}

func (p *probe) run(cmd *cobra.Command) error {
	p.client = &client.Client{
		BaseURL: p.target.baseURL, Header: p.target.header, APIKey: p.target.key, Timeout: p.flags.timeout,
		Transport: p.target.transport, CheckVectors: p.flags.checkVectors,
	}
	defer p.client.CloseIdleConnections()
	var req *api.Request
	body, err := p.readBody(cmd.InOrStdin())
	if err != nil {
		return err
	}
	// Not earlier: a signal must end the wait for standard input.
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the process

	about := sent{url: p.target.shown}
	if body != nil {
		req = api.NewRequest(p.target.api, body)
		about.what = "the body given"
	} else {
		model, err := p.model(ctx)
		if err != nil {
			return err
		}
		if req, err = builtIn(p.target.api, model); err != nil {
			return err
		}
		about.what = "built-in body, model " + quoted(p.target.secrets.Redact(model))
		if model == "" {
			about.what = "built-in body, model unknown"
		}
	}
	req.Endpoint = p.flags.endpoint
	about.bytes = len(req.Body)

	ex := p.client.Do(ctx, req)
	ex.Redact(p.target.secrets)
	if err := p.print(cmd.OutOrStdout(), about, ex); err != nil {
		return err
	}
	if !ex.OK {
		return &exchangeError{ex.Error}
	}
	return nil
}

// readBody reads what -body names; nil means that it was not given.
func (p *probe) readBody(stdin io.Reader) ([]byte, error) {
	if !p.flags.given("body") {
		return nil, nil
	}
	var (
		body []byte
		err  error
		name = p.flags.body
	)
	switch name {
	case "":
		return nil, errors.New("-body is empty: give a file, or - for standard input")
	case "-":
		name = "standard input"
		body, err = io.ReadAll(stdin)
	default:
		body, err = os.ReadFile(name)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the -body: %w", err)
	case len(body) == 0:
		return nil, fmt.Errorf("the -body is empty: %s has no bytes", name)
	}
	return body, nil
}

func (p *probe) print(w io.Writer, about sent, ex *client.Exchange) error {
	var out []byte
	if p.flags.json {
		var err error
		if out, err = record(ex); err != nil {
			return err
		}
	} else {
		out = []byte(timeline(about, ex))
	}
	_, err := w.Write(out)
	return err
}

// record is the exchange as one line of JSON. Control characters that JSON
// allows in strings, DEL and the C1 set, are escaped all the same: terminals obey
// them.
func record(ex *client.Exchange) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(ex); err != nil {
		return nil, err
	}
	raw := buf.Bytes()
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if 0x7f <= r && r <= 0x9f {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, raw[i:i+n]...)
		}
		i += n
	}
	return out, nil
}
