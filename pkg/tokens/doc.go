// Package tokens counts: text tokens by a small reversible tokenizer of our own, and image tokens by the formulas of the
// common vision-language models. It imports none of the other packages. The fake server uses it to make exact usage
// figures; the client uses it for its own count where a server reports none; data sets use it to make prompts of a wanted
// length.
//
//	var prompt strings.Builder
//	for n := range uint64(512) {
//		_, piece := tokens.Word(n)
//		prompt.WriteString(piece)
//	}
//	tokens.Count(prompt.String()) // 512
//
//	vision, err := tokens.ParseVision("qwen2.5-vl:max-pixels=1003520")
//	width, height, err := tokens.ImageSize(png) // reads the header only
//	count, err := vision.Count(width, height)   // count.Tokens + count.Markers are added to the prompt
//
// The text tokenizer is nobody's real one: its counts are exact for the fake server and an estimate for any other. The
// image formulas are those of the model processors as vLLM runs them.
package tokens
