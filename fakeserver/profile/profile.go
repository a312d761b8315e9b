// Package profile reads the configuration of a fake server from a file: what it serves, when, and which faults it has.
//
// It lies beside fakeserver, which stays free of dependencies, and imports it, pkg/tokens and pkg/strictyaml. JSON is
// YAML too. A profile has the keys of X-Fake-Plan, those of the command's flags, and rules:
//
//	ttft: 20ms
//	itl: 2ms
//	rules:
//	  - name: the first two fail
//	    match: {endpoint: /v1/chat/completions, first: 2}
//	    fault: {status: 503, retry-after: "1"}
//
// An editor that knows JSON Schema completes and checks profiles by testdata/profiles/profile.schema.json of this module,
// where there are examples too.
package profile

import (
	"errors"
	"fmt"
	"os"
	"time"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/strictyaml"
	"example.com/tokpace/pkg/tokens"
)

// maxSize of a profile in bytes.
const maxSize = 1 << 20

// document is a profile as it is written. Its fields have the names of those of fakeserver.Config.
type document struct {
	// The name of the one model; tokpace-fake if not given.
	Model string `yaml:"model,omitempty"`
	// Context length in tokens; 32768 if not given.
	MaxModelLen int `yaml:"max-model-len,omitempty" jsonschema:"minimum=1,maximum=1073741824"`
	// The model family by which images are counted, as in qwen3-vl or fixed:576.
	Vision string `yaml:"vision,omitempty"`
	// Length of vectors; 64 if not given.
	Dim int `yaml:"dim,omitempty" jsonschema:"minimum=1,maximum=16777216"`
	// Chooses words, vectors, scores and the draws of rules with a probability.
	Seed uint64 `yaml:"seed,omitempty"`
	// Tokens after which the model stops; without it, it says max_tokens.
	OutputTokens int `yaml:"output-tokens,omitempty" jsonschema:"minimum=1,maximum=1048576"`
	// Time from a request to the answer's headers.
	Headers time.Duration `yaml:"headers,omitempty"`
	// Time from a request to its first token, or to a plain answer.
	TTFT time.Duration `yaml:"ttft,omitempty"`
	// Time between tokens.
	ITL time.Duration `yaml:"itl,omitempty"`
	// Pieces of a plain body that piece-delay spreads out; 5 if not given.
	Pieces int `yaml:"pieces,omitempty" jsonschema:"minimum=1,maximum=1048576"`
	// Time before each piece of a plain body; without it the body comes whole.
	PieceDelay time.Duration `yaml:"piece-delay,omitempty"`
	// Where token usage goes.
	Usage string `yaml:"usage,omitempty" jsonschema:"enum=own-chunk,enum=with-choices,enum=off"`
	// Adds usage.prompt_tokens_details.
	PromptTokensDetails bool `yaml:"details,omitempty"`
	// Prompt tokens reported as cached.
	CachedTokens int `yaml:"cached-tokens,omitempty" jsonschema:"minimum=0,maximum=1073741824"`
	// Which requests meet which fault. The first rule that matches wins, unless it says continue.
	Rules []fakeserver.Rule `yaml:"rules,omitempty"`
}

// Parse reads a profile. An empty one is the zero Config. Unknown and repeated keys, keys without a value and bad values
// are errors of one line that tell line and column.
func Parse(data []byte) (fakeserver.Config, error) {
	cfg, err := parse(data)
	if err != nil {
		return fakeserver.Config{}, fmt.Errorf("profile: %w", err)
	}
	return cfg, nil
}

// Load is Parse of a file. Its errors name the file.
func Load(path string) (fakeserver.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return fakeserver.Config{}, fmt.Errorf("profile: %w", err)
	}
	cfg, err := parse(data)
	if err != nil {
		return fakeserver.Config{}, fmt.Errorf("profile %s: %w", path, err)
	}
	return cfg, nil
}

func parse(data []byte) (cfg fakeserver.Config, err error) {
	if len(data) > maxSize {
		return cfg, fmt.Errorf("over %d bytes", maxSize)
	}
	doc, err := strictyaml.Parse(data)
	if err != nil {
		return cfg, err
	}
	var d document
	if err := doc.Decode(&d); err != nil {
		return cfg, err
	}
	if cfg, err = d.config(); err == nil {
		err = fakeserver.Check(cfg)
	}
	if err != nil {
		return fakeserver.Config{}, source{doc}.explain(err)
	}
	return cfg, nil
}

// fieldError is about one key of the top level.
type fieldError struct {
	key string
	err error
}

func (e *fieldError) Error() string { return e.key + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

func (d *document) config() (fakeserver.Config, error) {
	cfg := fakeserver.Config{
		Model: d.Model, MaxModelLen: d.MaxModelLen, Dim: d.Dim, Seed: d.Seed, OutputTokens: d.OutputTokens,
		Headers: d.Headers, TTFT: d.TTFT, ITL: d.ITL, Pieces: d.Pieces, PieceDelay: d.PieceDelay,
		PromptTokensDetails: d.PromptTokensDetails, CachedTokens: d.CachedTokens, Rules: d.Rules,
	}
	var err error
	if d.Usage != "" {
		if cfg.Usage, err = fakeserver.ParseUsageMode(d.Usage); err != nil {
			return cfg, &fieldError{"usage", err}
		}
	}
	if d.Vision != "" {
		if cfg.Vision, err = tokens.ParseVision(d.Vision); err != nil {
			return cfg, &fieldError{"vision", errors.New(trimPackage(err.Error()))}
		}
	}
	return cfg, nil
}
