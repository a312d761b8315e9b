package benchtests

import (
	"testing"

	"example.com/tokpace/pkg/dataset"
)

var rerankScenarios = []scenario{
	{data: dataset.Rerank{Query: 16, Documents: 8, Document: 64}, conc: []int{1, 8}},
}

func BenchmarkRerank(b *testing.B) { run(b, rerankScenarios) }
