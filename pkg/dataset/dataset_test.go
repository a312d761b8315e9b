package dataset_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/tokens"
)

var env = dataset.Env{Model: "m", Seed: 1}

func request(t testing.TB, d dataset.Dataset, e dataset.Env, i int) *api.Request {
	t.Helper()
	src, err := d.Source(e)
	require.NoError(t, err)
	req, err := src.Request(i)
	require.NoError(t, err)
	require.Same(t, d.API(), req.API)
	return req
}

// body is the part of any request's body that tests look at.
type body struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Prompt    string   `json:"prompt"`
	Input     []string `json:"input"`
	Query     string   `json:"query"`
	Documents []string `json:"documents"`

	Encoding            string `json:"encoding_format"`
	DType               string `json:"embed_dtype"`
	MaxCompletionTokens int    `json:"max_completion_tokens"`
	MaxTokens           int    `json:"max_tokens"`
	N                   int    `json:"n"`
	Stream              bool   `json:"stream"`
	IgnoreEOS           bool   `json:"ignore_eos"`
}

type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	ImageURL struct {
		URL string `json:"url"`
	} `json:"image_url"`
}

func decode(t testing.TB, req *api.Request) body {
	t.Helper()
	var b body
	require.NoError(t, json.Unmarshal(req.Body, &b))
	return b
}

// texts are the prompt texts of a request, of whatever API, and the URLs of its
// images.
func texts(t testing.TB, req *api.Request) (texts, images []string) {
	t.Helper()
	b := decode(t, req)
	for _, m := range b.Messages {
		require.Equal(t, "user", m.Role)
		var text string
		if json.Unmarshal(m.Content, &text) == nil {
			texts = append(texts, text)
			continue
		}
		var parts []part
		require.NoError(t, json.Unmarshal(m.Content, &parts))
		for i, p := range parts {
			if i == 0 {
				require.Equal(t, "text", p.Type)
				texts = append(texts, p.Text)
				continue
			}
			require.Equal(t, "image_url", p.Type)
			images = append(images, p.ImageURL.URL)
		}
	}
	if b.Prompt != "" {
		texts = append(texts, b.Prompt)
	}
	texts = append(texts, b.Input...)
	for _, doc := range b.Documents {
		texts = append(texts, b.Query, doc)
	}
	return texts, images
}

var shapes = []struct {
	name string
	data dataset.Dataset
	want []int // tokens of the texts
}{
	{"chat", dataset.Chat{Input: 512, Output: 16, Stream: true}, []int{512}},
	{"chat, one token", dataset.Chat{Input: 1, Output: 1}, []int{1}},
	{"chat with images", dataset.Chat{Input: 9, Output: 1, Images: 2, Width: 40, Height: 30}, []int{9}},
	{"completion", dataset.Completion{Input: 100, Output: 3, N: 2}, []int{100}},
	{"embeddings", dataset.Embeddings{Input: 128}, []int{128}},
	{"embeddings batch", dataset.Embeddings{Input: 7, Batch: 3, Encoding: api.Base64}, []int{7, 7, 7}},
	{"pooling", dataset.Pooling{Input: 12, Batch: 2, Encoding: api.BytesOnly, DType: "float16"}, []int{12, 12}},
	{"rerank", dataset.Rerank{Query: 8, Documents: 3, Document: 21}, []int{8, 21, 8, 21, 8, 21}},
}

func TestPromptsHaveTheirTokens(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			for i := range 20 {
				req := request(t, s.data, env, i)
				got, _ := texts(t, req)
				var counted []int
				var sum int64
				for _, text := range got {
					counted = append(counted, tokens.Count(text))
					sum += int64(tokens.Count(text))
				}
				require.Equal(t, s.want, counted)
				require.Equal(t, api.Some(sum), req.InputTokens, "the client's own count")
				require.Equal(t, "m", decode(t, req).Model)
			}
		})
	}
}

func TestRequestsSayWhatTheyAsk(t *testing.T) {
	pinned := dataset.Env{Model: "m", IgnoreEOS: true}
	req := request(t, dataset.Chat{Input: 5, Output: 16, Stream: true, N: 2}, pinned, 0)
	b := decode(t, req)
	require.True(t, req.Stream && b.Stream && b.IgnoreEOS)
	require.Equal(t, []int{16, 0, 2}, []int{b.MaxCompletionTokens, b.MaxTokens, b.N})
	req = request(t, dataset.Completion{Input: 5, Output: 16}, env, 0)
	b = decode(t, req)
	require.False(t, req.Stream || b.Stream || b.IgnoreEOS)
	require.Equal(t, []int{0, 16, 0}, []int{b.MaxCompletionTokens, b.MaxTokens, b.N})
	req = request(t, dataset.Pooling{Input: 5, Encoding: api.Bytes, DType: "float16"}, env, 0)
	b = decode(t, req)
	require.Equal(t, []string{api.Bytes, "float16", api.Bytes, "float16"}, []string{b.Encoding, b.DType, req.Encoding, req.DType})
}

func TestRequestsDiffer(t *testing.T) {
	for _, s := range shapes {
		if s.want[0] == 1 {
			continue // there are as few such prompts as words
		}
		seen := map[string]string{}
		for _, seed := range []uint64{0, 1, 2, 1 << 40, ^uint64(0)} {
			for i := range 50 {
				got, images := texts(t, request(t, s.data, dataset.Env{Model: "m", Seed: seed}, i))
				if _, ok := s.data.(dataset.Rerank); ok {
					got = slices.Compact(slices.Sorted(slices.Values(got))) // the query goes with each document
				}
				at := fmt.Sprintf("seed %d, request %d", seed, i)
				for _, text := range append(got, images...) {
					require.Empty(t, seen[text], "%s: %s has it too", s.name, at)
					seen[text] = at
				}
			}
		}
	}
}

// The i-th request is the same whenever it is built, and on every machine.
func TestRequestsAreTheSame(t *testing.T) {
	for _, s := range shapes {
		src, err := s.data.Source(env)
		require.NoError(t, err)
		const n = 16
		bodies := make([][]byte, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				req, err := src.Request(n - 1 - i)
				if err == nil {
					bodies[n-1-i] = req.Body
				}
			})
		}
		wg.Wait()
		for i := range n {
			require.Equal(t, string(request(t, s.data, env, i).Body), string(bodies[i]), s.name)
		}
	}
	// Hashes of the first prompts: another one means that results of before
	// and after cannot be compared.
	for want, d := range map[string]dataset.Dataset{
		"0618175582b9730a": dataset.Chat{Input: 512, Output: 1},
		"ade5a272bc7a0625": dataset.Rerank{Query: 16, Documents: 4, Document: 64},
	} {
		sum := sha256.New()
		for i := range 10 {
			got, _ := texts(t, request(t, d, env, i))
			for _, text := range got {
				sum.Write([]byte(text + "\n"))
			}
		}
		require.Equal(t, want, hex.EncodeToString(sum.Sum(nil)[:8]))
	}
}

func TestFields(t *testing.T) {
	for want, d := range map[string]dataset.Dataset{
		"Input is 0":         dataset.Chat{Output: 1},
		"Input is -1":        dataset.Completion{Input: -1, Output: 1},
		"Output is 0":        dataset.Chat{Input: 1},
		"Output is -2":       dataset.Completion{Input: 1, Output: -2},
		"N is -1":            dataset.Chat{Input: 1, Output: 1, N: -1},
		"Images is -1":       dataset.Chat{Input: 1, Output: 1, Images: -1},
		"Width is 0":         dataset.Chat{Input: 1, Output: 1, Images: 1, Height: 5},
		"Height is -5":       dataset.Chat{Input: 1, Output: 1, Images: 1, Width: 5, Height: -5},
		"larger than 16384":  dataset.Chat{Input: 1, Output: 1, Images: 1, Width: 5, Height: 16385},
		"Input is -3":        dataset.Embeddings{Input: -3},
		"Batch is -1":        dataset.Pooling{Input: 1, Batch: -1},
		`Encoding "float64"`: dataset.Embeddings{Input: 1, Encoding: "float64"},
		"Query is 0":         dataset.Rerank{Documents: 1, Document: 1},
		"Documents is 0":     dataset.Rerank{Query: 1, Document: 1},
		"Document is 0":      dataset.Rerank{Query: 1, Documents: 1},
	} {
		_, err := d.Source(env)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "dataset: ")
	}
}

func decodeImage(t *testing.T, url string) (pixels []byte, colours map[color.Color]bool, width, height int) {
	t.Helper()
	data, ok := strings.CutPrefix(url, "data:image/png;base64,")
	require.True(t, ok)
	raw, err := base64.StdEncoding.DecodeString(data)
	require.NoError(t, err)
	img, err := png.Decode(bytes.NewReader(raw))
	require.NoError(t, err)
	colours = map[color.Color]bool{}
	b := img.Bounds()
	for y := range b.Dy() {
		for x := range b.Dx() {
			c := img.At(x, y)
			colours[c] = true
			r, g, bl, _ := c.RGBA()
			pixels = append(pixels, byte(r>>8), byte(g>>8), byte(bl>>8))
		}
	}
	return pixels, colours, b.Dx(), b.Dy()
}

func TestImages(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {1, 100}, {100, 1}, {7, 3}, {8, 16}, {9, 17}, {16, 16}, {17, 33}, {1025, 31}, {301, 205}, {1 << 14, 5}, {5, 1 << 14}} {
		seen := map[string]bool{}
		for i := range 3 {
			req := request(t, dataset.Chat{Input: 3, Output: 1, Images: 2, Width: size[0], Height: size[1]}, env, i)
			_, urls := texts(t, req)
			require.Len(t, urls, 2)
			for _, url := range urls {
				pixels, colours, w, h := decodeImage(t, url)
				require.Equal(t, size, [2]int{w, h})
				require.False(t, seen[string(pixels)], "each image is another one")
				seen[string(pixels)] = true
				require.LessOrEqual(t, len(colours), 2)
				if w > 200 && h > 200 {
					require.Len(t, colours, 2)
				}
				// Squares of 16 pixels: all pixels of one are alike.
				for y := range h {
					for x := range w {
						corner := 3 * ((y-y%16)*w + x - x%16)
						at := 3 * (y*w + x)
						if !bytes.Equal(pixels[at:at+3], pixels[corner:corner+3]) {
							t.Fatalf("%v: pixel %d, %d is unlike its square", size, x, y)
						}
					}
				}
			}
		}
	}
}

// Servers tell an image's size by its header alone; both must agree.
func TestImageSizeIsReadable(t *testing.T) {
	_, urls := texts(t, request(t, dataset.Chat{Input: 3, Output: 1, Images: 1, Width: 1024, Height: 800}, env, 0))
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(urls[0], "data:image/png;base64,"))
	require.NoError(t, err)
	require.Less(t, len(raw), 8<<10, "large squares keep the request small")
	cfg, err := png.DecodeConfig(bytes.NewReader(raw))
	require.NoError(t, err)
	require.Equal(t, [2]int{1024, 800}, [2]int{cfg.Width, cfg.Height})
}

// An image is the same everywhere, byte for byte: servers may answer by it.
func TestImageIsTheSame(t *testing.T) {
	_, urls := texts(t, request(t, dataset.Chat{Input: 3, Output: 1, Images: 1, Width: 100, Height: 60}, env, 0))
	sum := sha256.Sum256([]byte(urls[0]))
	require.Equal(t, "3f8d6571a35e2c9c", hex.EncodeToString(sum[:8]))
}

// Building a request must cost little beside sending it: its allocations are
// few, whatever the image's size, since they count into the run's.
func TestBuildingIsCheap(t *testing.T) {
	src, err := dataset.Chat{Input: 512, Output: 16, Images: 1, Width: 1024, Height: 800}.Source(env)
	require.NoError(t, err)
	i := 0
	allocs := testing.AllocsPerRun(20, func() {
		if _, err := src.Request(i); err != nil {
			t.Fatal(err)
		}
		i++
	})
	require.LessOrEqual(t, allocs, 60.0)
}
