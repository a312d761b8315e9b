package benchtests

import (
	"testing"

	"example.com/tokpace/pkg/dataset"
)

var chatScenarios = []scenario{
	{name: "stream=true", data: dataset.Chat{Input: 512, Output: 17, Stream: true}, conc: []int{1, 8}},
	{name: "stream=false", data: dataset.Chat{Input: 512, Output: 17}, conc: []int{1, 8}},
}

func BenchmarkChat(b *testing.B) { run(b, chatScenarios) }

// The usage= variants are one fault's regression test on real time: where the
// server puts its usage must not change the input tokens.
var imageScenarios = []scenario{
	{name: "image=none", data: images(0), conc: []int{1}},
	{name: "image=1024x800", data: images(1), conc: []int{1, 8}},
	{name: "image=1024x800/usage=with-choices", data: images(1), plan: "usage=with-choices", conc: []int{1}},
	{name: "image=1024x800/usage=off", data: images(1), plan: "usage=off", conc: []int{1}},
}

func images(n int) dataset.Chat {
	return dataset.Chat{Input: 512, Output: 17, Stream: true, Images: n, Width: 1024, Height: 800}
}

func BenchmarkImages(b *testing.B) { run(b, imageScenarios) }
