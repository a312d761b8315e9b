package harness

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/memnet"
	"example.com/tokpace/pkg/tokens"
)

// A Target is the server that a benchmark measures. The zero Target is the one
// that the settings name: a base URL, or else the built-in fake server.
type Target struct {
	// URL is the server's base URL, with or without /v1 at its end; empty
	// means the one of the settings.
	URL string
	// Model is the model to ask for; empty means the one of the settings, else
	// the first that the server lists.
	Model string
	// Header is added to every request.
	Header http.Header
	// InProcess says that the server at URL runs in this process, so that
	// B/op and allocs/op count what whole requests cost, server included.
	InProcess bool
}

// FakeConfig is the configuration of the built-in fake server, and the default
// of `tokpace fake`: a short schedule, so that a change of a millisecond shows.
func FakeConfig() fakeserver.Config {
	return fakeserver.Config{
		TTFT:                5 * time.Millisecond,
		ITL:                 time.Millisecond,
		PromptTokensDetails: true,
	}
}

// checkTimeout bounds the questions to a server before a benchmark.
const checkTimeout = 10 * time.Second

// fakeOwner is the owned_by of the fake server's models.
const fakeOwner = "tokpace-fake"

// A server is a target that has answered.
type server struct {
	baseURL   string
	transport http.RoundTripper
	settings  *settings
	header    http.Header // of the target, sent with everything
	model     string
	models    []string // that the server lists
	owner     string
	version   string
	builtIn   bool
	journal   func() []fakeserver.Record // of the built-in fake, nil for others
	inProcess bool
	close     func()
	secrets   api.Secrets // that the server knows, and may repeat

	mu    sync.Mutex
	words map[*api.API]knownWords
}

func (s *server) fake() bool { return s.owner == fakeOwner }

// client is a client of the server that sends h with every request.
func (s *server) client(h http.Header) *client.Client {
	header := http.Header{}
	for _, add := range []http.Header{s.settings.header, s.header, h} {
		for name, values := range add {
			header[http.CanonicalHeaderKey(name)] = values
		}
	}
	c := &client.Client{
		BaseURL:      s.baseURL,
		Transport:    s.transport,
		Header:       header,
		APIKey:       s.settings.apiKey,
		Timeout:      s.settings.timeout,
		MaxEvent:     s.settings.maxEvent,
		MaxBody:      s.settings.maxBody,
		CheckVectors: s.settings.vectors,
		DiscardText:  true,
	}
	if s.fake() {
		c.CountTokens = tokens.Count
	}
	return c
}

// byDefault is the server of targets without a URL. It is asked once for each
// model; targets with a URL of their own are asked each time, since the server
// there may be another one by then.
var byDefault struct {
	sync.Mutex
	servers map[string]*server
}

// find returns the server of a target. release must be called when its
// benchmark is over.
func find(ctx context.Context, t Target) (s *server, release func(), err error) {
	set, err := currentSettings()
	if err != nil {
		return nil, nil, err
	}
	if t.Model == "" {
		t.Model = cmp.Or(set.servedModel, set.model)
	}
	if t.URL != "" {
		s, err := newServer(ctx, set, t)
		if err != nil {
			return nil, nil, err
		}
		return s, s.close, nil
	}
	t.URL = set.baseURL
	byDefault.Lock()
	defer byDefault.Unlock()
	if s := byDefault.servers[t.Model]; s != nil {
		return s, func() {}, nil
	}
	t.Header = nil // of one benchmark, the server is for all
	if s, err = newServer(ctx, set, t); err != nil {
		return nil, nil, err
	}
	if byDefault.servers == nil {
		byDefault.servers = map[string]*server{}
	}
	byDefault.servers[t.Model] = s
	return s, func() {}, nil
}

// newServer connects to a target, or starts the built-in fake, and asks it what
// it is.
func newServer(ctx context.Context, set *settings, t Target) (*server, error) {
	s := &server{settings: set, baseURL: t.URL, model: t.Model, header: t.Header, inProcess: t.InProcess}
	var err error
	if t.URL == "" {
		err = s.startFake()
	} else {
		err = s.remote()
	}
	if err != nil {
		return nil, err
	}
	s.findSecrets()
	if err := s.awaitReady(ctx); err != nil {
		s.close()
		return nil, errors.New(s.secrets.Redact(err.Error()))
	}
	return s, nil
}

// findSecrets gathers what is sent to the server and must not be printed, even if
// the server calls a model so.
func (s *server) findSecrets() {
	words := []string{s.settings.apiKey}
	for _, h := range []http.Header{s.settings.header, s.header} {
		words = append(words, api.HeaderSecrets(h)...)
	}
	if u, err := url.Parse(s.baseURL); err == nil {
		words = append(words, api.URLSecrets(u, api.IsSecretName)...)
	}
	if u := s.settings.proxyURL; u != nil {
		words = append(words, api.URLSecrets(u, api.IsSecretName)...)
	}
	for _, m := range s.settings.shape.extra {
		var word string
		if api.IsSecretName(m.Name) && json.Unmarshal(m.Value, &word) == nil {
			words = append(words, word)
		}
	}
	s.secrets = api.NewSecrets(words...)
}

// shown is what a server says in one short line without secrets.
func (s *server) shown(said string) string {
	return api.Snippet([]byte(s.secrets.Redact(said)))
}

// closeServers ends the built-in fake and the idle connections.
func closeServers() {
	byDefault.Lock()
	defer byDefault.Unlock()
	for _, s := range byDefault.servers {
		s.close()
	}
	byDefault.servers = nil
}

// startFake starts the built-in fake server. Its requests cross no socket: the
// kernel's network stack is not what is measured.
func (s *server) startFake() error {
	srv, err := fakeserver.New(FakeConfig())
	if err != nil {
		return err
	}
	l := memnet.Listen()
	transport, err := client.NamedTransport(s.settings.transport, l.DialContext)
	if err != nil {
		return err
	}
	client.LimitHeader(transport, s.settings.maxHeader)
	go func() { _ = srv.Serve(l) }()
	s.baseURL, s.transport = "http://built-in.invalid", transport
	s.builtIn, s.inProcess, s.journal = true, true, srv.Journal
	s.close = func() {
		transport.CloseIdleConnections()
		srv.Close()
	}
	return nil
}

func (s *server) remote() error {
	u, err := api.CheckBaseURL(s.baseURL)
	if err != nil {
		return err
	}
	socket := u.Host == "unix:" && s.settings.transport != client.NetHTTP
	if !s.settings.allowRemote && !socket && !isLoopback(u.Hostname()) {
		return fmt.Errorf("%s is not this machine: set TOKPACE_ALLOW_REMOTE=1 if you mean to load it, or TOKPACE_TARGET=fake to use the built-in fake", u.Host)
	}
	transport, err := client.NamedTransport(s.settings.transport, nil)
	if err != nil {
		return err
	}
	client.LimitHeader(transport, s.settings.maxHeader)
	client.UseTLS(transport, s.settings.tls())
	if s.settings.proxy != nil && !client.UseProxy(transport, s.settings.proxy) {
		return errors.New("proxy needs transport=net/http")
	}
	s.transport = transport
	s.close = transport.CloseIdleConnections
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// ask asks the server for its models and its version.
func (s *server) ask(ctx context.Context) error {
	if s.settings.skipCheck {
		if s.model == "" {
			return errors.New("TOKPACE_SKIP_CHECK needs TOKPACE_MODEL, since the server is not asked for its models")
		}
		return nil
	}
	limit := s.checkTimeout()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := s.client(nil)
	where := s.name() + "/v1/models"
	status, body, err := c.Get(ctx, "/v1/models")
	var list struct {
		Data []struct {
			ID    string `json:"id"`
			Owner string `json:"owned_by"`
		} `json:"data"`
	}
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return fmt.Errorf("%s did not answer within %v: is the server up?", where, limit)
	case err != nil && isCertificate(err):
		return fmt.Errorf("cannot reach %s: %s: TOKPACE_CA_CERT names the file of an authority to trust, TOKPACE_INSECURE=1 trusts anybody", where, api.Snippet([]byte(err.Error())))
	case err != nil:
		return fmt.Errorf("cannot reach %s: %s: is the server up, and the base URL right? (TOKPACE_TARGET=fake where no benchmark needs it)", where, api.Snippet([]byte(err.Error())))
	case isRefusal(status):
		return &refusedError{where, status}
	case status != http.StatusOK:
		return fmt.Errorf("%s answered %d: is the base URL right? (a server without a model list: set TOKPACE_SKIP_CHECK=1 and TOKPACE_MODEL)", where, status)
	case json.Unmarshal(body, &list) != nil || len(list.Data) == 0:
		return fmt.Errorf("%s answered with no list of models: is the base URL right? (a server without one: set TOKPACE_SKIP_CHECK=1 and TOKPACE_MODEL)", where)
	}
	names := make([]string, len(list.Data))
	for i, m := range list.Data {
		names[i] = m.ID
	}
	i := 0
	if s.model != "" {
		if i = slices.Index(names, s.model); i < 0 {
			shown := s.shown(strings.Join(names, ", "))
			return fmt.Errorf("%s has no model %q: it lists %s (a model that it does not list: set TOKPACE_SKIP_CHECK=1)", s.name(), s.model, shown)
		}
	}
	s.models = names
	s.model, s.owner = names[i], list.Data[i].Owner
	if status, body, err := c.Get(ctx, "/version"); err == nil && status == http.StatusOK {
		var v struct {
			Version string `json:"version"`
		}
		if json.Unmarshal(body, &v) == nil {
			s.version = s.shown(v.Version)
		}
	}
	return nil
}

// isCertificate reports whether err is about the server's certificate.
func isCertificate(err error) bool {
	_, bad := errors.AsType[*tls.CertificateVerificationError](err)
	return bad
}

// checkTimeout is checkTimeout, or less where requests get less.
func (s *server) checkTimeout() time.Duration {
	if s.settings.timeout > 0 {
		return min(checkTimeout, s.settings.timeout)
	}
	return checkTimeout
}

// name is the server's address for messages, without secrets.
func (s *server) name() string {
	if s.builtIn {
		return "built-in fake"
	}
	u, err := url.Parse(s.baseURL)
	if err != nil {
		return "the server"
	}
	return strings.TrimSuffix(strings.TrimRight(api.RedactURL(u), "/"), "/v1")
}

// pinsLength reports whether the server understands ignore_eos. Others may
// reject a request for a field that they do not know.
func (s *server) pinsLength() bool {
	switch s.settings.ignoreEOS {
	case "true":
		return true
	case "false":
		return false
	}
	return slices.Contains([]string{fakeOwner, "vllm", "sglang"}, s.owner)
}
