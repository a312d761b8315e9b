package benchtests

import (
	"testing"

	"example.com/tokpace/pkg/dataset"
)

var completionScenarios = []scenario{
	{name: "stream=true", data: dataset.Completion{Input: 512, Output: 17, Stream: true}, conc: []int{1, 8}},
	{name: "stream=false", data: dataset.Completion{Input: 512, Output: 17}, conc: []int{8}},
}

func BenchmarkCompletions(b *testing.B) { run(b, completionScenarios) }
