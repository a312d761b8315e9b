package harness

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/load"
)

// envPrefix begins the environment variable of every setting.
const envPrefix = "TOKPACE_"

// settings is what the user chose.
type settings struct {
	target      string // "fake", or empty: the base URL if there is one
	baseURL     string
	apiKey      string
	model       string
	servedModel string
	endpoint    string
	header      http.Header
	allowRemote bool
	transport   string // a name of client.TransportNames, or empty
	ignoreEOS   string // "auto", "true" or "false"
	skipCheck   bool
	seed        uint64
	timeout     time.Duration
	maxHeader   int
	maxEvent    int
	maxBody     int
	vectors     bool
	maxFail     int
	maxLag      time.Duration // of an open loop; 0: what the benchmark says
	maxOwnError float64       // of a valid run, as a share of what it measures
	strict      bool          // an invalid run fails
	records     string        // file of records, empty for none
	recordsText bool
	recorder    *load.Recorder // of records, once it is open
	noProgress  bool
	grace       time.Duration // between an interrupt and the end of what is in flight

	insecure      bool
	authorities   *x509.CertPool                        // nil is the system's
	proxy         func(*http.Request) (*url.URL, error) // nil goes straight to the server
	proxyURL      *url.URL                              // where proxy is always the same
	readyTimeout  time.Duration                         // 0 skips the ready check
	serverMetrics string                                // "auto", "true" or "false"
	metricsEvery  time.Duration                         // 0 is never during a run
	metadata      []string                              // K=V

	shape shape
	given []string // names of the settings that were given, in the order of the definitions
}

// tls is what https needs beside the defaults, nil for nothing.
func (s *settings) tls() *tls.Config {
	if !s.insecure && s.authorities == nil {
		return nil
	}
	return &tls.Config{InsecureSkipVerify: s.insecure, RootCAs: s.authorities}
}

// A setting is one of them: its name on the command line (that of
// `vllm bench serve` where it has one), from which the environment variable
// follows, and what it means.
type setting struct {
	name  string
	usage string
	set   func(s *settings, value string) error
	// shape, in place of set, belongs to a setting of BenchmarkServe alone.
	shape func(s *shape, value string) error
	bool  bool
	// secret says that its value must not be repeated.
	secret bool
	// env says that it can only come from the environment: secrets on a command
	// line are seen by every process of the machine.
	envOnly bool
}

func (d setting) env() string { return variable(d.name) }

func variable(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func (d setting) apply(s *settings, value string) error {
	if d.shape != nil {
		return d.shape(&s.shape, value)
	}
	return d.set(s, value)
}

var definitions = append(targetSettings, shapeSettings...)

// targetSettings are the settings of every benchmark.
var targetSettings = []setting{
	{name: "target", usage: "`fake` uses the built-in fake server whatever else is set", set: func(s *settings, v string) error {
		if v != "fake" {
			return errors.New(`the only named target is "fake"; give a server's address as base-url`)
		}
		s.target = v
		return nil
	}},
	{name: "base-url", usage: "`URL` of the server, as in http://127.0.0.1:8000/v1 (default: OPENAI_BASE_URL, else the built-in fake)",
		set: func(s *settings, v string) error { s.baseURL = v; return nil }},
	{name: "api-key", envOnly: true, secret: true, usage: "key sent as a bearer token (default: OPENAI_API_KEY)",
		set: func(s *settings, v string) error { s.apiKey = v; return nil }},
	{name: "model", usage: "`name` of the model (default: the first that the server lists)",
		set: func(s *settings, v string) error { s.model = v; return nil }},
	{name: "served-model-name", usage: "`name` of the model as the server lists it, in place of model's",
		set: func(s *settings, v string) error { s.servedModel = v; return nil }},
	{name: "endpoint", usage: "`path` that replaces the API's own",
		set: func(s *settings, v string) error { s.endpoint = v; return nil }},
	{name: "header", secret: true, usage: "`K=V` added to every request; several are separated by newlines", set: func(s *settings, v string) error {
		if s.header == nil {
			s.header = http.Header{}
		}
		for line := range strings.Lines(v) {
			k, val, ok := strings.Cut(strings.TrimSpace(line), "=")
			if !ok || k == "" || strings.ContainsFunc(k+val, unicode.IsControl) || strings.ContainsAny(k, " \t:") {
				return errors.New("want K=V, as in X-Team=infra")
			}
			s.header.Add(k, val)
		}
		return nil
	}},
	{name: "allow-remote", bool: true, usage: "consent to load a host that is not this machine",
		set: func(s *settings, v string) error { return parseBool(&s.allowRemote, v) }},
	{name: "transport", usage: "`name` of what moves the bytes: h1 (default), strict and exact; net/http for servers that h1 refuses",
		set: func(s *settings, v string) error {
			if !slices.Contains(client.TransportNames(), v) {
				return errors.New("want " + strings.Join(client.TransportNames(), " or "))
			}
			s.transport = v
			return nil
		}},
	{name: "insecure", bool: true, usage: "take any certificate that a server shows",
		set: func(s *settings, v string) error { return parseBool(&s.insecure, v) }},
	{name: "ca-cert", usage: "`file` of certificates (PEM) that are trusted in place of the system's", set: func(s *settings, v string) error {
		text, err := os.ReadFile(v)
		if err != nil {
			return err
		}
		s.authorities = x509.NewCertPool()
		if !s.authorities.AppendCertsFromPEM(text) {
			return errors.New("the file holds no certificate in PEM form")
		}
		return nil
	}},
	{name: "proxy", secret: true, usage: "`URL` of an HTTP proxy, or env for that of HTTP_PROXY and its like, which are not used otherwise; needs transport=net/http",
		set: func(s *settings, v string) error {
			if v == "env" {
				s.proxy, s.proxyURL = http.ProxyFromEnvironment, nil
				return nil
			}
			u, err := url.Parse(v)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
				return errors.New("want env, or an address such as http://127.0.0.1:3128")
			}
			s.proxy, s.proxyURL = http.ProxyURL(u), u
			return nil
		}},
	{name: "ready-check-timeout-sec", usage: "`seconds` to wait until the server answers one small request of the backend (default 0: it must be up)", set: func(s *settings, v string) error {
		seconds, err := strconv.ParseFloat(v, 64)
		if err != nil || !(seconds >= 0) || seconds > maxReadyTimeout.Seconds() {
			return fmt.Errorf("want seconds from 0 to %g", maxReadyTimeout.Seconds())
		}
		s.readyTimeout = time.Duration(math.Round(seconds * float64(time.Second)))
		return nil
	}},
	{name: "server-metrics", usage: "`auto`, true or false: report what the server's /metrics says of a run (auto: in BenchmarkServe)", set: func(s *settings, v string) error {
		if v != "auto" && v != "true" && v != "false" {
			return errors.New("want auto, true or false")
		}
		s.serverMetrics = v
		return nil
	}},
	{name: "server-metrics-every", usage: "`duration` between looks at the server's /metrics during a run, for its largest queue and cache (default: none, since each look costs the server work)",
		set: func(s *settings, v string) (err error) {
			s.metricsEvery, err = time.ParseDuration(v)
			if err == nil && s.metricsEvery <= 0 {
				err = errors.New("not positive")
			}
			return plain(err, "want a duration such as 1s")
		}},
	{name: "metadata", usage: "`K=V` printed as a comment above the results; several are separated by newlines", set: func(s *settings, v string) error {
		for line := range strings.Lines(v) {
			line = strings.TrimSpace(line)
			if k, _, ok := strings.Cut(line, "="); !ok || k == "" || strings.ContainsFunc(line, unicode.IsControl) {
				return errors.New("want K=V, as in gpu=H100")
			}
			s.metadata = append(s.metadata, line)
		}
		return nil
	}},
	{name: "ignore-eos", bool: true, usage: "`auto`, true or false: pin the output's length by ignore_eos (auto: where the server is known to understand it)",
		set: func(s *settings, v string) error {
			if v != "auto" && v != "true" && v != "false" {
				return errors.New("want auto, true or false")
			}
			s.ignoreEOS = v
			return nil
		}},
	{name: "skip-check", bool: true, usage: "do not ask the server for its models first; needs model",
		set: func(s *settings, v string) error { return parseBool(&s.skipCheck, v) }},
	{name: "seed", usage: "`number` that chooses the prompts", set: func(s *settings, v string) (err error) {
		s.seed, err = strconv.ParseUint(v, 10, 64)
		return plain(err, "want a whole number from 0 on")
	}},
	{name: "timeout", usage: "`duration` that one request may take (default 10m)", set: func(s *settings, v string) (err error) {
		s.timeout, err = time.ParseDuration(v)
		if err == nil && s.timeout <= 0 {
			err = errors.New("not positive")
		}
		return plain(err, "want a duration such as 90s")
	}},
	{name: "max-header", usage: "limit of an answer's header in `bytes` (default 10 MiB)", set: bytesSetting(func(s *settings) *int { return &s.maxHeader })},
	{name: "max-event", usage: "limit of one stream event in `bytes` (default 32 MiB)", set: bytesSetting(func(s *settings) *int { return &s.maxEvent })},
	{name: "max-body", usage: "limit of a JSON answer or a stream in `bytes` (default 256 MiB)", set: bytesSetting(func(s *settings) *int { return &s.maxBody })},
	{name: "check-vectors", bool: true, usage: "look at every vector of every answer: count, order, dimension, type, byte order, finite",
		set: func(s *settings, v string) error { return parseBool(&s.vectors, v) }},
	{name: "max-fail", usage: "`number` of failed requests that a benchmark tolerates", set: func(s *settings, v string) (err error) {
		s.maxFail, err = strconv.Atoi(v)
		if err == nil && s.maxFail < 0 {
			err = errors.New("negative")
		}
		return plain(err, "want a whole number from 0 on")
	}},
	{name: "max-lag", usage: "`duration` that 99 in 100 sends of an open loop may be late by the client's fault (default 1s)", set: func(s *settings, v string) (err error) {
		s.maxLag, err = time.ParseDuration(v)
		if err == nil && s.maxLag <= 0 {
			err = errors.New("not positive")
		}
		return plain(err, "want a duration such as 20ms")
	}},
	{name: "max-own-error", usage: "`share` of what a run measures that its own error (late sends, late reads, pauses) may reach before it is marked invalid (default 0.1)", set: func(s *settings, v string) (err error) {
		s.maxOwnError, err = strconv.ParseFloat(v, 64)
		if err == nil && !(s.maxOwnError >= 0 && s.maxOwnError <= math.MaxFloat32) {
			err = errors.New("no share")
		}
		return plain(err, "want a share from 0 on, such as 0.1")
	}},
	{name: "strict", bool: true, usage: "fail a benchmark whose run is invalid: see max-own-error",
		set: func(s *settings, v string) error { return parseBool(&s.strict, v) }},
	{name: "records", usage: "`file` to which a line of JSON is appended for each request when it has ended; one that ends in .gz is compressed",
		set: func(s *settings, v string) error { s.records = v; return nil }},
	{name: "records-text", bool: true, usage: "keep the text of answers in the records",
		set: func(s *settings, v string) error { return parseBool(&s.recordsText, v) }},
	{name: "progress", usage: "`auto` or off: show on the terminal where a run is (auto: where there is one)", set: func(s *settings, v string) error {
		if v != "auto" && v != "off" {
			return errors.New("want auto or off")
		}
		s.noProgress = v == "off"
		return nil
	}},
	{name: "grace", usage: "`duration` that requests in flight get after an interrupt (default 500ms)", set: func(s *settings, v string) (err error) {
		s.grace, err = time.ParseDuration(v)
		if err == nil && s.grace < 0 {
			err = errors.New("negative")
		}
		return plain(err, "want a duration such as 5s, or 0")
	}},
}

func bytesSetting(field func(*settings) *int) func(*settings, string) error {
	return func(s *settings, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return errors.New("want a whole number from 1 on")
		}
		*field(s) = n
		return nil
	}
}

func parseBool(dst *bool, v string) (err error) {
	*dst, err = strconv.ParseBool(v)
	return plain(err, "want 1 or 0")
}

// plain replaces a parser's error by words for people.
func plain(err error, words string) error {
	if err != nil {
		return errors.New(words)
	}
	return nil
}

// flagValues holds what RegisterFlags' flags were set to, applied over the
// environment.
var flagValues []givenFlag

type givenFlag struct {
	setting
	flag, value string
}

// RegisterFlags defines a flag for each setting on fs, prefix before its name.
// Call it in an init function of a test package of your own, and in no package
// that others run with `go test ./...`: a flag that one package does not know
// fails that package. The environment variables need no such care.
func RegisterFlags(fs *flag.FlagSet, prefix string) {
	for _, d := range definitions {
		if d.envOnly {
			continue
		}
		usage := fmt.Sprintf("%s; also %s", d.usage, d.env())
		set := func(v string) error {
			// Package flag would repeat the value of one that it is told of.
			if !d.secret {
				if err := d.apply(&settings{}, v); err != nil {
					return err
				}
			}
			flagValues = append(flagValues, givenFlag{d, "-" + prefix + d.name, v})
			return nil
		}
		if d.bool {
			fs.BoolFunc(prefix+d.name, usage, set)
		} else {
			fs.Func(prefix+d.name, usage, set)
		}
	}
}

// readSettings applies the environment, then the flags. Unknown TOKPACE_
// variables are errors: a misspelt one would otherwise measure something else.
func readSettings(environ []string) (*settings, error) {
	s := &settings{ignoreEOS: "auto", serverMetrics: "auto", grace: defaultGrace, maxOwnError: defaultMaxOwnError}
	env := map[string]string{}
	for _, kv := range environ {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	for name := range env {
		if strings.HasPrefix(name, envPrefix) && !knownVariable(name) {
			if why := whyNot(func(other string) bool { return variable(other) == name }); why != "" {
				return nil, fmt.Errorf("%s is no setting of tokpace: %s", name, why)
			}
			return nil, fmt.Errorf("%s is no setting of tokpace: choose among %s", name, strings.Join(variables(), ", "))
		}
	}
	for _, d := range definitions {
		if v := env[d.env()]; v != "" {
			s.given = append(s.given, d.name)
			if err := d.apply(s, v); err != nil {
				if !d.secret {
					return nil, fmt.Errorf("%s=%s: %w", d.env(), api.Snippet([]byte(v)), err)
				}
				return nil, fmt.Errorf("%s: %w", d.env(), err)
			}
		}
	}
	if s.target == "" && s.baseURL == "" {
		s.baseURL = env["OPENAI_BASE_URL"]
	}
	if s.target == "fake" {
		s.baseURL = ""
	}
	fromEnv := *s
	for _, f := range flagValues {
		if err := f.apply(s, f.value); err != nil {
			return nil, fmt.Errorf("%s: %w", f.flag, err)
		}
		s.given = append(s.given, f.name)
	}
	if fromEnv.target == "fake" && s.baseURL != "" {
		s.target = "" // the flag wins over the variable
	}
	if s.target == "fake" {
		s.baseURL = ""
	}
	if s.apiKey == "" {
		s.apiKey = env["OPENAI_API_KEY"]
	}
	return s, s.check()
}

func (s *settings) gave(name string) bool { return slices.Contains(s.given, name) }

// check finds settings that contradict each other.
func (s *settings) check() error {
	switch {
	case s.proxy != nil && s.transport != client.NetHTTP:
		return errors.New("proxy needs transport=net/http, since h1 goes straight to the server")
	case s.recordsText && s.records == "":
		return errors.New("records-text needs records, the file that the text goes to")
	case s.metricsEvery > 0 && s.serverMetrics == "false":
		return errors.New("server-metrics-every and server-metrics=false contradict each other: give one of them")
	}
	for _, same := range [][2]string{{"input-len", "random-input-len"}, {"output-len", "random-output-len"}} {
		if s.gave(same[0]) && s.gave(same[1]) {
			return fmt.Errorf("%s and %s are the same: give one of them", same[0], same[1])
		}
	}
	return s.shape.check(s.gave)
}

// shaping names a setting of BenchmarkServe alone that was given, "" for none.
func (s *settings) shaping() string {
	for _, d := range shapeSettings {
		if s.gave(d.name) {
			return d.name
		}
	}
	return ""
}

func knownVariable(name string) bool { return slices.Contains(variables(), name) }

func variables() []string {
	names := make([]string, len(definitions))
	for i, d := range definitions {
		names[i] = d.env()
	}
	return names
}

func environSettings() (*settings, error) { return readSettings(os.Environ()) }
