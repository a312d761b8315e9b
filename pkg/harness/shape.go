package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
)

// A shape is the load that the settings describe, for BenchmarkServe. The zero
// shape is `vllm bench serve`'s own default, but for the number in flight, which
// is bounded here: requests without end would otherwise be sent all at once.
type shape struct {
	backend *api.API // nil is api.Completions
	input   int      // 0 is defaultInput
	output  int      // 0 is defaultOutput
	batch   int      // texts or documents of a request; 0 is 1
	plain   bool     // no stream

	rates      []float64 // requests a second, one benchmark each; none is a closed loop
	burstiness float64   // 0 is 1
	ramp       ramp
	inFlight   []int // one benchmark each; none is defaultInFlight in a closed loop and no limit in an open one
	warmup     load.Warmup
	limits     load.Limits

	goodput     metric.SLO
	percentiles []metric.Percent
	latencies   []string // that the percentiles are of; none are those of vllm
	steady      bool

	sampling   []api.Member // of generation
	logprobs   *int
	extra      []api.Member // wins over everything
	adapters   []string     // LoRA, as models
	roundRobin bool         // adapters are taken in turn, not drawn
	idPrefix   string
	label      string
	profile    bool
}

const (
	defaultInput    = 1024
	defaultOutput   = 128
	defaultInFlight = 8
)

// A ramp is a rate that changes with the number of the request.
type ramp struct {
	strategy string // "linear" or "exponential"; "" is none
	from, to float64
}

func (s *shape) api() *api.API {
	if s.backend == nil {
		return api.Completions
	}
	return s.backend
}

// generates reports whether the backend says text, to which sampling applies.
func (s *shape) generates() bool { return s.api() == api.Chat || s.api() == api.Completions }

// shapeSettings are the settings of BenchmarkServe alone.
var shapeSettings = []setting{
	{name: "backend", usage: "`name` of the API: vllm, " + strings.Join(api.Names(), ", ") + " (default openai)", shape: func(s *shape, v string) (err error) {
		if v == "vllm" { // as there: another name of the same
			v = api.Completions.Name
		}
		s.backend, err = api.Lookup(v)
		return err
	}},
	{name: "dataset-name", usage: "`name` of what is sent: random", shape: func(s *shape, v string) error {
		if v != "random" {
			return errors.New("the only data set is random; others are Go code, see package dataset")
		}
		return nil
	}},
	{name: "input-len", usage: "`tokens` of the prompt, or of each text (default 1024)", shape: whole(1, func(s *shape) *int { return &s.input })},
	{name: "random-input-len", usage: "`tokens`: the same as input-len", shape: whole(1, func(s *shape) *int { return &s.input })},
	{name: "output-len", usage: "`tokens` of the answer (default 128)", shape: whole(1, func(s *shape) *int { return &s.output })},
	{name: "random-output-len", usage: "`tokens`: the same as output-len", shape: whole(1, func(s *shape) *int { return &s.output })},
	{name: "random-batch-size", usage: "`number` of texts, or of documents to rank, in one request (default 1)", shape: whole(1, func(s *shape) *int { return &s.batch })},
	{name: "no-stream", bool: true, usage: "ask for whole answers, not for streams", shape: func(s *shape, v string) error { return parseBool(&s.plain, v) }},

	{name: "request-rate", usage: "`requests` a second, sent whether or not answers come; several, separated by commas, are one benchmark each (default inf: as fast as max-concurrency allows)",
		shape: func(s *shape, v string) error {
			s.rates = nil
			if v == "inf" {
				return nil
			}
			return parseList(&s.rates, v, parsePositive)
		}},
	{name: "burstiness", usage: "`shape` of the gamma distribution of the gaps: 1 is a Poisson process (default), less is burstier, inf is constant gaps", shape: func(s *shape, v string) (err error) {
		if v == "inf" {
			s.burstiness = math.Inf(1)
			return nil
		}
		s.burstiness, err = parsePositive(v)
		return err
	}},
	{name: "max-concurrency", usage: "`requests` in flight at most; several, separated by commas, are one benchmark each (default 8, no limit with request-rate)", shape: func(s *shape, v string) error {
		s.inFlight = nil
		return parseList(&s.inFlight, v, parseCount)
	}},
	{name: "ramp-up-strategy", usage: "`how` the rate changes from ramp-up-start-rps to ramp-up-end-rps: linear or exponential", shape: func(s *shape, v string) error {
		if v != "linear" && v != "exponential" {
			return errors.New("want linear or exponential")
		}
		s.ramp.strategy = v
		return nil
	}},
	{name: "ramp-up-start-rps", usage: "`requests` a second at the beginning", shape: func(s *shape, v string) (err error) { s.ramp.from, err = parsePositive(v); return err }},
	{name: "ramp-up-end-rps", usage: "`requests` a second at the end", shape: func(s *shape, v string) (err error) { s.ramp.to, err = parsePositive(v); return err }},
	{name: "num-warmups", usage: "`number` of requests before the measured ones, with prompts of their own", shape: whole(0, func(s *shape) *int { return &s.warmup.Requests })},
	{name: "warmup-time", usage: "`duration` of the warm-up, in place of or beside num-warmups: the first that is reached ends it", shape: span(func(s *shape) *time.Duration { return &s.warmup.Duration })},
	{name: "limit-time", usage: "`duration` after which the run ends and cuts off what is in flight, which is counted as unfinished", shape: span(func(s *shape) *time.Duration { return &s.limits.Duration })},
	{name: "limit-tokens", usage: "`number` of output tokens after which nothing more is sent", shape: func(s *shape, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 1 {
			return errors.New("want a whole number from 1 on")
		}
		s.limits.Tokens = n
		return nil
	}},

	{name: "temperature", usage: "`number` from 0 on", shape: number("temperature", 0, math.MaxFloat64)},
	{name: "top-p", usage: "`number` above 0 and at most 1", shape: number("top_p", math.SmallestNonzeroFloat64, 1)},
	{name: "top-k", usage: "`number` of tokens; -1 and 0 are all", shape: func(s *shape, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < -1 {
			return errors.New("want a whole number from -1 on")
		}
		s.sample("top_k", v)
		return nil
	}},
	{name: "min-p", usage: "`number` from 0 to 1", shape: number("min_p", 0, 1)},
	{name: "frequency-penalty", usage: "`number` from -2 to 2", shape: number("frequency_penalty", -2, 2)},
	{name: "presence-penalty", usage: "`number` from -2 to 2", shape: number("presence_penalty", -2, 2)},
	{name: "repetition-penalty", usage: "`number` above 0", shape: number("repetition_penalty", math.SmallestNonzeroFloat64, math.MaxFloat64)},
	{name: "logprobs", usage: "`number` of alternatives to each token whose probabilities are asked for", shape: func(s *shape, v string) error {
		n := 0
		if err := whole(0, func(*shape) *int { return &n })(s, v); err != nil {
			return err
		}
		s.logprobs = &n
		return nil
	}},
	{name: "extra-body", secret: true, usage: "`JSON` object whose members go into every request's body, and win over all others", shape: func(s *shape, v string) (err error) {
		s.extra, err = api.ParseMembers([]byte(v))
		if err != nil {
			// The decoder's words would repeat what may be secret.
			return errors.New(`want a JSON object in which no name comes twice, as in {"top_k": 20}`)
		}
		return nil
	}},
	{name: "lora-modules", usage: "`names` of adapters, separated by commas, that the requests ask for in place of the model", shape: func(s *shape, v string) error {
		s.adapters = strings.FieldsFunc(v, isSeparator)
		if len(s.adapters) == 0 {
			return errors.New("want names of adapters, separated by commas")
		}
		return nil
	}},
	{name: "lora-assignment", usage: "`how` a request gets its adapter: random (default, from the seed) or round-robin", shape: func(s *shape, v string) error {
		if v != "random" && v != "round-robin" {
			return errors.New("want random or round-robin")
		}
		s.roundRobin = v == "round-robin"
		return nil
	}},
	{name: "request-id-prefix", usage: "`text` before the request's number in the header X-Request-Id (default: no such header)", shape: func(s *shape, v string) error {
		if strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return errors.New("want printable ASCII without spaces")
		}
		s.idPrefix = v
		return nil
	}},

	{name: "goodput", usage: "`limits` that a good request keeps, as in ttft:500,tpot:50,e2el:5000, in milliseconds", shape: func(s *shape, v string) (err error) {
		if s.goodput, err = metric.ParseSLO(v); err == nil && len(s.goodput) == 0 {
			err = errors.New("want limits in milliseconds, as in ttft:500,tpot:50")
		}
		return err
	}},
	{name: "metric-percentiles", usage: "`percents`, separated by commas, that are reported of percentile-metrics beside 50 and 99", shape: func(s *shape, v string) error {
		s.percentiles = nil
		return parseList(&s.percentiles, v, metric.ParsePercent)
	}},
	{name: "percentile-metrics", usage: "`latencies`, separated by commas, that metric-percentiles is about (default ttft,tpot,itl; e2el where there is no stream)",
		shape: func(s *shape, v string) error {
			s.latencies = nil
			return parseList(&s.latencies, v, metric.ParseLatency)
		}},
	{name: "steady-state", bool: true, usage: "report the steady part of the run too, as steady-… units", shape: func(s *shape, v string) error { return parseBool(&s.steady, v) }},
	{name: "profile", bool: true, usage: "POST /start_profile before the measured part and /stop_profile after it", shape: func(s *shape, v string) error { return parseBool(&s.profile, v) }},
	{name: "label", usage: "`word` that the benchmark's name ends with, as label=WORD", shape: func(s *shape, v string) error {
		if !labelWord.MatchString(v) || endsLikeProcs.MatchString(v) {
			return errors.New("want letters, digits, '.', '_', '+' and '-', and no number behind a '-' at the end")
		}
		s.label = v
		return nil
	}},
}

var (
	labelWord     = regexp.MustCompile(`^[A-Za-z0-9._+-]+$`)
	endsLikeProcs = regexp.MustCompile(`-\d+$`) // benchstat would take it for GOMAXPROCS
)

func isSeparator(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }

func whole(least int, field func(*shape) *int) func(*shape, string) error {
	return func(s *shape, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > math.MaxInt32 {
			return fmt.Errorf("want a whole number from %d to %d", least, math.MaxInt32)
		}
		*field(s) = n
		return nil
	}
}

func span(field func(*shape) *time.Duration) func(*shape, string) error {
	return func(s *shape, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return errors.New("want a duration such as 30s")
		}
		*field(s) = d
		return nil
	}
}

func parseCount(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, errors.New("want whole numbers from 1 on")
	}
	return n, nil
}

func parsePositive(v string) (float64, error) {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		return 0, errors.New("want a number above 0")
	}
	return f, nil
}

func parseList[T comparable](to *[]T, v string, parse func(string) (T, error)) error {
	for _, word := range strings.FieldsFunc(v, isSeparator) {
		x, err := parse(word)
		if err != nil {
			return err
		}
		if slices.Contains(*to, x) {
			return fmt.Errorf("%s is there twice", word)
		}
		*to = append(*to, x)
	}
	if len(*to) == 0 {
		return errors.New("the list is empty")
	}
	return nil
}

func number(member string, least, most float64) func(*shape, string) error {
	return func(s *shape, v string) error {
		f, err := strconv.ParseFloat(v, 64)
		switch {
		case err == nil && f >= least && f <= most:
			s.sample(member, strconv.FormatFloat(f, 'f', -1, 64))
			return nil
		case most < math.MaxFloat64 && least == math.SmallestNonzeroFloat64:
			return fmt.Errorf("want a number above 0 and at most %g", most)
		case most < math.MaxFloat64:
			return fmt.Errorf("want a number from %g to %g", least, most)
		case least > 0:
			return errors.New("want a number above 0")
		}
		return fmt.Errorf("want a number from %g on", least)
	}
}

// sample sets one sampling parameter.
func (s *shape) sample(member, v string) {
	m := api.Member{Name: member, Value: json.RawMessage(v)}
	i := slices.IndexFunc(s.sampling, func(own api.Member) bool { return own.Name == member })
	if i >= 0 {
		s.sampling[i] = m
		return
	}
	s.sampling = append(s.sampling, m)
	// In one order, however they were given: names and bodies hold it.
	slices.SortFunc(s.sampling, func(a, b api.Member) int {
		return slices.Index(samplingOrder, a.Name) - slices.Index(samplingOrder, b.Name)
	})
}

var samplingOrder = []string{"temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty"}

// maxTokens of one request: more than any model takes, and little enough to build.
const maxTokens = 1 << 24

// check finds settings that contradict each other. given says whether a setting
// was given.
func (s *shape) check(given func(string) bool) error {
	for _, name := range []string{"output-len", "random-output-len", "no-stream", "temperature", "top-p", "top-k", "min-p", "frequency-penalty",
		"presence-penalty", "repetition-penalty", "logprobs"} {
		if given(name) && !s.generates() {
			return fmt.Errorf("%s is for answers of text: the backends openai and openai-chat have it, %s does not", name, s.api().Name)
		}
	}
	switch {
	case s.inputTokens()*s.batchSize() > maxTokens || s.batchSize() > maxTokens:
		return fmt.Errorf("input-len and random-batch-size make a request of %d texts of %d tokens: at most %d tokens in all", s.batchSize(), s.inputTokens(), maxTokens)
	case given("random-batch-size") && s.generates():
		return fmt.Errorf("random-batch-size is for backends that take several texts: %s takes one prompt", s.api().Name)
	case s.api() == api.Rerank && s.inputTokens() < 2:
		return errors.New("input-len is 1: a query and a document need a token each")
	case given("ramp-up-strategy") && given("request-rate"):
		return errors.New("request-rate and ramp-up-strategy contradict each other: give one of them")
	case given("ramp-up-strategy") && (s.ramp.from == 0 || s.ramp.to == 0):
		return errors.New("ramp-up-strategy needs ramp-up-start-rps and ramp-up-end-rps")
	case s.ramp.strategy == "" && (s.ramp.from != 0 || s.ramp.to != 0):
		return errors.New("ramp-up-start-rps and ramp-up-end-rps need ramp-up-strategy")
	case s.burstiness != 0 && !s.open():
		return errors.New("burstiness shapes the gaps between sends: give request-rate too")
	case given("lora-assignment") && len(s.adapters) == 0:
		return errors.New("lora-assignment needs lora-modules")
	case given("percentile-metrics") && !given("metric-percentiles"):
		return errors.New("percentile-metrics needs metric-percentiles")
	}
	return nil
}

func (s *shape) inputTokens() int {
	if s.input == 0 {
		return defaultInput
	}
	return s.input
}

func (s *shape) outputTokens() int {
	if s.output == 0 {
		return defaultOutput
	}
	return s.output
}

func (s *shape) batchSize() int { return max(s.batch, 1) }

// open reports whether sends follow a schedule.
func (s *shape) open() bool { return len(s.rates) > 0 || s.ramp.strategy != "" }

// percentilesOf are the latencies that the percentiles are of.
func (s *shape) percentilesOf() []string {
	switch {
	case len(s.percentiles) == 0:
		return nil
	case len(s.latencies) > 0:
		return s.latencies
	case s.generates() && !s.plain:
		return []string{"ttft", "tpot", "itl"}
	}
	return []string{"e2e"}
}

// A variation is one benchmark of a shape.
type variation struct {
	*shape
	rate     float64 // 0 is none
	inFlight int     // 0 is no limit
}

// variations are the benchmarks of the shape, in the order in which the settings
// list rates and numbers in flight.
func (s *shape) variations() (all []variation) {
	rates, inFlight := s.rates, s.inFlight
	if len(rates) == 0 {
		rates = []float64{0}
	}
	if len(inFlight) == 0 {
		inFlight = []int{0}
		if !s.open() {
			inFlight = []int{defaultInFlight}
		}
	}
	for _, rate := range rates {
		for _, n := range inFlight {
			all = append(all, variation{s, rate, n})
		}
	}
	return all
}

// name is the benchmark's, below BenchmarkServe: all that decides what is sent
// and when, so that results of different shapes are never compared by mistake.
func (v variation) name() string {
	var segments []string
	add := func(key, value string) { segments = append(segments, key+"="+value) }
	add("backend", v.api().Name)
	add("input", strconv.Itoa(v.inputTokens()))
	if v.generates() {
		add("output", strconv.Itoa(v.outputTokens()))
	}
	if v.batchSize() > 1 {
		add("batch", strconv.Itoa(v.batchSize()))
	}
	if v.plain {
		add("stream", "false")
	}
	for _, m := range v.sampling {
		add(strings.ReplaceAll(m.Name, "_", "-"), plainNumber(string(m.Value)))
	}
	if v.logprobs != nil {
		add("logprobs", strconv.Itoa(*v.logprobs))
	}
	if len(v.extra) > 0 {
		text, _ := json.Marshal(v.extra)
		sum := sha256.Sum256(text)
		add("extra", hex.EncodeToString(sum[:4]))
	}
	if len(v.adapters) > 0 {
		add("lora", strconv.Itoa(len(v.adapters)))
		if v.roundRobin {
			add("lora-assignment", "round-robin")
		}
	}
	if v.rate > 0 {
		add("rate", plainFloat(v.rate))
	}
	if v.ramp.strategy != "" {
		add("ramp", v.ramp.strategy)
		add("from", plainFloat(v.ramp.from))
		add("to", plainFloat(v.ramp.to))
	}
	if v.burstiness != 0 && v.burstiness != 1 {
		add("burstiness", plainFloat(v.burstiness))
	}
	if len(v.goodput) > 0 {
		var limits []string
		for _, name := range slices.Sorted(maps.Keys(v.goodput)) {
			limits = append(limits, name+plainFloat(float64(v.goodput[name])/float64(time.Millisecond)))
		}
		add("goodput", strings.Join(limits, "+"))
	}
	if v.limits.Duration > 0 {
		add("limit-time", v.limits.Duration.String())
	}
	if v.limits.Tokens > 0 {
		add("limit-tokens", strconv.FormatInt(v.limits.Tokens, 10))
	}
	if v.inFlight > 0 {
		add("conc", strconv.Itoa(v.inFlight))
	}
	if v.label != "" {
		add("label", v.label)
	}
	return strings.Join(segments, "/")
}

// plainFloat writes a number without an exponent, whose minus would make the end
// of a name look like a number of processors.
func plainFloat(f float64) string {
	if math.IsInf(f, 1) {
		return "inf"
	}
	return plainNumber(strconv.FormatFloat(f, 'f', -1, 64))
}

func plainNumber(s string) string { return strings.Replace(s, "-", "minus", 1) }

// data is the dataset of the shape. A rerank shares its input-len out between
// the query and each document.
func (s *shape) data() dataset.Dataset {
	in, out := s.inputTokens(), s.outputTokens()
	switch s.api() {
	case api.Chat:
		return shapedDataset{dataset.Chat{Input: in, Output: out, Stream: !s.plain}, s}
	case api.Embeddings:
		return shapedDataset{dataset.Embeddings{Input: in, Batch: s.batchSize()}, s}
	case api.Pooling:
		return shapedDataset{dataset.Pooling{Input: in, Batch: s.batchSize()}, s}
	case api.Rerank:
		return shapedDataset{dataset.Rerank{Query: in / 2, Documents: s.batchSize(), Document: in - in/2}, s}
	}
	return shapedDataset{dataset.Completion{Input: in, Output: out, Stream: !s.plain}, s}
}
