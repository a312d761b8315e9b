package fakeserver

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFloat16(t *testing.T) {
	noLeaks(t)
	for _, tc := range []struct {
		v    float64
		want uint16
	}{
		{0, 0x0000}, {math.Copysign(0, -1), 0x8000}, {1, 0x3c00}, {-2, 0xc000}, {0.5, 0x3800}, {0.1, 0x2e66},
		{65504, 0x7bff},                      // largest
		{65519.996, 0x7bff}, {65520, 0x7c00}, // half way to the next goes to infinity
		{1e6, 0x7c00}, {-1e6, 0xfc00}, {math.Inf(1), 0x7c00}, {math.Inf(-1), 0xfc00},
		{0x1p-14, 0x0400},                     // smallest normal
		{0x1p-14 - 0x1p-24, 0x03ff},           // largest subnormal
		{0x1p-14 - 0x1p-26, 0x0400},           // rounds up into the normals
		{0x1p-24, 0x0001}, {-0x1p-24, 0x8001}, // smallest subnormal
		{0x1p-25, 0x0000},                      // tie to even: zero
		{0x1.000002p-25, 0x0001}, {0x1p-26, 0}, // just over and under it
		{0x1.8p-24, 0x0002},             // tie between 1 and 2
		{1e-45, 0x0000},                 // a subnormal float32
		{1 + 0x1p-11, 0x3c00},           // tie to even: down
		{1 + 0x1.8p-10, 0x3c02},         // tie to even: up
		{1 + 0x1p-11 + 0x1p-23, 0x3c01}, // over the tie
		{2 - 0x1p-12, 0x4000},           // carries into the exponent
	} {
		require.Equal(t, tc.want, float16(float32(tc.v)), "%x (%v)", tc.v, tc.v)
	}
	nan := float16(float32(math.NaN()))
	require.True(t, nan&0x7c00 == 0x7c00 && nan&0x3ff != 0, "%04x", nan)
}

func TestBfloat16(t *testing.T) {
	noLeaks(t)
	for _, tc := range []struct {
		bits uint32
		want uint16
	}{
		{0x00000000, 0x0000}, {0x80000000, 0x8000}, {0x3f800000, 0x3f80}, {0xc0490fdb, 0xc049},
		{0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, // ties to even
		{0x3f808001, 0x3f81}, {0x3f807fff, 0x3f80},
		{0x3fffffff, 0x4000},                       // carries into the exponent
		{0x7f7fffff, 0x7f80},                       // overflows to infinity
		{0x7f800000, 0x7f80}, {0xff800000, 0xff80}, // infinities
		{0x00000001, 0x0000}, {0x00008000, 0x0000}, {0x00008001, 0x0001}, {0x007fffff, 0x0080}, // subnormals
	} {
		require.Equal(t, tc.want, bfloat16(math.Float32frombits(tc.bits)), "%08x", tc.bits)
	}
	for _, bits := range []uint32{0x7fc00000, 0x7f800001, 0xff8fffff} {
		got := bfloat16(math.Float32frombits(bits))
		require.True(t, got&0x7f80 == 0x7f80 && got&0x7f != 0, "%08x: %04x", bits, got)
	}
}

// All values that binary16 can hold come back, by an independent widening.
func TestFloat16RoundTrip(t *testing.T) {
	noLeaks(t)
	for u := range uint32(1 << 16) {
		if u>>10&0x1f == 31 {
			continue
		}
		require.Equal(t, uint16(u), float16(float32(widen16(uint16(u)))))
	}
}

func widen16(u uint16) float64 {
	exp, frac := int(u>>10&0x1f), float64(u&0x3ff)
	v := math.Ldexp(frac, -24)
	if exp > 0 {
		v = math.Ldexp(1024+frac, exp-25)
	}
	if u&0x8000 != 0 {
		v = -v
	}
	return v
}

func TestVectorsAreUnitVectors(t *testing.T) {
	noLeaks(t)
	for _, dim := range []int{1, 2, 64, 1000, 4096, 4097, 10000, 1 << 20} {
		v := newVector(42, dim)
		var sum, mean float64
		for i := range dim {
			sum += float64(v.at(i)) * float64(v.at(i))
			mean += float64(v.at(i)) / float64(dim)
		}
		require.InDelta(t, 1, sum, 1e-5, dim)
		if dim >= 1000 {
			require.Less(t, math.Abs(mean*math.Sqrt(float64(dim))), 5*math.Sqrt(float64(dim)/float64(min(dim, patternLen))))
		}
	}
	require.NotEqual(t, newVector(1, 64), newVector(2, 64))
}

// decodeVectors reads binary vectors.
func decodeVectors(t *testing.T, raw []byte, dtype, endian string, dim int) [][]float64 {
	t.Helper()
	var order binary.ByteOrder = binary.LittleEndian
	if endian == "big" {
		order = binary.BigEndian
	}
	var flat []float64
	for len(raw) > 0 {
		switch dtype {
		case "float32":
			flat, raw = append(flat, float64(math.Float32frombits(order.Uint32(raw)))), raw[4:]
		case "float16":
			flat, raw = append(flat, widen16(order.Uint16(raw))), raw[2:]
		case "bfloat16":
			flat, raw = append(flat, float64(math.Float32frombits(uint32(order.Uint16(raw))<<16))), raw[2:]
		}
	}
	require.Zero(t, len(flat)%dim)
	var out [][]float64
	for ; len(flat) > 0; flat = flat[dim:] {
		out = append(out, flat[:dim])
	}
	return out
}

// The same vector comes in every format, element type and byte order, alone or in a batch, from either endpoint.
func TestSameVectorInAllFormats(t *testing.T) {
	noLeaks(t)
	for _, dim := range []int{3, 64, 5000} {
		s := newServer(t, Config{Dim: dim})
		want := make([][]float64, 2)
		for i, input := range []string{"first", "second"} {
			a := answer(t, s, "/v1/embeddings", fmt.Sprintf(`{"input":%q}`, input))
			for _, x := range dig(a, "data", 0, "embedding").([]any) {
				want[i] = append(want[i], float64(float32(x.(float64))))
			}
			require.Len(t, want[i], dim)
		}
		both := answer(t, s, "/pooling", `{"input":["first","second"]}`)
		for i := range want {
			for d, x := range dig(both, "data", i, "data").([]any) {
				require.Equal(t, want[i][d], float64(float32(x.(float64))))
			}
		}
		for path, member := range map[string]string{"/v1/embeddings": "embedding", "/pooling": "data"} {
			for dtype, tolerance := range map[string]float64{"float32": 0, "float16": 0x1p-11, "bfloat16": 0x1p-8} {
				for _, endian := range []string{"native", "little", "big"} {
					body := func(format string) string {
						return fmt.Sprintf(`{"input":["first","second"],"encoding_format":%q,"embed_dtype":%q,"endianness":%q}`, format, dtype, endian)
					}
					check := func(raw []byte) {
						t.Helper()
						got := decodeVectors(t, raw, dtype, endian, dim)
						require.Len(t, got, 2)
						for i := range want {
							for d := range want[i] {
								require.LessOrEqual(t, math.Abs(got[i][d]-want[i][d]), math.Abs(want[i][d])*tolerance+0x1p-25*float64(min(1, tolerance*4096)))
							}
						}
					}
					only := planOf(s, path, body("bytes_only"))
					require.Empty(t, only.Header.Get("metadata"))
					check([]byte(bodyOf(t, only)))

					p := planOf(s, path, body("bytes"))
					raw := bodyOf(t, p)
					check([]byte(raw))
					meta := obj(t, p.Header.Get("metadata"))
					size := len(raw) / 2
					for i := range 2 {
						require.Equal(t, map[string]any{
							"index": float64(i), "embed_dtype": dtype, "endianness": endian, "shape": []any{float64(dim)},
							"start": float64(i * size), "end": float64((i + 1) * size),
						}, dig(meta, "data", i))
					}
					require.EqualValues(t, p.InputTokens, dig(meta, "usage", "prompt_tokens"))

					a := answer(t, s, path, body("base64"))
					var joined []byte
					for i := range 2 {
						one, err := base64.StdEncoding.DecodeString(dig(a, "data", i, member).(string))
						require.NoError(t, err)
						joined = append(joined, one...)
					}
					require.Equal(t, raw, string(joined))
				}
			}
		}
	}
}

func TestDimensions(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{Dim: 64})
	long := dig(answer(t, s, "/v1/embeddings", `{"input":"x"}`), "data", 0, "embedding").([]any)
	short := dig(answer(t, s, "/v1/embeddings", `{"input":"x","dimensions":8}`), "data", 0, "embedding").([]any)
	require.Len(t, short, 8)
	scale := short[0].(float64) / long[0].(float64)
	for i := range short {
		require.InEpsilon(t, long[i].(float64)*scale, short[i], 1e-5)
	}
}

// A body read in any slices is the same body.
func TestVectorsBodyReadAt(t *testing.T) {
	noLeaks(t)
	const dim = 5000
	b := &vectorsBody{keys: []uint64{1, 2, 3}, dim: dim, format: elementFormat{dtype: "float32", size: 4}, index: -1}
	var want []byte
	for _, key := range b.keys {
		v := newVector(key, dim)
		for i := range dim {
			want = b.format.append(want, v.at(i))
		}
	}
	for _, step := range []int{1 << 20, 4096, 1021, 20000} {
		var got []byte
		buf := make([]byte, step)
		for len(got) < len(want) {
			n, err := b.ReadAt(buf, int64(len(got)))
			if err != nil {
				require.Equal(t, len(want), len(got)+n)
			}
			got = append(got, buf[:n]...)
		}
		require.Equal(t, want, got)
	}
	tail := make([]byte, 10)
	n, err := b.ReadAt(tail, int64(len(want)-4))
	require.Equal(t, 4, n)
	require.Error(t, err)
	_, err = b.ReadAt(tail, -1)
	require.Error(t, err)
}

// discard is a ResponseWriter that keeps nothing.
type discard struct {
	header http.Header
	n      int64
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { d.n += int64(len(p)); return len(p), nil }

// A 64 MiB body costs no more memory than a small one: everything allocated on the way is counted, freed or not.
func TestLargeBodyIsNotHeld(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{Dim: maxDim, PieceDelay: 1})
	for _, format := range []string{"bytes", "bytes_only"} {
		r := httptest.NewRequest("POST", "/pooling", strings.NewReader(`{"input":"x","encoding_format":"`+format+`"}`))
		w := &discard{header: http.Header{}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.Handler().ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		require.EqualValues(t, 64<<20, w.n)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	}
}
