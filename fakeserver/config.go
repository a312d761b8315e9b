package fakeserver

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"example.com/tokpace/pkg/tokens"
)

// PlanHeader is the request header that overrides the Config for one request: "key=value" pairs separated by ";".
//
//	X-Fake-Plan: usage=off; headers=5ms; ttft=5ms; itl=1ms; pieces=5; piece-delay=50ms; vision=qwen3-vl;
//	             details=true; cached-tokens=3; dim=1024; output-tokens=5
//
// The keys are the fields of Config; usage is own-chunk, with-choices or off. An unknown or repeated key or a bad value
// is answered 400. The header changes when and how the answer is written, never which words it holds.
const PlanHeader = "X-Fake-Plan"

const (
	defaultModel  = "tokpace-fake"
	defaultMaxLen = 32768
	defaultDim    = 64
	defaultPieces = 5
	defaultOutput = 16

	maxDim   = 1 << 24   // 64 MiB as float32
	maxDelay = time.Hour // keeps TTFT + k·ITL far from overflow
)

// UsageMode says where the usage object of an answer goes.
type UsageMode int

const (
	// UsageOwnChunk is vLLM's way: streams send usage when stream_options.include_usage asks for it, in a last chunk of
	// its own with "choices":[]; plain answers always have it.
	UsageOwnChunk UsageMode = iota
	// UsageWithChoices puts a stream's usage, when asked for, inside the last chunk that has choices.
	UsageWithChoices
	// UsageOff never reports usage, in plain answers and in the metadata header neither.
	UsageOff
)

var usageNames = [...]string{UsageOwnChunk: "own-chunk", UsageWithChoices: "with-choices", UsageOff: "off"}

// String returns the mode's name in PlanHeader.
func (m UsageMode) String() string {
	if m < 0 || int(m) >= len(usageNames) {
		return fmt.Sprintf("UsageMode(%d)", int(m))
	}
	return usageNames[m]
}

// ParseUsageMode is the inverse of String.
func ParseUsageMode(s string) (UsageMode, error) {
	for m, name := range usageNames {
		if s == name {
			return UsageMode(m), nil
		}
	}
	return 0, fmt.Errorf("%q is not one of %s", s, strings.Join(usageNames[:], ", "))
}

// Config is what a Server is. The zero value serves at once, without delays.
type Config struct {
	// What is served. Model is the only model ("" = "tokpace-fake"); a request for another is answered 404. MaxModelLen
	// is its context in tokens (0 = 32768): longer prompts, and prompts plus max_tokens, are answered 400. Vision is how
	// images are counted (zero: qwen2.5-vl). Dim is the length of embedding vectors (0 = 64, at most 1<<24).
	Model       string
	MaxModelLen int
	Vision      tokens.Vision
	Dim         int

	// What is said. Seed changes all words, vectors and scores. OutputTokens is how much the model says by itself before
	// it stops; with 0 it says as much as max_tokens allows (16 when that is absent). finish_reason is "length" when
	// max_tokens cut the answer or pinned its length (max_tokens ≤ OutputTokens, OutputTokens 0, or ignore_eos), else
	// "stop". ignore_eos without max_tokens does not fill the context: the length is as without it.
	Seed         uint64
	OutputTokens int

	// When: see the table in the package comment. Each is at most one hour.
	Headers, TTFT, ITL time.Duration
	// Pieces is the number of parts of a plain body when PieceDelay > 0 (0 = 5); PieceDelay is the time before each.
	Pieces     int
	PieceDelay time.Duration

	// Usage says where usage goes. PromptTokensDetails adds usage.prompt_tokens_details with the members that are not
	// zero: image_tokens (chat only) and cached_tokens (CachedTokens, at most the prompt).
	Usage               UsageMode
	PromptTokensDetails bool
	CachedTokens        int

	// Rules say which requests get which fault; see Rule. They must not be changed afterwards.
	Rules []Rule

	// Edit, if set, may change each plan before it is written, after the faults. It is called from many goroutines.
	Edit func(Request, *Plan)
}

// withDefaults replaces zero values by what they stand for.
func (c Config) withDefaults() Config {
	if c.Model == "" {
		c.Model = defaultModel
	}
	if c.MaxModelLen == 0 {
		c.MaxModelLen = defaultMaxLen
	}
	if c.Dim == 0 {
		c.Dim = defaultDim
	}
	if c.Pieces == 0 {
		c.Pieces = defaultPieces
	}
	return c
}

// Check reports the first bad field of cfg by its name, as New would.
func Check(cfg Config) error { return cfg.check() }

// check reports the first bad field by name.
func (c *Config) check() error {
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"Headers", c.Headers}, {"TTFT", c.TTFT}, {"ITL", c.ITL}, {"PieceDelay", c.PieceDelay}} {
		if d.v < 0 || d.v > maxDelay {
			return fmt.Errorf("fakeserver: Config.%s: %v is not between 0 and %v", d.name, d.v, maxDelay)
		}
	}
	for _, n := range []struct {
		name   string
		v, max int
	}{
		{"MaxModelLen", c.MaxModelLen, 1 << 30}, {"Dim", c.Dim, maxDim}, {"OutputTokens", c.OutputTokens, maxPlanned},
		{"Pieces", c.Pieces, maxPlanned}, {"CachedTokens", c.CachedTokens, 1 << 30},
	} {
		if n.v < 0 || n.v > n.max {
			return fmt.Errorf("fakeserver: Config.%s: %d is not between 0 and %d", n.name, n.v, n.max)
		}
	}
	if err := c.Vision.Validate(); err != nil {
		return fmt.Errorf("fakeserver: Config.Vision: %w", err)
	}
	if c.Usage < 0 || int(c.Usage) >= len(usageNames) {
		return fmt.Errorf("fakeserver: Config.Usage: %v is unknown", c.Usage)
	}
	return checkRules(c.Rules)
}

// override applies the value of PlanHeader.
func (c *Config) override(header string) error {
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(header, ";") {
		pair = strings.TrimSpace(pair)
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok {
			return fmt.Errorf("%s: %q is not key=value", PlanHeader, pair)
		}
		if seen[key] {
			return fmt.Errorf("%s: %s is given twice", PlanHeader, key)
		}
		seen[key] = true
		if err := c.set(key, value); err != nil {
			return fmt.Errorf("%s: %s: %w", PlanHeader, key, err)
		}
	}
	return nil
}

func (c *Config) set(key, value string) (err error) {
	switch key {
	case "usage":
		c.Usage, err = ParseUsageMode(value)
	case "headers":
		c.Headers, err = parseDelay(value)
	case "ttft":
		c.TTFT, err = parseDelay(value)
	case "itl":
		c.ITL, err = parseDelay(value)
	case "piece-delay":
		c.PieceDelay, err = parseDelay(value)
	case "pieces":
		c.Pieces, err = parseCount(value, 1, maxPlanned)
	case "vision":
		c.Vision, err = tokens.ParseVision(value)
	case "details":
		c.PromptTokensDetails, err = parseBool(value)
	case "cached-tokens":
		c.CachedTokens, err = parseCount(value, 0, 1<<30)
	case "dim":
		c.Dim, err = parseCount(value, 1, maxDim)
	case "output-tokens":
		c.OutputTokens, err = parseCount(value, 0, maxPlanned)
	default:
		err = fmt.Errorf("unknown key")
	}
	return err
}

func parseDelay(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxDelay {
		return 0, fmt.Errorf("%q is not a duration between 0 and %v", s, maxDelay)
	}
	return d, nil
}

func parseCount(s string, low, high int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q is not a number between %d and %d", s, low, high)
	}
	return n, nil
}

func parseBool(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("%q is not true or false", s)
	}
	return b, nil
}
