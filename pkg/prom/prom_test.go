package prom_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/prom"
)

func parse(t *testing.T, text string) prom.Metrics {
	t.Helper()
	m, err := prom.Parse([]byte(text))
	require.NoError(t, err)
	return m
}

func TestParse(t *testing.T) {
	m := parse(t, `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a/b"} 3.0
vllm:num_requests_running{engine="1",model_name="a/b"} 4.0

  plain 17 1395066363000
	spaced   { le = "+Inf" , x = "" , }   1e3
quoted{path="C:\\DIR\"{}, \n"} -0.5
nan NaN
inf{} +Inf
http_requests_total 7`+"\r\n")
	require.Len(t, m, 8)
	require.Equal(t, prom.Sample{Name: "vllm:num_requests_running", Labels: `engine="1",model_name="a/b"`, Value: 4}, m[1])
	require.Equal(t, prom.Sample{Name: "plain", Value: 17}, m[2])
	require.Equal(t, prom.Sample{Name: "spaced", Labels: ` le = "+Inf" , x = "" , `, Value: 1000}, m[3])
	require.Equal(t, prom.Sample{Name: "quoted", Labels: `path="C:\\DIR\"{}, \n"`, Value: -0.5}, m[4])
	require.True(t, math.IsNaN(m[5].Value))
	require.Equal(t, prom.Sample{Name: "http_requests_total", Value: 7}, m[7])
	require.Empty(t, parse(t, ""))
	require.Empty(t, parse(t, "# EOF"))
}

func TestParseMistakes(t *testing.T) {
	for text, words := range map[string]string{
		"a 1\n<html>":        "line 2: no metric's name",
		"1a 1":               "no metric's name",
		"a":                  "no value",
		"a{} ":               "want a value",
		"a x":                "no number",
		"a 1 x":              "timestamp",
		"a 1 1.5":            "timestamp",
		"a 1 2 3":            "want a value",
		"a-b 1":              "no value",
		`a{x="1" 1`:          "no comma or closing brace",
		`a{x="1} 1`:          "no closing quote",
		`a{x="1\`:            "no closing quote",
		`a{x=1} 1`:           "not in quotes",
		`a{x} 1`:             "no =",
		`a{1x="1"} 1`:        "no label's name",
		`a{x="1",,} 1`:       "no label's name",
		`a{:="1"} 1`:         "no label's name",
		`a{`:                 "no label's name",
		"a 1\na 2":           "line 2: the series is there twice",
		"a{x=\"\"} 1 # {} 1": "want a value",
	} {
		m, err := prom.Parse([]byte(text))
		require.ErrorContains(t, err, words, text)
		require.Nil(t, m)
	}
}

func TestSums(t *testing.T) {
	before := parse(t, "c{e=\"0\"} 10\nc{e=\"1\"} 5\ng 1\nnan NaN\nlost 3\n")
	after := parse(t, "c{e=\"0\"} 12\nc{e=\"1\"} 5\nc{e=\"2\"} 4\ng 0.25\nnan 1\nnew 2\nnew{x=\"y\"} 3\n")
	v, ok := prom.Increase(before, after, "c")
	require.True(t, ok)
	require.Equal(t, 6.0, v)
	v, ok = prom.Increase(before, after, "new")
	require.True(t, ok)
	require.Equal(t, 5.0, v)
	for _, none := range []string{"nan", "lost", "nothing"} {
		_, ok = prom.Increase(before, after, none)
		require.False(t, ok, none)
	}
	v, ok = after.Max("c")
	require.True(t, ok)
	require.Equal(t, 12.0, v)
	_, ok = before.Max("nan")
	require.False(t, ok)
	_, ok = before.Max("nothing")
	require.False(t, ok)
	require.False(t, prom.Restarted(before, after, "c"))
	require.False(t, prom.Restarted(before, after, "new"))
	require.True(t, prom.Restarted(before, after, "lost"))
	// Another engine's counter cannot make up for one that began anew.
	require.True(t, prom.Restarted(before, parse(t, "c{e=\"0\"} 1\nc{e=\"1\"} 500\n"), "c"))
}

// No text makes the reader panic, and what it accepts it accepts as often.
func FuzzParse(f *testing.F) {
	f.Add([]byte("# TYPE a counter\na{x=\"1\",y=\"\\\"\"} 1 2\nb NaN\n"))
	f.Add([]byte(`a{x="\`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := prom.Parse(text)
		if err != nil {
			require.Nil(t, m)
			return
		}
		for _, s := range m {
			require.NotEmpty(t, s.Name)
			require.False(t, prom.Restarted(m, m, s.Name) && !math.IsNaN(s.Value))
		}
	})
}
