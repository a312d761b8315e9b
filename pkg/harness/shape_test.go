package harness

import (
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/dataset"
)

// settingsOf reads settings given as name=value.
func settingsOf(t *testing.T, given ...string) *settings {
	t.Helper()
	s, err := readSettings(variablesOf(given))
	require.NoError(t, err, given)
	return s
}

func variablesOf(given []string) (environ []string) {
	for _, kv := range given {
		name, value, _ := strings.Cut(kv, "=")
		environ = append(environ, variable(name)+"="+value)
	}
	return environ
}

func names(s *settings) (all []string) {
	for _, v := range s.shape.variations() {
		all = append(all, v.name())
	}
	return all
}

func TestShapeNames(t *testing.T) {
	for _, tt := range []struct {
		given []string
		want  []string
	}{
		{nil, []string{"backend=openai/input=1024/output=128/conc=8"}},
		{[]string{"backend=vllm", "max-concurrency=1, 64"}, []string{"backend=openai/input=1024/output=128/conc=1", "backend=openai/input=1024/output=128/conc=64"}},
		{[]string{"backend=openai-chat", "request-rate=10", "max-concurrency=8"}, []string{"backend=openai-chat/input=1024/output=128/rate=10/conc=8"}},
		{[]string{"request-rate=4,0.00000125", "burstiness=0.5"},
			[]string{"backend=openai/input=1024/output=128/rate=4/burstiness=0.5", "backend=openai/input=1024/output=128/rate=0.00000125/burstiness=0.5"}},
		{[]string{"request-rate=inf"}, []string{"backend=openai/input=1024/output=128/conc=8"}},
		{[]string{"request-rate=2", "burstiness=inf", "goodput=ttft:500 tpot:50"}, []string{"backend=openai/input=1024/output=128/rate=2/burstiness=inf/goodput=tpot50+ttft500"}},
		{[]string{"ramp-up-strategy=linear", "ramp-up-start-rps=1", "ramp-up-end-rps=20", "input-len=16", "random-output-len=8"},
			[]string{"backend=openai/input=16/output=8/ramp=linear/from=1/to=20"}},
		{[]string{"top-k=-1", "temperature=0.70", "presence-penalty=-2", "no-stream=1", "logprobs=3", "label=tuned-v2"},
			[]string{"backend=openai/input=1024/output=128/stream=false/temperature=0.7/top-k=minus1/presence-penalty=minus2/logprobs=3/conc=8/label=tuned-v2"}},
		{[]string{"limit-time=90s", "limit-tokens=1000", "warmup-time=5s", "steady-state=1"}, []string{"backend=openai/input=1024/output=128/limit-time=1m30s/limit-tokens=1000/conc=8"}},
		{[]string{"temperature=0.00000001"}, []string{"backend=openai/input=1024/output=128/temperature=0.00000001/conc=8"}},
		{[]string{"backend=vllm-rerank", "random-batch-size=4"}, []string{"backend=vllm-rerank/input=1024/batch=4/conc=8"}},
		{[]string{"lora-modules=org/a b,c", "lora-assignment=round-robin"}, []string{"backend=openai/input=1024/output=128/lora=3/lora-assignment=round-robin/conc=8"}},
		// What shapes no request is in no name.
		{[]string{"request-id-prefix=x", "num-warmups=5", "profile=1", "seed=9", "model=m", "metric-percentiles=90"}, []string{"backend=openai/input=1024/output=128/conc=8"}},
	} {
		got := names(settingsOf(t, tt.given...))
		require.Equal(t, tt.want, got)
		for _, name := range got {
			for segment := range strings.SplitSeq(name, "/") {
				require.Regexp(t, `^[a-z-]+=[A-Za-z0-9._+-]+$`, segment)
				require.NotRegexp(t, `-\d+$`, segment)
			}
		}
	}
	one := names(settingsOf(t, `extra-body={"a":1}`))
	require.Regexp(t, `^backend=openai/input=1024/output=128/extra=[0-9a-f]{8}/conc=8$`, one[0])
	require.Equal(t, one, names(settingsOf(t, `extra-body={ "a" : 1 }`)), "white space says nothing")
	require.NotEqual(t, one, names(settingsOf(t, `extra-body={"a":2}`)))
}

func bodies(t *testing.T, s *settings, n int) (all []map[string]any) {
	t.Helper()
	src, err := s.shape.data().Source(dataset.Env{Model: "m", Seed: s.seed, IgnoreEOS: true})
	require.NoError(t, err)
	for i := range n {
		req, err := src.Request(i)
		require.NoError(t, err)
		var body map[string]any
		require.NoError(t, json.Unmarshal(req.Body, &body))
		all = append(all, body)
	}
	return all
}

func TestShapeBodies(t *testing.T) {
	body := bodies(t, settingsOf(t, "temperature=0", "top-p=0.9", "top-k=20", "min-p=0.05", "frequency-penalty=-0.5", "presence-penalty=1", "repetition-penalty=1.1", "logprobs=2",
		`extra-body={"top_k":40,"stop":["x"]}`, "input-len=3", "output-len=5"), 1)[0]
	prompt := body["prompt"].(string)
	delete(body, "prompt")
	require.Len(t, strings.Fields(prompt), 3)
	require.Equal(t, map[string]any{
		"model": "m", "max_tokens": 5.0, "stream": true, "stream_options": map[string]any{"include_usage": true}, "ignore_eos": true,
		"temperature": 0.0, "top_p": 0.9, "top_k": 40.0, "min_p": 0.05, "frequency_penalty": -0.5, "presence_penalty": 1.0, "repetition_penalty": 1.1,
		"logprobs": 2.0, "stop": []any{"x"},
	}, body)

	body = bodies(t, settingsOf(t, "backend=openai-chat", "logprobs=0", "no-stream=1"), 1)[0]
	require.Equal(t, true, body["logprobs"])
	require.Equal(t, 0.0, body["top_logprobs"])
	require.Equal(t, false, body["stream"])
	require.NotContains(t, body, "temperature", "what is not asked for is the server's own")

	body = bodies(t, settingsOf(t, "backend=vllm-rerank", "input-len=5", "random-batch-size=3"), 1)[0]
	require.Len(t, body["documents"], 3)
	require.Len(t, strings.Fields(body["query"].(string)), 2)
	require.Len(t, strings.Fields(body["documents"].([]any)[0].(string)), 3)

	body = bodies(t, settingsOf(t, "backend=openai-embeddings", "random-batch-size=2", `extra-body={"encoding_format":"bytes"}`), 1)[0]
	require.Len(t, body["input"], 2)
	require.Equal(t, "bytes", body["encoding_format"])
}

// What an extra body asks for decides how the answer is read.
func TestShapeExtraBodyIsReadBack(t *testing.T) {
	src, err := settingsOf(t, "backend=vllm-pooling", `extra-body={"encoding_format":"bytes_only"}`).shape.data().Source(dataset.Env{})
	require.NoError(t, err)
	req, err := src.Request(0)
	require.NoError(t, err)
	require.Equal(t, "bytes_only", req.Encoding)
}

func TestShapeAdapters(t *testing.T) {
	models := func(given ...string) (all []any) {
		for _, body := range bodies(t, settingsOf(t, append(given, "lora-modules=a,b,c", "input-len=1")...), 60) {
			all = append(all, body["model"])
		}
		return all
	}
	require.Equal(t, []any{"a", "b", "c", "a"}, models("lora-assignment=round-robin")[:4])
	drawn := models()
	require.Equal(t, drawn, models("lora-assignment=random"), "the draw is of the seed")
	require.NotEqual(t, drawn, models("seed=1"))
	for _, name := range []string{"a", "b", "c"} {
		require.Contains(t, drawn, name)
	}
	require.Equal(t, "mine", bodies(t, settingsOf(t, "lora-modules=a", `extra-body={"model":"mine"}`), 1)[0]["model"], "extra-body wins over everything")
}

func TestShapeRequestIDs(t *testing.T) {
	src, err := settingsOf(t, "request-id-prefix=run7-").shape.data().Source(dataset.Env{})
	require.NoError(t, err)
	req, err := src.Request(12)
	require.NoError(t, err)
	require.Equal(t, "run7-12", req.Header.Get("X-Request-Id"))
}

// Each wrong setting is one line that names it.
func TestSettingMistakes(t *testing.T) {
	noPEM := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(noPEM, []byte("hello"), 0o600))
	for given, words := range map[string]string{
		"backend=openai-audio":                         `unknown API "openai-audio": choose one of openai, openai-chat`,
		"dataset-name=sharegpt":                        "the only data set is random",
		"input-len=0":                                  "TOKPACE_INPUT_LEN=0: want a whole number from 1 to 2147483647",
		"input-len=1e3":                                "want a whole number",
		"input-len=5\nrandom-input-len=5":              "input-len and random-input-len are the same",
		"output-len=5\nrandom-output-len=6":            "output-len and random-output-len are the same",
		"output-len=5\nbackend=vllm-pooling":           "output-len is for answers of text",
		"temperature=0\nbackend=vllm-rerank":           "temperature is for answers of text",
		"no-stream=1\nbackend=openai-embeddings":       "no-stream is for answers of text",
		"no-stream=maybe":                              "want 1 or 0",
		"random-batch-size=2":                          "random-batch-size is for backends that take several texts",
		"backend=vllm-rerank\ninput-len=1":             "input-len is 1",
		"request-rate=0":                               "want a number above 0",
		"request-rate=-1":                              "want a number above 0",
		"request-rate=NaN":                             "want a number above 0",
		"request-rate=1,inf":                           "want a number above 0",
		"request-rate=4,4":                             "4 is there twice",
		"request-rate=,":                               "the list is empty",
		"burstiness=0\nrequest-rate=1":                 "want a number above 0",
		"burstiness=0.5":                               "give request-rate too",
		"burstiness=2\nrequest-rate=inf":               "give request-rate too",
		"max-concurrency=0":                            "want whole numbers from 1 on",
		"ramp-up-strategy=quadratic":                   "want linear or exponential",
		"ramp-up-strategy=linear":                      "needs ramp-up-start-rps and ramp-up-end-rps",
		"ramp-up-strategy=linear\nramp-up-start-rps=1": "needs ramp-up-start-rps and ramp-up-end-rps",
		"ramp-up-start-rps=0":                          "want a number above 0",
		"ramp-up-start-rps=1\nramp-up-end-rps=2":       "need ramp-up-strategy",
		"ramp-up-strategy=linear\nramp-up-start-rps=1\nramp-up-end-rps=2\nrequest-rate=3": "contradict each other",
		"num-warmups=-1":                       "want a whole number from 0 to 2147483647",
		"temperature=-0.1":                     "want a number from 0 on",
		"temperature=NaN":                      "want a number from 0 on",
		"top-p=0":                              "want a number above 0 and at most 1",
		"top-p=1.1":                            "want a number above 0 and at most 1",
		"top-k=-2":                             "want a whole number from -1 on",
		"min-p=2":                              "want a number from 0 to 1",
		"presence-penalty=3":                   "want a number from -2 to 2",
		"frequency-penalty=x":                  "want a number from -2 to 2",
		"repetition-penalty=0":                 "want a number above 0",
		"repetition-penalty=inf":               "want a number above 0",
		"logprobs=-1":                          "want a whole number from 0 to 2147483647",
		"extra-body=[1]":                       "TOKPACE_EXTRA_BODY: want a JSON object",
		`extra-body={"a":1,"a":2}`:             "no name comes twice",
		"lora-modules=,":                       "want names of adapters",
		"lora-assignment=random":               "lora-assignment needs lora-modules",
		"lora-assignment=mine\nlora-modules=a": "want random or round-robin",
		"request-id-prefix=a b":                "want printable ASCII",
		"goodput=ttft":                         "as in ttft:200",
		"goodput=,":                            "as in ttft:500",
		"goodput=speed:5":                      `no latency is called "speed"`,
		"goodput=ttft:0":                       "above 0",
		"warmup-time=5":                        "want a duration",
		"limit-time=0s":                        "want a duration",
		"limit-tokens=0":                       "want a whole number from 1 on",
		"steady-state=yes":                     "want 1 or 0",
		"max-lag=0s":                           "want a duration",
		"metric-percentiles=0":                 "want a percent above 0 and below 100",
		"metric-percentiles=100":               "want a percent above 0 and below 100",
		"metric-percentiles=p99":               "want a percent above 0 and below 100",
		"percentile-metrics=ttft":              "percentile-metrics needs metric-percentiles",
		"percentile-metrics=speed\nmetric-percentiles=90": `no latency is called "speed"`,
		"profile=yes":                                   "want 1 or 0",
		"label=a/b":                                     "want letters, digits",
		"label=v-2":                                     "want letters, digits",
		"label=a b":                                     "want letters, digits",
		"insecure=maybe":                                "want 1 or 0",
		"ca-cert=/does/not/exist":                       "TOKPACE_CA_CERT=/does/not/exist:",
		"ca-cert=" + noPEM:                              "no certificate in PEM form",
		"proxy=http://127.0.0.1:1":                      "proxy needs transport=net/http",
		"proxy=secret-word":                             "TOKPACE_PROXY: want env, or an address",
		"proxy=ftp://secret@x":                          "TOKPACE_PROXY: want env, or an address",
		"ready-check-timeout-sec=-1":                    "want seconds from 0 to 86400",
		"ready-check-timeout-sec=NaN":                   "want seconds from 0",
		"ready-check-timeout-sec=1e9":                   "want seconds from 0",
		"server-metrics=yes":                            "want auto, true or false",
		"server-metrics-every=0s":                       "want a duration",
		"server-metrics-every=1s\nserver-metrics=false": "contradict each other",
		"metadata=gpu":                                  "want K=V",
		"metadata=gpu=\x1b[2J":                          "want K=V",
		"num-prompts=1000":                              "TOKPACE_NUM_PROMPTS is no setting of tokpace: -benchtime=1000x sends 1000 requests",
		"save-result=1":                                 "results are benchmark text",
		"nonsense=1":                                    "TOKPACE_NONSENSE is no setting of tokpace: choose among",
	} {
		_, err := readSettings(variablesOf(strings.Split(given, "\n")))
		require.Error(t, err, given)
		require.ErrorContains(t, err, words, given)
		require.NotContains(t, err.Error(), "\n")
		require.NotContains(t, err.Error(), "secret")
	}
}

// A flag's value is not repeated either where it may be secret, though package
// flag would do that.
func TestSecretFlags(t *testing.T) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	t.Cleanup(func() { flagValues = nil })
	RegisterFlags(fs, "x.")
	for name, value := range map[string]string{"header": "secret", "extra-body": `{"key":"secret"`, "proxy": "secret"} {
		flagValues = nil
		require.NoError(t, fs.Parse([]string{"-x." + name, value}))
		_, err := readSettings(nil)
		require.ErrorContains(t, err, "-x."+name+": want ")
		require.NotContains(t, err.Error(), "secret")
	}
}

// Settings are one namespace, and none of them is also in the list of those
// that are not.
func TestSettingNames(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range definitions {
		require.Regexp(t, regexp.MustCompile(`^[a-z0-9-]+$`), d.name)
		require.False(t, seen[d.name], d.name)
		require.True(t, (d.set == nil) != (d.shape == nil), d.name)
		seen[d.name] = true
	}
	for _, e := range elsewhere {
		for name := range strings.FieldsSeq(e.names) {
			require.False(t, seen[name], name)
			seen[name] = true
		}
	}
	require.Equal(t, math.Inf(1), settingsOf(t, "request-rate=1", "burstiness=inf").shape.burstiness)
}
