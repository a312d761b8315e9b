package benchtests

import (
	"testing"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/dataset"
)

// slowBody is headers at once and the body in five pieces over 250 ms.
const slowBody = "pieces=5; piece-delay=50ms"

// vectorScenarios are the formats of embeddings and pooling. The body=slow
// variants are the other fault's regression test on real time: the clock must
// stop when the body is complete, not at the headers.
func vectorScenarios(data func(encoding string) dataset.Dataset) []scenario {
	var all []scenario
	for _, format := range []string{api.Float, api.Base64, api.Bytes, api.BytesOnly} {
		all = append(all, scenario{name: "format=" + format, data: data(format), conc: []int{8}})
		if api.IsBinary(format) {
			all = append(all, scenario{name: "format=" + format + "/body=slow", data: data(format), plan: slowBody, conc: []int{8}})
		}
	}
	all[0].conc = []int{1, 8}
	return all
}

var (
	embeddingScenarios = vectorScenarios(func(encoding string) dataset.Dataset {
		return dataset.Embeddings{Input: 128, Encoding: encoding}
	})
	poolingScenarios = vectorScenarios(func(encoding string) dataset.Dataset {
		return dataset.Pooling{Input: 128, Encoding: encoding}
	})
)

func BenchmarkEmbeddings(b *testing.B) { run(b, embeddingScenarios) }

func BenchmarkPooling(b *testing.B) { run(b, poolingScenarios) }
