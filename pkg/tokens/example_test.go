package tokens_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"strings"

	"example.com/tokpace/pkg/tokens"
)

// A prompt of an exact number of tokens.
func ExampleWord() {
	var prompt strings.Builder
	for n := range uint64(512) {
		_, piece := tokens.Word(n)
		prompt.WriteString(piece)
	}
	fmt.Println(tokens.Count(prompt.String()), "tokens:", prompt.String()[:25])
	// Output: 512 tokens:  able acid acts adds also
}

func ExampleVision_Count() {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 1920, 1080))); err != nil {
		fmt.Println(err)
		return
	}
	width, height, err := tokens.ImageSize(file.Bytes())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"qwen2.5-vl", "qwen2.5-vl:max-pixels=1003520", "internvl", "fixed:576"} {
		vision, err := tokens.ParseVision(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		count, err := vision.Count(width, height)
		fmt.Println(vision, count.Tokens+count.Markers, err)
	}
	// Output:
	// qwen2.5-vl 2693 <nil>
	// qwen2.5-vl:max-pixels=1003520 1224 <nil>
	// internvl 2306 <nil>
	// fixed:576 576 <nil>
}
