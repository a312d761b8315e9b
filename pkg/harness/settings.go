package harness

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// envPrefix begins the environment variable of every setting.
const envPrefix = "TOKPACE_"

// settings is what the user chose.
type settings struct {
	target      string // "fake", or empty: the base URL if there is one
	baseURL     string
	apiKey      string
	model       string
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
}

// A setting is one of them: its name on the command line (that of
// `vllm bench serve` where it has one), from which the environment variable
// follows, and what it means.
type setting struct {
	name  string
	usage string
	set   func(s *settings, value string) error
	bool  bool
	// env says that it can only come from the environment: secrets on a command
	// line are seen by every process of the machine.
	envOnly bool
}

func (d setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(d.name, "-", "_"))
}

var definitions = []setting{
	{name: "target", usage: "`fake` uses the built-in fake server whatever else is set", set: func(s *settings, v string) error {
		if v != "fake" {
			return errors.New(`the only named target is "fake"; give a server's address as base-url`)
		}
		s.target = v
		return nil
	}},
	{name: "base-url", usage: "`URL` of the server, as in http://127.0.0.1:8000/v1 (default: OPENAI_BASE_URL, else the built-in fake)",
		set: func(s *settings, v string) error { s.baseURL = v; return nil }},
	{name: "api-key", envOnly: true, usage: "key sent as a bearer token (default: OPENAI_API_KEY)",
		set: func(s *settings, v string) error { s.apiKey = v; return nil }},
	{name: "model", usage: "`name` of the model (default: the first that the server lists)",
		set: func(s *settings, v string) error { s.model = v; return nil }},
	{name: "endpoint", usage: "`path` that replaces the API's own",
		set: func(s *settings, v string) error { s.endpoint = v; return nil }},
	{name: "header", usage: "`K=V` added to every request; several are separated by newlines", set: func(s *settings, v string) error {
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
	{name: "ignore-eos", usage: "`auto`, true or false: pin the output's length by ignore_eos (auto: where the server is known to understand it)",
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
var flagValues []func(*settings) error

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
			if err := d.set(&settings{}, v); err != nil {
				return err
			}
			flagValues = append(flagValues, func(s *settings) error { return d.set(s, v) })
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
	s := &settings{ignoreEOS: "auto"}
	env := map[string]string{}
	for _, kv := range environ {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	for name := range env {
		if strings.HasPrefix(name, envPrefix) && !knownVariable(name) {
			return nil, fmt.Errorf("%s is no setting of tokpace: choose among %s", name, strings.Join(variables(), ", "))
		}
	}
	for _, d := range definitions {
		if v := env[d.env()]; v != "" {
			if err := d.set(s, v); err != nil {
				if !d.envOnly && d.name != "header" { // their values are secret
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
		if err := f(s); err != nil {
			return nil, err
		}
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
	return s, nil
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
