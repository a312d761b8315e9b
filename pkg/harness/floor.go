package harness

import (
	"testing"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
)

// Floor measures what the harness itself takes: one request at a time to a server
// in this process, on a loopback socket, that answers with the same bytes at once. A
// latency that is not far above these is the client's and the machine's as much as
// the server's.
//
//	func BenchmarkFloor(b *testing.B) { harness.Floor(b) }
//
// It makes a sub-benchmark of a stream of sixteen events, which come in one piece,
// and one of a plain answer. Its latencies are those of metric.Floor. They are
// never judged, nor is a run of it invalid: it is its own error.
func Floor(b *testing.B) {
	b.Helper()
	for _, answer := range []string{floorStream, floorPlain} {
		b.Run("answer="+answer+"/conc=1", func(b *testing.B) {
			Benchmark{
				Dataset: dataset.Chat{Input: 16, Output: nullTokens, Stream: answer == floorStream},
				Load:    load.Closed{N: 1, Warmup: load.Warmup{Requests: 16}}, // fills the pools
				floor:   answer,
			}.Run(b)
		})
	}
}

// Answers of the floor's server.
const (
	floorStream = "stream"
	floorPlain  = "plain"
)

// findNull starts a server that does nothing; release ends it. Of the settings only
// those of the client hold for it.
func findNull(answer string) (s *server, release func(), err error) {
	set, err := currentSettings()
	if err != nil {
		return nil, nil, err
	}
	transport, err := client.NamedTransport(set.transport, nil)
	if err != nil {
		return nil, nil, err
	}
	client.LimitHeader(transport, set.maxHeader)
	null, err := startNull(nullAnswers[answer])
	if err != nil {
		return nil, nil, err
	}
	s = &server{
		settings: set, baseURL: "http://" + null.addr(), transport: transport, model: "null", inProcess: true,
		words: map[*api.API]knownWords{api.Chat: {}}, // nobody counts tokens there
	}
	s.close = func() {
		transport.CloseIdleConnections()
		null.close()
	}
	s.findSecrets()
	return s, s.close, nil
}
